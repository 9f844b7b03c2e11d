//! Charts as SVG text.
//!
//! | file | concept |
//! | --- | --- |
//! | `axis` | from values to places, and where ticks are |
//! | `canvas` | elements of SVG |
//! | `bars` | a bar for each label, of one part or of several |
//! | `lines` | values over a number, joined or not |
//! | `palette` | the colour, the sign and the place of each strategy |
//! | `spans` | rows of what lasts from a begin to an end |
//! | `tiles` | the file as a strip, each run in the colour of its rank |
//!
//! A chart is its points. Each is drawn as one element with the attributes `data-series`,
//! `data-label`, `data-x` and `data-y`, and written as one line of the CSV by the same numbers.
//! Colours are CSS variables, so a page shows the same chart light and dark; a chart that stands
//! alone has those of the light page.

mod axis;
mod bars;
mod canvas;
mod lines;
mod palette;
mod spans;
mod tiles;

use std::collections::{HashMap, HashSet};

pub(crate) use canvas::{CHART_STYLE, escape};
pub(crate) use palette::{DARK, LIGHT, place_of};

/// The axis of sizes of blocks.
pub(crate) const BLOCK_BYTES: &str = "bytes of a block";

/// One value of a chart.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Point {
    /// What it belongs to; decides its colour.
    pub(crate) series: String,
    /// The bar or the row where it is, if there are any.
    pub(crate) label: String,
    /// Where it begins, if it has a place on an axis.
    pub(crate) x: Option<f64>,
    pub(crate) y: f64,
    /// More to say when one points at it.
    pub(crate) note: String,
}

/// How the values of an axis become places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    Log,
}

/// How points are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A bar for each label; its parts are the series.
    Bars,
    /// A line for each series.
    Lines { x: Scale, y: Scale },
    /// Dots only; with the line where both axes are equal, if asked for.
    Dots { scale: Scale, diagonal: bool },
    /// A row for each label; `x` is the begin, `y` how long it lasts.
    Spans,
    /// A file; `x` is the offset, `y` the length.
    Tiles,
}

/// A chart: its points, and what they are.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    /// Its name in CSV and as a file; unique in a report.
    pub(crate) id: String,
    pub(crate) title: String,
    /// What a reader must know of it.
    pub(crate) caption: String,
    pub(crate) kind: Kind,
    /// What `x` is, with its unit.
    pub(crate) x_name: String,
    /// What `y` is, with its unit.
    pub(crate) y_name: String,
    pub(crate) points: Vec<Point>,
}

impl Chart {
    /// The chart for a page, which has the styles and the colours.
    pub(crate) fn svg(&self) -> String {
        match self.kind {
            Kind::Bars => bars::draw(self),
            Kind::Lines { x, y } => lines::draw(self, (x, y), lines::Manner::Joined),
            Kind::Dots { scale, diagonal } => {
                lines::draw(self, (scale, scale), lines::Manner::Dots { diagonal })
            }
            Kind::Spans => spans::draw(self),
            Kind::Tiles => tiles::draw(self),
        }
    }

    /// The chart as a file of its own, with its title and caption, on white.
    pub(crate) fn standalone(&self) -> String {
        canvas::standalone((&self.title, &self.caption), &self.svg())
    }

    /// The series: strategies in their order, others in that of their first points.
    pub(crate) fn series(&self) -> Vec<&str> {
        let mut series = distinct(self.points.iter().map(|point| point.series.as_str()));
        series.sort_by_key(|name| place_of(name));
        series
    }

    /// The labels in the order of their first points.
    fn labels(&self) -> Vec<&str> {
        distinct(self.points.iter().map(|point| point.label.as_str()))
    }

    /// What is shown when one points at a point.
    fn tooltip(&self, point: &Point) -> String {
        let mut parts = Vec::new();
        parts.extend([&point.label, &point.series].into_iter().filter(|text| !text.is_empty()));
        let mut text = parts.into_iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        // Sizes of bytes have their number, too: it is what programs print.
        let shown = |name: &str, value: f64| match is_bytes(name) && value >= 1024.0 {
            true => format!("{} ({} bytes)", size(value), number(value)),
            false => number(value),
        };
        if let Some(x) = point.x {
            text += &format!("\n{}: {}", self.x_name, shown(&self.x_name, x));
        }
        text += &format!("\n{}: {}", self.y_name, shown(&self.y_name, point.y));
        if !point.note.is_empty() {
            text += &format!("\n{}", point.note);
        }
        text
    }

    /// The attributes by which a point is found in a page.
    fn data(&self, point: &Point) -> String {
        let x = point.x.map_or(String::new(), |x| x.to_string());
        format!(
            " data-series=\"{}\" data-label=\"{}\" data-x=\"{x}\" data-y=\"{}\"",
            escape(&point.series),
            escape(&point.label),
            point.y
        )
    }
}

fn distinct<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut seen = HashSet::new();
    all.filter(|one| seen.insert(*one)).collect()
}

/// The place of each name in a list.
fn places<'a>(names: &[&'a str]) -> HashMap<&'a str, u32> {
    names.iter().copied().zip(0..).collect()
}

/// Names of bars, with a number where one is there again: what has one name is one bar.
pub(crate) fn bar_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let own = |name: String| {
        let count = seen.entry(name.clone()).or_default();
        *count += 1;
        match *count {
            1 => name,
            count => format!("{name} ({count})"),
        }
    };
    names.map(own).collect()
}

/// A number with separators between thousands.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            // One that does not end a line.
            text.push('\u{a0}');
        }
        text.push(digit);
    }
    text
}

/// Whether an axis of this name counts bytes.
fn is_bytes(name: &str) -> bool {
    name == "offset" || name.starts_with("bytes")
}

/// A value at the tick of an axis of this name.
fn tick(name: &str, value: f64) -> String {
    match is_bytes(name) && value >= 1024.0 {
        true => size(value),
        false => number(value),
    }
}

/// A number of bytes in the unit that people read.
pub(crate) fn size(bytes: f64) -> String {
    const UNITS: [(f64, &str); 4] = [
        (1_099_511_627_776.0, "TiB"),
        (1_073_741_824.0, "GiB"),
        (1_048_576.0, "MiB"),
        (1024.0, "KiB"),
    ];
    // Spaces that do not end a line.
    match UNITS.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{}\u{a0}{name}", number(bytes / unit)),
        None if bytes == 1.0 => "1\u{a0}byte".to_owned(),
        None => format!("{}\u{a0}bytes", number(bytes)),
    }
}

/// A number with about four digits.
pub(crate) fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        large if large >= 999.5 => 0,
        large if large >= 99.95 => 1,
        large if large >= 9.995 => 2,
        large if large >= 0.9995 => 3,
        small if small >= 0.09995 => 3,
        small if small >= 1e-4 => 5,
        _ => return format!("{value:.3e}"),
    };
    let text = format!("{value:.digits$}");
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_units() {
        let cases = [(1.0, "1 byte"), (38.0, "38 bytes"), (10_485_760.0, "10 MiB")];
        for (bytes, text) in cases {
            assert_eq!(size(bytes).replace('\u{a0}', " "), text);
        }
        assert_eq!(size(1536.0).replace('\u{a0}', " "), "1.5 KiB");
    }

    #[test]
    fn numbers_are_short() {
        let cases = [
            (0.0, "0"),
            (12345.6, "12346"),
            (512.0, "512"),
            (128.26, "128.3"),
            (2.5, "2.5"),
            (0.261_09, "0.261"),
            (0.03125, "0.03125"),
            (0.000_001_25, "1.250e-6"),
            (-3.0, "-3"),
        ];
        for (value, text) in cases {
            assert_eq!(number(value), text);
        }
    }
}
