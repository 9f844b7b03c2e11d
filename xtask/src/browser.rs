//! `pario report` in a browser: headless Chromium opens a page, and a script in it compares what is
//! drawn with the CSV.
//!
//! The page itself has no script. A copy gets one, which looks at every element with data, and at
//! the place where the browser has drawn it: a bar must be as long as its value says. What it finds
//! is written to the console; an error there, also one of the browser's own, is a failure.
//!
//! Skipped aloud where there is no Chromium.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// Names of the browser.
const BROWSERS: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "chrome"];

/// What the script prints when all is well, with the number of marks.
const GOOD: &str = "REPORT-CHECKED";

const SCRIPT: &str = r#"
window.addEventListener('load', () => {
  const wrong = [];
  const rows = CSV_ROWS.map(row => row.join('|')).sort();
  const marks = [...document.querySelectorAll('[data-y]')];
  const key = mark => [mark.closest('[data-chart]').dataset.chart, mark.dataset.series,
    mark.dataset.label, mark.dataset.x, mark.dataset.y].join('|');
  const drawn = marks.map(key).sort();
  if (JSON.stringify(rows) !== JSON.stringify(drawn)) wrong.push('the CSV has other values');
  const scales = {};
  for (const mark of marks) {
    const box = mark.getBoundingClientRect(), chart = mark.closest('[data-chart]').dataset.chart;
    if (!(box.width > 0) && Number(mark.dataset.y) > 0 && mark.getAttribute('width') > 0.5)
      wrong.push('not drawn: ' + key(mark));
    if (mark.tagName === 'rect' && box.width > 30 && !chart.endsWith('pattern')) {
      const scale = box.width / Number(mark.dataset.y);
      const first = scales[chart] ??= scale;
      if (Math.abs(scale / first - 1) > 0.03) wrong.push('not to scale: ' + key(mark));
    }
    if (!mark.querySelector('title')?.textContent) wrong.push('nothing to hover: ' + key(mark));
  }
  if (document.documentElement.scrollWidth > window.innerWidth + 1)
    wrong.push('the page is wider than the window');
  if (window.innerWidth > 1100)
    for (const table of document.querySelectorAll('.scroll'))
      if (table.scrollWidth > table.clientWidth + 1)
        wrong.push('a table is cut off: ' + table.querySelector('th').textContent);
  for (const text of document.querySelectorAll('.chart text')) {
    const box = text.getBoundingClientRect(), all = text.closest('svg').getBoundingClientRect();
    if (box.left < all.left - 1 || box.right > all.right + 1 || box.bottom > all.bottom + 1)
      wrong.push('a text is cut off: ' + text.textContent);
  }
  for (const text of wrong.slice(0, 10)) console.error(text);
  if (!wrong.length) console.log('REPORT-CHECKED ' + marks.length + ' marks');
});
"#;

/// Checks a report of real runs; the outcome is a line for the log, or why it was skipped.
pub(crate) fn check(root: &Path, program: &Path) -> Result<Result<String, String>, String> {
    let Some(browser) = BROWSERS.into_iter().find(|name| is_there(name)) else {
        return Ok(Err("the report in a browser: there is no Chromium".to_owned()));
    };
    let directory = std::env::temp_dir().join(format!("pario-report-{}", std::process::id()));
    fs::create_dir_all(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
    let outcome = check_in(root, program, browser, &directory);
    let _ = fs::remove_dir_all(&directory);
    outcome.map(Ok)
}

/// Checks what was built last; a line for the log, also where it is skipped.
pub(crate) fn check_built(root: &Path) -> Result<String, String> {
    let checked = check(root, &crate::steps::target_path(root).join("release/pario"))?;
    Ok(checked.unwrap_or_else(|reason| format!("skipped: {reason}")))
}

fn is_there(name: &str) -> bool {
    let mut command = Command::new(name);
    command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn check_in(root: &Path, program: &Path, browser: &str, place: &Path) -> Result<String, String> {
    let (page, csv) = make(root, program, place)?;
    let script = SCRIPT.replace("CSV_ROWS", &rows(&csv)?);
    let page = page.replace("</body>", &format!("<script>{script}</script></body>"));
    let path = place.join("checked.html");
    fs::write(&path, page).map_err(|error| error.to_string())?;
    let mut seen = Vec::new();
    for size in ["1280,900", "1200,900", "400,800"] {
        let output = open(browser, &path, place, size)?;
        seen.push(console(&String::from_utf8_lossy(&output.stderr), size)?);
    }
    Ok(format!("{browser}: {}", seen.join("; ")))
}

/// A page and its CSV, from a quick benchmark, a recording, ways to serve its calls, the studies
/// and the model of paper 001.
fn make(root: &Path, program: &Path, place: &Path) -> Result<(String, String), String> {
    let run = |arguments: &[&str], variables: &[(&str, String)]| {
        let mut command = Command::new(program);
        command.args(arguments).envs(variables.iter().cloned()).current_dir(root);
        let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output();
        let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
        match output.status.success() {
            true => Ok(output.stdout),
            false => Err(format!("pario {} failed", arguments.join(" "))),
        }
    };
    let at = |name: &str| place.join(name).display().to_string();
    let recording = [("PARIO_STATS", format!("trace:{}", at("recording.jsonl")))];
    let narrow = ["bench", "--quick", "dist3d", "--strategies", "two-phase", "--json"];
    run(&narrow, &recording)?;
    let write = |name: &str, bytes: Vec<u8>| {
        fs::write(place.join(name), bytes).map_err(|error| format!("{name}: {error}"))
    };
    write("bench.jsonl", run(&["bench", "--quick", "--json"], &[])?)?;
    write("paper.json", run(&["explain", "paper", "--json"], &[])?)?;
    // A name that has no place for a line to end.
    let name = "a-rather-long-name-of-a-checkpoint-file-of-the-simulation_step_000001.nc";
    let ways = run(&["explain", &at("recording.jsonl"), "--json"], &[])?;
    let ways = String::from_utf8_lossy(&ways)
        .replace("\"workload\":\"", &format!("\"workload\":\"{name}"));
    write("ways.jsonl", ways.into_bytes())?;
    let inputs = ["bench.jsonl", "paper.json", "recording.jsonl", "ways.jsonl"].map(at);
    let mut words = vec!["report", "benchmarks/studies/expected.jsonl"];
    words.extend(inputs.iter().map(String::as_str));
    let (page, csv) = (at("report.html"), at("values.csv"));
    words.extend(["--output", &page, "--csv", &csv]);
    run(&words, &[])?;
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    Ok((read(&page)?, read(&csv)?))
}

/// The lines of the CSV as a list of lists in JavaScript: chart, series, label, x, y.
fn rows(csv: &str) -> Result<String, String> {
    let rows: Vec<Vec<String>> = csv.lines().skip(1).map(fields).collect();
    let wanted = |row: &Vec<String>| -> Option<Vec<String>> {
        [0, 1, 2, 4, 6].iter().map(|&column| row.get(column).cloned()).collect()
    };
    let rows: Option<Vec<Vec<String>>> = rows.iter().map(wanted).collect();
    let rows = rows.ok_or_else(|| "a line of the CSV has too few fields".to_owned())?;
    // A name cannot end the script that it stands in.
    let text = serde_json::to_string(&rows).map_err(|error| error.to_string())?;
    Ok(text.replace('<', "\\u003c"))
}

/// The fields of a line of CSV.
fn fields(line: &str) -> Vec<String> {
    let (mut fields, mut field, mut quoted) = (Vec::new(), String::new(), false);
    let mut characters = line.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '"' if quoted && characters.next_if_eq(&'"').is_some() => field.push('"'),
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(std::mem::take(&mut field)),
            character => field.push(character),
        }
    }
    fields.push(field);
    fields
}

fn open(browser: &str, page: &Path, place: &Path, size: &str) -> Result<Output, String> {
    let mut command = Command::new(browser);
    command.args(["--headless", "--no-sandbox", "--disable-gpu", "--no-first-run"]);
    command.args(["--disable-dev-shm-usage", "--enable-logging=stderr", "--hide-scrollbars"]);
    command.arg(format!("--window-size={size}"));
    command.arg(format!("--user-data-dir={}", place.join("profile").display()));
    let picture: PathBuf = place.join("picture.png");
    command.arg(format!("--screenshot={}", picture.display()));
    command.arg(format!("file://{}", page.display())).stdin(Stdio::null());
    command.output().map_err(|error| format!("cannot start {browser}: {error}"))
}

/// What the console of the page says: that all is well, and no error.
fn console(log: &str, size: &str) -> Result<String, String> {
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("CONSOLE")).collect();
    let good = lines.iter().find(|line| line.contains(GOOD));
    let others: Vec<&str> = lines.iter().filter(|line| !line.contains(GOOD)).copied().collect();
    match (good, others.as_slice()) {
        (Some(good), []) => {
            let text = good.split(GOOD).nth(1).unwrap_or_default();
            let marks = text.split('"').next().unwrap_or_default().trim();
            Ok(format!("{marks} at {size}"))
        }
        (_, []) => Err(format!("the page did not answer at {size}:\n{log}")),
        (_, others) => Err(format!("the console says at {size}:\n{}", others.join("\n"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_on_the_console_or_silence_is_a_failure() {
        let line =
            |text: &str| format!("[1:2:INFO:CONSOLE(9)] \"{text}\", source: file:///x (9)\n");
        let good = line("REPORT-CHECKED 12 marks");
        assert_eq!(console(&good, "4,3"), Ok("12 marks at 4,3".to_owned()));
        assert!(console("", "4,3").is_err());
        assert!(console(&(good + &line("Uncaught ReferenceError")), "4,3").is_err());
    }

    #[test]
    fn fields_may_have_separators_and_quotes() {
        assert_eq!(fields("a,\"b,\"\"c\"\"\",,d"), ["a", "b,\"c\"", "", "d"]);
        let text = rows("head\nc,s,</script>,n,1,m,2\n").unwrap();
        assert_eq!(text, r#"[["c","s","\u003c/script>","1","2"]]"#);
        assert!(rows("head\na,b\n").is_err());
    }
}
