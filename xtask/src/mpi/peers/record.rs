//! Records: one line of JSON for each thing measured, kept under `benchmarks/record`.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// Whose I/O it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Side {
    /// The MPI library's own MPI-IO.
    Own,
    Pario,
    /// Another build of pario, measured in turn with it.
    Baseline,
    /// POSIX calls in the same runs: the same bytes, one contiguous part for each rank.
    BlockIo,
}

/// What was measured: times of a call, medians over all runs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Line {
    pub(super) workload: String,
    pub(super) shape: String,
    pub(super) level: u32,
    pub(super) block: Option<u64>,
    pub(super) ranks: u32,
    pub(super) mpi: String,
    pub(super) side: Side,
    pub(super) direction: String,
    /// From the first rank that begins to the last that is done; nothing if it was not measured.
    pub(super) seconds: Option<f64>,
    /// The same of the first call after the file was opened.
    pub(super) first_seconds: Option<f64>,
    /// Of the rank that took longest; less, on an oversubscribed node.
    pub(super) longest_rank_seconds: Option<f64>,
    /// Of the processors, all ranks together.
    pub(super) cpu_seconds: Option<f64>,
    /// What the rank that needed most needed besides its buffer.
    pub(super) peak_bytes: Option<u64>,
    /// Moved by one call of all ranks.
    pub(super) bytes: u64,
    /// Calls that the median is of.
    pub(super) calls: usize,
    /// Whether every byte was compared, and right.
    pub(super) verified: bool,
    /// The kind of file system.
    pub(super) directory: String,
    /// It takes longer than this number of seconds, and was not run or not to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) longer_than_seconds: Option<f64>,
}

impl Line {
    /// Whether both are of the same thing, measured at other times.
    fn is_of_the_same(&self, other: &Line) -> bool {
        let key = |line: &Line| {
            let texts = [&line.workload, &line.shape, &line.mpi, &line.direction, &line.directory];
            (texts.map(String::clone), line.level, line.ranks)
        };
        self.side == other.side && key(self) == key(other)
    }
}

/// The file of today for this machine.
pub(super) fn path(root: &Path) -> PathBuf {
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let directory = root.join("benchmarks/record").join(machine(&cpu, cores));
    directory.join(format!("{}-peers.jsonl", date(seconds / 86_400)))
}

/// Adds lines to a file, so that a long measurement may be made in parts.
pub(super) fn append(path: &Path, lines: &[Line]) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("cannot write {}: {error}", path.display());
    fs::create_dir_all(path.parent().unwrap_or(path)).map_err(failed)?;
    let mut file = OpenOptions::new().append(true).create(true).open(path).map_err(failed)?;
    let mut text = String::new();
    for line in lines {
        let json = serde_json::to_string(line);
        text += &json.map_err(|error| format!("cannot write a line: {error}"))?;
        text.push('\n');
    }
    file.write_all(text.as_bytes()).map_err(failed)
}

/// The lines of a file; of those of the same thing the last.
pub(super) fn read(path: &Path) -> Result<Vec<Line>, String> {
    let shown = path.display();
    let text = fs::read_to_string(path).map_err(|error| format!("cannot read {shown}: {error}"))?;
    let mut lines: Vec<Line> = Vec::new();
    for (index, json) in text.lines().enumerate() {
        let line = serde_json::from_str(json);
        let line: Line = line.map_err(|error| format!("{shown}, line {}: {error}", index + 1))?;
        match lines.iter_mut().find(|other| other.is_of_the_same(&line)) {
            Some(other) => *other = line,
            None => lines.push(line),
        }
    }
    Ok(lines)
}

/// A name for the machine that shows no more than its processor.
fn machine(cpu: &str, cores: usize) -> String {
    const COMMON: [&str; 8] = ["amd", "intel", "core", "cpu", "processor", "genuine", "r", "tm"];
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.unwrap_or_default().to_lowercase();
    let words = model.split(|character: char| !character.is_alphanumeric());
    let name = words.filter(|word| !word.is_empty()).find(|word| !COMMON.contains(word));
    format!("{}-{cores}-cores", name.unwrap_or("unknown"))
}

/// The date of a day, counted from 1970-01-01.
fn date(day: u64) -> String {
    let is_leap = |year: u64| {
        (year.is_multiple_of(4) && !year.is_multiple_of(100)) || year.is_multiple_of(400)
    };
    let (mut year, mut day) = (1970, day);
    while day >= 365 + u64::from(is_leap(year)) {
        day -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if day < len {
            break;
        }
        day -= len;
        month += 1;
    }
    format!("{year:04}-{month:02}-{:02}", day + 1)
}

/// The kind of file system that a directory is on, from the table of mounts.
pub(super) fn file_system(mounts: &str, directory: &Path) -> String {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split_whitespace().skip(1);
        Some((words.next()?, words.next()?))
    });
    let above = mounts.filter(|(place, _)| directory.starts_with(place));
    // A later mount hides an earlier one at the same place.
    let kind = above.max_by_key(|(place, _)| place.len());
    kind.map_or("unknown", |(_, kind)| kind).to_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A line of a collective write of 4-byte blocks.
    pub(in super::super) fn line(mpi: &str, side: Side, seconds: f64) -> Line {
        Line {
            workload: "block-cyclic".to_owned(),
            shape: "4 B".to_owned(),
            level: 3,
            block: Some(4),
            ranks: 16,
            mpi: mpi.to_owned(),
            side,
            direction: "write".to_owned(),
            seconds: Some(seconds),
            first_seconds: Some(seconds),
            longest_rank_seconds: None,
            cpu_seconds: None,
            peak_bytes: Some(0),
            bytes: 100,
            calls: 5,
            verified: true,
            directory: "tmpfs".to_owned(),
            longer_than_seconds: None,
        }
    }

    #[test]
    fn dates_follow_the_calendar() {
        let days = [0, 58, 59, 364, 365, 11_016, 11_017, 20_772];
        let expected = [
            "1970-01-01",
            "1970-02-28",
            "1970-03-01",
            "1970-12-31",
            "1971-01-01",
            "2000-02-29",
            "2000-03-01",
            "2026-11-15",
        ];
        assert_eq!(days.map(date), expected);
    }

    #[test]
    fn a_machine_is_named_by_its_processor() {
        assert_eq!(machine("x\t: y\nmodel name\t: AMD EPYC 7763 64-Core\n", 2), "epyc-2-cores");
        assert_eq!(machine("model name\t: Intel(R) Xeon(R) CPU @ 2 GHz", 8), "xeon-8-cores");
        assert_eq!(machine("", 1), "unknown-1-cores");
    }

    #[test]
    fn the_mount_that_is_nearest_tells_the_kind() {
        let mounts = "/dev/a / ext4 rw 0 0\ntmpfs /dev/shm tmpfs rw 0 0\nx /d xfs rw 0 0\n";
        let kind = |path: &str| file_system(mounts, Path::new(path));
        assert_eq!([kind("/dev/shm/x"), kind("/home"), kind("/d")], ["tmpfs", "ext4", "xfs"]);
        assert_eq!(file_system("", Path::new("/")), "unknown");
    }

    #[test]
    fn a_record_is_read_as_it_was_written_and_the_last_counts() {
        let name = format!("pario-peers-record-{}.jsonl", std::process::id());
        let path = std::env::temp_dir().join(name);
        let first = line("mpich5", Side::Own, 2.0);
        let other = line("mpich5", Side::Pario, 1.0);
        append(&path, &[first.clone(), other.clone()]).unwrap();
        let again = Line { seconds: None, longer_than_seconds: Some(9.0), ..first };
        append(&path, std::slice::from_ref(&again)).unwrap();
        let lines = read(&path);
        fs::remove_file(&path).unwrap();
        assert_eq!(lines.unwrap(), [again, other]);
    }
}
