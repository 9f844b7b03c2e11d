//! A picture of a record: collective calls relative to Block I/O, over the size of blocks.

use std::path::Path;

use plotters::prelude::*;

use super::record::{Line, Side};
use super::table::{mpi_name, own_name};

const SIZE: (u32, u32) = (960, 420);

/// One line of the picture.
struct RatioLine {
    name: String,
    /// Block size, time relative to Block I/O, and whether it takes longer than that.
    points: Vec<(f64, f64, bool)>,
}

/// What both panels span: sizes of blocks, and ratios with 1 among them.
struct Frame {
    sizes: (f64, f64),
    ratios: (f64, f64),
}

impl Frame {
    fn around<'a>(points: impl Iterator<Item = &'a (f64, f64, bool)>) -> Self {
        let mut frame = Self { sizes: (f64::MAX, 1.0), ratios: (1.0, 1.0) };
        for (size, ratio, _) in points {
            frame.sizes = (frame.sizes.0.min(*size), frame.sizes.1.max(*size));
            frame.ratios = (frame.ratios.0.min(*ratio), frame.ratios.1.max(*ratio));
        }
        frame
    }
}

/// What the picture is of: the block-cyclic workload at level 3, on most ranks, on one file system.
struct Chosen<'a> {
    lines: Vec<&'a Line>,
    ranks: u32,
    directory: String,
}

/// Draws a record.
pub(super) fn draw(lines: &[Line], path: &Path) -> Result<(), String> {
    let chosen = choose(lines).ok_or("the record has no block-cyclic lines at level 3")?;
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    area.fill(&WHITE).map_err(|error| failed(&error))?;
    let title = format!(
        "collective calls on {} ranks, time / time of Block I/O ({})",
        chosen.ranks, chosen.directory
    );
    let area = area.titled(&title, ("sans-serif", 18)).map_err(|error| failed(&error))?;
    let panels = area.split_evenly((1, 2));
    let both = ["write", "read"].map(|direction| (direction, series(&chosen, direction)));
    let frame = Frame::around(both.iter().flat_map(|(_, all)| all).flat_map(|one| &one.points));
    for (panel, (direction, all)) in panels.iter().zip(&both) {
        draw_panel(panel, direction, all, &frame).map_err(|error| failed(&error))?;
    }
    area.present().map_err(|error| failed(&error))
}

fn choose(lines: &[Line]) -> Option<Chosen<'_>> {
    let fits = |line: &&Line| line.workload == "block-cyclic" && line.level == 3;
    let lines: Vec<&Line> = lines.iter().filter(fits).collect();
    let ranks = lines.iter().map(|line| line.ranks).max()?;
    let directory = lines.iter().find(|line| line.ranks == ranks)?.directory.clone();
    let is_here = |line: &&Line| line.ranks == ranks && line.directory == directory;
    let lines = lines.into_iter().filter(is_here).collect();
    Some(Chosen { lines, ranks, directory })
}

/// The lines of one panel.
fn series(chosen: &Chosen<'_>, direction: &str) -> Vec<RatioLine> {
    let mut all: Vec<RatioLine> = Vec::new();
    for line in chosen.lines.iter().filter(|line| line.direction == direction) {
        let name = match line.side {
            Side::Own => own_name(&line.mpi).to_owned(),
            Side::Pario => format!("pario on {}", mpi_name(&line.mpi)),
            Side::BlockIo | Side::Baseline => continue,
        };
        let is_its_block = |other: &&&Line| {
            other.side == Side::BlockIo
                && other.direction == direction
                && (&other.mpi, &other.shape) == (&line.mpi, &line.shape)
        };
        let block_io = chosen.lines.iter().find(is_its_block).and_then(|line| line.seconds);
        let time = line.seconds.or(line.longer_than_seconds);
        let (Some(size), Some(time), Some(block_io)) = (line.block, time, block_io) else {
            continue;
        };
        let size = u32::try_from(size).map_or(f64::MAX, f64::from);
        let point = (size, time / block_io, line.seconds.is_none());
        match all.iter_mut().find(|series| series.name == name) {
            Some(series) => series.points.push(point),
            None => all.push(RatioLine { name, points: vec![point] }),
        }
    }
    all.iter_mut().for_each(|one| one.points.sort_by(|one, other| one.0.total_cmp(&other.0)));
    all
}

fn color(name: &str) -> RGBColor {
    match name {
        "ROMIO" => RGBColor(213, 94, 0),
        "OMPIO" => RGBColor(204, 121, 167),
        "pario on MPICH" => RGBColor(0, 114, 178),
        _ => RGBColor(0, 158, 115),
    }
}

fn draw_panel(
    panel: &DrawingArea<SVGBackend<'_>, plotters::coord::Shift>,
    direction: &str,
    all: &[RatioLine],
    frame: &Frame,
) -> Result<(), Box<dyn std::error::Error>> {
    let Frame { sizes: (left, right), ratios: (low, high) } = *frame;
    let mut chart = ChartBuilder::on(panel)
        .caption(direction, ("sans-serif", 16))
        .margin(8)
        .x_label_area_size(36)
        .y_label_area_size(52)
        .build_cartesian_2d(
            ((left / 1.5)..(right * 1.5)).log_scale(),
            ((low / 1.3)..(high * 2.0)).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_desc("bytes of a block")
        .x_label_formatter(&|bytes| format!("{bytes:.0}"))
        .y_label_formatter(&|ratio| format!("{ratio}"))
        .light_line_style(WHITE.mix(0.0))
        .draw()?;
    chart.draw_series(LineSeries::new([(left, 1.0), (right, 1.0)], BLACK.mix(0.4)))?;
    for one in all {
        let color = color(&one.name);
        let line = one.points.iter().map(|point| (point.0, point.1));
        chart
            .draw_series(LineSeries::new(line, color.stroke_width(2)))?
            .label(&one.name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 16, y)], color.stroke_width(2)));
        let exact = one.points.iter().filter(|point| !point.2);
        chart.draw_series(exact.map(|point| Circle::new((point.0, point.1), 3, color.filled())))?;
        // What takes longer than the picture knows points upwards.
        let bounds = one.points.iter().filter(|point| point.2);
        chart.draw_series(
            bounds.map(|point| TriangleMarker::new((point.0, point.1), 6, color.filled())),
        )?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.2))
        .draw()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::record::tests::line;
    use super::*;

    #[test]
    fn the_picture_has_a_line_for_each_side_relative_to_block_io() {
        let mut lines = vec![
            line("mpich5", Side::Own, 4.0),
            line("mpich5", Side::Pario, 2.0),
            line("mpich5", Side::BlockIo, 0.5),
        ];
        lines[0].seconds = None;
        lines[0].longer_than_seconds = Some(8.0);
        let chosen = choose(&lines).unwrap();
        let all = series(&chosen, "write");
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].name.as_str(), &all[0].points), ("ROMIO", &vec![(4.0, 16.0, true)]));
        assert_eq!(all[1].name, "pario on MPICH");
        let path = std::env::temp_dir().join(format!("pario-plot-{}.svg", std::process::id()));
        draw(&lines, &path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(text.contains("pario on MPICH") && text.contains("bytes of a block"));
    }

    #[test]
    fn an_empty_record_has_no_picture() {
        assert!(draw(&[], Path::new("/nowhere.svg")).is_err());
    }
}
