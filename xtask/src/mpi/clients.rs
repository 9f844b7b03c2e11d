//! The client programs of this project: compiled by each MPI's own wrapper, and run on it.
//!
//! A case is one program on one MPI with one number of ranks: a run with the library's own MPI-IO,
//! one with pario, or both after each other, so that the files they leave can be compared.

use std::collections::{BTreeMap, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use super::debian;
use super::hdf5;
use super::header::{Header, Mode};
use super::launch;
use super::library::{Binding, Mpi, Start};
use super::report::{self, Outcome, Report};
use super::setup::{self, Setup};
use super::skips::Skips;
use super::under::Under;
use super::verdict;
use super::{MpiTestArguments, Places};
use crate::open_command;

/// Runs at the same time; each has more ranks than there are processors anyway.
const AT_ONCE: usize = 2;

/// How often it is shown how far the work is.
const SHOWN_EVERY: Duration = Duration::from_secs(10);

/// What the table says of a run that was not possible.
const SKIPPED: &str = "skipped";

/// An MPI library that has not started two ranks by then does not work in an environment.
const PROBE_LIMIT: Duration = Duration::from_secs(20);

pub(super) struct Client {
    name: String,
    source: PathBuf,
    fortran: bool,
    pub(super) header: Header,
}

impl Client {
    /// Reads what a source says of itself.
    pub(super) fn read(source: &Path) -> Result<Client, String> {
        let shown = source.display();
        let text = fs::read_to_string(source);
        let text = text.map_err(|error| format!("cannot read {shown}: {error}"))?;
        let header = Header::parse(&text).map_err(|reason| format!("{shown}: {reason}"))?;
        let name = source.file_stem().unwrap_or_default().display().to_string();
        let fortran = source.extension().is_some_and(|extension| extension == "f90");
        Ok(Client { name, source: source.to_owned(), fortran, header })
    }

    /// Whether its packages are here; if not, that was reported when they were fetched.
    fn has_what_it_needs(&self) -> Result<bool, String> {
        for name in self.header.needs.iter().filter(|name| *name != hdf5::NAME) {
            match debian::has(name) {
                Some(true) => {}
                Some(false) => return Ok(false),
                None => return Err(format!("{}: nothing is named {name}", self.source.display())),
            }
        }
        Ok(true)
    }

    fn needs_hdf5(&self) -> bool {
        self.header.needs.iter().any(|name| name == hdf5::NAME)
    }

    /// Compiles the program for an MPI if need be; the outcome is its path.
    pub(super) fn build(
        &self,
        places: &Places,
        setup: &Setup,
        mpi: &Mpi,
    ) -> Result<PathBuf, String> {
        let bench = ClientBench { places, setup, library: None, seed: 0, hdf5: BTreeMap::new() };
        bench.build(self, mpi)?;
        Ok(bench.program(self, mpi))
    }
}

#[derive(Clone, Copy)]
struct Case<'a> {
    client: &'a Client,
    mpi: &'a Mpi,
    ranks: u32,
    under: Option<Under>,
    /// Whether each rank is bound to a core, as many sites do.
    bound: bool,
}

/// What all cases need.
struct ClientBench<'a> {
    places: &'a Places,
    setup: &'a Setup,
    library: Option<&'a Path>,
    seed: u64,
    /// Where HDF5 1.14 is for each MPI that it was built for.
    hdf5: BTreeMap<&'static str, PathBuf>,
}

/// The drop-in library: as given, or built now.
pub(super) fn drop_in(
    places: &Places,
    arguments: &MpiTestArguments,
    skipped: &mut Vec<String>,
) -> Result<Option<PathBuf>, String> {
    if let Some(path) = &arguments.library {
        let absolute = path.canonicalize();
        return absolute.map(Some).map_err(|error| format!("{}: {error}", path.display()));
    }
    if !places.package().join("Cargo.toml").is_file() {
        skipped.push("all runs under pario: there is no package pario-mpi".to_owned());
        return Ok(None);
    }
    open_command::cargo(&["build", "--release"], &places.root)?;
    let library = places.target.join("release/libpario_mpi.so");
    match library.is_file() {
        true => Ok(Some(library)),
        false => Err(format!("cannot build {}", library.display())),
    }
}

/// Builds and runs all client programs that are asked for.
pub(super) fn run_all(
    places: &Places,
    setup: &Setup,
    library: Option<&Path>,
    arguments: &MpiTestArguments,
    skipped: &mut Vec<String>,
    report: &mut Report,
) -> Result<(), String> {
    let hdf5 = BTreeMap::new();
    let mut bench = ClientBench { places, setup, library, seed: arguments.seed(), hdf5 };
    let clients = clients(places, arguments)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let mut cases = Vec::new();
    for client in &clients {
        for mpi in setup.mpis.iter().filter(|mpi| client.header.means(mpi, client.fortran)) {
            if client.needs_hdf5() && !bench.build_hdf5(mpi, skipped)? {
                continue;
            }
            let unders = client.header.under.iter().copied().map(Some);
            for under in std::iter::once(None).chain(unders) {
                cases.extend(client.header.ranks.iter().map(|ranks| Case {
                    client,
                    mpi,
                    ranks: *ranks,
                    under,
                    bound: client.header.bound && under.is_none() && is_bound(*ranks, cores),
                }));
            }
        }
    }
    let is_first = |case: &&Case<'_>| {
        case.under.is_none() && Some(&case.ranks) == case.client.header.ranks.first()
    };
    let builds = cases.iter().filter(is_first);
    at_once("client programs built", builds.collect(), |case| bench.build(case.client, case.mpi))?;
    for name in clients.iter().flat_map(|client| &client.header.preload) {
        bench.build_preload(name)?;
    }
    println!("seed of the random client programs: {}", arguments.seed());
    let (alone, together): (Vec<&Case>, Vec<&Case>) =
        cases.iter().partition(|case| case.client.header.alone);
    let mut add = |outcome: Outcome| {
        if outcome.note == SKIPPED {
            skipped.push(format!("{} on {}", outcome.program, outcome.mpi));
        }
        report.add(outcome);
    };
    let outcomes = at_once("client programs run", together, |case| bench.run(case))?;
    outcomes.into_iter().flatten().for_each(&mut add);
    for (index, case) in alone.iter().enumerate() {
        println!("alone, {} of {}: {}", index + 1, alone.len(), case.client.name);
        bench.run(case)?.into_iter().for_each(&mut add);
    }
    Ok(())
}

/// Several ranks that have a core each are bound to it; a single one and more than that are not.
fn is_bound(ranks: u32, cores: usize) -> bool {
    ranks > 1 && usize::try_from(ranks).is_ok_and(|ranks| ranks <= cores)
}

/// The client programs that are asked for and can be built, in the order of their names.
fn clients(places: &Places, arguments: &MpiTestArguments) -> Result<Vec<Client>, String> {
    let mut clients = Vec::new();
    for source in sources(places, arguments)? {
        let client = Client::read(&source)?;
        if client.has_what_it_needs()? {
            clients.push(client);
        }
    }
    clients.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(clients)
}

/// The sources of the client programs that are asked for.
pub(super) fn sources(
    places: &Places,
    arguments: &MpiTestArguments,
) -> Result<Vec<PathBuf>, String> {
    let directory = places.package().join("tests/clients");
    let failed = |error| format!("cannot read {}: {error}", directory.display());
    let mut sources = Vec::new();
    for entry in fs::read_dir(&directory).map_err(failed)? {
        let source = entry.map_err(failed)?.path();
        let extension = source.extension().unwrap_or_default();
        let name = source.file_stem().unwrap_or_default().display().to_string();
        if (extension == "f90" || extension == "c") && arguments.wants(&name) {
            sources.push(source);
        }
    }
    Ok(sources)
}

/// Works on some items at the same time; the outcomes are in the order of the items. Every ten
/// seconds it is shown how many are done.
pub(super) fn at_once<I: Send, O: Send>(
    what: &str,
    items: Vec<I>,
    work: impl Fn(I) -> Result<O, String> + Sync,
) -> Result<Vec<O>, String> {
    let count = items.len();
    let shown = Mutex::new(Instant::now());
    let queue: Mutex<VecDeque<(usize, I)>> = Mutex::new(items.into_iter().enumerate().collect());
    let done = Mutex::new(Vec::new());
    let next = || queue.lock().ok().and_then(|mut queue| queue.pop_front());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some((index, item)) = next() {
                    let outcome = work(item);
                    if let Ok(mut done) = done.lock() {
                        done.push((index, outcome));
                        show(&shown, || format!("{} of {count} {what}", done.len()));
                    }
                }
            });
        }
    });
    let mut done = done.into_inner().map_err(|_| "a worker panicked".to_owned())?;
    done.sort_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, outcome)| outcome).collect()
}

/// Shows a line unless another one was shown a moment ago.
fn show(shown: &Mutex<Instant>, line: impl FnOnce() -> String) {
    if let Ok(mut shown) = shown.lock()
        && shown.elapsed() >= SHOWN_EVERY
    {
        println!("{}", line());
        *shown = Instant::now();
    }
}

impl ClientBench<'_> {
    /// Whether HDF5 1.14 is here for an MPI, built if need be; if not, that is reported.
    fn build_hdf5(&mut self, mpi: &Mpi, skipped: &mut Vec<String>) -> Result<bool, String> {
        if self.hdf5.contains_key(mpi.name) {
            return Ok(true);
        }
        let mut skips = Skips::new();
        let built = hdf5::build(self.places, mpi);
        let is_here = setup::fetched(hdf5::NAME, built.as_ref().map(|_| ()), &mut skips)?;
        skipped.extend(skips.into_texts());
        self.hdf5.extend(built.ok().map(|prefix| (mpi.name, prefix)));
        Ok(is_here)
    }

    fn program(&self, client: &Client, mpi: &Mpi) -> PathBuf {
        let kind = if client.fortran { "-f90" } else { "" };
        self.places.mpi.join("clients").join(mpi.name).join(format!("{}{kind}", client.name))
    }

    /// Compiles a program unless it is newer than all sources.
    fn build(&self, client: &Client, mpi: &Mpi) -> Result<(), String> {
        let program = self.program(client, mpi);
        let directory = client.source.parent().unwrap_or(Path::new("."));
        let headers = fs::read_dir(directory).into_iter().flatten().flatten();
        let headers = headers.map(|entry| entry.path());
        let headers = headers
            .filter(|path| path.extension().is_some_and(|kind| kind == "h" || kind == "inc"));
        let sources: Vec<PathBuf> = headers.chain([client.source.clone()]).collect();
        let sources: Vec<&Path> = sources.iter().map(PathBuf::as_path).collect();
        if setup::is_newer(&program, &sources) {
            return Ok(());
        }
        let parent = program.parent().unwrap_or(&program);
        fs::create_dir_all(parent).map_err(|error| format!("{}: {error}", parent.display()))?;
        let compiler = match (&mpi.mpif90, client.fortran) {
            (Some(mpif90), true) => mpif90,
            _ => &mpi.mpicc,
        };
        let mut command = Command::new(compiler);
        command.args(["-O1", "-g", "-Wall", "-Wextra"]).current_dir(parent).stdin(Stdio::null());
        if !client.fortran {
            command.args(["-std=gnu11", "-Werror"]);
        }
        command.arg(&client.source).arg("-o").arg(&program).args(&client.header.link);
        if client.needs_hdf5() {
            let prefix = self.hdf5.get(mpi.name).ok_or("HDF5 is built before its clients")?;
            command.args(hdf5::link_words(prefix));
        }
        let output = command.output();
        let output = output.map_err(|error| format!("{}: {error}", compiler.display()))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{}\n{}",
                crate::steps::shown(&command),
                String::from_utf8_lossy(&output.stderr)
            )),
        }
    }

    fn preload(&self, name: &str) -> PathBuf {
        self.places.mpi.join("clients").join(format!("{name}.so"))
    }

    /// Compiles a library that a client wants before pario.
    fn build_preload(&self, name: &str) -> Result<(), String> {
        let source = self.places.package().join("tests/clients/preload");
        setup::shared_library(&source.join(format!("{name}.c")), &self.preload(name))
    }

    /// Runs a case in all the ways its program asks for.
    fn run(&self, case: &Case<'_>) -> Result<Vec<Outcome>, String> {
        if let Some(outcome) = self.hindered(case)? {
            return Ok(vec![outcome]);
        }
        let mut modes = case.client.header.modes.clone();
        modes.retain(|mode| *mode == Mode::Native || self.library.is_some());
        let mut outcomes = Vec::new();
        for mode in &modes {
            outcomes.push(self.run_once(case, *mode)?);
        }
        let good = outcomes.iter().all(|outcome| outcome.faults.is_empty());
        if good && modes.len() > 1 {
            let faults = self.differences(case);
            outcomes
                .iter_mut()
                .next_back()
                .into_iter()
                .for_each(|last| last.faults.extend(faults.clone()));
        }
        if outcomes.iter().all(|outcome| outcome.faults.is_empty()) {
            for mode in &modes {
                remove(&self.scratch(case, *mode))?;
            }
        }
        Ok(outcomes)
    }

    /// A skipped run, if the MPI library itself does not work in the environment of a case.
    fn hindered(&self, case: &Case<'_>) -> Result<Option<Outcome>, String> {
        let Some(under) = case.under else { return Ok(None) };
        let directory = self.scratch(case, Mode::Native).with_extension("probe");
        make_empty(&directory)?;
        let program = self.program(case.client, case.mpi).into();
        let env = under.env().into_iter().map(|(name, value)| (name, value.into())).collect();
        let words = under.words(vec![program, "probe".into()]);
        let start = Start { ranks: case.ranks, words, env, preload: Vec::new() };
        let finished = launch::launch(case.mpi, &start, &directory, PROBE_LIMIT)?;
        remove(&directory)?;
        let works = finished.status.is_some_and(|status| status.success());
        if works && finished.stdout.lines().any(|line| line.trim() == "PASS") {
            return Ok(None);
        }
        let (name, mpi) = (&case.client.name, case.mpi.name);
        println!("skipped: {name} with {}: {mpi} itself does not work there", under.text);
        let program = row(case, Mode::Pario);
        let note = SKIPPED.to_owned();
        Ok(Some(Outcome { program, mpi, seconds: finished.seconds, faults: Vec::new(), note }))
    }

    fn scratch(&self, case: &Case<'_>, mode: Mode) -> PathBuf {
        let Case { client, mpi, ranks, under, bound } = case;
        let kind = if client.fortran { "-f90" } else { "" };
        let under = under.map(|under| format!("-{}", under.name)).unwrap_or_default();
        let bound = if *bound { "-bound" } else { "" };
        let name = format!("{}{kind}{under}-{ranks}{bound}-{}", client.name, mode.name());
        self.places.mpi.join("scratch").join(mpi.name).join(name)
    }

    fn run_once(&self, case: &Case<'_>, mode: Mode) -> Result<Outcome, String> {
        let Case { client, mpi, ranks, under, bound } = case;
        let binding = if *bound { Binding::Core } else { Binding::None };
        let header = &client.header;
        let directory = self.scratch(case, mode);
        make_empty(&directory)?;
        let mut env: Vec<_> = header.env.clone();
        env.extend(under.and_then(|under| under.env()));
        let library = self.library.filter(|_| mode == Mode::Pario);
        if library.is_some() {
            env.push(("PARIO_MPI_COUNT".to_owned(), "1".to_owned()));
        }
        env.push(("PARIO_SEED".to_owned(), self.seed.to_string()));
        let patient = mpi.needs_patience() && !header.alone;
        let patience = patient.then_some(self.setup.patience.as_path());
        let before = header.preload.iter().map(|name| self.preload(name));
        let program = vec![self.program(client, mpi).into()];
        let start = Start {
            ranks: *ranks,
            words: under.map_or(program.clone(), |under| under.words(program)),
            env: env.into_iter().map(|(name, value)| (name, value.into())).collect(),
            preload: before
                .chain(library.into_iter().chain(patience).map(Path::to_owned))
                .collect(),
        };
        let limit = Duration::from_secs(header.seconds);
        let mut finished = launch::launch(&mpi.bound(binding), &start, &directory, limit)?;
        let mut faults = verdict::faults(header, (mode, *ranks), &finished, &directory);
        faults.extend(verdict::after_faults(header, &directory, &mut finished.log));
        let log = directory.file_name().unwrap_or_default().display().to_string();
        let log = self.places.mpi.join("logs").join(mpi.name).join(log + ".log");
        report::write_log(&log, &finished.log, &faults)?;
        let skipped = verdict::skipped(&finished.stdout);
        for reason in &skipped {
            println!("skipped: {} on {}: {reason}", client.name, mpi.name);
        }
        let note = match skipped.is_empty() {
            true => verdict::note(&finished.stdout),
            false => SKIPPED.to_owned(),
        };
        let (program, seconds) = (row(case, mode), finished.seconds);
        Ok(Outcome { program, mpi: mpi.name, seconds, faults, note })
    }

    /// Files that pario wrote otherwise than the library's own MPI-IO.
    fn differences(&self, case: &Case<'_>) -> Vec<String> {
        let content = |mode, name: &String| fs::read(self.scratch(case, mode).join(name)).ok();
        let differs = |name: &&String| {
            let native = content(Mode::Native, name);
            native.is_none() || native != content(Mode::Pario, name)
        };
        let names = case.client.header.same.iter().filter(differs);
        names.map(|name| format!("{name} is not the same natively and under pario")).collect()
    }
}

/// The row of the table.
fn row(case: &Case<'_>, mode: Mode) -> String {
    let language = if case.client.fortran { " (f90)" } else { "" };
    let under = case.under.map(|under| format!(", {}", under.name)).unwrap_or_default();
    format!("{}{language} {}{under}", case.client.name, mode.name())
}

/// Makes a directory again, empty.
pub(super) fn make_empty(directory: &Path) -> Result<(), String> {
    remove(directory)?;
    fs::create_dir_all(directory)
        .map_err(|error| format!("cannot make {}: {error}", directory.display()))
}

pub(super) fn remove(directory: &Path) -> Result<(), String> {
    match directory.exists() {
        true => fs::remove_dir_all(directory)
            .map_err(|error| format!("cannot remove {}: {error}", directory.display())),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_have_a_core_each_are_bound() {
        assert_eq!([1, 2, 3].map(|ranks| is_bound(ranks, 2)), [false, true, false]);
    }

    #[test]
    fn every_client_says_what_it_needs_by_names_that_there_are() {
        let places = Places::new(&crate::root());
        let sources = sources(&places, &MpiTestArguments::default()).unwrap();
        assert!(!sources.is_empty());
        for source in sources {
            Client::read(&source).unwrap().has_what_it_needs().unwrap();
        }
        let header = Header::parse("/* ranks: 1\n needs: nonsense */").unwrap();
        let client = Client { name: String::new(), source: PathBuf::new(), fortran: false, header };
        assert!(client.has_what_it_needs().is_err());
    }
}
