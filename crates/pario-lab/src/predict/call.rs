//! Every way to serve a described call.

use pario::model::Direction;
use pario::plan::{Conditions, InMemory, Request};

use super::advice::{Change, Given, Now, WORTH, hint_change};
use super::answer::{Document, Scene, time};
use super::machine::Described;
use super::{Query, answer, answers, machine, measured, recorded};
use crate::failure::Failure;
use crate::hint;
use crate::scenario::question::{Question, explain};
use crate::scenario::workload::Workload;

/// Explains calls; on every rank if they are run.
pub(super) fn run(query: &Query) -> Result<(), Failure> {
    let documents = match &query.recording {
        Some(path) => recorded::documents(query, path)?,
        None => described_calls(query)?,
    };
    if !answers() {
        return Ok(());
    }
    answer::print(&documents, query.json)?;
    match &query.svg {
        Some(path) => answer::draw(path, &documents),
        None => Ok(()),
    }
}

fn described_calls(query: &Query) -> Result<Vec<Document>, Failure> {
    let ranks = query.ranks.unwrap_or_else(|| query.workloads.default_ranks());
    let ran = query.run.then(|| measured::all(query, ranks)).transpose()?;
    let place = match &ran {
        Some(ran) => Place { ranks: ran.ranks, nodes: ran.nodes, cores: ran.cores },
        None => {
            let nodes = query.nodes.unwrap_or(1);
            let cores = query.cores.unwrap_or_else(|| ranks.div_ceil(nodes));
            Place { ranks, nodes, cores }
        }
    };
    let transport = ran.as_ref().map_or("threads", |ran| ran.transport);
    let machine = described(query, transport)?;
    let programs = query.workloads.programs(place.ranks, 1).map_err(Failure::Usage)?;
    let mut documents = Vec::new();
    let workloads = programs.iter().flat_map(|program| &program.parts);
    for (index, workload) in workloads.enumerate() {
        let asked = query.directions;
        let ways = [(asked.writes(), Direction::Write), (asked.reads(), Direction::Read)];
        for (_, direction) in ways.into_iter().filter(|(is_asked, _)| *is_asked) {
            let call = document(query, &machine, &**workload, (place, direction))?;
            let (mut document, changes) = call;
            let ways = ran.as_ref().and_then(|ran| ran.parts.get(index));
            ways.iter().for_each(|ways| measured::add(&mut document, ways, direction));
            document.advise(changes);
            document.judge();
            documents.push(document);
        }
    }
    Ok(documents)
}

/// Where the ranks run.
#[derive(Clone, Copy)]
struct Place {
    ranks: u32,
    nodes: u32,
    cores: u32,
}

/// The machine that is asked for.
pub(super) fn described(query: &Query, transport: &str) -> Result<Described, Failure> {
    // What is run has its files there.
    let temporary = query.run.then(std::env::temp_dir);
    let directory = query.directory.as_deref().or(temporary.as_deref());
    let described = machine::profile(query.profile.as_deref(), transport, directory)?;
    Ok(replaced(query, described))
}

/// A machine with the parts that a query replaces.
pub(super) fn replaced(query: &Query, described: Described) -> Described {
    let Described { mut profile, mut origin } = described;
    if let Some(device) = &query.device {
        profile = device.of_machine(profile);
        origin = format!("{origin}; device {}", device.full_name());
    }
    if let Some(network) = query.network {
        profile = profile.with_network(network);
        origin = format!("{origin}; network described");
    }
    Described { profile, origin }
}

/// The hints of a query.
pub(super) fn given(query: &Query) -> impl Iterator<Item = Given> {
    let origin = || "--hint".to_owned();
    let one = move |(name, value): &(String, String)| Given {
        name: name.clone(),
        value: value.clone(),
        origin: origin(),
    };
    query.hints.iter().map(one)
}

fn document(
    query: &Query,
    machine: &Described,
    workload: &dyn Workload,
    (Place { ranks, nodes, cores }, direction): (Place, Direction),
) -> Result<(Document, Vec<Change>), Failure> {
    let usage = |error: pario::Error| Failure::Usage(error.to_string());
    let all = (0..ranks).map(|rank| request(workload, rank)).collect::<pario::Result<Vec<_>>>();
    let all = all.map_err(usage)?;
    let requests = match query.independent {
        true => all[..1].to_vec(),
        false => all.clone(),
    };
    let question = Question::new(direction, requests, machine.profile.clone());
    let mut question = question.on_nodes(ranks, nodes, cores).map_err(usage)?;
    if query.independent {
        // One rank calls, and others have the file open: they decide on locks and sieving.
        question.conditions = Conditions::independent(direction);
    }
    question.hints = hint::resolve(&query.hints)?.0;
    let answer = explain(&question).map_err(usage)?;
    let scene = Scene {
        workload: workload.name().to_owned(),
        shape: workload.shape(),
        direction: direction.name(),
        ranks,
        nodes,
        cores,
        collective: question.conditions.collective,
        profile: machine.origin.clone(),
        bytes: question.requests.iter().map(|request| request.bytes).sum(),
        piece_bytes: question.requests.first().map_or(0, |request| request.piece_bytes),
        calls: None,
        share_percent: None,
    };
    let hints: Vec<Given> = given(query).collect();
    let now = Now { predicted_ms: answer.chosen().total_us() / 1e3, measured_ms: None };
    let hint = hint_change(&question, &hints, now).map_err(usage)?;
    let collective = match query.independent {
        true => collective_change(&question, all, now).map_err(usage)?,
        false => None,
    };
    let document = Document::new(scene, &answer, (answer.chosen(), answer.chosen().reason));
    Ok((document, hint.into_iter().chain(collective).collect()))
}

/// One collective call of all ranks in place of one of each, if that is predicted to be faster.
fn collective_change(
    question: &Question,
    requests: Vec<Request>,
    now: Now,
) -> pario::Result<Option<Change>> {
    let mut together = question.clone();
    let conditions = Conditions::collective(question.conditions.direction);
    (together.requests, together.conditions) = (requests, conditions);
    let answer = explain(&together)?;
    let predicted_ms = answer.chosen().total_us() / 1e3;
    let what = format!(
        "call collectively: {} is predicted to take {} instead of {now}",
        answer.chosen().strategy,
        time(predicted_ms),
    );
    let change = Change { what, hint: None, value: None, predicted_ms };
    Ok(now.is_worth(predicted_ms, WORTH).then_some(change))
}

fn request(workload: &dyn Workload, rank: u32) -> pario::Result<Request> {
    let request = Request::of_view(&workload.view(rank)?, workload.rank_bytes(rank))?;
    Ok(match workload.memory(rank)? {
        Some(memory) => Request { memory: InMemory::of(&memory.datatype, 1)?, ..request },
        None => request,
    })
}
