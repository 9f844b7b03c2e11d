//! What a page draws is what the CSV has; pages stand alone; traces can be read.

use std::collections::HashMap;

use super::document::Place;
use super::input::Records;
use super::*;

/// A result of `pario bench` on a vector.
fn result(strategy: &str, block: u64, seconds: f64) -> String {
    format!(
        r#"{{"workload":"block-cyclic","shape":"1024 elements of 4 bytes dealt out in blocks",
        "strategy":"{strategy}","served_by":"two-phase","level":3,"ranks":4,"nodes":1,
        "transport":"threads","block":{block},"bytes":4096,"calls":1,"direction":"write",
        "seconds":{seconds},
        "rounds":1,"ratio":1.5,"verified":true,"times_of_rank":2,"synchronisation_seconds":0.001,
        "planning_seconds":0.0005,"exchange_seconds":0.004,"storage_seconds":0.002,
        "phase_seconds":[0.001,0.001],"predicted":{},"pario":"0.1.0",
        "command":["pario","bench","block-cyclic","--bytes","4096","--blocks","{block}"],
        "workloads":{{"names":["block-cyclic"],"bytes":4096,"blocks":[{block}]}},
        "hints":{{"cb_nodes":"2"}},"machine":{{"cores":2,"processor":"<b>&\"x\""}}}}"#,
        seconds * 0.9
    )
}

/// Two ranks write together; one call has two accesses.
const RECORDING: &str = r#"{"kind":"run","pario":"0.1.0","command":["pario","run","--","./a b"]}
{"kind":"statistics","file":"out, \"1\".dat","ranks":2,"nodes":2,"node_of_rank":[0,1],
"mode":"write create","hints":[{"name":"cb_nodes","value":"2","origin":"program"}],
"ignored_hints":[{"name":"x","value":"1","origin":"program","reason":"unknown hint"}],
"calls":[{"rank":0,"call":"write_all","strategy":"two-phase","reason":"r","windows":"w","rounds":2,
"aggregators":2,"moved_bytes":100,"storage_writes":2,"begin_seconds":0.001,"seconds":0.01,
"synchronisation_seconds":0.002,"planning_seconds":0.001,"exchange_seconds":0.003,
"storage_seconds":0.004,"phase_seconds":[]},
{"rank":1,"call":"write_all","strategy":"two-phase","begin_seconds":0.002,"seconds":0.009,
"synchronisation_seconds":0.001,"planning_seconds":0.001,"exchange_seconds":0.007}],
"events":[{"rank":0,"what":"write","begin_seconds":0.005,"seconds":0.002,"offset":0,"bytes":50},
{"rank":0,"what":"write","begin_seconds":0.008,"seconds":0.002,"offset":50,"bytes":50}],
"calls_missed":3,"events_missed":0}"#;

const STUDY: &str = r#"{"kind":"study","id":"000-fig4","paper":"000","question":"Do pieces halve?",
"mode":"count","rows":[{"name":"writes(1)/writes(0)","paper":0.5,"ours":0.5,"unit":"",
"tolerance":"0.45 to 0.55","verdict":"the same"},{"name":"n","verdict":"not the same: x"}],
"series":[{"name":"ours","x_label":"phases","y_label":"pieces","points":[[0,16],[1,8]]},
{"name":"paper","x_label":"phases","y_label":"pieces","points":[[0,16],[1,8.5]]}]}"#;

const PAPER: &str = r#"{"profile":"paper-001","tables":[{"table":"V","nodes":4,"ranks":16,
"device":"HDD","technique":"collective","measured_s":400.5,"estimated_s":411.78,"ours_s":420.54,
"difference":0.0213,"winner":"collective","measured_winner":"collective"}],
"figure_11":[{"device":"HDD","message_mb":2.0,"shuffle_s":0.056,"benefit_s":0.162,"pays":true}]}"#;

const EXPLAINED: &str = r#"{"kind":"explain","workload":"dist3d","shape":"64^3","direction":"read",
"ranks":4,"nodes":1,"ways":[{"strategy":"two-phase","chosen":true,"predicted_ms":5.5,
"planning_ms":0.5,"synchronisation_ms":1,"exchange_ms":2,"storage_ms":2,"rounds":2},
{"strategy":"list","predicted_ms":9,"storage_ms":9}],"moves":[
{"round":0,"aggregator":0,"offset":0,"bytes":60},{"round":0,"aggregator":2,"offset":100,"bytes":60},
{"round":1,"aggregator":0,"offset":60,"bytes":40}]}"#;

/// What is read of a text.
fn read_text(text: &str) -> (Records, Files) {
    let (mut records, mut files) = (Records::default(), Files::new());
    let mut reader = |recording| {
        files.add(recording);
        Ok(())
    };
    let bar = indicatif::ProgressBar::hidden();
    records.add("x", text.as_bytes(), (&bar, &mut reader)).unwrap();
    (records, files)
}

/// What a page says before its sections, at a fixed time.
fn header(title: &str) -> Header {
    let sources = vec!["x".to_owned()];
    Header { title: title.to_owned(), sources, unix_seconds: 1_000_000_000 }
}

fn document_of(text: &str) -> Document {
    let (records, files) = read_text(text);
    document(&records, files)
}

fn all() -> String {
    let mut text = format!("{STUDY}\n{PAPER}\n{EXPLAINED}\n{RECORDING}\n");
    for strategy in ["block", "auto", "multi-phase 1"] {
        for (block, seconds) in [(4, 0.01), (64, 0.007), (256, 0.003)] {
            text += &result(strategy, block, seconds);
        }
    }
    text
}

/// The attributes of an element, as a browser reads them.
fn attributes(tag: &str) -> HashMap<String, String> {
    let unescaped = |text: &str| {
        let pairs =
            [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&#39;", "'"), ("&amp;", "&")];
        pairs.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
    };
    let mut found = HashMap::new();
    let mut rest = tag;
    while let Some((name, after)) = rest.split_once("=\"") {
        let (value, after) = after.split_once('"').unwrap();
        let name = name.rsplit(' ').next().unwrap();
        found.insert(name.to_owned(), unescaped(value));
        rest = after;
    }
    found
}

/// All elements of a page with data, each with the name of its chart.
fn marks(page: &str) -> Vec<(String, HashMap<String, String>)> {
    let mut chart = String::new();
    let mut marks = Vec::new();
    for tag in page.split('<').skip(1) {
        let tag = attributes(tag.split('>').next().unwrap());
        if let Some(name) = tag.get("data-chart") {
            chart.clone_from(name);
        }
        if tag.contains_key("data-y") {
            marks.push((chart.clone(), tag));
        }
    }
    marks
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut quoted) = (vec![String::new()], false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.peek() == Some(&'"') => {
                characters.next();
                fields.last_mut().unwrap().push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            character => fields.last_mut().unwrap().push(character),
        }
    }
    fields
}

#[test]
fn every_value_of_the_csv_is_drawn_once_and_nothing_else_is() {
    let document = document_of(&all());
    let page = page::html(&header("t"), &document);
    let key = |chart: &str, mark: &HashMap<String, String>| {
        ["data-series", "data-label", "data-x", "data-y"]
            .iter()
            .fold(chart.to_owned(), |key, name| format!("{key}|{}", mark[*name]))
    };
    let mut drawn: Vec<String> =
        marks(&page).iter().map(|(chart, mark)| key(chart, mark)).collect();
    let csv = csv::text(&document);
    let mut written: Vec<String> = csv
        .lines()
        .skip(1)
        .map(|line| {
            let line = fields(line);
            assert_eq!(line.len(), 7, "{line:?}");
            [&line[0], &line[1], &line[2], &line[4], &line[6]].map(String::as_str).join("|")
        })
        .collect();
    assert!(drawn.len() > 60, "{}", drawn.len());
    drawn.sort();
    written.sort();
    assert_eq!(drawn, written);
}

/// A value that is twice as large is drawn twice as long.
#[test]
fn bars_and_spans_are_as_long_as_their_values() {
    let page = page::html(&header("t"), &document_of(&all()));
    let number =
        |mark: &HashMap<String, String>, name: &str| -> f64 { mark[name].parse().unwrap() };
    let mut scales: HashMap<String, Vec<f64>> = HashMap::new();
    for (chart, mark) in marks(&page) {
        // What is very short is drawn a little longer, to be seen; places have two digits.
        if mark.contains_key("width") && number(&mark, "width") > 20.0 {
            let scale = number(&mark, "width") / number(&mark, "data-y");
            scales.entry(chart).or_default().push(scale);
        }
    }
    assert!(scales.len() >= 6, "{:?}", scales.keys());
    for (chart, scales) in scales.iter().filter(|(chart, _)| !chart.ends_with("pattern")) {
        let first = scales[0];
        assert!(
            scales.iter().all(|scale| (scale / first - 1.0).abs() < 0.01),
            "{chart} {scales:?}"
        );
    }
}

/// The order of bars and that of the table, and the lengths of bars and the times there.
#[test]
fn a_chart_of_times_shows_the_times_of_its_table() {
    let path = "/../../benchmarks/record/epyc-2-cores/2026-11-16.jsonl";
    let path = format!("{}{path}", env!("CARGO_MANIFEST_DIR"));
    let (records, files) = read_text(&std::fs::read_to_string(path).unwrap());
    let document = document(&records, files);
    let mut pairs = 0;
    for chart in document.charts().filter(|chart| chart.id.contains("-ranks-time-")) {
        let measured = |record: &&records::Bench| {
            let block = record.block.unwrap();
            let id = format!("{} {} ranks time", record.workload, record.ranks);
            let id = format!("{id} {} {block}", record.direction);
            document::slug(&id) == chart.id
        };
        let measured: Vec<f64> =
            records.bench.iter().filter(measured).map(|record| record.seconds.unwrap()).collect();
        let mut drawn: Vec<(&str, f64)> = Vec::new();
        for point in &chart.points {
            match drawn.iter_mut().find(|(label, _)| *label == point.label) {
                Some((_, sum)) => *sum += point.y,
                None => drawn.push((&point.label, point.y)),
            }
        }
        assert_eq!(drawn.len(), measured.len(), "{}", chart.id);
        for (index, (seconds, (label, ms))) in measured.iter().zip(&drawn).enumerate() {
            assert!((ms / (seconds * 1e3) - 1.0).abs() < 1e-9, "{} {label}: {ms} ms", chart.id);
            for (other, (_, other_ms)) in measured.iter().zip(&drawn).skip(index + 1) {
                assert_eq!(seconds < other, ms < other_ms, "{} {label}", chart.id);
                pairs += 1;
            }
        }
    }
    assert!(pairs > 300, "{pairs} pairs");
}

/// However many files are recorded, a page has some sections, some marks and the sums of all.
#[test]
fn a_recording_of_any_length_is_a_page_of_bounded_length() {
    let calls = |file: u32| -> String {
        let call = |index: u32| {
            format!(
                r#"{{"rank":{},"call":"write","strategy":"list","moved_bytes":1024,
                "begin_seconds":{index},"seconds":{}}}"#,
                index % 4,
                f64::from(file % 7 + 1) * 0.001
            )
        };
        (0..400).map(call).collect::<Vec<String>>().join(",")
    };
    let recording = |file: u32| {
        let name = file % 90;
        let calls = calls(file);
        format!(r#"{{"kind":"statistics","file":"f{name}","ranks":4,"calls":[{calls}]}}"#)
    };
    let of =
        |count: u32| document_of(&(0..count).map(recording).collect::<Vec<String>>().join("\n"));
    let (few, many) = (of(100), of(400));
    let marks =
        |document: &Document| -> usize { document.charts().map(|chart| chart.points.len()).sum() };
    assert_eq!((few.sections.len(), many.sections.len()), (25, 25));
    assert!(marks(&many) <= marks(&few) && marks(&many) < 16_000, "{}", marks(&many));
    let overview = &many.sections[0];
    let last = overview.tables[0].rows.last().unwrap();
    let texts: Vec<&str> = last
        .iter()
        .map(|cell| match cell {
            document::Cell::Number(text) | document::Cell::Text(text) => text.as_str(),
            _ => panic!("another cell"),
        })
        .collect();
    assert_eq!(texts[..3], ["all", "400", "160000"]);
    assert!(overview.notes[0].contains("376 others"), "{}", overview.notes[0]);
    let titles: std::collections::HashSet<&str> =
        many.sections.iter().map(|section| section.title.as_str()).collect();
    assert_eq!(titles.len(), many.sections.len(), "titles differ");
    let timeline = many.charts().find(|chart| chart.id.contains("timeline")).unwrap();
    assert!(timeline.caption.contains("1 in 4 is drawn"), "{}", timeline.caption);
}

/// Two results of one name, as of two runs in one file, are not added up.
#[test]
fn results_of_one_name_have_a_bar_each() {
    let document = document_of(&[result("auto", 4, 0.25), result("auto", 4, 0.5)].join("\n"));
    let chart = document.charts().find(|chart| chart.id.contains("bandwidth")).unwrap();
    let labels: Vec<&str> = chart.points.iter().map(|point| point.label.as_str()).collect();
    assert_eq!(labels, ["auto: two-phase", "auto: two-phase (2)"]);
}

#[test]
fn a_page_needs_nothing_else_and_says_all() {
    let page = page::html(&header("A <title>"), &document_of(&all()));
    for outside in ["<script", "url(", "@import", "src=", "stylesheet"] {
        assert!(!page.contains(outside), "{outside}");
    }
    let links = page.matches("http").count();
    assert_eq!(links, page.matches("xmlns=\"http://www.w3.org/2000/svg\"").count());
    let expected = [
        "A &lt;title&gt;",
        "&lt;b&gt;&amp;&quot;x&quot;",
        "pario run -- &#39;./a b&#39;",
        "pario bench block-cyclic --bytes 4096 --blocks 4",
        "hint cb_nodes",
        "ignored: unknown hint",
        "verdict same\">the same<",
        "verdict differs\">not the same: x<",
        "3 more calls were not recorded",
        "predicted against measured",
        "who has which part of the file",
        "prefers-color-scheme:dark",
        "@media print",
    ];
    for text in expected {
        assert!(page.contains(text), "{text}");
    }
}

/// The texts of the cells of a row.
fn texts(row: &[document::Cell]) -> Vec<String> {
    let text = |cell: &document::Cell| match cell {
        document::Cell::Text(text)
        | document::Cell::Number(text)
        | document::Cell::Verdict(text)
        | document::Cell::Link(text, _) => text.clone(),
        document::Cell::Bytes(bytes) => document::exact(*bytes).0,
    };
    row.iter().map(text).collect()
}

/// A page of studies had neither totals nor titles, and a pill for each study.
#[test]
fn studies_are_grouped_by_paper_with_titles_and_totals() {
    let other = STUDY.replace("000-fig4", "003-level1").replace(r#""000""#, r#""003""#);
    let document = document_of(&format!("{STUDY}\n{other}\n{STUDY}"));
    let places: Vec<Place> = document.sections.iter().map(|section| section.place).collect();
    let (alone, head, member) = (Place::Alone, Place::Head, Place::Member);
    assert_eq!(places, [alone, head, member, member, head, member]);
    let overview = &document.sections[0];
    let rows: Vec<Vec<String>> = overview.tables[0].rows.iter().map(|row| texts(row)).collect();
    assert!(rows[0][0].contains("Multiple-Phase Collective I/O Technique"), "{rows:?}");
    // Kinds of verdicts that there are not have no column.
    assert_eq!(overview.tables[0].columns, ["paper", "studies", "same", "not the same"]);
    assert_eq!(rows[0][1..], ["2", "2", "2"]);
    assert!(rows[1][0].contains("Optimizing Noncontiguous Accesses in MPI-IO"), "{rows:?}");
    assert_eq!(rows[2], ["all", "3", "3", "3"]);
    assert!(overview.summary.contains("6 relations: 3 the same, 3 not the same"));
    let page = page::html(&header("t"), &document);
    let nav = page.split("<nav>").nth(1).unwrap().split("</nav>").next().unwrap();
    assert_eq!(nav.matches("<a ").count(), 3, "{nav}");
    for link in page.split("href=\"#").skip(1) {
        let anchor = link.split('"').next().unwrap();
        assert_eq!(page.matches(&format!("id=\"{anchor}\"")).count(), 1, "{anchor}");
    }
    assert_eq!(document_of(STUDY).sections.len(), 1, "one study needs no overview");
}

/// Nobody could say when a page was made, or what it shows was measured.
#[test]
fn a_page_has_its_date_and_those_of_the_runs() {
    let bench = result("auto", 4, 0.25).replace(r#""ranks":4"#, r#""ranks":4,"unix_seconds":0"#);
    let run = RECORDING.replacen(r#""kind":"run""#, r#""kind":"run","unix_seconds":86400"#, 1);
    let study = STUDY.replacen(r#""paper":"000""#, r#""paper":"000","unix_seconds":172800"#, 1);
    let page = page::html(&header("t"), &document_of(&format!("{study}\n{bench}\n{run}")));
    for text in [
        "Page made 2001-09-09 01:46 UTC",
        "measured 1970-01-01 00:00 UTC",
        "recorded 1970-01-02 00:00 UTC",
        "Measured 1970-01-03 00:00 UTC",
    ] {
        assert!(page.contains(text), "{text}");
    }
}

/// Cells had `10485760`; now they have `10 MiB`, and the number behind it.
#[test]
fn bytes_are_shown_with_a_unit_and_exactly_behind_it() {
    let large = |text: String| {
        text.replace(
            "\"rounds\":1,",
            "\"rounds\":1,\"shared_bytes\":10485760,\"sent_bytes\":123456789,",
        )
    };
    let hint = r#"{"name":"cb_buffer_size","value":"16777216","origin":"program"}"#;
    let run =
        RECORDING.replacen(r#"{"name":"cb_nodes""#, &format!(r#"{hint},{{"name":"cb_nodes""#), 1);
    let run = run.replacen(r#""moved_bytes":100"#, r#""moved_bytes":33554432"#, 1);
    let study = STUDY.replace(
        r#""paper":0.5,"ours":0.5,"unit":"""#,
        r#""paper":163840,"ours":167936,"unit":"bytes""#,
    );
    let study = study.replace(r#"{"name":"n","#, r#"{"name":"n","paper":1,"ours":1,"#);
    let text = format!("{}{run}\n{study}", large(result("auto", 65536, 0.25)));
    let page = page::html(&header("t"), &document_of(&text));
    for expected in [
        "title=\"10\u{a0}485\u{a0}760 bytes\">10\u{a0}MiB<",
        "title=\"65\u{a0}536 bytes\">64\u{a0}KiB<",
        ">117.7\u{a0}MiB<",
        ">16\u{a0}MiB<",
        ">32\u{a0}MiB<",
        ">160\u{a0}KiB<",
    ] {
        assert!(page.contains(expected), "{expected}");
    }
    for bare in [">10485760<", ">65536<", ">123456789<", ">16777216<", ">33554432<", ">163840<"] {
        assert!(!page.contains(bare), "{bare}");
    }
}

/// Two runs of one workload, and two files of one name, had the same pill.
#[test]
fn links_and_sources_can_be_told_apart() {
    let hinted = result("auto", 4, 0.25).replace("\"cb_nodes\":\"2\"", "\"cb_nodes\":\"4\"");
    let run = RECORDING.split_once('\n').unwrap().1;
    let files = ["a/x.dat", "b/x.dat"].map(|name| run.replacen(r#"out, \"1\".dat"#, name, 1));
    let text = [result("auto", 4, 0.5), hinted, files[0].clone(), files[1].clone()].join("\n");
    let document = document_of(&format!("{text}\n{EXPLAINED}\n{EXPLAINED}"));
    let mut links: Vec<&str> = document.sections.iter().map(|one| one.link.as_str()).collect();
    assert!(links.contains(&"block-cyclic, 4 ranks (cb_nodes=4)"), "{links:?}");
    assert!(links.contains(&"File a/x.dat") && links.contains(&"File b/x.dat"), "{links:?}");
    let count = links.len();
    links.sort_unstable();
    links.dedup();
    assert_eq!(links.len(), count, "{links:?}");
    let names = |paths: &[&str]| sources(&paths.iter().map(PathBuf::from).collect::<Vec<_>>());
    assert_eq!(names(&["/r/a/run.jsonl", "/r/b/run.jsonl"]), ["a/run.jsonl", "b/run.jsonl"]);
    assert_eq!(names(&["/r/a/run.jsonl", "-"]), ["run.jsonl", "standard input"]);
}

/// A file has about 18 hints that nobody gave.
#[test]
fn hints_that_nobody_gave_are_folded() {
    let default = r#"{"name":"romio_ds_read","value":"automatic","origin":"default"},"#;
    let text = RECORDING.replacen(r#""hints":["#, &format!(r#""hints":[{default}"#), 1);
    let page = page::html(&header("t"), &document_of(&text));
    let (before, folded) = page.split_once("<details>").unwrap();
    assert!(before.contains("<td>cb_nodes</td>") && !before.contains("romio_ds_read"));
    let folded = folded.split("</details>").next().unwrap();
    assert!(folded.contains("1 hint that nobody gave") && folded.contains("romio_ds_read"));
}

/// Results in any order have one order in the legends, the bars and the table; `auto` stands out.
#[test]
fn legends_bars_and_tables_have_one_order_and_auto_is_strong() {
    let mut text = String::new();
    for (block, strategies) in
        [(4, ["auto", "sieve"]), (64, ["list", "auto"]), (256, ["block", "auto"])]
    {
        // Results of one run have one command.
        let last = format!("\"{block}\"]");
        let one = |strategy: &&str| result(strategy, block, 0.01).replace(&last, "\"4\"]");
        strategies.iter().for_each(|strategy| text += &one(strategy));
    }
    let document = document_of(&text);
    let lines = document.charts().find(|chart| chart.id.contains("bandwidth")).unwrap();
    assert_eq!(lines.series(), ["Block I/O", "list", "sieve", "auto"]);
    let table = document.sections.iter().find_map(|section| section.tables.first()).unwrap();
    let names: Vec<String> = table.rows.iter().map(|row| texts(row)[1].clone()).collect();
    let expected = ["sieve", "auto", "list", "auto", "Block I/O", "auto"];
    assert!(names.iter().zip(expected).all(|(name, own)| name.starts_with(own)), "{names:?}");
    assert_eq!(table.strong, [1, 3, 5]);
    let svg = lines.svg();
    assert!(svg.contains("class=\"strong\"") && svg.contains("stroke-width:3.6"), "{svg}");
}

/// All contenders that make a call for each piece had one name.
#[test]
fn contenders_at_level_0_have_names_of_their_own() {
    let at_level_0 = |strategy| {
        let served_by = format!("\"served_by\":\"{strategy}\",\"level\":0");
        result(strategy, 4, 0.01).replace("\"served_by\":\"two-phase\",\"level\":3", &served_by)
    };
    let text = ["posix", "auto", "mpi"].map(at_level_0).concat();
    let document = document_of(&text);
    let table = document.sections.iter().find_map(|section| section.tables.first()).unwrap();
    let mut names: Vec<String> = table.rows.iter().map(|row| texts(row)[1].clone()).collect();
    names.sort();
    assert_eq!(names, ["level 0", "level 0 mpi", "posix"]);
}

/// Texts of charts ended beyond their border.
#[test]
fn no_text_of_a_chart_is_cut_off() {
    let way = r#"{"strategy":"inspector-executor of the paper","chosen":true,"predicted_ms":5}"#;
    let ways = EXPLAINED.replacen(r#""ways":["#, &format!(r#""ways":[{way},"#), 1);
    // The last tick of a long axis is near the border.
    let ways = ways.replace(r#""offset":60,"bytes":40"#, r#""offset":60,"bytes":999999940"#);
    let wide = result("auto", 65536, 0.1).replace("4096", "104857600");
    let document = document_of(&format!("{}\n{ways}\n{wide}", all()));
    for chart in document.charts() {
        for element in chart.svg().split("<text ").skip(1) {
            let (tag, text) = element.split_once('>').unwrap();
            let (tag, text) = (attributes(tag), text.split('<').next().unwrap());
            let Some(x) = tag.get("x").and_then(|x| x.parse::<f64>().ok()) else { continue };
            let width = text.replace("&#39;", "'").chars().count() as f64
                * if tag["class"] == "strong" { 7.5 } else { 6.6 };
            let start = match tag["text-anchor"].as_str() {
                "middle" => x - width / 2.0,
                "end" => x - width,
                _ => x,
            };
            assert!(start >= -0.5 && start + width <= 600.5, "{}: {text} at {start}", chart.id);
        }
    }
}

/// Block b of a vector belongs to rank b mod P.
#[test]
fn the_pattern_is_that_of_the_workload() {
    let document = document_of(&all());
    let pattern = document.charts().find(|chart| chart.kind == chart::Kind::Tiles).unwrap();
    assert_eq!(pattern.points.len(), 256);
    for (block, point) in (0_u32..).zip(&pattern.points) {
        assert_eq!(point.series, format!("rank {}", block % 4));
        assert_eq!((point.x, point.y), (Some(f64::from(block) * 4.0), 4.0));
    }
}

/// Of a plan that is written down, and of one that is made again from the workload.
#[test]
fn rounds_show_the_windows_of_each_aggregator() {
    let document = document_of(&all());
    let of = |id: &str| document.charts().find(|chart| chart.id == id).unwrap().points.clone();
    let drawn = |id: &str| -> Vec<(String, String, f64, f64)> {
        let point = |point: chart::Point| (point.label, point.series, point.x.unwrap(), point.y);
        of(id).into_iter().map(point).collect()
    };
    let window = |round: &str, rank: &str, offset, bytes| {
        (format!("round {round}"), format!("rank {rank}"), offset, bytes)
    };
    assert_eq!(
        drawn("explain-dist3d-read-two-phase-rounds"),
        [window("1", "0", 0.0, 60.0), window("1", "2", 100.0, 60.0), window("2", "0", 60.0, 40.0)]
    );
    let planned = drawn("block-cyclic-4-ranks-two-phase-write-rounds");
    assert_eq!(planned.iter().map(|(.., bytes)| bytes).sum::<f64>(), 4096.0);
    assert!(planned.iter().all(|(round, ..)| round == "round 1"), "{planned:?}");
    // Another number of rounds is another plan, which is not known.
    let (mut records, files) = read_text(&all());
    records.bench.iter_mut().for_each(|record| record.rounds = Some(7));
    let document = super::document(&records, files);
    assert!(!document.charts().any(|chart| chart.id.starts_with("block-cyclic-4-ranks-two-phase")));
}

/// Windows that any rank may serve were said to be those of aggregators.
#[test]
fn rounds_say_who_serves_a_window() {
    let shown = |text: &str| {
        let document = document_of(text);
        let chart = document.charts().find(|chart| chart.id.ends_with("rounds")).unwrap();
        (chart.title.clone(), chart.caption.clone())
    };
    let (title, caption) = shown(EXPLAINED);
    assert_eq!(title, "dist3d: two-phase read: what each round moves");
    assert!(caption.starts_with("All 2 rounds, each window in the colour of its aggregator;"));
    let windows = r#""windows":"in shared memory, self-scheduled","rounds":2"#;
    let (_, caption) = shown(&EXPLAINED.replace("\"rounds\":2", windows));
    assert!(caption.contains("any rank serves it") && !caption.contains("aggregator"), "{caption}");
}

/// The chart of a recording showed the times of ranks, and no table had their sum.
#[test]
fn the_calls_of_a_recording_take_as_long_as_its_bars() {
    let document = document_of(RECORDING);
    let bars = document.charts().find(|chart| chart.title.starts_with("Time of each rank"));
    let drawn: f64 = bars.unwrap().points.iter().map(|point| point.y).sum();
    let mut tables = document.sections.iter().flat_map(|section| &section.tables);
    let calls = tables.find(|table| table.title == "Calls").unwrap();
    let column = calls.columns.iter().position(|name| *name == "ms of all ranks").unwrap();
    let told: f64 = calls.rows.iter().map(|row| texts(row)[column].parse::<f64>().unwrap()).sum();
    assert!((drawn - told).abs() < 1e-6 * drawn, "{drawn} {told}");
}

/// Bars had phases, and the timeline beside them called all of that shuffle.
#[test]
fn a_timeline_has_the_parts_of_the_bars_beside_it() {
    let text = RECORDING.replace("\"phase_seconds\":[]", "\"phase_seconds\":[0.001,0.001]");
    let document = document_of(&text);
    let phases_ms = |title: &str| -> f64 {
        let chart = document.charts().find(|chart| chart.title.starts_with(title)).unwrap();
        let phases = chart.points.iter().filter(|point| point.series == "phases");
        phases.map(|point| point.y).sum()
    };
    assert!((phases_ms("Time of each rank") - 2.0).abs() < 1e-9);
    assert!((phases_ms("Timeline") - 2.0).abs() < 1e-9);
}

/// Two accesses had their own times as ticks of an axis, such as 0.763 and 1.332.
#[test]
fn an_axis_of_time_has_round_ticks() {
    let text = RECORDING.replace("\"begin_seconds\":0.008", "\"begin_seconds\":0.0081234");
    let document = document_of(&text);
    let svg = document.charts().find(|chart| chart.title.starts_with("Storage")).unwrap().svg();
    assert!(svg.contains(">2</text>") && !svg.contains(">8.123</text>"), "{svg}");
}

/// Commands stood between backticks.
#[test]
fn commands_look_like_commands() {
    let text = EXPLAINED.replace("64^3", "`pario <x>` and a ` alone");
    let page = page::html(&header("t"), &document_of(&text));
    assert!(page.contains("<code>pario &lt;x&gt;</code> and a ` alone"), "{page}");
}

/// A window of a large file was thinner than a line, and had no colour.
#[test]
fn windows_of_large_files_can_be_seen() {
    let large = EXPLAINED.replace("\"offset\":60,\"bytes\":40", "\"offset\":99999999,\"bytes\":40");
    let document = document_of(&large);
    let svg = document.charts().find(|chart| chart.id.ends_with("rounds")).unwrap().svg();
    let marks = svg.split("<rect ").filter(|tag| tag.contains("data-y"));
    let widths: Vec<f64> = marks.map(|tag| attributes(tag)["width"].parse().unwrap()).collect();
    assert!(widths.len() == 3 && widths.iter().all(|width| *width >= 2.0), "{widths:?}");
}

/// Ranks that work for themselves had one round here and none in other tables.
#[test]
fn only_windows_have_rounds() {
    let ways = EXPLAINED.replace("\"rounds\":2", "\"rounds\":2,\"aggregators\":3");
    let ways = ways.replace("\"storage_ms\":9", "\"storage_ms\":9,\"rounds\":1");
    let document = document_of(&ways);
    let table = &document.sections[0].tables[0];
    let column = table.columns.iter().position(|name| *name == "rounds").unwrap();
    let rounds: Vec<String> = table.rows.iter().map(|row| texts(row)[column].clone()).collect();
    assert_eq!(rounds, ["2", ""]);
}

/// Room for the widest label is room for each, whatever it is rounded to.
#[test]
fn labels_that_fit_are_whole() {
    let document = document_of(&all());
    let chart = document.charts().find(|chart| chart.kind == chart::Kind::Spans).unwrap();
    for kind in [chart::Kind::Spans, chart::Kind::Bars] {
        for len in 1..20 {
            let label = "x".repeat(len);
            let mut chart = chart::Chart { kind, ..chart.clone() };
            chart.points.truncate(1);
            chart.points[0].label = label.clone();
            assert!(chart.svg().contains(&format!(">{label}<")), "{len} characters");
        }
    }
}

#[test]
fn records_of_earlier_versions_have_a_pattern_where_it_is_certain() {
    let old = |workload: &str, bytes: u64, block: u64| {
        let text = format!(
            r#"{{"workload":"{workload}","strategy":"auto","served_by":"auto","ranks":16,
            "block":{block},"bytes":{bytes},"direction":"read","seconds":0.5}}"#
        );
        let (records, _) = read_text(&text);
        pattern::chart("x", &records.bench[0]).is_some()
    };
    assert!(old("block-cyclic", 104_857_600, 512) && old("dist3d", 67_108_864, 512));
    assert!(!old("dist3d", 67_108_864, 4) && !old("gone", 67_108_864, 4));
}

#[test]
fn a_trace_has_a_process_for_each_node_and_a_thread_for_each_rank() {
    let place = std::env::temp_dir().join(format!("pario-trace-{}.json", std::process::id()));
    let mut trace = Trace::create(&place).unwrap();
    let mut reader = |recording: Recording| trace.add(&recording);
    let bar = indicatif::ProgressBar::hidden();
    Records::default().add("x", RECORDING.as_bytes(), (&bar, &mut reader)).unwrap();
    trace.finish().unwrap();
    let text = std::fs::read_to_string(&place).unwrap();
    std::fs::remove_file(&place).unwrap();
    let trace: serde_json::Value = serde_json::from_str(&text).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let named = |name: &'static str| events.iter().filter(move |event| event["name"] == name);
    assert_eq!(named("process_name").count(), 2);
    let threads: Vec<_> = named("thread_name").map(|event| &event["args"]["name"]).collect();
    assert_eq!(threads, ["rank 0", "rank 1"]);
    let calls: Vec<_> = named("write_all").collect();
    assert_eq!(calls.len(), 2);
    assert_eq!((&calls[0]["pid"], &calls[1]["pid"]), (&0.into(), &1.into()));
    assert_eq!((calls[0]["ts"].as_f64(), calls[0]["dur"].as_f64()), (Some(1e3), Some(1e4)));
    let writes: Vec<_> = named("write").map(|event| &event["args"]["offset"]).collect();
    assert_eq!(writes, [0, 50]);
}

#[test]
fn charts_are_also_files_without_variables() {
    let document = document_of(&all());
    let mut names: Vec<&str> = document.charts().map(|chart| chart.id.as_str()).collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count, "names are unique");
    for chart in document.charts() {
        let text = chart.standalone();
        assert!(!text.contains("var(") && text.contains("<title>"), "{}", chart.id);
        assert_eq!(text.matches("<g ").count(), text.matches("</g>").count());
        let options = resvg::usvg::Options::default();
        resvg::usvg::Tree::from_str(&text, &options).unwrap();
    }
}
