//! Horizontal bars: one for each label, its parts side by side.

use std::collections::HashMap;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, LINE, WIDTH, shortened, strong, text_width};
use super::palette::colors;
use super::{Chart, Point, Scale, number};

/// Height of a bar with the room to the next.
const ROW: f64 = 24.0;
const BAR: f64 = 16.0;
/// Where the legend begins: all parts of a time fit in a line.
const LEGEND: f64 = 10.0;
/// Room for the number at the end of the longest bar.
const NUMBER: f64 = 62.0;

pub(super) fn draw(chart: &Chart) -> String {
    let (labels, series) = (chart.labels(), chart.series());
    let widest = labels.iter().map(|label| text_width(label)).fold(40.0, f64::max);
    let room = widest.min(220.0);
    let left = room + 14.0;
    let rows = bars(chart, &labels);
    let sums: Vec<f64> = rows.iter().map(|own| sum(own)).collect();
    let axis = Axis::new(sums.iter().copied(), Scale::Linear, (left, WIDTH - NUMBER));
    let mut canvas = Canvas::new();
    canvas.height = 8.0;
    let items: Vec<(&str, String)> = series.iter().copied().zip(colors(&series)).collect();
    // A bar of one part says by its label what it is.
    if rows.iter().any(|own| own.len() > 1) {
        canvas.legend(&items, LEGEND);
    }
    let shades: HashMap<&str, String> = items.into_iter().collect();
    let (top, count) = (canvas.height, u32::try_from(labels.len()).unwrap_or(u32::MAX));
    let bottom = top + ROW * f64::from(count);
    for tick in axis.ticks(6) {
        let x = axis.place(tick);
        canvas.line("grid", (x, top), (x, bottom));
        canvas.tick_across((x, bottom + 15.0), &number(tick));
    }
    canvas.height = bottom + 15.0 + LINE;
    canvas.text(((left + WIDTH) / 2.0, canvas.height), Anchor::Middle, "name", &chart.y_name);
    canvas.height += 8.0;
    for (row, (label, (own, sum))) in (0_u32..).zip(labels.iter().zip(rows.iter().zip(sums))) {
        let y = top + ROW * f64::from(row) + (ROW - BAR) / 2.0;
        let text = shortened(label, room);
        canvas.text((left - 8.0, y + 12.5), Anchor::End, strong(label), &text);
        bar(chart, &mut canvas, (&axis, y), (own, &shades));
        canvas.text((axis.place(sum) + 5.0, y + 12.5), Anchor::Start, "tick", &number(sum));
    }
    canvas.finish(&chart.title)
}

/// The points of each bar.
fn bars<'a>(chart: &'a Chart, labels: &[&str]) -> Vec<Vec<&'a Point>> {
    let places = super::places(labels);
    let mut bars = vec![Vec::new(); labels.len()];
    for point in &chart.points {
        let place = places.get(point.label.as_str()).and_then(|place| usize::try_from(*place).ok());
        place.and_then(|place| bars.get_mut(place)).into_iter().for_each(|bar| bar.push(point));
    }
    bars
}

/// The parts of one bar.
fn bar(
    chart: &Chart,
    canvas: &mut Canvas,
    (axis, y): (&Axis, f64),
    (points, shades): (&[&Point], &HashMap<&str, String>),
) {
    let mut before = 0.0;
    for point in points {
        let (x, end) = (axis.place(before), axis.place(before + point.y.max(0.0)));
        let width = end - x;
        let shape = format!(
            "rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{BAR}\" rx=\"1\""
        );
        let shade = shades.get(point.series.as_str()).map_or("", String::as_str);
        canvas.mark(&shape, shade, &chart.data(point), &chart.tooltip(point));
        before += point.y.max(0.0);
    }
}

fn sum(points: &[&Point]) -> f64 {
    points.iter().map(|point| point.y.max(0.0)).sum()
}
