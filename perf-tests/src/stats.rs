//! Percentiles of a handful of samples.

use serde::{Deserialize, Serialize};

/// How samples of one quantity lie: every printed figure is a median between its 1st and 99th
/// percentile. The unit is that of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// The middle.
    pub median: f64,
    /// The 1st percentile.
    pub p1: f64,
    /// The 99th percentile.
    pub p99: f64,
    /// How many samples there were.
    pub samples: usize,
}

impl Spread {
    /// The spread of `samples`, in any order; all zero if there are none.
    ///
    /// ```
    /// use taffrail_perf::stats::Spread;
    /// let spread = Spread::of(&[3.0, 1.0, 2.0]);
    /// assert_eq!((spread.median, spread.samples), (2.0, 3));
    /// ```
    pub fn of(samples: &[f64]) -> Spread {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        Spread {
            median: percentile(&sorted, 50.0),
            p1: percentile(&sorted, 1.0),
            p99: percentile(&sorted, 99.0),
            samples: sorted.len(),
        }
    }

    /// The sample that a quarter of the others are below; 0 of none.
    pub fn lower_quartile(samples: &[f64]) -> f64 {
        let mut sorted = samples.to_vec();
        sorted.sort_by(f64::total_cmp);
        percentile(&sorted, 25.0)
    }

    /// The same spread in another unit.
    pub fn scaled(self, factor: f64) -> Spread {
        Spread {
            median: self.median * factor,
            p1: self.p1 * factor,
            p99: self.p99 * factor,
            ..self
        }
    }
}

/// The `percent` percentile of ascending samples, between two of them by straight line; 0 of none.
///
/// # Panics
/// If `percent` is not within `0..=100`.
pub fn percentile(sorted: &[f64], percent: f64) -> f64 {
    assert!((0.0..=100.0).contains(&percent), "{percent} is not within 0..=100");
    let Some(last) = sorted.len().checked_sub(1) else { return 0.0 };
    let place = percent / 100.0 * last as f64;
    let below = place.floor() as usize;
    let above = (below + 1).min(last);
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

/// The middle of samples in any order; 0 of none.
pub fn median(samples: &[f64]) -> f64 {
    Spread::of(samples).median
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_samples() {
        let hundred_and_one: Vec<f64> = (0..=100).map(f64::from).collect();
        for percent in [0.0, 1.0, 37.0, 50.0, 99.0, 100.0] {
            assert_eq!(percentile(&hundred_and_one, percent), percent);
        }
        assert_eq!(percentile(&[10.0, 20.0], 50.0), 15.0);
        assert_eq!(percentile(&[10.0, 20.0], 99.0), 19.9);
        assert_eq!(percentile(&[7.0], 99.0), 7.0);
        assert_eq!(percentile(&[], 50.0), 0.0);
    }

    #[test]
    fn order_does_not_matter_and_an_outlier_does_not_move_the_median() {
        let spread = Spread::of(&[5.0, 1.0, 4.0, 2.0, 1000.0]);
        assert_eq!(spread.median, 4.0);
        assert_eq!(Spread::lower_quartile(&[5.0, 1.0, 4.0, 2.0, 1000.0]), 2.0);
        assert!(spread.p99 > 900.0 && spread.p1 < 1.1);
        assert_eq!(spread.scaled(2.0).median, 8.0);
        assert_eq!(spread.scaled(2.0).samples, 5);
    }

    #[test]
    #[should_panic(expected = "not within")]
    fn a_percentile_above_hundred_is_refused() {
        percentile(&[1.0], 101.0);
    }
}
