//! Which sizes NetPIPE visits, and how often it repeats each.

/// How long one trial should take, in seconds. NetPIPE 3.7 as distributions build it.
pub const RUN_SECONDS: f64 = 0.10;
/// A size is measured this many times, and the least time counts.
pub const TRIALS: usize = 3;
/// A message that takes this many seconds is the last.
pub const STOP_SECONDS: f64 = 1.0;

/// One size of the schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// Bytes of the message.
    pub size: usize,
    /// The size that this one is a little below or above; or the same.
    pub nominal: usize,
    /// The distance to the next size, perturbations apart.
    pub step: usize,
}

/// The sizes from a lower to an upper bound: two a doubling (4, 6, 8, 12, 16, ...), and as soon as
/// they lie far enough apart each also a little below and a little above.
///
/// ```
/// use taffrail_perf::netpipe::Sizes;
/// let sizes: Vec<usize> = Sizes::new(1, 24, 3).map(|p| p.size).collect();
/// assert_eq!(sizes, [1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27]);
/// ```
#[derive(Clone, Debug)]
pub struct Sizes {
    centre: usize,
    step: usize,
    centres_seen: usize,
    upper: usize,
    perturbation: usize,
    /// What is left around the current centre, the next one last.
    around: Vec<Point>,
}

impl Sizes {
    /// Sizes from `lower` (at least 1) to `upper`; each also `perturbation` bytes off, `0` for not.
    /// The last centre's upper perturbation may exceed `upper`, as in NetPIPE.
    pub fn new(lower: usize, upper: usize, perturbation: usize) -> Sizes {
        let lower = lower.max(1);
        Sizes {
            centre: lower,
            step: if lower > 1 { lower / 2 } else { 1 },
            centres_seen: usize::from(lower > 1),
            upper,
            perturbation,
            around: Vec::with_capacity(3),
        }
    }
}

impl Iterator for Sizes {
    type Item = Point;

    fn next(&mut self) -> Option<Point> {
        if self.around.is_empty() {
            self.visit_next_centre();
        }
        self.around.pop()
    }
}

impl Sizes {
    fn visit_next_centre(&mut self) {
        if self.centre > self.upper {
            return;
        }
        if self.centres_seen > 2 && self.centres_seen % 2 == 1 {
            self.step *= 2;
        }
        let off = self.perturbation;
        let (nominal, step) = (self.centre, self.step);
        let point = |size| Point { size, nominal, step };
        if off > 0 && step > off + 1 {
            self.around.extend([nominal + off, nominal, nominal - off].map(point));
        } else {
            self.around.push(point(nominal));
        }
        self.centre += self.step;
        self.centres_seen += 1;
    }
}

/// How often to repeat the size reached by `step`, when `last_size` bytes took `last_seconds`:
/// [`RUN_SECONDS`] worth of them, at least [`TRIALS`].
pub fn repetitions(last_size: usize, step: usize, last_seconds: f64) -> u64 {
    let growth = last_size as f64 / (last_size.saturating_sub(step) as f64 + 1.0);
    ((RUN_SECONDS / (growth * last_seconds)) as u64).max(TRIALS as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(lower: usize, upper: usize, perturbation: usize) -> Vec<usize> {
        Sizes::new(lower, upper, perturbation).map(|point| point.size).collect()
    }

    // What NPopenmpi 3.7.2 visits with these bounds.
    #[test]
    fn the_sizes_are_netpipes() {
        let default = [
            1, 2, 3, 4, 6, 8, 12, 13, 16, 19, 21, 24, 27, 29, 32, 35, 45, 48, 51, 61, 64, 67, 93,
            96, 99,
        ];
        assert_eq!(sizes(1, 100, 3), default);
        let one_off = [
            1, 2, 3, 4, 6, 7, 8, 9, 11, 12, 13, 15, 16, 17, 23, 24, 25, 31, 32, 33, 47, 48, 49, 63,
            64, 65, 95, 96, 97, 127, 128, 129, 191, 192, 193,
        ];
        assert_eq!(sizes(1, 200, 1), one_off);
        let none_off = [1000, 1500, 2000, 3000, 4000, 6000, 8000, 12000, 16000];
        assert_eq!(sizes(1000, 20000, 0), none_off);
    }

    #[test]
    fn other_starts_too() {
        assert_eq!(sizes(5, 20, 3), [5, 7, 9, 13, 14, 17, 20]);
        assert_eq!(sizes(2, 20, 3), [2, 3, 4, 6, 8, 12, 13, 16, 19]);
        assert_eq!(sizes(100, 200, 3), [97, 100, 103, 147, 150, 153, 197, 200, 203]);
        let wide = [
            3, 4, 5, 7, 9, 13, 12, 17, 22, 20, 25, 30, 28, 33, 38, 44, 49, 54, 60, 65, 70, 92, 97,
            102, 124, 129, 134, 188, 193, 198, 252, 257, 262,
        ];
        assert_eq!(sizes(3, 300, 5), wide);
        let large = [
            65533, 65536, 65539, 98301, 98304, 98307, 131069, 131072, 131075, 196605, 196608,
            196611, 262141, 262144, 262147,
        ];
        assert_eq!(sizes(65536, 300_000, 3), large);
    }

    #[test]
    fn a_size_alone_and_none() {
        assert_eq!(sizes(8, 8, 3), [8]);
        assert_eq!(sizes(0, 1, 3), [1]);
        assert!(sizes(9, 8, 3).is_empty());
    }

    // Rates and the repetitions that followed from them, as one run of NPopenmpi 3.7.2 printed them.
    #[test]
    fn the_repetitions_are_netpipes() {
        let recorded = [
            (1, 1, 26.771700, 350_902),
            (3, 2, 84.058480, 244_838),
            (6, 4, 169.734309, 185_395),
            (13, 8, 351.604227, 163_617),
            (51, 32, 1305.246203, 131_550),
            (96, 32, 2012.104650, 186_007),
        ];
        for (size, step, mbps, printed) in recorded {
            let seconds = size as f64 * 8.0 / (mbps * 1024.0 * 1024.0);
            assert_eq!(repetitions(size, step, seconds), printed, "after {size} bytes");
        }
    }

    #[test]
    fn a_slow_message_is_still_repeated_for_each_trial() {
        assert_eq!(repetitions(1 << 30, 1 << 29, 0.9), TRIALS as u64);
    }
}
