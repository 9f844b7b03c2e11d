//! Text to values: sizes, counts, truth values, and the nearest known name of a misspelt one.
//!
//! A failure is a sentence for the report and never an error of the open, because MPI allows an
//! implementation to ignore any hint.

use std::fmt::Display;
use std::ops::RangeInclusive;

use super::bounds::AGGREGATORS;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// A value, or why there is none.
pub(super) type Parsed<T> = Result<T, String>;

/// A number of bytes, with or without one of the suffixes K, M, G for KiB, MiB, GiB.
pub(super) fn bytes(text: &str, bounds: RangeInclusive<u64>) -> Parsed<u64> {
    let text = text.trim();
    let units = [('K', KIB), ('M', MIB), ('G', GIB)];
    let suffixed = units.iter().find_map(|&(suffix, unit)| {
        let digits = text.strip_suffix([suffix, suffix.to_ascii_lowercase()])?;
        Some((digits, unit))
    });
    let (digits, unit) = suffixed.unwrap_or((text, 1));
    let value = number::<u64>(digits, "a number of bytes, as 4096, 64K, 16M or 1G")?;
    let value = value.checked_mul(unit).ok_or_else(|| outside(&bounds))?;
    within(value, bounds)
}

/// As [`bytes`], where 0 means that the value is left to pario.
pub(super) fn bytes_or_unset(text: &str, bounds: RangeInclusive<u64>) -> Parsed<Option<u64>> {
    match bytes(text, 0..=*bounds.end())? {
        0 => Ok(None),
        value => within(value, bounds).map(Some),
    }
}

/// A number without unit.
pub(super) fn count(text: &str, bounds: RangeInclusive<u32>) -> Parsed<u32> {
    within(number(text, "a number")?, bounds)
}

/// A number of seconds.
pub(super) fn seconds(text: &str, bounds: RangeInclusive<u64>) -> Parsed<u64> {
    within(number(text, "a number of seconds")?, bounds)
}

/// A truth value.
pub(super) fn truth(text: &str) -> Parsed<bool> {
    match text.trim().to_ascii_lowercase().as_str() {
        "true" | "1" | "enable" => Ok(true),
        "false" | "0" | "disable" => Ok(false),
        _ => Err("not one of true, false".to_owned()),
    }
}

/// ROMIO's `cb_config_list`, as far as it speaks of all nodes alike: `*:4`, `*` for `*:1`, and
/// `*:*` for every rank, which is `u32::MAX`.
pub(super) fn aggregators_per_node(text: &str) -> Parsed<u32> {
    match text.trim() {
        "*" => Ok(1),
        "*:*" => Ok(u32::MAX),
        list => match list.strip_prefix("*:") {
            Some(per_node) if !per_node.contains(',') => count(per_node, AGGREGATORS),
            _ => Err("pario chooses nodes by itself; only *:N and *:* are supported".to_owned()),
        },
    }
}

/// The inverse of [`aggregators_per_node`].
pub(super) fn config_list(aggregators_per_node: u32) -> String {
    match aggregators_per_node {
        u32::MAX => "*:*".to_owned(),
        count => format!("*:{count}"),
    }
}

/// The known name that a misspelt one was probably meant to be.
pub(super) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    const DISTANCE_MAX: usize = 2;
    let near = known.filter(|name| name.len().abs_diff(wrong.len()) <= DISTANCE_MAX);
    let scored = near.map(|name| (distance(wrong.as_bytes(), name.as_bytes()), name));
    let (least, name) = scored.min_by_key(|&(distance, _)| distance)?;
    // A short word is two changes away from anything.
    (least <= DISTANCE_MAX && least * 3 <= name.len()).then_some(name)
}

/// The edit distance by Levenshtein, one row of the table at a time.
fn distance(left: &[u8], right: &[u8]) -> usize {
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (above, left_byte) in left.iter().enumerate() {
        let mut diagonal = above;
        let mut before = above + 1;
        for (right_byte, cell) in right.iter().zip(row.iter_mut().skip(1)) {
            let replaced = diagonal + usize::from(left_byte != right_byte);
            diagonal = *cell;
            before = replaced.min(before + 1).min(*cell + 1);
            *cell = before;
        }
        if let Some(first) = row.first_mut() {
            *first = above + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

fn number<T: std::str::FromStr>(text: &str, what: &str) -> Parsed<T> {
    let text = text.trim();
    // `parse` would also take a sign.
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = digits.then(|| text.parse().ok()).flatten();
    parsed.ok_or_else(|| match digits {
        true => "too large".to_owned(),
        false => format!("not {what}"),
    })
}

fn within<T: PartialOrd + Display>(value: T, bounds: RangeInclusive<T>) -> Parsed<T> {
    match bounds.contains(&value) {
        true => Ok(value),
        false => Err(outside(&bounds)),
    }
}

fn outside<T: Display>(bounds: &RangeInclusive<T>) -> String {
    format!("not between {} and {}", bounds.start(), bounds.end())
}

#[cfg(test)]
mod tests {
    use super::super::bounds::{BUFFER_BYTES, PHASES, STRIPE_BYTES};
    use super::*;

    #[test]
    fn sizes_are_plain_bytes_or_have_a_binary_suffix() {
        let cases =
            [("0", 0), ("4096", 4096), (" 64k ", 65536), ("16M", 16 << 20), ("2G", 2 << 30)];
        for (text, value) in cases {
            assert_eq!(bytes(text, 0..=u64::MAX), Ok(value), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_size_is_refused() {
        let texts = [
            "",
            "K",
            "-1",
            "+1",
            "1.5M",
            "16MB",
            "0x10",
            "1 6",
            "ä",
            "1KK",
            "18446744073709551616",
            "18446744073709551615G",
        ];
        for text in texts {
            assert!(bytes(text, 0..=u64::MAX).is_err(), "{text}");
        }
    }

    #[test]
    fn both_bounds_are_allowed_and_nothing_beyond() {
        assert_eq!(bytes("1", BUFFER_BYTES), Ok(1));
        assert_eq!(bytes("2G", BUFFER_BYTES), Ok(2 << 30));
        assert_eq!(bytes("0", BUFFER_BYTES), Err("not between 1 and 2147483648".to_owned()));
        assert!(bytes("2147483649", BUFFER_BYTES).is_err());
        assert_eq!(count("32", PHASES), Ok(32));
        assert!(count("33", PHASES).is_err());
        assert!(count("4294967296", 0..=u32::MAX).is_err());
    }

    #[test]
    fn zero_leaves_a_stripe_to_pario() {
        assert_eq!(bytes_or_unset("0", STRIPE_BYTES), Ok(None));
        assert_eq!(bytes_or_unset("1M", STRIPE_BYTES), Ok(Some(1 << 20)));
    }

    #[test]
    fn config_lists_that_name_hosts_are_refused() {
        assert_eq!(aggregators_per_node("*"), Ok(1));
        assert_eq!(aggregators_per_node("*:3"), Ok(3));
        assert_eq!(aggregators_per_node("*:*"), Ok(u32::MAX));
        for text in ["", "node1:2", "node1,*:1", "*:1,node2:0", "*:0", "*:x", "*:4294967295", ":"] {
            assert!(aggregators_per_node(text).is_err(), "{text}");
        }
        for count in [1, 7, u32::MAX] {
            assert_eq!(aggregators_per_node(&config_list(count)), Ok(count));
        }
    }

    #[test]
    fn edit_distance_counts_single_changes() {
        let cases = [("", "", 0), ("", "abc", 3), ("kitten", "sitting", 3), ("flaw", "lawn", 2)];
        for (left, right, expected) in cases {
            assert_eq!(distance(left.as_bytes(), right.as_bytes()), expected);
            assert_eq!(distance(right.as_bytes(), left.as_bytes()), expected);
        }
    }

    #[test]
    fn only_a_near_name_is_suggested() {
        let known = ["cb_nodes", "cb_buffer_size", "romio_cb_read"];
        assert_eq!(nearest("cb_node", known.into_iter()), Some("cb_nodes"));
        assert_eq!(nearest("cb_bufer_sise", known.into_iter()), Some("cb_buffer_size"));
        assert_eq!(nearest("cb", known.into_iter()), None);
        assert_eq!(nearest("stripe", known.into_iter()), None);
        assert_eq!(nearest("", ["ab"].into_iter()), None);
    }
}
