//! Figure 11 of paper 001 as a picture: cost of the shuffle against benefit in storage.

use plotters::prelude::*;

use super::model::{PAPER_001, figure_11};
use crate::failure::Failure;

const SIZE: (u32, u32) = (640, 420);

/// Sizes of messages: 32 KB to 16 MB.
const SIZES: std::ops::RangeInclusive<i32> = -5..=4;

struct Series {
    name: String,
    color: RGBColor,
    /// Megabytes of a message, milliseconds.
    points: Vec<(f64, f64)>,
}

/// The figure as SVG.
pub(super) fn draw() -> Result<String, Failure> {
    let mut picture = String::new();
    match draw_to(&mut picture) {
        Ok(()) => Ok(picture),
        Err(error) => Err(Failure::during("drawing Figure 11", error)),
    }
}

fn draw_to(picture: &mut String) -> Result<(), Box<dyn std::error::Error>> {
    let area = SVGBackend::with_string(picture, SIZE).into_drawing_area();
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(&area)
        .caption("one iteration of collective I/O (paper 001, Figure 11)", ("sans-serif", 18))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(60)
        .build_cartesian_2d((0.025..20.0).log_scale(), (0.01..20000.0).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("MB of a message")
        .y_desc("ms")
        .x_label_formatter(&|mb| format!("{mb}"))
        .y_label_formatter(&|ms| format!("{ms}"))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    for Series { name, color, points } in series() {
        let dots = points.clone();
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        chart.draw_series(dots.iter().map(|dot| Circle::new(*dot, 3, color.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    area.present()?;
    Ok(())
}

fn series() -> Vec<Series> {
    let colors = [RGBColor(213, 94, 0), RGBColor(0, 114, 178), RGBColor(0, 158, 115)];
    let sizes = || SIZES.map(|power| 2f64.powi(power));
    let benefit = PAPER_001.devices.iter().zip(colors).map(|(device, color)| Series {
        name: format!("benefit on {}", device.name),
        color,
        points: sizes().map(|mb| (mb, figure_11(device.bandwidth, mb).benefit_s * 1e3)).collect(),
    });
    // The shuffle is the same on all devices.
    let any = PAPER_001.devices[0].bandwidth;
    let points = sizes().map(|mb| (mb, figure_11(any, mb).shuffle_s * 1e3)).collect();
    let shuffle = Series { name: "shuffle".to_owned(), color: BLACK, points };
    std::iter::once(shuffle).chain(benefit).collect()
}
