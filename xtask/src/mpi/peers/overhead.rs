//! What short calls cost on pario and on the library's own MPI-IO: contiguous, independent ones,
//! syncs, and collectives of one rank.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::library::{Mpi, Start};
use super::super::{Places, launch};
use super::PeersArguments;
use super::bench::{Bench, build};
use super::output::median;

pub(super) const NAME: &str = "overhead";

const LIMIT: Duration = Duration::from_secs(600);

/// Microseconds by what was measured: one number of each run.
type Figures = BTreeMap<String, Vec<f64>>;

/// Measures and prints, in the first directory that is asked for.
pub(super) fn run(
    places: &Places,
    bench: &Bench<'_>,
    arguments: &PeersArguments,
) -> Result<(), String> {
    let repeat = arguments.repeat.unwrap_or(5).max(1);
    let ranks = match arguments.ranks.is_empty() {
        true => vec![1, 2],
        false => arguments.ranks.clone(),
    };
    println!("\noverhead: microseconds a call, medians of {repeat} runs; ratio: pario / own");
    println!(
        "{:10} {:>5} {:20} {:>10} {:>10} {:>6}",
        "mpi", "ranks", "call", "own", "pario", "ratio"
    );
    let scratch = arguments.places(places)?;
    for place in scratch.iter().take(1) {
        for mpi in &bench.mpis {
            let program = build(places, mpi, NAME)?;
            for &ranks in &ranks {
                let [mut own, mut pario] = [Figures::new(), Figures::new()];
                for _ in 0..repeat {
                    let run =
                        OverheadRun { mpi, program: &program, ranks, directory: &place.directory };
                    run.measure(None, &mut own)?;
                    run.measure(bench.library.clone(), &mut pario)?;
                }
                show(mpi.name, ranks, &own, &pario);
            }
        }
    }
    scratch.iter().try_for_each(|place| super::clients::remove(&place.directory))
}

fn show(mpi: &str, ranks: u32, own: &Figures, pario: &Figures) {
    for (name, figures) in own {
        let own = median(figures).unwrap_or(f64::NAN);
        let pario = pario.get(name).and_then(|figures| median(figures)).unwrap_or(f64::NAN);
        let ratio = pario / own;
        println!("{mpi:10} {ranks:5} {name:20} {own:10.3} {pario:10.3} {ratio:6.2}");
    }
}

struct OverheadRun<'a> {
    mpi: &'a Mpi,
    program: &'a Path,
    ranks: u32,
    directory: &'a Path,
}

impl OverheadRun<'_> {
    fn measure(&self, library: Option<PathBuf>, figures: &mut Figures) -> Result<(), String> {
        let OverheadRun { mpi, program, ranks, directory } = self;
        let start = Start {
            ranks: *ranks,
            words: vec![(*program).into(), directory.join("peers.data").into()],
            env: Vec::new(),
            preload: library.into_iter().collect(),
        };
        let finished = launch::launch(mpi, &start, directory, LIMIT)?;
        if !finished.status.is_some_and(|status| status.success()) {
            return Err(format!("{} failed on {}:\n{}", program.display(), mpi.name, finished.log));
        }
        for line in finished.stdout.lines().filter_map(|line| line.strip_prefix("RESULT ")) {
            if let Some((name, value)) = line.split_once(' ') {
                let value = value.trim().parse().map_err(|_| format!("not a number: {line}"))?;
                figures.entry(name.to_owned()).or_default().push(value);
            }
        }
        Ok(())
    }
}
