//! Ranks that a launcher binds to a core each: they use as many aggregators as unbound ones.
//!
//! Open MPI binds two ranks by default, and most sites bind all. A bound rank sees one core; if it
//! took that for its node, a collective would have one aggregator, and twice the rounds or more.

use std::path::Path;
use std::time::Duration;

use super::Places;
use super::clients::{self, Client};
use super::launch;
use super::library::{Binding, Mpi, Start};
use super::report::{self, Outcome, Report};
use super::setup::Setup;

/// The name of this check.
pub(super) const NAME: &str = "bound";

/// On more cores than these, ranks have as many aggregators as they are.
const RANKS: u32 = 2;
const CLIENT: &str = "bound";
/// How the line of the statistics begins that must be the same.
const LINE: &str = "  aggregators ";

/// Compares bound with unbound ranks on all libraries.
pub(super) fn run_all(
    places: &Places,
    setup: &Setup,
    library: &Path,
    report: &mut Report,
) -> Result<(), String> {
    let source = places.package().join("tests/clients").join(CLIENT).with_extension("c");
    for mpi in &setup.mpis {
        let program = Client::read(&source)?.build(places, setup, mpi)?;
        let mut seconds = 0.0;
        let (mut lines, mut log) = (Vec::new(), String::new());
        for binding in [Binding::None, Binding::Core] {
            let directory = places.mpi.join("scratch").join(mpi.name).join(NAME);
            clients::make_empty(&directory)?;
            let mpi = mpi.bound(binding);
            let start = start(&mpi, setup, library, &program);
            let finished = launch::launch(&mpi, &start, &directory, Duration::from_secs(60))?;
            clients::remove(&directory)?;
            let line = finished.stderr.lines().find(|line| line.starts_with(LINE));
            lines.push(line.map(str::to_owned));
            seconds += finished.seconds;
            log += &finished.log;
        }
        let faults = faults(&lines);
        let path = places.mpi.join("logs").join(mpi.name).join(format!("{NAME}.log"));
        report::write_log(&path, &log, &faults)?;
        let (program, note) = (NAME.to_owned(), String::new());
        report.add(Outcome { program, mpi: mpi.name, seconds, faults, note });
    }
    Ok(())
}

fn start(mpi: &Mpi, setup: &Setup, library: &Path, program: &Path) -> Start {
    let patience = mpi.needs_patience().then(|| setup.patience.clone());
    Start {
        ranks: RANKS,
        words: vec![program.into()],
        env: vec![("PARIO_STATS".to_owned(), "1".into())],
        preload: [library.to_owned()].into_iter().chain(patience).collect(),
    }
}

/// What is wrong with the lines of an unbound and a bound run.
fn faults(lines: &[Option<String>]) -> Vec<String> {
    match lines {
        [Some(unbound), Some(bound)] if unbound == bound => Vec::new(),
        [Some(unbound), Some(bound)] => {
            vec![format!("unbound:{}, bound:{}", unbound.trim_end(), bound.trim_end())]
        }
        _ => vec![format!("no line `{LINE}` in the statistics")],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bound_and_unbound_ranks_must_say_the_same() {
        let lines = |lines: [Option<&str>; 2]| faults(&lines.map(|line| line.map(str::to_owned)));
        assert!(lines([Some("  aggregators 2"), Some("  aggregators 2")]).is_empty());
        assert_eq!(lines([Some("  aggregators 2"), Some("  aggregators 1")]).len(), 1);
        assert_eq!(lines([Some("  aggregators 2"), None]).len(), 1);
    }
}
