//! Many measurements become one value, or the reason why they do not.

/// Fewer measurements say nothing of their spread.
const SAMPLES_MIN: usize = 5;

/// The middle half of the measurements may lie this far apart, relative to the median.
const SPREAD_MAX: f64 = 0.5;

/// Nothing that is measured here takes less than a tenth of a nanosecond, or longer than a minute.
const SECONDS: std::ops::RangeInclusive<f64> = 1e-10..=60.0;

/// A value and how far its measurements lie apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) seconds: f64,
    /// The width of the middle half, relative to the median.
    pub(super) spread: f64,
}

/// The median of measurements that agree.
pub(super) fn judge(samples: &[f64]) -> Result<Estimate, String> {
    if samples.is_empty() {
        return Err("cannot be measured here".to_owned());
    }
    if samples.len() < SAMPLES_MIN {
        let count = samples.len();
        return Err(format!("only {count} measurements in the time; use --seconds"));
    }
    if let Some(wrong) = samples.iter().find(|seconds| !SECONDS.contains(*seconds)) {
        return Err(format!("impossible: {wrong} s"));
    }
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |quarter: usize| sorted[(sorted.len() - 1) * quarter / 4];
    let estimate = Estimate { seconds: at(2), spread: (at(3) - at(1)) / at(2) };
    match estimate.spread > SPREAD_MAX {
        true => Err(format!("noisy: measurements differ by {:.0} %", estimate.spread * 100.0)),
        false => Ok(estimate),
    }
}

/// Times by length with the noise taken out: a longer one takes at least as long. What falls by
/// more than noise explains is refused.
pub(super) fn monotone(mut times: Vec<(u64, f64)>) -> Result<Vec<(u64, f64)>, String> {
    let mut least: Option<(u64, f64)> = None;
    for (bytes, seconds) in &mut times {
        if let Some((shorter, longest)) = least.filter(|(_, longest)| longest > seconds) {
            if *seconds < longest * (1.0 - SPREAD_MAX) {
                return Err(format!("noisy: {bytes} bytes take less time than {shorter}"));
            }
            *seconds = longest;
        }
        least = Some((*bytes, *seconds));
    }
    Ok(times)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_the_median_of_measurements_that_agree() {
        let estimate = judge(&[5.0, 1.0, 1.1, 0.9, 1.0]).unwrap();
        assert_eq!(estimate.seconds, 1.0);
        assert!(estimate.spread < 0.11);
    }

    #[test]
    fn noise_and_nonsense_are_refused_with_a_reason() {
        let cases: [(&[f64], &str); 6] = [
            (&[], "cannot be measured"),
            (&[1.0; 4], "only 4"),
            (&[1.0, 1.0, 0.0, 1.0, 1.0], "impossible: 0"),
            (&[1.0, 1.0, f64::NAN, 1.0, 1.0], "impossible: NaN"),
            (&[1.0, 1.0, 61.0, 1.0, 1.0], "impossible: 61"),
            (&[1.0, 2.0, 3.0, 4.0, 5.0], "noisy: measurements differ by 67 %"),
        ];
        for (samples, reason) in cases {
            let refused = judge(samples).unwrap_err();
            assert!(refused.contains(reason), "{refused}");
        }
    }

    #[test]
    fn a_longer_access_takes_at_least_as_long() {
        let times = monotone(vec![(4, 1.0), (8, 0.9), (16, 2.0)]).unwrap();
        assert_eq!(times, [(4, 1.0), (8, 1.0), (16, 2.0)]);
        assert!(monotone(vec![(4, 1.0), (8, 0.4)]).unwrap_err().contains("8 bytes take less"));
    }
}
