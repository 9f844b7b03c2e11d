//! Whether the values of a profile make sense. An error is a key and a reason.

use super::{Accesses, Concurrency, Curve, Profile, Reuse, VERSION};
use crate::model::presets::Link;

/// A key and what is wrong with it.
type Wrong = (String, String);

/// The greatest number of values in a table.
const VALUES_MAX: usize = 64;

/// No time of one step is longer, nor is any bandwidth beyond these.
const US_MAX: f64 = 60e6;
const BYTES_PER_S: (f64, f64) = (1.0, 1e15);

pub(super) fn check(profile: &Profile) -> Result<(), Wrong> {
    if profile.version != VERSION {
        let reason = format!("is {}, this pario reads {VERSION}", profile.version);
        return wrong("version", reason);
    }
    if profile.machine.cores == 0 {
        return wrong("machine.cores", "must be at least 1");
    }
    let read = &profile.storage.read;
    for (name, is_there) in [
        ("new_file", read.new_file.is_some()),
        ("mapped", read.mapped.is_some()),
        ("mapped_new_file", read.mapped_new_file.is_some()),
    ] {
        if is_there {
            return wrong(format!("storage.read.{name}"), "is for writes only");
        }
    }
    accesses("storage.read", &profile.storage.read)?;
    accesses("storage.write", &profile.storage.write)?;
    curve("memory.gather", &profile.memory.gather)?;
    curve("memory.scatter", &profile.memory.scatter)?;
    for (name, table) in [
        ("memory.gather_random", &profile.memory.gather_random),
        ("memory.scatter_random", &profile.memory.scatter_random),
    ] {
        table.as_ref().map_or(Ok(()), |table| curve(name, table))?;
    }
    concurrency("memory.concurrent", &profile.memory.concurrent)?;
    reused("memory.reused", &profile.memory.reused)?;
    link("messages.node", &profile.messages.node)?;
    link("messages.network", &profile.messages.network)?;
    let (synchronisation, planning) = (&profile.synchronisation, &profile.planning);
    time("synchronisation.barrier_step_us", synchronisation.barrier_step_us)?;
    time("synchronisation.oversubscribed_rank_us", synchronisation.oversubscribed_rank_us)?;
    time("synchronisation.wake_us", synchronisation.wake_us)?;
    time("planning.rank_us", planning.rank_us)?;
    time("planning.piece_us", planning.piece_us)
}

fn wrong(key: impl Into<String>, reason: impl Into<String>) -> Result<(), Wrong> {
    Err((key.into(), reason.into()))
}

fn accesses(key: &str, accesses: &Accesses) -> Result<(), Wrong> {
    time(&format!("{key}.call_us"), accesses.call_us)?;
    curve(&format!("{key}.sequential"), &accesses.sequential)?;
    curve(&format!("{key}.scattered"), &accesses.scattered)?;
    for (name, table) in [
        ("contiguous", &accesses.contiguous),
        ("aligned", &accesses.aligned),
        ("new_file", &accesses.new_file),
        ("direct", &accesses.direct),
    ] {
        table.as_ref().map_or(Ok(()), |table| curve(&format!("{key}.{name}"), table))?;
    }
    reused(&format!("{key}.reused"), &accesses.reused)?;
    time(&format!("{key}.positioning_us"), accesses.positioning_us)?;
    for (name, table) in [
        ("concurrent_contiguous", &accesses.concurrent_contiguous),
        ("mapped", &accesses.mapped),
        ("mapped_new_file", &accesses.mapped_new_file),
    ] {
        table.as_ref().map_or(Ok(()), |table| concurrency(&format!("{key}.{name}"), table))?;
    }
    concurrency(&format!("{key}.concurrent"), &accesses.concurrent)
}

fn curve(key: &str, curve: &Curve) -> Result<(), Wrong> {
    rising(&format!("{key}.bytes"), &curve.bytes, curve.bytes_per_s.len())?;
    bandwidths(&format!("{key}.bytes_per_s"), &curve.bytes_per_s)?;
    let times: Vec<(u64, f64)> = curve.times_us().collect();
    for pair in times.windows(2) {
        // Rounding of a printed number is no mistake.
        if pair[1].1 < pair[0].1 * 0.999 {
            let ((shorter, us), (longer, less_us)) = (pair[0], pair[1]);
            let reason = format!(
                "{longer} bytes would take {less_us:.3} us, less than {shorter} bytes with {us:.3}"
            );
            return wrong(format!("{key}.bytes_per_s"), reason);
        }
    }
    Ok(())
}

fn concurrency(key: &str, concurrency: &Concurrency) -> Result<(), Wrong> {
    let ranks: Vec<u64> = concurrency.ranks.iter().map(|&ranks| ranks.into()).collect();
    rising(&format!("{key}.ranks"), &ranks, concurrency.bytes_per_s.len())?;
    if ranks.first() != Some(&1) {
        return wrong(format!("{key}.ranks"), "must begin with 1");
    }
    bandwidths(&format!("{key}.bytes_per_s"), &concurrency.bytes_per_s)
}

/// More bytes are never faster: what they would gain is no gain of a cache.
fn reused(key: &str, Reuse { bytes, bytes_per_s }: &Reuse) -> Result<(), Wrong> {
    if bytes.is_empty() && bytes_per_s.is_empty() {
        return Ok(());
    }
    rising(&format!("{key}.bytes"), bytes, bytes_per_s.len())?;
    bandwidths(&format!("{key}.bytes_per_s"), bytes_per_s)?;
    match bytes_per_s.is_sorted_by(|fewer, more| *more <= *fewer * 1.001) {
        true => Ok(()),
        false => wrong(format!("{key}.bytes_per_s"), "must not rise"),
    }
}

fn link(key: &str, link: &Link) -> Result<(), Wrong> {
    time(&format!("{key}.latency_us"), link.latency_us)?;
    bandwidths(&format!("{key}.bytes_per_s"), &[link.bytes_per_s])
}

/// Positive numbers, each greater than the one before, and another table of as many.
fn rising(key: &str, values: &[u64], others: usize) -> Result<(), Wrong> {
    match values {
        [] => wrong(key, "is empty"),
        _ if values.len() > VALUES_MAX => wrong(key, format!("has more than {VALUES_MAX} values")),
        _ if values.len() != others => {
            wrong(key, format!("has {} values, bytes_per_s has {others}", values.len()))
        }
        _ if values[0] == 0 => wrong(key, "must be more than 0"),
        _ if !values.is_sorted_by(|one, next| one < next) => wrong(key, "must rise"),
        _ => Ok(()),
    }
}

fn bandwidths(key: &str, values: &[f64]) -> Result<(), Wrong> {
    let (least, most) = BYTES_PER_S;
    match values.iter().find(|value| !(least..=most).contains(*value)) {
        Some(value) => wrong(key, format!("{value} is not between {least} and {most}")),
        None => Ok(()),
    }
}

fn time(key: &str, us: f64) -> Result<(), Wrong> {
    match (0.0..=US_MAX).contains(&us) {
        true => Ok(()),
        false => wrong(key, format!("{us} is not between 0 and {US_MAX}")),
    }
}
