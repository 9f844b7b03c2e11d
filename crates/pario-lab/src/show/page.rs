//! A document as one HTML file: no network, no script.

use std::fmt::Write;

use super::Header;
use super::chart::{CHART_STYLE, Chart, DARK, LIGHT, escape};
use super::document::{Cell, Document, Place, Section, Table, exact};
use crate::date;

const STYLE: &str = include_str!("style.css");

/// The page.
pub(super) fn html(header: &Header, document: &Document) -> String {
    let title = escape(&header.title);
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <link rel=\"icon\" href=\"data:,\">\n<title>{title}</title>\n<style>\n{}</style>\n\
         </head>\n<body>\n<header>\n<h1>{title}</h1>\n\
         <p class=\"sources\">From {}. Page made {}.</p>\n{}</header>\n<main>\n",
        style(),
        escape(&header.sources.join(", ")),
        date::minute(header.unix_seconds),
        contents(document)
    );
    document.sections.iter().for_each(|section| text += &show(section));
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

/// Links to the sections, where there are several. A group is one link.
fn contents(document: &Document) -> String {
    let linked = document.sections.iter().filter(|section| section.place != Place::Member);
    let links: Vec<String> = linked
        .map(|section| format!("<a href=\"#{}\">{}</a>\n", section.anchor, escape(&section.link)))
        .collect();
    match links.len() < 2 {
        true => String::new(),
        false => format!("<nav>\n{}</nav>\n", links.concat()),
    }
}

/// The elements of the title of a section, and of its parts.
fn headings(place: Place) -> (&'static str, &'static str) {
    match place {
        Place::Alone | Place::Head => ("h2", "h3"),
        Place::Member => ("h3", "h4"),
    }
}

fn show(section: &Section) -> String {
    let (title, part) = headings(section.place);
    let class = match section.place {
        Place::Alone => "",
        Place::Head => " class=\"head\"",
        Place::Member => " class=\"member\"",
    };
    let mut text = format!(
        "<section id=\"{}\"{class}>\n<{title}>{}</{title}>\n<p class=\"summary\">{}</p>\n",
        escape(&section.anchor),
        escape(&section.title),
        with_code(&section.summary)
    );
    for note in &section.notes {
        let _ = writeln!(text, "<p class=\"note\">{}</p>", with_code(note));
    }
    // One chart of a group has its table beside it, where there is room.
    let is_beside = section.place == Place::Member && section.charts.len() == 1;
    text += if is_beside { "<div class=\"beside\">\n" } else { "<div>\n" };
    if !section.charts.is_empty() {
        text += "<div class=\"charts\">\n";
        section.charts.iter().for_each(|chart| text += &figure(chart));
        text += "</div>\n";
    }
    text += "<div class=\"tables\">\n";
    section.tables.iter().for_each(|one| text += &table(one, part));
    text += "</div>\n</div>\n";
    if !section.facts.is_empty() {
        let _ = writeln!(text, "<{part}>Conditions</{part}>\n<dl>");
        section.facts.iter().for_each(|one| text += &fact(one));
        text += "</dl>\n";
    }
    if !section.commands.is_empty() {
        let commands = escape(&section.commands.join("\n")).replace("&#10;", "\n");
        let _ = writeln!(
            text,
            "<div class=\"repeat\"><{part}>To repeat it</{part}>\n<pre>{commands}</pre></div>"
        );
    }
    text + "</section>\n"
}

/// A text, escaped; commands between backticks look like commands.
fn with_code(text: &str) -> String {
    let mut parts = text.split('`').map(escape).peekable();
    let mut shown = parts.next().unwrap_or_default();
    while let Some(code) = parts.next() {
        match parts.next() {
            Some(after) => shown += &format!("<code>{code}</code>{after}"),
            None => shown += &format!("`{code}"),
        }
    }
    shown
}

/// A name and its value; one of many lines is folded.
fn fact((name, value): &(String, String)) -> String {
    const LINES: usize = 4;
    let shown = escape(value).replace("&#10;", "\n");
    let shown = match value.lines().count() {
        0 | 1 => with_code(value),
        few if few <= LINES => format!("<pre>{shown}</pre>"),
        _ => {
            let first = escape(value.lines().next().unwrap_or_default());
            format!("<details><summary>{first}</summary><pre>{shown}</pre></details>")
        }
    };
    format!("<dt>{}</dt><dd>{shown}</dd>\n", escape(name))
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

fn table(table: &Table, heading: &str) -> String {
    let title = escape(&table.title);
    let (before, after) = match table.is_folded {
        true => (format!("<details><summary>{title}</summary>\n"), "</details>\n"),
        false => (format!("<{heading}>{title}</{heading}>\n"), ""),
    };
    let mut text = format!("{before}<div class=\"scroll\"><table>\n<thead><tr>");
    for (column, name) in table.columns.iter().enumerate() {
        let numbers = table.rows.iter().all(|row| match row.get(column) {
            Some(Cell::Number(_) | Cell::Bytes(_)) => true,
            Some(Cell::Text(text)) => text.is_empty(),
            _ => false,
        });
        let class = if numbers { " class=\"number\"" } else { "" };
        let _ = write!(text, "<th{class}>{}</th>", escape(name));
    }
    text += "</tr></thead>\n<tbody>\n";
    for (index, row) in table.rows.iter().enumerate() {
        let cells: String = row.iter().map(cell).collect();
        let class = if table.strong.contains(&index) { " class=\"strong\"" } else { "" };
        let _ = writeln!(text, "<tr{class}>{cells}</tr>");
    }
    text + "</tbody></table></div>\n" + after
}

fn cell(cell: &Cell) -> String {
    match cell {
        Cell::Number(number) => format!("<td class=\"number\">{}</td>", escape(number)),
        Cell::Bytes(bytes) => {
            let (size, exact) = exact(*bytes);
            format!("<td class=\"number\" title=\"{exact}\">{size}</td>")
        }
        Cell::Link(text, anchor) => {
            let (width, anchor) = (width(text), escape(anchor));
            format!("<td{width}><a href=\"#{anchor}\">{}</a></td>", escape(text))
        }
        Cell::Text(text) => format!("<td{}>{}</td>", width(text), escape(text)),
        Cell::Verdict(text) => verdict(text),
    }
}

/// The class of a text that may be broken into lines.
fn width(text: &str) -> &'static str {
    match text.chars().count() {
        0..=18 => "",
        19..=40 => " class=\"some\"",
        _ => " class=\"wide\"",
    }
}

fn verdict(text: &str) -> String {
    let class = match text.trim_start_matches("the ") {
        "same" => "same",
        "same order" => "order",
        text if text.starts_with("not the same") => "differs",
        _ => "none",
    };
    let width = width(text);
    format!("<td{width}><span class=\"verdict {class}\">{}</span></td>", escape(text))
}
