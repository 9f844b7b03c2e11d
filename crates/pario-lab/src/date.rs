//! When something was made or measured, in UTC.
//!
//! `SOURCE_DATE_EPOCH` is the time instead of the clock, as in other programs: then the same
//! results make the same page.

use std::time::{SystemTime, UNIX_EPOCH};

const DAY_SECONDS: u64 = 86_400;

/// Seconds since 1970.
pub fn now() -> u64 {
    let given = std::env::var("SOURCE_DATE_EPOCH").ok().and_then(|text| text.parse().ok());
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
    given.unwrap_or_else(clock)
}

/// The minute of a time, such as `2026-11-18 17:43 UTC`.
pub fn minute(unix_seconds: u64) -> String {
    let minutes = unix_seconds % DAY_SECONDS / 60;
    format!("{} {:02}:{:02} UTC", day(unix_seconds), minutes / 60, minutes % 60)
}

/// From the first to the last of some times, as short as it can be said.
pub fn span(times: impl Iterator<Item = u64>) -> Option<String> {
    let (first, last) = times.fold(None, |seen: Option<(u64, u64)>, time| {
        let (first, last) = seen.unwrap_or((time, time));
        Some((first.min(time), last.max(time)))
    })?;
    Some(match (minute(first) == minute(last), day(first) == day(last)) {
        (true, _) => minute(first),
        (false, true) => day(first),
        (false, false) => format!("{} to {}", day(first), day(last)),
    })
}

/// The day in the Gregorian calendar. Years begin in March, so that a leap day ends one.
fn day(unix_seconds: u64) -> String {
    // Days from 0000-03-01 to 1970-01-01, and those of 400, 100, 4 years and 1.
    const BEFORE_1970: u64 = 719_468;
    const ERA: u64 = 146_097;
    const CENTURY: u64 = 36_524;
    const FOUR: u64 = 1_461;
    const ONE: u64 = 365;
    let days = unix_seconds / DAY_SECONDS + BEFORE_1970;
    let (era, of_era) = (days / ERA, days % ERA);
    let year = (of_era - of_era / (FOUR - 1) + of_era / CENTURY - of_era / (ERA - 1)) / ONE;
    let of_year = of_era - (ONE * year + year / 4 - year / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let cases = [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_735_689_599, "2024-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ];
        for (seconds, text) in cases {
            assert_eq!(minute(seconds), text);
        }
    }

    #[test]
    fn a_span_is_a_minute_a_day_or_days() {
        let span = |times: &[u64]| span(times.iter().copied());
        assert_eq!(span(&[]), None);
        assert_eq!(span(&[59, 0]).as_deref(), Some("1970-01-01 00:00 UTC"));
        assert_eq!(span(&[3600, 0]).as_deref(), Some("1970-01-01"));
        assert_eq!(span(&[90_000, 0]).as_deref(), Some("1970-01-01 to 1970-01-02"));
    }
}
