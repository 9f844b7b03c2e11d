//! `cargo xtask peers`: pario beside the MPI library's own MPI-IO.
//!
//! One program in C runs in turn on the library's own MPI-IO and on pario, on each MPI; what is
//! compared was measured in one go on one machine. Nothing fails because of a time.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;

use super::library::{Mpi, Start};
use super::{MpiTestArguments, Places, clients, launch, setup};

const LIMIT: Duration = Duration::from_secs(600);

/// How much is measured.
#[derive(Args)]
pub(crate) struct PeersArguments {
    /// Only with this MPI, for example mpich5.
    #[arg(long, value_name = "NAME")]
    mpi: Option<String>,
    /// Runs of each program, native and under pario in turn; their medians are compared.
    #[arg(long, value_name = "N", default_value_t = 5)]
    repeat: usize,
    /// Where the files are written [default: a directory of the tests].
    #[arg(long, value_name = "DIR")]
    directory: Option<PathBuf>,
    /// Numbers of ranks.
    #[arg(long, value_name = "N,N", value_delimiter = ',', default_values_t = [1, 2])]
    ranks: Vec<u32>,
}

/// Microseconds by what was measured: one number of each run.
type Figures = BTreeMap<String, Vec<f64>>;

/// Measures and prints; the outcome is a line for the end.
pub(crate) fn run(root: &Path, arguments: &PeersArguments) -> Result<String, String> {
    let places = Places::new(root);
    let found = setup::run(&places)?;
    let library = clients::drop_in(&places, &MpiTestArguments::default(), &mut Vec::new())?;
    let library = library.ok_or("there is no drop-in library")?;
    let wanted = |mpi: &&Mpi| match &arguments.mpi {
        Some(name) => mpi.name == name,
        None => ["mpich5", "openmpi5"].contains(&mpi.name),
    };
    let directory = arguments.directory.clone().unwrap_or_else(|| places.mpi.join("scratch"));
    let directory = directory.join(format!("peers-{}", std::process::id()));
    let created = std::fs::create_dir_all(&directory);
    created.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    println!("microseconds a call, medians of {} runs; ratio: pario / own", arguments.repeat);
    println!(
        "{:10} {:>5} {:14} {:>10} {:>10} {:>6}",
        "mpi", "ranks", "call", "own", "pario", "ratio"
    );
    for mpi in found.mpis.iter().filter(wanted) {
        let program = build(&places, mpi)?;
        for &ranks in &arguments.ranks {
            let (mut own, mut pario) = (Figures::new(), Figures::new());
            for _ in 0..arguments.repeat {
                measure(mpi, &program, ranks, None, &directory, &mut own)?;
                measure(mpi, &program, ranks, Some(&library), &directory, &mut pario)?;
            }
            for (name, figures) in &own {
                let own = median(figures);
                let pario = median(pario.get(name).map_or(&[], Vec::as_slice));
                let ratio = pario / own;
                println!("{:10} {ranks:5} {name:14} {own:10.3} {pario:10.3} {ratio:6.2}", mpi.name);
            }
        }
    }
    let removed = std::fs::remove_dir_all(&directory);
    removed.map_err(|error| format!("cannot remove {}: {error}", directory.display()))?;
    Ok("measured".to_owned())
}

fn build(places: &Places, mpi: &Mpi) -> Result<PathBuf, String> {
    let source = places.package().join("benches/peers/overhead.c");
    let directory = places.mpi.join("peers").join(mpi.name);
    let program = directory.join("overhead");
    if setup::is_newer(&program, &[&source]) {
        return Ok(program);
    }
    let created = std::fs::create_dir_all(&directory);
    created.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
    let mut command = Command::new(&mpi.mpicc);
    command.args(["-O2", "-Wall", "-Wextra", "-Werror"]).arg(&source).arg("-o").arg(&program);
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{}: {error}", mpi.mpicc.display()))?;
    match output.status.success() {
        true => Ok(program),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

fn measure(
    mpi: &Mpi,
    program: &Path,
    ranks: u32,
    library: Option<&Path>,
    directory: &Path,
    figures: &mut Figures,
) -> Result<(), String> {
    let start = Start {
        ranks,
        words: vec![program.into(), directory.join("peers.data").into()],
        env: Vec::new(),
        preload: library.into_iter().map(Path::to_owned).collect(),
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

fn median(figures: &[f64]) -> f64 {
    let mut sorted = figures.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_one_in_the_middle() {
        assert!(median(&[]).is_nan());
        assert!((median(&[3.0, 1.0, 2.0]) - 2.0).abs() < f64::EPSILON);
    }
}
