//! The table of all hints that pario knows: MPI's own, ROMIO's, and those of pario.
//!
//! A new hint is a field of [`Hints`] and a row in [`USED`]; reading, printing, reporting and
//! sending it to other ranks follow from the row. A known hint without effect has its reason in
//! [`IGNORED`].

use std::ops::RangeInclusive;

use super::bounds::{
    AGGREGATORS, BUFFER_BYTES, COLLECTIVE_WAIT_S, DOMAIN_MIN_BYTES, LONG_PIECE_BYTES, PHASES,
    SIEVE_HOLE_BYTES, STRIPE_BYTES,
};
use super::parse::{self, Parsed};
use super::{Hints, Statistics, Strategy, Switch};
use crate::error::Error;

/// What a known name means.
#[derive(Debug)]
pub(super) enum Meaning {
    /// Sets what [`settings`] says.
    Sets,
    /// Has no effect, for this reason.
    Nothing(String),
}

/// What a name means.
pub(super) fn meaning(name: &str) -> Meaning {
    if has_effect(name) {
        return Meaning::Sets;
    }
    if is_served(name) {
        return Meaning::Nothing(INFORMATION.to_owned());
    }
    if let Some((_, reason)) = IGNORED.iter().find(|(key, _)| *key == name) {
        return Meaning::Nothing((*reason).to_owned());
    }
    if let Some((_, reason)) = FAMILIES.iter().find(|(prefix, _)| name.starts_with(prefix)) {
        return Meaning::Nothing((*reason).to_owned());
    }
    let useful = USED.iter().map(|(key, _)| *key).chain(SEVERAL.iter().map(|(key, _)| *key));
    Meaning::Nothing(match parse::nearest(name, useful) {
        Some(near) => format!("unknown hint; did you mean {near}?"),
        None => "unknown hint".to_owned(),
    })
}

/// The keys of the fields that a name sets.
fn fields(name: &str) -> &'static [&'static str] {
    let several = SEVERAL.iter().find(|(key, _)| *key == name).map(|(_, keys)| *keys);
    let one = || USED.iter().find(|(key, _)| *key == name);
    several.or_else(|| Some(std::slice::from_ref(&one()?.0))).unwrap_or_default()
}

/// What a hint sets: the keys of the fields, and a value for each.
pub(super) fn settings(name: &str, text: &str) -> Vec<(&'static str, String)> {
    let promises = name == NO_INDEPENDENT && parse::truth(text) == Ok(true);
    let value = |key: &str| match key == name || name != NO_INDEPENDENT {
        true => Some(text.to_owned()),
        false => promises.then(|| Switch::Enable.to_string()),
    };
    fields(name).iter().filter_map(|key| Some((*key, value(key)?))).collect()
}

/// Whether a name sets anything.
pub(super) fn has_effect(name: &str) -> bool {
    !fields(name).is_empty()
}

/// Whether a value of a name can be used.
pub(super) fn is_usable(name: &str, text: &str) -> bool {
    let mut scratch = Hints::default();
    let settings = settings(name, text);
    !settings.is_empty() && settings.iter().all(|(key, text)| set(&mut scratch, key, text).is_ok())
}

/// Whether two names set the same field.
pub(super) fn overlap(one: &str, other: &str) -> bool {
    fields(one).iter().any(|key| fields(other).contains(key))
}

/// A field of [`Hints`] with the form and the bounds of its value.
pub(super) enum Field {
    /// A number of bytes.
    Bytes(fn(&mut Hints) -> &mut u64, RangeInclusive<u64>),
    /// A number of bytes; 0 leaves it to pario.
    BytesOrUnset(fn(&mut Hints) -> &mut Option<u64>, RangeInclusive<u64>),
    /// A number; left to pario until one is given.
    Count(fn(&mut Hints) -> &mut Option<u32>, RangeInclusive<u32>),
    /// A number of seconds.
    Seconds(fn(&mut Hints) -> &mut u64, RangeInclusive<u64>),
    /// True or false.
    Truth(fn(&mut Hints) -> &mut bool),
    /// A [`Switch`].
    Choice(fn(&mut Hints) -> &mut Switch),
    /// What the close of a file prints.
    Statistics(fn(&mut Hints) -> &mut Statistics),
    /// A [`Strategy`].
    Strategy(fn(&mut Hints) -> &mut Strategy),
    /// ROMIO's list of aggregators.
    ConfigList(fn(&mut Hints) -> &mut Option<u32>),
}

impl Field {
    /// Sets the field from text, or says why not and leaves it as it is.
    fn set(&self, hints: &mut Hints, text: &str) -> Parsed<()> {
        let chosen = |error: Error| error.to_string();
        match self {
            Field::Bytes(field, bounds) => *field(hints) = parse::bytes(text, bounds.clone())?,
            Field::BytesOrUnset(field, bounds) => {
                *field(hints) = parse::bytes_or_unset(text, bounds.clone())?;
            }
            Field::Count(field, bounds) => {
                *field(hints) = Some(parse::count(text, bounds.clone())?);
            }
            Field::Seconds(field, bounds) => *field(hints) = parse::seconds(text, bounds.clone())?,
            Field::Truth(field) => *field(hints) = parse::truth(text)?,
            Field::Choice(field) => *field(hints) = text.parse().map_err(chosen)?,
            Field::Statistics(field) => *field(hints) = text.parse().map_err(chosen)?,
            Field::Strategy(field) => *field(hints) = text.parse().map_err(chosen)?,
            Field::ConfigList(field) => *field(hints) = Some(parse::aggregators_per_node(text)?),
        }
        Ok(())
    }

    /// The bounds of a number.
    #[cfg(test)]
    fn bounds(&self) -> Option<(u64, u64)> {
        match self {
            Field::Bytes(_, bounds)
            | Field::BytesOrUnset(_, bounds)
            | Field::Seconds(_, bounds) => Some((*bounds.start(), *bounds.end())),
            Field::Count(_, bounds) => Some(((*bounds.start()).into(), (*bounds.end()).into())),
            _ => None,
        }
    }

    /// The value as text that [`Field::set`] reads back; `None` while it is left to pario and
    /// there is no text for that.
    fn get(&self, hints: &Hints) -> Option<String> {
        // The way to a field is kept once, for writing; a copy serves for reading.
        let hints = &mut hints.clone();
        match self {
            Field::Bytes(field, _) | Field::Seconds(field, _) => Some(field(hints).to_string()),
            Field::BytesOrUnset(field, _) => field(hints).map(|bytes| bytes.to_string()),
            Field::Count(field, _) => field(hints).map(|count| count.to_string()),
            Field::Truth(field) => Some(field(hints).to_string()),
            Field::Choice(field) => Some(field(hints).to_string()),
            Field::Statistics(field) => Some(field(hints).to_string()),
            Field::Strategy(field) => Some(field(hints).to_string()),
            Field::ConfigList(field) => field(hints).map(parse::config_list),
        }
    }
}

/// Sets the field of a key, or says why not.
pub(super) fn set(hints: &mut Hints, name: &str, text: &str) -> Parsed<()> {
    let row = USED.iter().find(|(key, _)| *key == name);
    row.map_or_else(|| Err("unknown hint".to_owned()), |(_, field)| field.set(hints, text))
}

/// The keys in effect with their values, in the order of the table.
pub(super) fn values(hints: &Hints) -> impl Iterator<Item = (&'static str, String)> {
    USED.iter().filter_map(|(name, field)| Some((*name, field.get(hints)?)))
}

/// The keys that set a field.
///
/// The last row always has a value: a message that was cut short is found out by that.
static USED: [(&str, Field); 21] = [
    ("cb_buffer_size", Field::Bytes(|hints| &mut hints.collective_buffer_bytes, BUFFER_BYTES)),
    ("cb_nodes", Field::Count(|hints| &mut hints.aggregators, AGGREGATORS)),
    ("cb_config_list", Field::ConfigList(|hints| &mut hints.aggregators_per_node)),
    ("romio_cb_read", Field::Choice(|hints| &mut hints.collective_read)),
    ("romio_cb_write", Field::Choice(|hints| &mut hints.collective_write)),
    (NO_INDEPENDENT, Field::Truth(|hints| &mut hints.no_independent)),
    ("romio_min_fdomain_size", Field::Bytes(|hints| &mut hints.domain_min_bytes, DOMAIN_MIN_BYTES)),
    ("ind_rd_buffer_size", Field::Bytes(|hints| &mut hints.sieve_read_buffer_bytes, BUFFER_BYTES)),
    ("ind_wr_buffer_size", Field::Bytes(|hints| &mut hints.sieve_write_buffer_bytes, BUFFER_BYTES)),
    ("romio_ds_read", Field::Choice(|hints| &mut hints.sieve_read)),
    ("romio_ds_write", Field::Choice(|hints| &mut hints.sieve_write)),
    ("striping_unit", Field::BytesOrUnset(|hints| &mut hints.stripe_bytes, STRIPE_BYTES)),
    ("pario_strategy", Field::Strategy(|hints| &mut hints.strategy)),
    ("pario_phases", Field::Count(|hints| &mut hints.phases, PHASES)),
    ("pario_sieve_hole_bytes", Field::Bytes(|hints| &mut hints.sieve_hole_bytes, SIEVE_HOLE_BYTES)),
    (
        "pario_long_piece_bytes",
        Field::BytesOrUnset(|hints| &mut hints.long_piece_bytes, LONG_PIECE_BYTES),
    ),
    ("pario_shared_windows", Field::Choice(|hints| &mut hints.shared_windows)),
    ("pario_mapped_writes", Field::Choice(|hints| &mut hints.mapped_writes)),
    ("pario_exact_windows", Field::Truth(|hints| &mut hints.exact_windows)),
    (
        "pario_collective_wait_s",
        Field::Seconds(|hints| &mut hints.collective_wait_s, COLLECTIVE_WAIT_S),
    ),
    ("pario_statistics", Field::Statistics(|hints| &mut hints.statistics)),
];

/// The promise that all accesses are collective. As with ROMIO, it switches collective buffering
/// on.
pub(super) const NO_INDEPENDENT: &str = "romio_no_indep_rw";

/// Keys that set several fields.
static SEVERAL: [(&str, &[&str]); 2] = [
    ("collective_buffering", &["romio_cb_read", "romio_cb_write"]),
    (NO_INDEPENDENT, &[NO_INDEPENDENT, "romio_cb_read", "romio_cb_write"]),
];

/// The keys by which a file reports how its last read and its last write were served: strategy,
/// reason, predicted time.
pub(crate) const SERVED_READ: [&str; 3] =
    ["pario_read_strategy", "pario_read_reason", "pario_read_predicted_us"];
pub(crate) const SERVED_WRITE: [&str; 3] =
    ["pario_write_strategy", "pario_write_reason", "pario_write_predicted_us"];

/// Whether a key is one of these. They change with every call, and HDF5 gives all that a file
/// reports back to it: from a program they are neither hints nor reported as ignored.
pub(crate) fn is_served(name: &str) -> bool {
    SERVED_READ.contains(&name) || SERVED_WRITE.contains(&name)
}

const INFORMATION: &str = "for information only; the file sets it, not the caller";
const NO_FILE_REALMS: &str = "pario has no persistent file realms";
const PAGE_CACHE: &str = "pario always uses the page cache";
const LAYOUT: &str = "pario takes the layout of arrays from the views";
const DEVICES: &str = "pario leaves the choice of devices to the file system";

/// Known keys without effect: ROMIO's first, then those that MPI reserves (MPI-4.1, section
/// 14.2.8).
static IGNORED: [(&str, &str); 26] = [
    ("romio_cb_pfr", NO_FILE_REALMS),
    ("romio_cb_fr_type", NO_FILE_REALMS),
    ("romio_cb_fr_types", NO_FILE_REALMS),
    ("romio_cb_fr_alignment", NO_FILE_REALMS),
    ("romio_cb_ds_threshold", "pario sieves by the size of the holes; use pario_sieve_hole_bytes"),
    ("romio_cb_alltoall", "pario chooses how a round exchanges its messages"),
    ("romio_synchronized_flush", "a sync is always made by all ranks"),
    ("direct_read", PAGE_CACHE),
    ("direct_write", PAGE_CACHE),
    ("direct_io", PAGE_CACHE),
    ("start_iodevice", DEVICES),
    (
        "striping_factor",
        "pario leaves striping to the file system; use its tools, such as lfs setstripe",
    ),
    ("romio_visibility_immediate", INFORMATION),
    ("romio_filesystem_type", INFORMATION),
    ("romio_aggregator_list", INFORMATION),
    ("mpi_memory_alloc_kinds", INFORMATION),
    ("access_style", "pario sees the accesses themselves"),
    ("cb_block_size", "pario aligns accesses to the stripes; use striping_unit"),
    ("chunked", LAYOUT),
    ("chunked_item", LAYOUT),
    ("chunked_size", LAYOUT),
    ("filename", INFORMATION),
    ("file_perm", "files are created with mode 0666 as limited by the umask"),
    ("io_node_list", DEVICES),
    ("num_io_nodes", DEVICES),
    ("nb_proc", "pario knows the number of ranks"),
];

/// Known keys without effect, by the beginning of their names.
static FAMILIES: [(&str, &str); 5] = [
    ("romio_lustre_", "pario has no driver of its own for Lustre; use striping_unit"),
    ("romio_gpfs_", "pario has no driver of its own for GPFS; use striping_unit"),
    ("romio_pvfs2_", "pario has no driver for PVFS2"),
    ("romio_daos_", "pario has no driver for DAOS"),
    ("panfs_", "pario has no driver for PanFS"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_occurs_once() {
        let used = USED.iter().map(|(name, _)| *name).filter(|name| *name != NO_INDEPENDENT);
        let others = SEVERAL.iter().map(|(name, _)| *name);
        let ignored = IGNORED.iter().map(|(name, _)| *name);
        let served = SERVED_READ.into_iter().chain(SERVED_WRITE);
        let names: Vec<&str> = used.chain(others).chain(ignored).chain(served).collect();
        let distinct: std::collections::HashSet<&&str> = names.iter().collect();
        assert_eq!(distinct.len(), names.len());
    }

    #[test]
    fn every_key_sets_its_own_field_and_is_printed_as_it_was_set() {
        let values = [
            ("cb_buffer_size", "1048576"),
            ("cb_nodes", "3"),
            ("cb_config_list", "*:2"),
            ("romio_cb_read", "enable"),
            ("romio_cb_write", "disable"),
            ("romio_no_indep_rw", "true"),
            ("romio_min_fdomain_size", "4097"),
            ("ind_rd_buffer_size", "8192"),
            ("ind_wr_buffer_size", "16384"),
            ("romio_ds_read", "disable"),
            ("romio_ds_write", "enable"),
            ("striping_unit", "65536"),
            ("pario_strategy", "sieve"),
            ("pario_phases", "5"),
            ("pario_sieve_hole_bytes", "77"),
            ("pario_long_piece_bytes", "78"),
            ("pario_shared_windows", "disable"),
            ("pario_mapped_writes", "enable"),
            ("pario_exact_windows", "true"),
            ("pario_collective_wait_s", "9"),
            ("pario_statistics", "true"),
        ];
        assert_eq!(values.map(|(name, _)| name), USED.each_ref().map(|(name, _)| *name));
        for (name, value) in values {
            let mut hints = Hints::default();
            set(&mut hints, name, value).unwrap();
            let before: Vec<_> = super::values(&Hints::default()).collect();
            let after = super::values(&hints).filter(|row| !before.contains(row));
            assert_eq!(after.collect::<Vec<_>>(), [(name, value.to_owned())]);
        }
    }

    #[test]
    fn a_refused_value_leaves_the_field_as_it_was() {
        for (name, _) in &USED {
            let mut hints = Hints::default();
            assert!(set(&mut hints, name, "?").is_err(), "{name}");
            assert_eq!(hints, Hints::default());
        }
    }

    #[test]
    fn every_default_is_within_its_bounds() {
        for (name, value) in values(&Hints::default()) {
            let mut hints = Hints::default();
            set(&mut hints, name, &value).unwrap();
            assert_eq!(hints, Hints::default());
        }
    }

    /// Where the value of each key is used: the field, and a file outside of this module.
    const READERS: [(&str, &str, &str); 21] = [
        ("cb_buffer_size", "collective_buffer_bytes", "plan/two_phase.rs"),
        ("cb_nodes", "aggregators", "plan/two_phase.rs"),
        ("cb_config_list", "aggregators_per_node", "plan/two_phase.rs"),
        ("romio_cb_read", "collective_read", "plan/choose.rs"),
        ("romio_cb_write", "collective_write", "plan/choose.rs"),
        // It has its effect by the two before it.
        ("romio_no_indep_rw", "no_independent", "hints/mod.rs"),
        ("romio_min_fdomain_size", "domain_min_bytes", "plan/two_phase.rs"),
        ("ind_rd_buffer_size", "sieve_read_buffer_bytes", "plan/independent.rs"),
        ("ind_wr_buffer_size", "sieve_write_buffer_bytes", "plan/independent.rs"),
        ("romio_ds_read", "sieve_read", "plan/choose.rs"),
        ("romio_ds_write", "sieve_write", "plan/choose.rs"),
        ("striping_unit", "stripe_bytes", "plan/two_phase.rs"),
        ("pario_strategy", "strategy", "plan/choose.rs"),
        ("pario_phases", "phases", "plan/phased.rs"),
        ("pario_sieve_hole_bytes", "sieve_hole_bytes", "plan/independent.rs"),
        ("pario_long_piece_bytes", "long_piece_bytes", "plan/choose.rs"),
        ("pario_shared_windows", "shared_windows", "plan/two_phase.rs"),
        ("pario_mapped_writes", "mapped_writes", "plan/storing.rs"),
        ("pario_exact_windows", "exact_windows", "plan/two_phase.rs"),
        ("pario_collective_wait_s", "collective_wait_s", "file/opening.rs"),
        ("pario_statistics", "statistics", "file/handle.rs"),
    ];

    #[test]
    fn every_hint_that_can_be_in_effect_is_read_somewhere() {
        let used: Vec<&str> = USED.iter().map(|(name, _)| *name).collect();
        assert_eq!(READERS.map(|(name, ..)| name).to_vec(), used);
        for (name, field, file) in READERS {
            let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
            let text = std::fs::read_to_string(path).unwrap();
            // Tests at the end of the file do not count.
            let code = text.split("#[cfg(test)]\nmod tests").next().unwrap_or_default();
            let reads = code.contains(&format!("hints.{field}"));
            assert!(reads, "{name} is reported, and {file} does not read {field}");
        }
    }

    #[test]
    fn every_reported_number_is_within_its_bounds() {
        let mut cases: Vec<Hints> = vec![Hints::default()];
        for (name, _) in &USED {
            for text in ["0", "1", "63", "64", "4294967296", "99999999999999"] {
                let mut hints = Hints::default();
                // A refused value leaves the default.
                let _ = set(&mut hints, name, text);
                cases.push(hints);
            }
        }
        for hints in cases {
            for (name, text) in values(&hints) {
                let row = USED.iter().find(|(key, _)| *key == name).unwrap();
                let Some((least, most)) = row.1.bounds() else { continue };
                let number: u64 = text.parse().unwrap();
                assert!((least..=most).contains(&number), "{name}={text} is reported");
            }
        }
    }
}
