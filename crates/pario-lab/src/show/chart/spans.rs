//! A timeline: a row for each label, and on it what lasts from a begin to an end.

use std::collections::HashMap;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, LINE, WIDTH, shortened, text_width};
use super::palette::colors;
use super::{Chart, Scale, is_bytes, places, tick};

const ROW: f64 = 20.0;
const BAR: f64 = 14.0;
/// What is shorter is drawn so wide, to be seen: a window of a large file more than one of many
/// accesses.
const LEAST_WINDOW: f64 = 2.0;
const LEAST_TIME: f64 = 0.6;

pub(super) fn draw(chart: &Chart) -> String {
    let (labels, series) = (chart.labels(), chart.series());
    let widest = labels.iter().map(|label| text_width(label)).fold(40.0, f64::max);
    let room = widest.min(160.0);
    let left = room + 14.0;
    let ends = chart.points.iter().map(|point| point.x.unwrap_or(0.0) + point.y);
    let axis = Axis::new(ends, Scale::Linear, (left, WIDTH - 16.0));
    let mut canvas = Canvas::new();
    canvas.height = 8.0;
    let items: Vec<(&str, String)> = series.iter().copied().zip(colors(&series)).collect();
    canvas.legend(&items, left);
    let shades: HashMap<&str, String> = items.into_iter().collect();
    let (top, rows) = (canvas.height, u32::try_from(labels.len()).unwrap_or(u32::MAX));
    let bottom = top + ROW * f64::from(rows);
    let ticks = if is_bytes(&chart.x_name) { axis.ticks_of_bytes(6) } else { axis.ticks(8) };
    for value in ticks {
        let x = axis.place(value);
        canvas.line("grid", (x, top), (x, bottom));
        canvas.tick_across((x, bottom + 15.0), &tick(&chart.x_name, value));
    }
    let middle = |row: u32| top + ROW * f64::from(row) + (ROW - BAR) / 2.0;
    for (row, label) in (0_u32..).zip(&labels) {
        let text = shortened(label, room);
        canvas.text((left - 8.0, middle(row) + 11.0), Anchor::End, "", &text);
    }
    let rows = places(&labels);
    let least = if is_bytes(&chart.x_name) { LEAST_WINDOW } else { LEAST_TIME };
    for point in &chart.points {
        let row = rows.get(point.label.as_str()).copied().unwrap_or(0);
        let begin = point.x.unwrap_or(0.0);
        let (x, end) = (axis.place(begin), axis.place(begin + point.y));
        let (width, y) = ((end - x).max(least), middle(row));
        let shape = format!("rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR}\"");
        let shade = shades.get(point.series.as_str()).map_or("", String::as_str);
        canvas.mark(&shape, shade, &chart.data(point), &chart.tooltip(point));
    }
    canvas.height = bottom + 15.0 + LINE;
    canvas.text(((left + WIDTH) / 2.0, canvas.height), Anchor::Middle, "name", &chart.x_name);
    canvas.height += 8.0;
    canvas.finish(&chart.title)
}
