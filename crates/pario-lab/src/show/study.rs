//! A section for each study: the paper's relations beside ours, and what was measured. Several are
//! grouped by their papers.

use serde_json::Value;

use super::bench::machine;
use super::chart::{Chart, Kind, Point, Scale, number, size};
use super::document::{Cell, Place, Section, Table, shell, slug};
use super::records::{Study, StudyRow};
use crate::date;
use crate::scenario::papers::title_of;

/// The kinds of verdicts, in the order of tables.
const KINDS: [&str; 4] = ["same", "same order", "not the same", "cannot run here"];

/// How many relations have each kind of verdict.
#[derive(Clone, Copy, Default)]
struct Verdicts([usize; KINDS.len()]);

impl Verdicts {
    fn of<'a>(studies: impl Iterator<Item = &'a Study>) -> Verdicts {
        let mut verdicts = Verdicts::default();
        for row in studies.flat_map(|study| &study.rows) {
            let verdict = row.verdict.trim_start_matches("the ");
            let is_kind = |kind: &str| match kind.starts_with("same") {
                true => verdict == kind,
                false => verdict.starts_with(kind),
            };
            let place = KINDS.iter().position(|kind| is_kind(kind));
            place.into_iter().for_each(|place| verdicts.0[place] += 1);
        }
        verdicts
    }

    /// Kinds that no relation of a table has are left out.
    fn cells(self) -> [Cell; KINDS.len()] {
        self.0.map(|count| Cell::maybe((count > 0).then_some(count)))
    }

    /// In words: those that there are.
    fn words(self) -> String {
        let all: usize = self.0.iter().sum();
        let counts = self.0.iter().zip(KINDS).filter(|(count, _)| **count > 0);
        let counts = counts.map(|(count, kind)| match kind.starts_with("same") {
            true => format!("{count} the {kind}"),
            false => format!("{count} {kind}"),
        });
        format!("{}: {}", counted(all, "relation"), counts.collect::<Vec<String>>().join(", "))
    }
}

fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// All studies: several are grouped by their papers, with totals before them.
pub(super) fn sections(studies: &[Study]) -> Vec<Section> {
    if let [study] = studies {
        return vec![section(study)];
    }
    let mut papers: Vec<(String, Vec<(usize, &Study)>)> = Vec::new();
    for (index, study) in studies.iter().enumerate() {
        let paper = shown(&study.paper);
        match papers.iter_mut().find(|(name, _)| *name == paper) {
            Some((_, own)) => own.push((index, study)),
            None => papers.push((paper, vec![(index, study)])),
        }
    }
    let mut sections: Vec<Section> = overview(studies, &papers).into_iter().collect();
    for (paper, own) in &papers {
        sections.push(head(paper, own));
        sections.extend(own.iter().map(|(index, study)| Section {
            anchor: anchor(*index),
            place: Place::Member,
            ..section(study)
        }));
    }
    sections
}

/// The name of a study in links.
fn anchor(index: usize) -> String {
    format!("study-{index}")
}

/// The name of a paper, and its title if it is known.
fn title(paper: &str) -> String {
    match (paper, title_of(paper)) {
        ("", _) => "Studies without a paper".to_owned(),
        (paper, None) => format!("Paper {paper}"),
        (paper, Some(title)) => format!("Paper {paper}: {title}"),
    }
}

/// Verdicts of all papers side by side.
fn overview(studies: &[Study], papers: &[(String, Vec<(usize, &Study)>)]) -> Option<Section> {
    let row = |name: Cell, (studies, verdicts): (usize, Verdicts)| {
        [name, Cell::number(studies)].into_iter().chain(verdicts.cells()).collect::<Vec<Cell>>()
    };
    let of_paper = |(paper, own): &(String, Vec<(usize, &Study)>)| {
        let verdicts = Verdicts::of(own.iter().map(|(_, study)| *study));
        row(Cell::Link(title(paper), head_anchor(paper)), (own.len(), verdicts))
    };
    let all = Verdicts::of(studies.iter());
    let mut rows: Vec<Vec<Cell>> = papers.iter().map(of_paper).collect();
    rows.push(row(Cell::text("all"), (studies.len(), all)));
    let table = Table {
        title: "Verdicts".to_owned(),
        columns: ["paper", "studies"].into_iter().chain(KINDS).collect(),
        strong: vec![rows.len() - 1],
        rows,
        ..Table::default()
    };
    let runs = counted(studies.len(), "study").replace("studys", "studies");
    (!studies.is_empty()).then(|| Section {
        title: "Verdicts of all studies".to_owned(),
        link: "Verdicts".to_owned(),
        summary: format!("{runs} of {}. {}.", counted(papers.len(), "paper"), all.words()),
        tables: vec![table],
        ..Section::default()
    })
}

fn head_anchor(paper: &str) -> String {
    slug(&format!("paper {paper}"))
}

/// What begins the studies of a paper: its title, and their verdicts.
fn head(paper: &str, own: &[(usize, &Study)]) -> Section {
    let row = |(index, study): &(usize, &Study)| {
        let name = Cell::Link(study.id.clone(), anchor(*index));
        let texts = [&study.mode, &study.question].map(|text| Cell::text(text.as_str()));
        let verdicts = Verdicts::of(std::iter::once(*study)).cells();
        std::iter::once(name).chain(texts).chain(verdicts).collect()
    };
    let columns = ["study", "mode", "question"].into_iter().chain(KINDS).collect();
    let rows = own.iter().map(row).collect();
    Section {
        title: title(paper),
        link: if paper.is_empty() { "Others".to_owned() } else { format!("Paper {paper}") },
        anchor: head_anchor(paper),
        place: Place::Head,
        summary: format!("{}.", Verdicts::of(own.iter().map(|(_, study)| *study)).words()),
        tables: vec![Table { title: "Studies".to_owned(), columns, rows, ..Table::default() }],
        ..Section::default()
    }
}

fn section(study: &Study) -> Section {
    let mode: Vec<&str> = [&study.mode, &study.size]
        .into_iter()
        .map(String::as_str)
        .filter(|one| !one.is_empty())
        .collect();
    let mode = if mode.is_empty() { String::new() } else { format!(" ({})", mode.join(", ")) };
    let of_paper = match shown(&study.paper).as_str() {
        "" => String::new(),
        paper if study.place.is_empty() => format!("Paper {paper}. "),
        paper => format!("Paper {paper}, {}. ", study.place),
    };
    let commands = match &study.command {
        Value::String(command) => vec![command.clone()],
        Value::Array(words) => vec![shell(&words.iter().map(shown).collect::<Vec<_>>())],
        _ => vec![format!("pario study {} --mode {}", study.id, study.mode)],
    };
    let (own_commands, notes): (Vec<String>, Vec<String>) =
        study.notes.iter().cloned().partition(|note| note.starts_with("pario bench "));
    let date = study.unix_seconds.map(|time| format!(" Measured {}.", date::minute(time)));
    Section {
        title: format!("Study {}{mode}", study.id),
        summary: format!("{of_paper}{}{}", study.question, date.unwrap_or_default()),
        charts: charts(study),
        tables: std::iter::once(table(&study.rows)).chain(runs(&own_commands)).collect(),
        facts: machine(study.machine.as_ref()),
        commands,
        notes,
        ..Section::default()
    }
}

/// The runs that were measured, folded: the command of the study repeats all of them.
fn runs(commands: &[String]) -> Option<Table> {
    let row = |command: &String| vec![Cell::text(command.as_str())];
    (!commands.is_empty()).then(|| Table {
        title: format!("{} of pario bench", counted(commands.len(), "run")),
        columns: vec!["command"],
        rows: commands.iter().map(row).collect(),
        is_folded: true,
        ..Table::default()
    })
}

/// A chart for all series with the same axes.
fn charts(study: &Study) -> Vec<Chart> {
    let mut charts: Vec<Chart> = Vec::new();
    for series in &study.series {
        let points = series.points.iter().map(|&[x, y]| Point {
            series: series.name.clone(),
            label: String::new(),
            x: Some(x),
            y,
            note: String::new(),
        });
        let (x_name, y_name) = (quantity(&series.x_label), quantity(&series.y_label));
        let axes = |chart: &&mut Chart| chart.x_name == x_name && chart.y_name == y_name;
        match charts.iter_mut().find(axes) {
            Some(chart) => chart.points.extend(points),
            None => charts.push(Chart {
                id: format!("study {} {} {}", study.id, study.mode, series.y_label),
                title: study.question.clone(),
                caption: origin(study),
                kind: Kind::Lines { x: Scale::Linear, y: Scale::Linear },
                x_name,
                y_name,
                points: points.collect(),
            }),
        }
    }
    for chart in &mut charts {
        chart.kind = Kind::Lines {
            x: scale(chart.points.iter().filter_map(|point| point.x)),
            y: scale(chart.points.iter().map(|point| point.y)),
        };
    }
    charts
}

/// What a unit or a letter of the papers means; labels of studies are short.
fn quantity(label: &str) -> String {
    match label {
        "s" | "ms" => format!("time ({label})"),
        "MB/s" => "bandwidth (MB/s)".to_owned(),
        "Bx" => "Bx (elements of a block)".to_owned(),
        "Nx" => "Nx (elements of the vector)".to_owned(),
        other => other.to_owned(),
    }
}

/// Where the values of a chart come from.
fn origin(study: &Study) -> String {
    let mode = match study.mode.as_str() {
        "virtual" => "computed on a virtual clock",
        "here" => "measured on this machine",
        "count" => "counted",
        other => other,
    };
    let place = match (shown(&study.paper).as_str(), study.place.as_str()) {
        ("", _) => String::new(),
        (paper, "") => format!("paper {paper}, "),
        (paper, place) => format!("paper {paper}, {place}, "),
    };
    let size = if study.size == "quick" { ", with little data" } else { "" };
    format!("{}: {place}{mode}{size}", study.id)
}

/// Values over more than a decade and a half are shown by their logarithm.
fn scale(values: impl Iterator<Item = f64>) -> Scale {
    let (mut low, mut high) = (f64::INFINITY, 0.0_f64);
    for value in values {
        (low, high) = (low.min(value), high.max(value));
    }
    match low > 0.0 && high / low > 30.0 {
        true => Scale::Log,
        false => Scale::Linear,
    }
}

fn table(rows: &[StudyRow]) -> Table {
    let with_unit = |value: &Value, unit: String| match value.is_number() && !unit.is_empty() {
        // A space that does not end a line.
        true => format!("{}\u{a0}{unit}", shown(value)),
        false => shown(value),
    };
    // A column with words among its numbers is read from the left.
    let cell = |own: fn(&StudyRow) -> &Value, unit: fn(&StudyRow) -> String, row: &StudyRow| {
        let plain = |row: &StudyRow| own(row).is_number() || own(row).is_null();
        match (rows.iter().all(plain), own(row).as_f64().filter(|_| is_size(row))) {
            // A cast that rounds to whole bytes.
            (true, Some(bytes)) => Cell::Bytes(bytes.round() as u64),
            (false, Some(bytes)) => Cell::Text(size(bytes)),
            (true, None) => Cell::Number(with_unit(own(row), unit(row))),
            (false, None) => Cell::Text(with_unit(own(row), unit(row))),
        }
    };
    let row = |row: &StudyRow| {
        vec![
            Cell::text(&row.name),
            cell(|row| &row.paper, |_| String::new(), row),
            cell(|row| &row.ours, |row| shown(&row.unit), row),
            Cell::text(shown(&row.tolerance)),
            Cell::Verdict(row.verdict.clone()),
        ]
    };
    Table {
        title: "Relations".to_owned(),
        columns: vec!["relation", "paper", "ours", "tolerance", "verdict"],
        rows: rows.iter().map(row).collect(),
        ..Table::default()
    }
}

/// Whether both values are numbers of bytes, which are shown with a unit of their own.
fn is_size(row: &StudyRow) -> bool {
    let is_number = |value: &Value| value.is_number() || value.is_null();
    row.unit == "bytes" && is_number(&row.paper) && is_number(&row.ours)
}

/// A value as people read it.
fn shown(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(value) => value.as_f64().map_or_else(|| value.to_string(), number),
        Value::Array(all) => all.iter().map(shown).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}
