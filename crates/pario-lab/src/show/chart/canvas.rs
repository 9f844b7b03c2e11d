//! Elements of SVG, and the frame of a chart that stands alone.

use std::fmt::Write;

use super::palette::{LIGHT, Look, is_strong};

/// Width of every chart; a page scales it.
pub(super) const WIDTH: f64 = 600.0;
/// Width of a character of a label, about.
const CHARACTER: f64 = 6.7;
/// How much wider a character of a strong text is.
const STRONG: f64 = 1.15;
/// Side of the square beside a name in a legend.
const BOX: f64 = 12.0;
/// Height of a line of text.
pub(super) const LINE: f64 = 18.0;

/// What texts and lines of a chart look like.
pub(crate) const CHART_STYLE: &str = "\
.chart text{font-size:12px;fill:var(--text);
font-family:'DejaVu Sans','Segoe UI',Roboto,Arial,sans-serif}
.chart text.tick{fill:var(--soft)}
.chart text.name{fill:var(--soft)}
.chart text.strong{font-weight:700}
.chart .grid{stroke:var(--line);stroke-width:1}
.chart .frame{stroke:var(--soft);stroke-width:1;fill:none}
.chart .ground{fill:var(--line);stroke:none}
";

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

/// How a line is drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stroke {
    Plain,
    Strong,
    Dashed,
}

/// Draws what stands before the name of a series: its place, and which series it is.
type Draw<'a> = &'a dyn Fn(&mut Canvas, (f64, f64), usize);

/// A picture that grows.
pub(super) struct Canvas {
    body: String,
    pub(super) height: f64,
}

impl Canvas {
    pub(super) fn new() -> Canvas {
        Canvas { body: String::new(), height: 0.0 }
    }

    /// Adds text; `class` is `tick`, `name`, `strong` or nothing.
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

    /// Adds the text of a tick below an axis; at the borders it is moved until it is whole.
    pub(super) fn tick_across(&mut self, (x, y): (f64, f64), text: &str) {
        let half = text_width(text) / 2.0;
        let x = x.min(WIDTH - half).max(half);
        self.text((x, y), Anchor::Middle, "tick", text);
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
    pub(super) fn path(&mut self, places: &[(f64, f64)], color: &str, stroke: Stroke) {
        let mut points = String::new();
        for (x, y) in places {
            let _ = write!(points, "{x:.1},{y:.1} ");
        }
        let (width, dash) = match stroke {
            Stroke::Plain => ("1.8", ""),
            Stroke::Strong => ("3.6", ""),
            Stroke::Dashed => ("2", ";stroke-dasharray:5 4"),
        };
        self.push(format_args!(
            "<polyline points=\"{}\" \
             style=\"fill:none;stroke:{color};stroke-width:{width}{dash}\"/>",
            points.trim_end()
        ));
    }

    /// The names of series with their colours, in as many lines as they need.
    pub(super) fn legend(&mut self, items: &[(&str, String)], left: f64) {
        let boxes = |canvas: &mut Canvas, (x, y): (f64, f64), index: usize| {
            canvas.push(format_args!(
                "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"{BOX}\" height=\"{BOX}\" rx=\"2\" \
                 style=\"fill:{}\"/>",
                y - 10.0,
                items[index].1
            ));
        };
        let names: Vec<&str> = items.iter().map(|(name, _)| *name).collect();
        self.names(&names, left, &boxes);
    }

    /// The same with the signs of lines.
    pub(super) fn legend_of_signs(&mut self, items: &[(&str, Look)], left: f64) {
        let signs = |canvas: &mut Canvas, (x, y): (f64, f64), index: usize| {
            let Look { color, sign } = &items[index].1;
            let shape = sign.shape((x + BOX / 2.0, y - 4.0), 4.5);
            canvas.push(format_args!("<{shape} style=\"fill:{color}\"/>"));
        };
        let names: Vec<&str> = items.iter().map(|(name, _)| *name).collect();
        self.names(&names, left, &signs);
    }

    /// Names side by side, each after what is drawn for it.
    fn names(&mut self, names: &[&str], left: f64, draw: Draw<'_>) {
        let (mut x, mut y) = (left, self.height + 12.0);
        for (index, name) in names.iter().enumerate() {
            let width = BOX + 6.0 + text_width(name) + 16.0;
            if x + width > WIDTH && x > left {
                (x, y) = (left, y + LINE);
            }
            draw(self, (x, y), index);
            let name = shortened(name, WIDTH - left - BOX - 6.0);
            self.text((x + BOX + 6.0, y), Anchor::Start, strong(&name), &name);
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

/// The class of the name of a series or a bar.
pub(super) fn strong(name: &str) -> &'static str {
    if is_strong(name) { "strong" } else { "" }
}

/// About how wide a text is; strong ones are wider.
pub(super) fn text_width(text: &str) -> f64 {
    let characters = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    f64::from(characters) * character_width(text)
}

fn character_width(text: &str) -> f64 {
    if is_strong(text) { CHARACTER * STRONG } else { CHARACTER }
}

/// A text that is not wider than this.
pub(super) fn shortened(text: &str, width: f64) -> String {
    if text_width(text) <= width {
        return text.to_owned();
    }
    let room = (width / character_width(text)) as usize;
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
    fn a_chart_that_stands_alone_has_no_variables() {
        let mut canvas = Canvas::new();
        canvas.height = 50.0;
        canvas.legend(&[("a", "var(--c0)".to_owned()), ("b", "var(--grey)".to_owned())], 10.0);
        let title = "A <title> of more words than a line of the picture has room for, as questions";
        let text = standalone((title, "A caption."), &canvas.finish("x"));
        assert!(!text.contains("var(") && text.contains("A &lt;title&gt;"), "{text}");
        assert!(text.contains(">for, as questions</text>") && text.contains(">A caption.</text>"));
        assert_eq!(text.matches("</svg>").count(), 1);
    }
}
