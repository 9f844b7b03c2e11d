//! Single charts as files: SVG, and PNG by resvg, which needs no library of the system.

use std::path::Path;
use std::sync::Arc;

use resvg::tiny_skia::{Pixmap, Transform};
use resvg::usvg::fontdb::Database;
use resvg::usvg::{Options, Tree};

use super::chart::Chart;
use super::document::Document;
use crate::failure::Failure;
use crate::output::write;

/// Pixels of a PNG for each of the page.
const ZOOM: f32 = 2.0;

/// Writes each chart as NAME.svg; the names.
pub(super) fn svg(document: &Document, directory: &Path) -> Result<Vec<String>, Failure> {
    let write = |chart: &Chart| {
        let name = format!("{}.svg", chart.id);
        write(&directory.join(&name), chart.standalone().as_bytes()).map(|()| name)
    };
    document.charts().map(write).collect()
}

/// Writes each chart as NAME.png; the names.
pub(super) fn png(document: &Document, directory: &Path) -> Result<Vec<String>, Failure> {
    let options = options()?;
    let write = |chart: &Chart| {
        let name = format!("{}.png", chart.id);
        let path = directory.join(&name);
        let pixels = pixels(&chart.standalone(), &options);
        let pixels = pixels.map_err(|error| Failure::during(path.display(), error))?;
        write(&path, &pixels).map(|()| name)
    };
    document.charts().map(write).collect()
}

/// The fonts of the system, with one that stands for all without serifs.
fn options() -> Result<Options<'static>, Failure> {
    let mut fonts = Database::new();
    fonts.load_system_fonts();
    let families: Vec<String> = fonts
        .faces()
        .filter_map(|face| face.families.first().map(|(name, _)| name.clone()))
        .collect();
    let liked = ["DejaVu Sans", "Liberation Sans", "Noto Sans", "Arial", "Helvetica"];
    let liked = liked.into_iter().find(|name| families.iter().any(|family| family == name));
    let Some(family) = liked.or(families.first().map(String::as_str)) else {
        let reason = "there are no fonts on this machine, so texts would be missing; use --svg";
        return Err(Failure::Run(format!("--png: {reason}")));
    };
    fonts.set_sans_serif_family(family);
    let font_family = family.to_owned();
    Ok(Options { font_family, fontdb: Arc::new(fonts), ..Options::default() })
}

fn pixels(svg: &str, options: &Options<'_>) -> Result<Vec<u8>, String> {
    let tree = Tree::from_str(svg, options).map_err(|error| error.to_string())?;
    let size = tree.size().to_int_size().scale_by(ZOOM);
    let pixmap = size.and_then(|size| Pixmap::new(size.width(), size.height()));
    let mut pixmap = pixmap.ok_or_else(|| "the chart is too large".to_owned())?;
    resvg::render(&tree, Transform::from_scale(ZOOM, ZOOM), &mut pixmap.as_mut());
    pixmap.encode_png().map_err(|error| error.to_string())
}
