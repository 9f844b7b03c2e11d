//! The first part of a file, row after row, each run in the colour of its rank.
//!
//! What nobody has stays in the colour of the ground.

use super::canvas::{Anchor, Canvas, WIDTH};
use super::palette::rank_color;
use super::{Chart, Point, tick};

const LEFT: f64 = 90.0;
const RIGHT: f64 = 14.0;
const ROW: f64 = 22.0;
const TILE: f64 = 16.0;
/// Rows that a file is drawn in, if its runs are short enough.
const ROWS: f64 = 6.0;

pub(super) fn draw(chart: &Chart) -> String {
    let series = chart.series();
    let shade = |name: &str| {
        let rank = name.strip_prefix("rank ").and_then(|rank| rank.parse().ok());
        rank_color(rank.unwrap_or(0))
    };
    let mut canvas = Canvas::new();
    canvas.height = 8.0;
    let items: Vec<(&str, String)> = series.iter().map(|name| (*name, shade(name))).collect();
    canvas.legend(&items[..items.len().min(16)], LEFT);
    let (top, row_bytes) = (canvas.height, row_bytes(chart));
    let end = chart.points.iter().map(|point| point.x.unwrap_or(0.0) + point.y).fold(1.0, f64::max);
    let rows = (end / row_bytes).ceil();
    let scale = (WIDTH - LEFT - RIGHT) / row_bytes;
    let mut row = 0.0;
    while row < rows {
        let y = top + row * ROW;
        let len = row_bytes.min(end - row * row_bytes);
        let offset = tick(&chart.x_name, row * row_bytes);
        canvas.text((LEFT - 8.0, y + 12.5), Anchor::End, "tick", &offset);
        canvas.ground((LEFT, y), (len * scale, TILE));
        row += 1.0;
    }
    for point in &chart.points {
        tile(chart, &mut canvas, point, &shade(&point.series), (top, row_bytes, scale));
    }
    canvas.height = top + rows * ROW + 14.0;
    let name = format!("{} of the first byte of each row", chart.x_name);
    canvas.text((LEFT, canvas.height), Anchor::Start, "name", &name);
    canvas.height += 8.0;
    canvas.finish(&chart.title)
}

/// A run, in as many rows as it reaches into; the data is in the first.
fn tile(
    chart: &Chart,
    canvas: &mut Canvas,
    point: &Point,
    shade: &str,
    (top, row_bytes, scale): (f64, f64, f64),
) {
    let (mut begin, end) = (point.x.unwrap_or(0.0), point.x.unwrap_or(0.0) + point.y);
    let mut data = chart.data(point);
    while begin < end {
        let row = (begin / row_bytes).floor();
        let stop = end.min((row + 1.0) * row_bytes);
        let (x, y) = (LEFT + (begin - row * row_bytes) * scale, top + row * ROW);
        let width = ((stop - begin) * scale - 0.4).max(0.3);
        let shape =
            format!("rect x=\"{x:.2}\" y=\"{y:.1}\" width=\"{width:.2}\" height=\"{TILE}\"");
        canvas.mark(&shape, shade, &data, &chart.tooltip(point));
        (begin, data) = (stop, String::new());
    }
}

/// Bytes of a row: a whole number of runs of the first rank and those between them.
fn row_bytes(chart: &Chart) -> f64 {
    let end = chart.points.iter().map(|point| point.x.unwrap_or(0.0) + point.y).fold(1.0, f64::max);
    let first = chart.points.first();
    let own = |point: &&Point| first.is_some_and(|first| first.series == point.series);
    let mut starts = chart.points.iter().filter(own).filter_map(|point| point.x);
    let period = starts.next().zip(starts.next()).map_or(0.0, |(one, two)| two - one);
    let wanted = (end / ROWS).ceil().max(1.0);
    match period > 0.0 && period <= end {
        true => (wanted / period).ceil() * period,
        false => wanted,
    }
}
