//! What `explain` finds for recorded calls is what the program did.

use pario_testkit::program::run::{Transport, run};
use pario_testkit::program::{Program, Step};
use pario_testkit::scratch::Scratch;
use pario_testkit::seed::{first_seed, number_from};
use pario_testkit::watchdog::Watchdog;

use super::*;

/// A program whose hints stay as they are, since a recording has those of the close; none if it
/// converts bytes, since such calls have several plans.
fn program(seed: u64, recording: &Path) -> Option<Program> {
    let mut program = Program::random(seed);
    program.steps.retain(|step| !matches!(step, Step::Hints(_)));
    let converts = |step: &Step| matches!(step, Step::View(views) if views.external);
    let recorded = program.with_hint("pario_statistics", &recording.display().to_string());
    (!program.steps.iter().any(converts)).then_some(recorded)
}

/// What a plan is, as far as a recording has it.
fn planned(plan: &Plan, ranks: u32) -> (&'static str, u64, u64, &'static str, &'static str) {
    let Plan { strategy, reason, .. } = plan;
    (strategy.name(), plan.rounds(), plan.aggregators(ranks), plan.placement(), reason)
}

/// Compares all calls of a recording; how many there were.
fn compare(query: &Query, path: &Path) -> usize {
    let recordings = recordings(path).unwrap_or_default();
    let mut compared = 0;
    for recording in &recordings {
        let open = Open { recording, name: "it", kinds: Vec::new() };
        let setting = setting(query, &open).expect("a setting");
        let all = collectives(recording).into_iter().chain(independent(recording));
        for done in all.filter(|done| done.call.strategy != Strategy::Auto.name()) {
            let Call { strategy, rounds, aggregators, windows, reason, .. } = done.call;
            if reason == "one run of bytes" {
                // Not planned: one storage call is all that it takes, whatever hints say.
                assert!(done.requests.iter().all(|one| one.reach() == one.bytes), "{done:#?}");
                continue;
            }
            let answer = explain(&setting.question(done.requests.clone(), done.conditions));
            let answer = answer.expect("an answer");
            let recorded = (&**strategy, *rounds, *aggregators, &**windows, &**reason);
            let found = planned(answer.chosen(), answer.ranks);
            let hints = &setting.given;
            assert_eq!(found, recorded, "{done:#?}\n{hints:#?}\n{}", answer.chosen());
            compared += 1;
        }
    }
    compared
}

/// For recorded calls of random programs, the plan that `explain` finds is the plan that ran.
#[test]
fn explain_finds_the_plans_that_ran() {
    let (scratch, first_seed) = (Scratch::new(), first_seed());
    let query = Query::default();
    let programs = number_from("PARIO_PROGRAMS").unwrap_or(4000).div_ceil(10);
    println!("explain_finds_the_plans_that_ran: PARIO_SEED={first_seed}, {programs} programs");
    let watchdog = Watchdog::new("explain_finds_the_plans_that_ran");
    let mut compared = 0;
    for seed in (0..programs).map(|number| first_seed.wrapping_add(number)) {
        watchdog.step(format!("PARIO_SEED={seed} PARIO_PROGRAMS=1"));
        let path = scratch.path(&format!("{seed}.jsonl"));
        let transport = match seed % 3 {
            0 => Transport::SharedMemory,
            1 => Transport::LittleMemory,
            _ => Transport::Messages(u32::try_from(seed / 3 % 4).expect("small") + 1),
        };
        let Some(program) = program(seed, &path) else { continue };
        run(&program, transport).unwrap_or_else(|text| panic!("seed {seed}: {text}"));
        if path.exists() {
            println!("PARIO_SEED={seed} PARIO_PROGRAMS=1");
            compared += compare(&query, &path);
            std::fs::remove_file(&path).expect("removed");
        }
    }
    println!("{compared} calls");
    assert!(compared > 0 || programs < 20, "no calls were compared");
}
