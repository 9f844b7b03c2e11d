//! Values over a number: a line for each series, or dots.

use std::collections::HashMap;

use super::axis::Axis;
use super::canvas::{Anchor, Canvas, LINE, Stroke, WIDTH};
use super::palette::{Look, is_strong, looks};
use super::{Chart, Point, Scale, is_bytes, tick};

const LEFT: f64 = 70.0;
const RIGHT: f64 = 14.0;
const HEIGHT: f64 = 280.0;

/// How points are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Manner {
    /// Those of a series are joined.
    Joined,
    /// Each by itself, with the line of equal values if asked for.
    Dots { diagonal: bool },
}

pub(super) fn draw(chart: &Chart, (x, y): (Scale, Scale), manner: Manner) -> String {
    let mut canvas = Canvas::new();
    canvas.height = 8.0;
    let series = chart.series();
    let looks = looks(&series);
    let items: Vec<(&str, Look)> = series.into_iter().zip(looks).collect();
    if items.len() > 1 {
        canvas.legend_of_signs(&items, LEFT);
    }
    let (top, bottom) = (canvas.height, canvas.height + HEIGHT);
    let xs = || chart.points.iter().filter_map(|point| point.x);
    let ys = || chart.points.iter().map(|point| point.y);
    let equal = manner == Manner::Dots { diagonal: true };
    // Both axes have the same values where they are compared.
    let all = |own: &mut dyn Iterator<Item = f64>, other: &mut dyn Iterator<Item = f64>| {
        let other = other.filter(|_| equal);
        own.chain(other).collect::<Vec<f64>>().into_iter()
    };
    let across = Axis::new(all(&mut xs(), &mut ys()), x, (LEFT, WIDTH - RIGHT));
    let upwards = Axis::new(all(&mut ys(), &mut xs()), y, (bottom, top));
    let ticks = match manner {
        Manner::Joined => ticks_of_values(chart, &across),
        Manner::Dots { .. } => round_ticks(chart, &across),
    };
    frame(chart, &mut canvas, (&across, &upwards), (top, bottom), &ticks);
    if equal {
        let ends = [(LEFT, bottom), (WIDTH - RIGHT, top)];
        canvas.path(&ends, "var(--soft)", Stroke::Dashed);
    }
    let mut of_series: HashMap<&str, Vec<&Point>> = HashMap::new();
    for point in &chart.points {
        of_series.entry(&point.series).or_default().push(point);
    }
    for (name, look) in &items {
        let own = of_series.remove(name).unwrap_or_default();
        if manner == Manner::Joined {
            let stroke = match *name {
                "Block I/O" => Stroke::Dashed,
                name if is_strong(name) => Stroke::Strong,
                _ => Stroke::Plain,
            };
            canvas.path(&places(&own, &across, &upwards), &look.color, stroke);
        }
        let axes = (&across, &upwards);
        own.iter().for_each(|point| dot(chart, &mut canvas, axes, (point, look)));
    }
    canvas.finish(&chart.title)
}

fn places(points: &[&Point], across: &Axis, upwards: &Axis) -> Vec<(f64, f64)> {
    let mut points: Vec<(f64, f64)> =
        points.iter().filter_map(|one| Some((one.x?, one.y))).collect();
    points.sort_by(|one, two| one.0.total_cmp(&two.0));
    points.into_iter().map(|(x, y)| (across.place(x), upwards.place(y))).collect()
}

fn dot(
    chart: &Chart,
    canvas: &mut Canvas,
    (across, upwards): (&Axis, &Axis),
    (point, look): (&Point, &Look),
) {
    let place = (across.place(point.x.unwrap_or(0.0)), upwards.place(point.y));
    let radius = if is_strong(&point.series) { 5.0 } else { 4.0 };
    canvas.mark(
        &look.sign.shape(place, radius),
        &look.color,
        &chart.data(point),
        &chart.tooltip(point),
    );
}

fn frame(
    chart: &Chart,
    canvas: &mut Canvas,
    (across, upwards): (&Axis, &Axis),
    (top, bottom): (f64, f64),
    ticks_across: &[f64],
) {
    let right = WIDTH - RIGHT;
    let ticks = match is_bytes(&chart.y_name) {
        true => upwards.ticks_of_bytes(6),
        false => upwards.ticks(7),
    };
    for value in ticks {
        let y = upwards.place(value);
        canvas.line("grid", (LEFT, y), (right, y));
        canvas.text((LEFT - 6.0, y + 4.0), Anchor::End, "tick", &tick(&chart.y_name, value));
    }
    for &value in ticks_across {
        let x = across.place(value);
        canvas.line("grid", (x, top), (x, bottom));
        canvas.tick_across((x, bottom + 16.0), &tick(&chart.x_name, value));
    }
    canvas.line("frame", (LEFT, bottom), (right, bottom));
    canvas.line("frame", (LEFT, top), (LEFT, bottom));
    canvas.text_upwards((14.0, (top + bottom) / 2.0), &chart.y_name);
    canvas.height = bottom + 16.0 + LINE;
    canvas.text(((LEFT + right) / 2.0, canvas.height), Anchor::Middle, "name", &chart.x_name);
    canvas.height += 8.0;
}

/// The values themselves where they are few, such as sizes of blocks; otherwise round ones.
fn ticks_of_values(chart: &Chart, across: &Axis) -> Vec<f64> {
    const FEW: usize = 8;
    let mut values: Vec<f64> = chart.points.iter().filter_map(|point| point.x).collect();
    values.sort_by(f64::total_cmp);
    values.dedup();
    let apart = values.windows(2).all(|pair| across.place(pair[1]) - across.place(pair[0]) > 44.0);
    match values.len() <= FEW && apart {
        true => values,
        false => round_ticks(chart, across),
    }
}

fn round_ticks(chart: &Chart, across: &Axis) -> Vec<f64> {
    match is_bytes(&chart.x_name) {
        true => across.ticks_of_bytes(8),
        false => across.ticks(8),
    }
}
