//! Makes the recipe of a failure small, for the bug report.
//!
//! Tries to leave out parts and to lower numbers, as long as the failure stays. Greedy: every
//! success starts over from the smaller recipe.

use crate::recipe::Recipe;
use pario::Element;
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;

/// Numbers up to this are lowered one by one, larger ones are halved.
const SMALL: u64 = 16;

/// The smallest recipe found for which `fails` still holds; `recipe` itself at the worst.
///
/// A candidate that is too large for the oracle, so that `fails` panics, does not count.
pub fn smallest(recipe: &Recipe, fails: impl Fn(&Recipe) -> bool) -> Recipe {
    let mut best = recipe.clone();
    let fails = |candidate: &Recipe| quietly(|| fails(candidate)).unwrap_or(false);
    while let Some(smaller) = candidates(&best).into_iter().find(|candidate| fails(candidate)) {
        best = smaller;
    }
    best
}

/// The result of `work`; `None` if it panics, of which nothing is printed.
pub fn quietly<T>(work: impl FnOnce() -> T) -> Option<T> {
    caught(work).ok()
}

/// The result of `work`, or the text of its panic, which is not printed.
///
/// # Errors
///
/// If `work` panics.
pub fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    static HOOK: Once = Once::new();
    thread_local! {
        static QUIET: Cell<bool> = const { Cell::new(false) };
        static TEXT: RefCell<String> = const { RefCell::new(String::new()) };
    }
    HOOK.call_once(|| {
        let print = panic::take_hook();
        panic::set_hook(Box::new(move |info| match QUIET.get() {
            true => TEXT.set(info.to_string()),
            false => print(info),
        }));
    });
    let before = QUIET.replace(true);
    let outcome = panic::catch_unwind(AssertUnwindSafe(work));
    QUIET.set(before);
    outcome.map_err(|_| TEXT.take())
}

/// Recipes that are simpler than this one in one place.
pub(crate) fn candidates(recipe: &Recipe) -> Vec<Recipe> {
    let parts = recipe.parts();
    let mut found: Vec<Recipe> = parts.iter().map(|part| (*part).clone()).collect();
    found.extend(simpler(recipe));
    for (number, part) in parts.iter().enumerate() {
        found.extend(candidates(part).into_iter().map(|new| with_part(recipe, number, new)));
    }
    found
}

/// The recipe with one of its parts replaced.
fn with_part(recipe: &Recipe, number: usize, part: Recipe) -> Recipe {
    let mut changed = recipe.clone();
    match &mut changed {
        Recipe::Element(_) => {}
        Recipe::Structure { fields } => fields[number].datatype = part,
        Recipe::Contiguous { old, .. }
        | Recipe::Vector { old, .. }
        | Recipe::Hvector { old, .. }
        | Recipe::Indexed { old, .. }
        | Recipe::Hindexed { old, .. }
        | Recipe::IndexedBlock { old, .. }
        | Recipe::HindexedBlock { old, .. }
        | Recipe::Subarray { old, .. }
        | Recipe::Darray { old, .. }
        | Recipe::Resized { old, .. }
        | Recipe::Dup(old) => **old = part,
    }
    changed
}

/// The recipe with fewer blocks or smaller numbers on its outermost level.
fn simpler(recipe: &Recipe) -> Vec<Recipe> {
    let mut found = Vec::new();
    let mut add = |change: &dyn Fn(&mut Recipe)| {
        let mut changed = recipe.clone();
        change(&mut changed);
        if changed != *recipe {
            found.push(changed);
        }
    };
    if let Recipe::Element(_) = recipe {
        add(&|changed| *changed = Recipe::Element(Element::Byte));
    }
    for entry in 0..entries(recipe) {
        add(&|changed| remove(changed, entry));
    }
    for number in 0..numbers(&mut recipe.clone()).len() {
        for step in [Step::Zero, Step::Halve, Step::Less] {
            add(&|changed| lower(numbers(changed).swap_remove(number), step));
        }
    }
    found
}

/// Blocks of a list or fields of a struct.
fn entries(recipe: &Recipe) -> usize {
    match recipe {
        Recipe::Indexed { displacements, .. } | Recipe::IndexedBlock { displacements, .. } => {
            displacements.len()
        }
        Recipe::Hindexed { displacements_bytes, .. }
        | Recipe::HindexedBlock { displacements_bytes, .. } => displacements_bytes.len(),
        Recipe::Structure { fields } => fields.len(),
        _ => 0,
    }
}

/// Takes away one block of a list or one field of a struct.
fn remove(recipe: &mut Recipe, entry: usize) {
    match recipe {
        Recipe::Indexed { block_lens, displacements, .. }
        | Recipe::Hindexed { block_lens, displacements_bytes: displacements, .. } => {
            block_lens.remove(entry);
            displacements.remove(entry);
        }
        Recipe::IndexedBlock { displacements, .. }
        | Recipe::HindexedBlock { displacements_bytes: displacements, .. } => {
            displacements.remove(entry);
        }
        Recipe::Structure { fields } => {
            fields.remove(entry);
        }
        _ => {}
    }
}

/// A number that can be lowered without making the recipe meaningless.
enum Number<'a> {
    Count(&'a mut u64),
    Place(&'a mut i64),
}

#[derive(Clone, Copy)]
enum Step {
    Zero,
    Halve,
    Less,
}

fn lower(number: Number<'_>, step: Step) {
    match (number, step) {
        (Number::Count(count), Step::Zero) => *count = 0,
        (Number::Count(count), Step::Halve) => *count /= 2,
        (Number::Count(count), Step::Less) if *count <= SMALL => {
            *count = count.saturating_sub(1);
        }
        (Number::Place(place), Step::Zero) => *place = 0,
        (Number::Place(place), Step::Halve) => *place /= 2,
        (Number::Place(place), Step::Less) if place.unsigned_abs() <= SMALL => {
            *place -= place.signum();
        }
        (_, Step::Less) => {}
    }
}

/// All numbers of the outermost level but those of arrays, which depend on each other.
fn numbers(recipe: &mut Recipe) -> Vec<Number<'_>> {
    use Number::{Count, Place};
    match recipe {
        Recipe::Element(_) | Recipe::Subarray { .. } | Recipe::Darray { .. } | Recipe::Dup(_) => {
            vec![]
        }
        Recipe::Contiguous { count, .. } => vec![Count(count)],
        Recipe::Vector { count, block_len, stride, .. }
        | Recipe::Hvector { count, block_len, stride_bytes: stride, .. } => {
            vec![Count(count), Count(block_len), Place(stride)]
        }
        Recipe::Indexed { block_lens, displacements, .. }
        | Recipe::Hindexed { block_lens, displacements_bytes: displacements, .. } => {
            let lens = block_lens.iter_mut().map(Count);
            lens.chain(displacements.iter_mut().map(Place)).collect()
        }
        Recipe::IndexedBlock { block_len, displacements, .. }
        | Recipe::HindexedBlock { block_len, displacements_bytes: displacements, .. } => {
            [Count(block_len)].into_iter().chain(displacements.iter_mut().map(Place)).collect()
        }
        Recipe::Structure { fields } => fields
            .iter_mut()
            .flat_map(|field| [Count(&mut field.block_len), Place(&mut field.displacement)])
            .collect(),
        Recipe::Resized { lower_bound, extent, .. } => vec![Place(lower_bound), Place(extent)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generate::Generator;

    #[test]
    fn a_failure_is_cut_down_to_its_cause() {
        let old = Box::new(Recipe::Element(Element::I32));
        let strided = Recipe::Vector { count: 9, block_len: 4, stride: 11, old };
        let recipe = Recipe::Dup(Box::new(Recipe::Contiguous { count: 5, old: Box::new(strided) }));
        let smallest = smallest(&recipe, |candidate| candidate.typemap().size() > 20);
        assert_eq!(smallest.to_string(), "vector(2, 3, 0, I32)");
    }

    #[test]
    fn a_panic_is_no_result() {
        assert_eq!(quietly(|| 3), Some(3));
        assert_eq!(quietly(|| -> u32 { panic!("not to be seen") }), None);
    }

    #[test]
    fn every_candidate_has_a_typemap() {
        for seed in 0..200 {
            let recipe = Generator::new(seed).memory_type(4, 64);
            for candidate in candidates(&recipe) {
                assert!(candidate.typemap().size() < 1 << 20, "{candidate}");
            }
        }
    }
}
