//! Makes a failing program small, for the bug report.
//!
//! Greedy, as [`crate::shrink`]: every success starts over from the smaller program. Candidates
//! that the oracle refuses do not count.

use super::{Call, Device, Piece, Program, Step, Transfer, oracle};
use crate::recipe::Recipe;
use crate::shrink;

/// Candidates that are tried at most.
const TRIES_MAX: usize = 3000;

/// The smallest program found for which `fails` still holds.
pub fn smallest(program: &Program, fails: impl Fn(&Program) -> bool) -> Program {
    let mut best = program.clone();
    let mut tries = 0;
    'smaller: loop {
        for candidate in candidates(&best) {
            if oracle::apply(&candidate).is_err() {
                continue;
            }
            tries += 1;
            if tries > TRIES_MAX {
                return best;
            }
            if fails(&candidate) {
                best = candidate;
                continue 'smaller;
            }
        }
        return best;
    }
}

/// Programs that are simpler in one place, the boldest first.
fn candidates(program: &Program) -> Vec<Program> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Program)| {
        let mut changed = program.clone();
        change(&mut changed);
        found.push(changed);
    };
    for number in 0..program.steps.len() {
        add(&|changed| drop(changed.steps.remove(number)));
    }
    for rank in (0..program.ranks).filter(|_| program.ranks > 1) {
        add(&|changed| without_rank(changed, rank));
    }
    for number in 0..program.hints.len() {
        add(&|changed| drop(changed.hints.remove(number)));
    }
    for (number, step) in program.steps.iter().enumerate() {
        for simpler in simpler_steps(step) {
            add(&|changed| changed.steps[number] = simpler.clone());
        }
    }
    if program.device != Device::Memory && !matches!(program.device, Device::Flawed(_)) {
        add(&|changed| changed.device = Device::Memory);
    }
    for len in [0, 16, 64, 256].into_iter().filter(|&len| Some(len) < program.initial_bytes) {
        add(&|changed| changed.initial_bytes = Some(len));
    }
    if program.mode.append {
        add(&|changed| changed.mode.append = false);
    }
    if program.mode.delete_on_close {
        add(&|changed| changed.mode.delete_on_close = false);
    }
    found
}

/// Takes a rank and all it does away.
fn without_rank(program: &mut Program, rank: usize) {
    program.ranks -= 1;
    for step in &mut program.steps {
        match step {
            Step::View(views) => drop(views.ranks.remove(rank)),
            Step::Seek(targets) => drop(targets.remove(rank)),
            Step::Transfers(transfers) => {
                transfers.iter_mut().for_each(|one| drop(one.pieces.remove(rank)));
            }
            _ => {}
        }
    }
}

fn simpler_steps(step: &Step) -> Vec<Step> {
    match step {
        Step::View(views) => {
            let mut found = Vec::new();
            for rank in 0..views.ranks.len() {
                let (displacement, filetype) = &views.ranks[rank];
                let mut add = |new: (u64, Recipe)| {
                    let mut changed = views.clone();
                    changed.ranks[rank] = new;
                    found.push(Step::View(changed));
                };
                for less in [0, displacement / 2].into_iter().filter(|less| less < displacement) {
                    add((less, filetype.clone()));
                }
                shrink::candidates(filetype).into_iter().for_each(|new| add((*displacement, new)));
            }
            if views.external {
                let mut changed = views.clone();
                changed.external = false;
                found.push(Step::View(changed));
            }
            found
        }
        Step::Transfers(transfers) => {
            let mut found = Vec::new();
            for number in 0..transfers.len() {
                if transfers.len() > 1 {
                    let mut changed = transfers.clone();
                    changed.remove(number);
                    found.push(Step::Transfers(changed));
                }
                for simpler in simpler_transfers(&transfers[number]) {
                    let mut changed = transfers.clone();
                    changed[number] = simpler;
                    found.push(Step::Transfers(changed));
                }
            }
            found
        }
        Step::Hints(hints) => {
            let without = |number: usize| {
                let mut changed = hints.clone();
                changed.remove(number);
                Step::Hints(changed)
            };
            (0..hints.len()).map(without).collect()
        }
        _ => Vec::new(),
    }
}

fn simpler_transfers(transfer: &Transfer) -> Vec<Transfer> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Transfer)| {
        let mut changed = transfer.clone();
        change(&mut changed);
        found.push(changed);
    };
    match transfer.call {
        Call::Blocking => {}
        Call::Planned(runs) if runs > 1 => add(&|changed| changed.call = Call::Planned(runs - 1)),
        _ => add(&|changed| changed.call = Call::Blocking),
    }
    for (rank, piece) in transfer.pieces.iter().enumerate() {
        let Some(piece) = piece else { continue };
        add(&|changed| changed.pieces[rank] = None);
        for simpler in simpler_pieces(piece) {
            add(&|changed| changed.pieces[rank] = Some(simpler.clone()));
        }
    }
    found
}

fn simpler_pieces(piece: &Piece) -> Vec<Piece> {
    let Piece { at, count, memory } = piece;
    let mut found = Vec::new();
    for less in [0, at / 2, at.saturating_sub(1)].into_iter().filter(|less| less < at) {
        found.push(Piece { at: less, ..piece.clone() });
    }
    for less in [count / 2, count.saturating_sub(1)].into_iter().filter(|less| less < count) {
        found.push(Piece { count: less, ..piece.clone() });
    }
    if let Some(memory) = memory {
        let size = memory.typemap().size();
        found.push(Piece { count: count * size, memory: None, ..piece.clone() });
        for simpler in shrink::candidates(memory) {
            found.push(Piece { memory: Some(simpler), ..piece.clone() });
        }
    }
    found
}
