//! What the close of a file prints, or writes down, when statistics are wanted.

use std::fmt;
use std::io::Write;
use std::sync::Arc;

use super::FileStatistics;
use super::record::{self, RankRecords};
use crate::hints::{HintOrigin, HintReport, Recording, printable};
use crate::plan::FileFacts;
use crate::request::AccessMode;

/// Columns of a line; names of files and reasons may make one longer.
const COLUMNS: usize = 100;
const INDENT: usize = 14;

/// What was done with a file, as text: who had it open, the calls, the figures, the hints.
///
/// ```
/// use pario::{File, Solo};
/// let file = File::options().write(true).create(true).open(&*Solo::new(), "memory:a")?;
/// file.write(0, &[1u8; 4])?;
/// let summary = file.summary().to_string();
/// assert!(summary.starts_with("pario: a: 1 rank on 1 node, write create\n"));
/// assert!(summary.contains("calls       1 write by direct: 4 bytes of 4 bytes"));
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Summary {
    pub(crate) name: String,
    /// When this rank opened the file: seconds since 1970.
    pub(crate) unix_seconds: u64,
    pub(crate) ranks: u32,
    pub(crate) nodes: u32,
    /// What planners know of the file.
    pub(crate) facts: FileFacts,
    pub(crate) mode: AccessMode,
    pub(crate) statistics: FileStatistics,
    /// What is wrong with the profile of the machine, as far as rank 0 has learned.
    pub(crate) profile: Vec<String>,
    /// Whether the statistics are those of all ranks.
    pub(crate) of_all_ranks: bool,
    pub(crate) hints: Arc<HintReport>,
    /// Whether to show what nobody asked for: defaults, and files without reads and writes.
    pub(crate) full: bool,
    /// Where it is written down with every call, if it is.
    pub(crate) recording: Option<(Recording, RankRecords)>,
}

impl Summary {
    /// Prints it on stderr, in one piece, so that those of several processes do not mix; or
    /// appends it to the file of the recording, if the hint `pario_statistics` names one.
    pub fn print(&self) {
        let text = match &self.recording {
            None => self.to_string(),
            Some((recording, records)) => {
                let line = record::line(self, records);
                match recording.path.as_str() {
                    "" => line,
                    path => match record::append(path, &line) {
                        Ok(()) => return,
                        Err(error) => {
                            let path = printable(path);
                            format!("pario: statistics cannot be written to {path}: {error}\n")
                        }
                    },
                }
            }
        };
        // A closed stderr cannot be reported.
        let _ = std::io::stderr().write_all(text.as_bytes());
    }

    fn title(&self) -> String {
        let plural = |count: u32| if count == 1 { "" } else { "s" };
        let Summary { ranks, nodes, mode, .. } = self;
        let (name, of_ranks, of_nodes) = (printable(&self.name), plural(*ranks), plural(*nodes));
        let shown = match self.of_all_ranks || *ranks == 1 {
            true => "",
            false => "; figures of one rank",
        };
        format!("pario: {name}: {ranks} rank{of_ranks} on {nodes} node{of_nodes}, {mode}{shown}")
    }

    /// What predictions of messages between nodes rely on, if nobody has measured it.
    fn assumption(&self) -> String {
        let assumed = self.facts.profile.assumed_network().filter(|_| self.nodes > 1);
        assumed.map_or(String::new(), |link| {
            format!(
                "; assumes a network of {:.2} GB/s, not measured: run `pario calibrate` on the \
                 nodes",
                link.bytes_per_s / 1e9
            )
        })
    }

    /// Hints in effect as `key=value`: those that somebody gave, and the defaults.
    fn effective(&self) -> (Vec<String>, Vec<String>) {
        let (mut given, mut defaults) = (Vec::new(), Vec::new());
        for hint in &self.hints.effective {
            let value = printable(&hint.value);
            match hint.origin {
                HintOrigin::Default | HintOrigin::File => {
                    defaults.push(format!("{}={value}", hint.name))
                }
                // That there are statistics, is seen.
                _ if hint.name == "pario_statistics" && !self.full => {}
                origin => given.push(format!("{}={value} ({origin})", hint.name)),
            }
        }
        (given, defaults)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.statistics.served.is_empty() && !self.full {
            return writeln!(formatter, "{}: no reads and no writes", self.title());
        }
        writeln!(formatter, "{}", self.title())?;
        for line in self.statistics.to_string().lines() {
            let is_time = line.starts_with("time ") || line.starts_with("phases ");
            let longest = self.of_all_ranks && self.ranks > 1 && is_time;
            let end = match line.starts_with("predicted ") {
                true => self.assumption(),
                false if longest => ", each of the slowest rank".to_owned(),
                false => String::new(),
            };
            writeln!(formatter, "  {line}{end}")?;
        }
        for wrong in &self.profile {
            writeln!(formatter, "  profile     {wrong}; run `pario calibrate`")?;
        }
        let (given, defaults) = self.effective();
        list(formatter, "hints", &given)?;
        if self.full {
            list(formatter, "defaults", &defaults)?;
        }
        for hint in &self.hints.ignored {
            let [name, value, reason] =
                [&hint.name, &hint.value, &hint.reason].map(|text| printable(text));
            writeln!(formatter, "  ignored     {name}={value} ({}): {reason}", hint.origin)?;
        }
        Ok(())
    }
}

/// Writes a list in lines that are not too long.
fn list(formatter: &mut fmt::Formatter<'_>, name: &str, items: &[String]) -> fmt::Result {
    let mut line = String::new();
    let mut label = name;
    for (index, item) in items.iter().enumerate() {
        let separator = if index + 1 < items.len() { "," } else { "" };
        if !line.is_empty() && INDENT + line.len() + item.len() + 2 > COLUMNS {
            writeln!(formatter, "  {label:12}{}", line.trim_end())?;
            (line, label) = (String::new(), "");
        }
        line += &format!("{item}{separator} ");
    }
    match line.is_empty() {
        true => Ok(()),
        false => writeln!(formatter, "  {label:12}{}", line.trim_end()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hints::{Environment, HintSet};
    use crate::request::Kind;

    fn summary() -> Summary {
        let given = HintSet::new().with("cb_nodes", "2").with("cb_node", "\u{1b}[2J");
        let (_, report) = given.resolve("x".as_ref(), &Environment::default());
        Summary {
            name: "out\n.dat".to_owned(),
            unix_seconds: 0,
            ranks: 4,
            nodes: 2,
            facts: FileFacts { nodes: vec![0, 0, 1, 1], ..FileFacts::of_threads(4) },
            mode: AccessMode { write: true, ..AccessMode::default() },
            statistics: FileStatistics::default(),
            profile: Vec::new(),
            of_all_ranks: true,
            hints: Arc::new(report),
            full: true,
            recording: None,
        }
    }

    #[test]
    fn a_file_that_was_only_opened_takes_one_line_and_defaults_are_shown_on_request() {
        let short = Summary { full: false, ..summary() };
        let line = "pario: out\\n.dat: 4 ranks on 2 nodes, write: no reads and no writes\n";
        assert_eq!(short.to_string(), line);
        let straight = Kind::WRITE;
        let mut used = short.clone();
        used.statistics.add_straight(straight, 8);
        let text = used.to_string();
        assert!(text.contains("\n  calls       1 write by direct"), "{text}");
        assert!(text.contains("\n  hints       cb_nodes=2 (program)\n"), "{text}");
        assert!(!text.contains("defaults") && text.contains("\n  ignored "), "{text}");
    }

    #[test]
    fn hints_are_told_with_their_origin_and_ignored_ones_with_the_reason() {
        let text = summary().to_string();
        assert!(text.contains("\n  hints       cb_nodes=2 (program)\n"), "{text}");
        assert!(text.contains("\n  defaults    cb_buffer_size=16777216, "), "{text}");
        assert!(text.contains("(program): unknown hint; did you mean cb_nodes?\n"), "{text}");
        assert!(text.lines().all(|line| line.len() <= COLUMNS), "{text}");
    }

    /// Links of 1 Gb/s are ten times slower than what is assumed without a profile.
    #[test]
    fn a_prediction_says_what_it_assumes_of_a_network_that_nobody_measured() {
        let line = |summary: &Summary| {
            let text = summary.to_string();
            text.lines().find(|line| line.starts_with("  predicted ")).unwrap().to_owned()
        };
        let mut two_nodes = summary();
        two_nodes.statistics.add_straight(Kind::WRITE, 8);
        two_nodes.statistics.total.predicted = std::time::Duration::from_millis(14);
        let assumed = "14.000 ms in all; assumes a network of 1.17 GB/s, not measured: run `pario \
                       calibrate` on the nodes";
        assert!(line(&two_nodes).ends_with(assumed), "{}", line(&two_nodes));
        let one_node = Summary { nodes: 1, ..two_nodes.clone() };
        assert!(line(&one_node).ends_with("14.000 ms in all"));
        let mut measured = two_nodes.facts.profile.as_ref().clone();
        measured.defaults.clear();
        two_nodes.facts.profile = Arc::new(measured);
        assert!(line(&two_nodes).ends_with("14.000 ms in all"));
    }

    #[test]
    fn a_file_name_sends_no_control_characters_to_a_terminal() {
        let text = summary().to_string();
        assert!(!text.contains('\u{1b}'));
        assert!(text.starts_with("pario: out\\n.dat: 4 ranks on 2 nodes, write\n"), "{text}");
        let one = Summary { of_all_ranks: false, ..summary() };
        assert!(one.to_string().contains("; figures of one rank\n"));
    }
}
