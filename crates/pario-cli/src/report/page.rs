//! A document as one HTML file: no network, no script.

use std::fmt::Write;

use super::chart::{CHART_STYLE, Chart, LIGHT, escape};
use super::document::{Cell, Document, Section, Table};

const STYLE: &str = include_str!("style.css");

/// The values of the variables on a dark page.
const DARK: [(&str, &str); 15] = [
    ("--back", "#12161c"),
    ("--text", "#e6eaf0"),
    ("--soft", "#9aa7b5"),
    ("--line", "#2b3440"),
    ("--c0", "#4fa8e0"),
    ("--c1", "#ee8244"),
    ("--c2", "#35c496"),
    ("--c3", "#d990c2"),
    ("--c4", "#f0b93d"),
    ("--c5", "#86c7f2"),
    ("--c6", "#a992dd"),
    ("--c7", "#c2a06a"),
    ("--c8", "#8b97a5"),
    ("--c9", "#7d9bd4"),
    ("--card", "#1a2028"),
];

/// The page; `sources` are the names of what was read.
pub(super) fn html(title: &str, sources: &[String], document: &Document) -> String {
    let title = escape(title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{}</style>\n\
         </head>\n<body>\n<header>\n<h1>{title}</h1>\n<p class=\"sources\">From {}.</p>\n{}\
         </header>\n<main>\n",
        style(),
        escape(&sources.join(", ")),
        contents(document)
    );
    for (index, section) in document.sections.iter().enumerate() {
        text += &show(index, section);
    }
    let version = env!("CARGO_PKG_VERSION");
    text += &format!(
        "</main>\n<footer>Made by pario {version}. Point at a mark to see its values; \
         <code>pario report --csv FILE</code> writes all of them.</footer>\n</body>\n</html>\n"
    );
    text
}

fn style() -> String {
    let variables = |all: &[(&str, &str)]| {
        all.iter().map(|(name, value)| format!("{name}:{value};")).collect::<String>()
    };
    format!(
        ":root{{{light}color-scheme:light dark}}\n\
         @media screen and (prefers-color-scheme:dark){{:root{{{}}}}}\n{STYLE}{CHART_STYLE}",
        variables(&DARK),
        light = variables(&LIGHT).replace("--back:#ffffff", "--back:#f6f7f9")
    )
}

/// Links to the sections, where there are several.
fn contents(document: &Document) -> String {
    if document.sections.len() < 2 {
        return String::new();
    }
    let link = |(index, section): (usize, &Section)| {
        format!("<a href=\"#s{index}\">{}</a>\n", escape(&section.title))
    };
    let links: String = document.sections.iter().enumerate().map(link).collect();
    format!("<nav>\n{links}</nav>\n")
}

fn show(index: usize, section: &Section) -> String {
    let mut text = format!(
        "<section id=\"s{index}\">\n<h2>{}</h2>\n<p class=\"summary\">{}</p>\n",
        escape(&section.title),
        escape(&section.summary)
    );
    for note in &section.notes {
        let _ = writeln!(text, "<p>{}</p>", escape(note));
    }
    if !section.charts.is_empty() {
        text += "<div class=\"charts\">\n";
        section.charts.iter().for_each(|chart| text += &figure(chart));
        text += "</div>\n";
    }
    section.tables.iter().for_each(|one| text += &table(one));
    if !section.facts.is_empty() {
        text += "<h3>Machine and hints</h3>\n<dl>\n";
        for (name, value) in &section.facts {
            let _ = writeln!(text, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(value));
        }
        text += "</dl>\n";
    }
    if !section.commands.is_empty() {
        let commands = escape(&section.commands.join("\n"));
        let _ = writeln!(text, "<h3>To repeat it</h3>\n<pre>{commands}</pre>");
    }
    text + "</section>\n"
}

fn figure(chart: &Chart) -> String {
    let caption = match chart.caption.is_empty() {
        true => String::new(),
        false => format!("<small>{}</small>", escape(&chart.caption)),
    };
    format!(
        "<figure id=\"{id}\" data-chart=\"{id}\">\n<figcaption>{}{caption}</figcaption>\n\
         <div class=\"draw\">\n{}</div>\n</figure>\n",
        escape(&chart.title),
        chart.svg(),
        id = escape(&chart.id)
    )
}

fn table(table: &Table) -> String {
    let mut text =
        format!("<h3>{}</h3>\n<div class=\"scroll\"><table>\n<thead><tr>", escape(&table.title));
    for (column, name) in table.columns.iter().enumerate() {
        let numbers = table.rows.iter().all(|row| match row.get(column) {
            Some(Cell::Number(_)) => true,
            Some(Cell::Text(text)) => text.is_empty(),
            _ => false,
        });
        let class = if numbers { " class=\"number\"" } else { "" };
        let _ = write!(text, "<th{class}>{}</th>", escape(name));
    }
    text += "</tr></thead>\n<tbody>\n";
    for row in &table.rows {
        let cells: String = row.iter().map(cell).collect();
        let _ = writeln!(text, "<tr>{cells}</tr>");
    }
    text + "</tbody></table></div>\n"
}

fn cell(cell: &Cell) -> String {
    // Longer texts are broken into lines.
    const WIDE: usize = 40;
    match cell {
        Cell::Number(number) => format!("<td class=\"number\">{}</td>", escape(number)),
        Cell::Text(text) if text.chars().count() > WIDE => {
            format!("<td class=\"wide\">{}</td>", escape(text))
        }
        Cell::Text(text) => format!("<td>{}</td>", escape(text)),
        Cell::Verdict(text) => {
            let class = match text.trim_start_matches("the ") {
                "same" => "same",
                "same order" => "order",
                text if text.starts_with("not the same") => "differs",
                _ => "none",
            };
            format!(
                "<td class=\"wide\"><span class=\"verdict {class}\">{}</span></td>",
                escape(text)
            )
        }
    }
}
