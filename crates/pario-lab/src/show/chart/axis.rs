//! From values to places on a canvas, and where ticks are.

use super::Scale;

/// An axis: values from `low` to `high` are drawn from `start` to `end`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    scale: Scale,
}

impl Axis {
    /// An axis with all values. A linear one begins at 0, unless there are values below.
    pub(super) fn new(
        values: impl Iterator<Item = f64>,
        scale: Scale,
        (start, end): (f64, f64),
    ) -> Axis {
        let usable =
            values.filter(|value| value.is_finite() && (scale == Scale::Linear || *value > 0.0));
        let (mut low, mut high) = (f64::INFINITY, f64::NEG_INFINITY);
        for value in usable {
            (low, high) = (low.min(value), high.max(value));
        }
        if low > high {
            (low, high) = (1.0, 1.0);
        }
        match scale {
            Scale::Linear => {
                low = low.min(0.0);
                high = match high > low {
                    true => high + (high - low) * 0.03,
                    false => low + 1.0,
                };
            }
            // Room on both sides, so that no mark lies on the border.
            Scale::Log => (low, high) = (low / 1.3, high * 1.3),
        }
        Axis { low, high, start, end, scale }
    }

    /// Where a value is; one that cannot be shown is at the start.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.low) / (self.high - self.low),
            Scale::Log if value <= 0.0 => 0.0,
            Scale::Log => (value / self.low).ln() / (self.high / self.low).ln(),
        };
        self.start + share * (self.end - self.start)
    }

    /// Round values, at most about `count`.
    pub(super) fn ticks(&self, count: u32) -> Vec<f64> {
        match self.scale {
            Scale::Linear => self.linear_ticks(count),
            Scale::Log => self.log_ticks(count),
        }
    }

    /// Powers of two, or multiples of one: sizes that people know.
    pub(super) fn ticks_of_bytes(&self, count: u32) -> Vec<f64> {
        let above = |least: f64| least.max(1.0).log2().ceil().exp2();
        match self.scale {
            Scale::Linear => {
                let step = above((self.high - self.low) / f64::from(count.max(1)));
                let ticks = (0..=2 * count).map(|index| f64::from(index) * step);
                ticks.filter(|tick| (self.low..=self.high).contains(tick)).collect()
            }
            Scale::Log => {
                let powers = (self.high / self.low).log2();
                let stride = (powers / f64::from(count.max(1))).ceil().max(1.0);
                let first = above(self.low);
                let ticks = (0..=count).map(|index| first * (f64::from(index) * stride).exp2());
                ticks.take_while(|tick| *tick <= self.high).collect()
            }
        }
    }

    fn linear_ticks(&self, count: u32) -> Vec<f64> {
        let step = round_step((self.high - self.low) / f64::from(count.max(1)));
        let first = (self.low / step).ceil();
        let ticks = (0..=2 * count).map(|index| (first + f64::from(index)) * step);
        ticks.take_while(|tick| *tick <= self.high * (1.0 + 1e-9)).collect()
    }

    /// Powers of ten, and 2 and 5 times them where there are few.
    fn log_ticks(&self, count: u32) -> Vec<f64> {
        let (first, last) = (self.low.log10().floor(), self.high.log10().ceil());
        let decades = last - first;
        let factors: &[f64] = match (self.high / self.low).log10() * 3.0 <= f64::from(count) {
            true => &[1.0, 2.0, 5.0],
            false => &[1.0],
        };
        let stride = (decades / f64::from(count.max(1))).ceil().max(1.0);
        let mut ticks = Vec::new();
        let mut exponent = first;
        while exponent <= last {
            let power = 10_f64.powf(exponent);
            ticks.extend(factors.iter().map(|factor| factor * power));
            exponent += stride;
        }
        ticks.retain(|tick| (self.low..=self.high).contains(tick));
        ticks
    }
}

/// The next larger step of 1, 2 or 5 times a power of ten.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    let factors = [1.0, 2.0, 5.0, 10.0];
    let factor = factors.into_iter().find(|factor| factor * power >= least * (1.0 - 1e-9));
    factor.unwrap_or(10.0) * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_proportional() {
        let axis = Axis::new([4.0, 10.0].into_iter(), Scale::Linear, (100.0, 200.0));
        // There is some room above the largest value.
        let places = [0.0, 5.0, 10.3].map(|value| axis.place(value).round());
        assert_eq!(places, [100.0, 149.0, 200.0]);
        assert_eq!(axis.ticks(6), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        let log = Axis::new([1.3, 1000.0 / 1.3].into_iter(), Scale::Log, (0.0, 1.0));
        assert!((log.place(10.0) - 1.0 / 3.0).abs() < 1e-9);
        assert_eq!(log.ticks(4)[1..3], [10.0, 100.0]);
    }

    #[test]
    fn an_axis_without_values_can_be_drawn() {
        for scale in [Scale::Linear, Scale::Log] {
            let axis = Axis::new(std::iter::empty(), scale, (0.0, 1.0));
            assert!(axis.place(1.0).is_finite() && axis.ticks(5).len() <= 12);
            let flat = Axis::new([0.0].into_iter(), scale, (0.0, 1.0));
            assert!(flat.place(0.0).is_finite() && flat.ticks(5).len() <= 12);
        }
    }
}
