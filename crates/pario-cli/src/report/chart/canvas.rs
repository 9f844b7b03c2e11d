//! Elements of SVG, colours, and the frame of a chart that stands alone.

use std::fmt::Write;

/// Width of every chart; a page scales it.
pub(super) const WIDTH: f64 = 600.0;
/// Width of a character of a label, about.
const CHARACTER: f64 = 6.7;
/// Height of a line of text.
pub(super) const LINE: f64 = 18.0;

/// What texts and lines of a chart look like.
pub(crate) const CHART_STYLE: &str = "\
.chart text{font-size:12px;fill:var(--text);
font-family:'DejaVu Sans','Segoe UI',Roboto,Arial,sans-serif}
.chart text.tick{fill:var(--soft)}
.chart text.name{fill:var(--soft)}
.chart .grid{stroke:var(--line);stroke-width:1}
.chart .frame{stroke:var(--soft);stroke-width:1;fill:none}
.chart .ground{fill:var(--line);stroke:none}
";

/// The values of the variables on white.
pub(crate) const LIGHT: [(&str, &str); 15] = [
    ("--back", "#ffffff"),
    ("--text", "#1b2430"),
    ("--soft", "#5a6675"),
    ("--line", "#e2e6ea"),
    ("--c0", "#0072b2"),
    ("--c1", "#d55e00"),
    ("--c2", "#009e73"),
    ("--c3", "#b0649a"),
    ("--c4", "#e69f00"),
    ("--c5", "#4aa3df"),
    ("--c6", "#6a51a3"),
    ("--c7", "#8a6d3b"),
    ("--c8", "#7b8794"),
    ("--c9", "#2f4b7c"),
    ("--card", "#ffffff"),
];

/// How many colours of series there are.
const COLORS: usize = 10;

/// Parts of bars that have the same colour in every chart.
const KNOWN: [(&str, &str); 8] = [
    ("planning", "var(--c0)"),
    ("synchronisation", "var(--c1)"),
    ("phases", "var(--c2)"),
    ("shuffle", "var(--c3)"),
    ("storage", "var(--c4)"),
    // What is left of a time.
    ("rest", GREY),
    ("bandwidth", "var(--c0)"),
    // What others are compared with.
    ("reference", GREY),
];

const GREY: &str = "var(--c8)";

/// Techniques that have the same colour in every chart with lines.
const TECHNIQUES: [(&str, &str); 12] = [
    ("Block I/O", GREY),
    ("auto", "var(--c0)"),
    ("two-phase", "var(--c1)"),
    ("two-phase of pario", "var(--c1)"),
    ("list", "var(--c2)"),
    ("inspector-executor", "var(--c3)"),
    ("romio-like", "var(--c4)"),
    ("multi-phase", "var(--c5)"),
    ("sieve", "var(--c6)"),
    ("direct", "var(--c7)"),
    ("posix", "var(--c7)"),
    ("gather", "var(--c9)"),
];

/// The colours of lines or of dots. Grey is that of the reference alone; what has no colour of its
/// own gets the first that is free.
pub(super) fn line_colors(series: &[&str]) -> Vec<String> {
    let known = |series: &str| TECHNIQUES.iter().find(|(name, _)| *name == series);
    let mut used: Vec<String> =
        series.iter().filter_map(|one| Some(known(one)?.1.to_owned())).collect();
    let mut color = |series: &&str| {
        if let Some((_, color)) = known(series) {
            return (*color).to_owned();
        }
        let is_free = |color: &String| !used.contains(color);
        let color = (0..9).map(numbered).find(is_free);
        let color = color.unwrap_or_else(|| numbered(u32::try_from(used.len()).unwrap_or(0)));
        used.push(color.clone());
        color
    };
    series.iter().map(&mut color).collect()
}

/// The colour of a part of bars.
pub(super) fn color(series: &str, index: u32) -> String {
    let known = KNOWN.iter().find(|(name, _)| *name == series);
    known.map_or_else(|| numbered(index), |(_, color)| (*color).to_owned())
}

fn numbered(index: u32) -> String {
    // The grey of the reference is nobody else's.
    const ORDER: [usize; COLORS - 1] = [0, 1, 2, 3, 4, 5, 6, 7, 9];
    format!("var(--c{})", ORDER[usize::try_from(index).unwrap_or(0) % ORDER.len()])
}

/// The colour of a rank: neighbours differ, also of many.
pub(super) fn rank_color(rank: u32) -> String {
    // Steps of the golden angle meet no hue twice.
    let hue = (f64::from(rank) * 137.508 + 204.0) % 360.0;
    let lightness = [0.48, 0.62, 0.38][usize::try_from(rank / 12 % 3).unwrap_or(0)];
    let channel = |shift: f64| {
        let place = (shift + hue / 30.0) % 12.0;
        let amount = 0.62 * f64::min(lightness, 1.0 - lightness);
        let value = lightness - amount * (place - 3.0).min(9.0 - place).clamp(-1.0, 1.0);
        format!("{:02x}", byte(value))
    };
    format!("#{}{}{}", channel(0.0), channel(8.0), channel(4.0))
}

/// A share of 255; the cast saturates, and the value is between 0 and 1.
fn byte(share: f64) -> u8 {
    (share.clamp(0.0, 1.0) * 255.0).round() as u8
}

/// Text that is safe in HTML and SVG, in attributes as well.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped += "&amp;",
            '<' => escaped += "&lt;",
            '>' => escaped += "&gt;",
            '"' => escaped += "&quot;",
            '\'' => escaped += "&#39;",
            // Other control characters may not stand in XML.
            '\n' => escaped += "&#10;",
            character if character.is_control() => escaped.push(char::REPLACEMENT_CHARACTER),
            character => escaped.push(character),
        }
    }
    escaped
}

/// Which side of a text its place is.
#[derive(Clone, Copy)]
pub(super) enum Anchor {
    Start,
    Middle,
    End,
}

/// A picture that grows.
pub(super) struct Canvas {
    body: String,
    pub(super) height: f64,
}

impl Canvas {
    pub(super) fn new() -> Canvas {
        Canvas { body: String::new(), height: 0.0 }
    }

    /// Adds text; `class` is `tick`, `name` or nothing.
    pub(super) fn text(&mut self, (x, y): (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        let text = escape(text);
        self.push(format_args!(
            "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">\
             {text}</text>"
        ));
    }

    /// Adds text that is read from below.
    pub(super) fn text_upwards(&mut self, (x, y): (f64, f64), text: &str) {
        let text = escape(text);
        self.push(format_args!(
            "<text class=\"name\" text-anchor=\"middle\" \
             transform=\"translate({x:.1} {y:.1}) rotate(-90)\">{text}</text>"
        ));
    }

    pub(super) fn line(&mut self, class: &str, from: (f64, f64), to: (f64, f64)) {
        self.push(format_args!(
            "<line class=\"{class}\" x1=\"{:.1}\" y1=\"{:.1}\" x2=\"{:.1}\" y2=\"{:.1}\"/>",
            from.0, from.1, to.0, to.1
        ));
    }

    /// A rectangle without data.
    pub(super) fn ground(&mut self, (x, y): (f64, f64), (width, height): (f64, f64)) {
        self.push(format_args!(
            "<rect class=\"ground\" x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" \
             height=\"{height:.1}\"/>"
        ));
    }

    /// A mark: an element with the data of a point, and what is shown when one points at it.
    pub(super) fn mark(&mut self, shape: &str, color: &str, data: &str, tooltip: &str) {
        let tooltip = escape(tooltip);
        self.push(format_args!(
            "<{shape} style=\"fill:{color}\"{data}><title>{tooltip}</title></{}>",
            shape.split(' ').next().unwrap_or("rect")
        ));
    }

    /// A line through places.
    pub(super) fn path(&mut self, places: &[(f64, f64)], color: &str, dashed: bool) {
        let mut points = String::new();
        for (x, y) in places {
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let dash = if dashed { ";stroke-dasharray:5 4" } else { "" };
        self.push(format_args!(
            "<polyline points=\"{}\" style=\"fill:none;stroke:{color};stroke-width:2{dash}\"/>",
            points.trim_end()
        ));
    }

    /// The names of series with their colours, in as many lines as they need.
    pub(super) fn legend(&mut self, items: &[(&str, String)], left: f64) {
        const BOX: f64 = 12.0;
        let (mut x, mut y) = (left, self.height + 12.0);
        for (name, color) in items {
            let width = BOX + 6.0 + text_width(name) + 16.0;
            if x + width > WIDTH && x > left {
                (x, y) = (left, y + LINE);
            }
            self.push(format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{BOX}\" height=\"{BOX}\" rx=\"2\" \
                 style=\"fill:{color}\"/>",
                y - 10.0
            ));
            self.text((x + BOX + 6.0, y), Anchor::Start, "", name);
            x += width;
        }
        self.height = y + 10.0;
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }

    /// The picture.
    pub(super) fn finish(self, name: &str) -> String {
        let (height, name) = (self.height.ceil(), escape(name));
        format!(
            "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
             aria-label=\"{name}\" viewBox=\"0 0 {WIDTH} {height}\">\n{}</svg>\n",
            self.body
        )
    }
}

/// About how wide a text is.
pub(super) fn text_width(text: &str) -> f64 {
    let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    f64::from(characters) * CHARACTER
}

/// A text that is not wider than this.
pub(super) fn shortened(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let room = (width / CHARACTER) as usize;
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    kept + "…"
}

/// A text in lines of at most this number of characters.
fn wrapped(text: &str, characters: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= characters => {
                *line += " ";
                *line += word;
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Title and caption, and how high they are.
fn heading(title: &str, caption: &str) -> (String, f64) {
    const BOLD: &str = "font-size:15px;font-weight:600";
    const SOFT: &str = "font-size:12px;fill:var(--soft)";
    let (mut text, mut y) = (String::new(), 2.0);
    let titles = wrapped(title, 62).into_iter().map(|line| (line, BOLD, 20.0));
    let captions = wrapped(caption, 86).into_iter().map(|line| (line, SOFT, 16.0));
    for (line, style, height) in titles.chain(captions) {
        y += height;
        let line = escape(&line);
        let _ = writeln!(text, "<text x=\"10\" y=\"{y}\" style=\"{style}\">{line}</text>");
    }
    (text, y + 12.0)
}

/// A chart as a file: styles, a title, a caption, a white ground, and no variables.
pub(super) fn standalone((title, caption): (&str, &str), svg: &str) -> String {
    let (heading, top) = heading(title, caption);
    let (head, body) = svg.split_once('\n').unwrap_or((svg, ""));
    let height = head.split("viewBox=\"0 0 ").nth(1).and_then(|rest| {
        let (_, height) = rest.split_once(' ')?;
        height.split('"').next()?.parse::<f64>().ok()
    });
    let height = height.unwrap_or(400.0) + top;
    let body = body.trim_end().trim_end_matches("</svg>");
    let mut text = format!(
        "<svg class=\"chart\" xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" \
         height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\">\n<style>{CHART_STYLE}</style>\n\
         <rect width=\"{WIDTH}\" height=\"{height}\" style=\"fill:var(--back)\"/>\n\
         {heading}<g transform=\"translate(0 {top})\">\n{body}</g>\n</svg>\n"
    );
    for (name, value) in LIGHT {
        text = text.replace(&format!("var({name})"), value);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_leave_its_place() {
        assert_eq!(escape("a<b>\"&'\u{1b}"), "a&lt;b&gt;&quot;&amp;&#39;\u{fffd}");
    }

    #[test]
    fn neighbouring_ranks_have_other_colours() {
        let colors: Vec<String> = (0..24).map(rank_color).collect();
        for (index, one) in colors.iter().enumerate() {
            assert!(one.len() == 7 && !colors[..index].contains(one), "{one}");
        }
    }

    #[test]
    fn a_chart_that_stands_alone_has_no_variables() {
        let mut canvas = Canvas::new();
        canvas.height = 50.0;
        canvas.legend(&[("a", color("a", 0)), ("b", color("b", 9))], 10.0);
        let title = "A <title> of more words than a line of the picture has room for, as questions";
        let text = standalone((title, "A caption."), &canvas.finish("x"));
        assert!(!text.contains("var(") && text.contains("A &lt;title&gt;"), "{text}");
        assert!(text.contains(">for, as questions</text>") && text.contains(">A caption.</text>"));
        assert_eq!(text.matches("</svg>").count(), 1);
    }

    #[test]
    fn a_technique_has_one_colour_and_no_two_series_share_one() {
        let few = line_colors(&["list", "Block I/O"]);
        let many = line_colors(&["P 8", "P 16", "auto", "list", "Block I/O", "other"]);
        assert_eq!((&few[0], &few[1]), (&many[3], &many[4]));
        for (index, one) in many.iter().enumerate() {
            assert!(!many[..index].contains(one), "{many:?}");
        }
    }
}
