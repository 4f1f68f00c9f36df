//! Times by size, by what was measured, and by round, of commands that measure several things in
//! turn.

use crate::plot::{Curve, Panel, Scale};
use crate::stats::Spread;
use std::collections::BTreeMap;

/// What a time or rate is of. In tables it stands in its order.
pub trait Named: Copy + Ord {
    /// Its name in tables and legends.
    fn name(self) -> &'static str;
}

/// Microseconds of half a round trip, one figure for each round; what a round did not get is missing
/// in it.
#[derive(Clone, Debug)]
pub struct Results<W> {
    rounds: usize,
    times: BTreeMap<(usize, W), Vec<Option<f64>>>,
    /// Messages a second, by what, by round.
    rates: BTreeMap<W, Vec<Option<f64>>>,
    /// Why something is missing, by what it is.
    pub missing: BTreeMap<W, String>,
}

impl<W> Default for Results<W> {
    fn default() -> Self {
        let (times, rates, missing) = Default::default();
        Results { rounds: 0, times, rates, missing }
    }
}

/// The times of one thing at one size.
#[derive(Clone, Debug)]
pub struct Times<W> {
    /// Bytes of a message.
    pub size: usize,
    /// What was measured.
    pub what: W,
    /// Microseconds of half a round trip, over the rounds.
    pub spread_us: Spread,
    /// The time in each round that has one, in microseconds.
    pub rounds_us: Vec<f64>,
}

impl<W: Named> Results<W> {
    /// Begins a round; what is added from now on belongs to it.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
    }

    /// Adds a time, in microseconds.
    pub fn add_time(&mut self, size: usize, what: W, time_us: Result<f64, String>) {
        let time_us = self.note_missing(what, time_us);
        put(self.times.entry((size, what)).or_default(), self.rounds, time_us);
    }

    /// Adds a rate, in messages a second.
    pub fn add_rate(&mut self, what: W, rate: Result<f64, String>) {
        let rate = self.note_missing(what, rate);
        put(self.rates.entry(what).or_default(), self.rounds, rate);
    }

    fn note_missing(&mut self, what: W, figure: Result<f64, String>) -> Option<f64> {
        figure.map_err(|reason| self.missing.entry(what).or_insert(reason)).ok()
    }

    /// The sizes there are, ascending.
    pub fn sizes(&self) -> Vec<usize> {
        let mut sizes: Vec<usize> = self.times.keys().map(|&(size, _)| size).collect();
        sizes.dedup();
        sizes
    }

    /// What there is at least one time of.
    pub fn measured(&self) -> Vec<W> {
        let with_a_time = self.times.iter().filter(|(_, times)| times.iter().any(Option::is_some));
        let mut whats: Vec<W> = with_a_time.map(|(&(_, what), _)| what).collect();
        whats.sort();
        whats.dedup();
        whats
    }

    /// The time of a size, in microseconds, over the rounds.
    pub fn time_us(&self, size: usize, what: W) -> Option<Spread> {
        spread(self.times.get(&(size, what))?.iter().flatten().copied().collect())
    }

    /// The messages a second, over the rounds.
    pub fn rate(&self, what: W) -> Option<Spread> {
        spread(self.rates.get(&what)?.iter().flatten().copied().collect())
    }

    /// The time of `above` divided by that of `below`, round by round.
    pub fn ratio(&self, above: (usize, W), below: (usize, W)) -> Option<Spread> {
        ratios(self.times.get(&above)?, self.times.get(&below)?)
    }

    /// The rate of `above` divided by that of `below`, round by round.
    pub fn rate_ratio(&self, above: W, below: W) -> Option<Spread> {
        ratios(self.rates.get(&above)?, self.rates.get(&below)?)
    }

    /// All times, by size.
    pub fn times(&self) -> impl Iterator<Item = Times<W>> {
        self.times.iter().filter_map(|(&(size, what), times)| {
            let rounds_us: Vec<f64> = times.iter().flatten().copied().collect();
            let spread_us = spread(rounds_us.clone())?;
            Some(Times { size, what, spread_us, rounds_us })
        })
    }
}

impl<W: Named> Results<W> {
    /// The times, and the throughput of what has bytes to move; `limits` only have times. `when` goes
    /// behind the titles.
    pub fn panels(&self, movers: &[W], limits: &[W], when: &str) -> [Panel; 2] {
        let panel = |title: &str, y: &str, curves| Panel {
            title: format!("{title}{when}"),
            x: "message size (bytes)".into(),
            x_scale: Scale::Log,
            y: y.into(),
            curves,
        };
        let times = self.curves(&[movers, limits].concat(), |_, us| us);
        let rates = self.curves(movers, |bytes, us| bytes * 8.0 / us);
        [
            panel("Half a round trip", "time (µs)", times),
            panel("Throughput", "megabits a second", rates),
        ]
    }

    fn curves(&self, whats: &[W], y: fn(f64, f64) -> f64) -> Vec<Curve> {
        let point = |what, size| Some((size as f64, self.time_us(size, what)?.median));
        let curve = |&what: &W| {
            let points = self.sizes().into_iter().filter_map(|size| point(what, size));
            let points = points.map(|(size, us)| (size, y(size, us))).collect();
            Curve { name: what.name().into(), points }
        };
        whats.iter().map(curve).collect()
    }
}

/// Puts a figure in its round, after empty places for rounds that had none.
fn put(rounds: &mut Vec<Option<f64>>, round: usize, figure: Option<f64>) {
    rounds.resize(round.saturating_sub(1), None);
    rounds.push(figure);
}

fn ratios(above: &[Option<f64>], below: &[Option<f64>]) -> Option<Spread> {
    let both = above.iter().zip(below);
    spread(both.filter_map(|(above, below)| Some((*above)? / (*below)?)).collect())
}

fn spread(samples: Vec<f64>) -> Option<Spread> {
    (!samples.is_empty()).then(|| Spread::of(&samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    enum What {
        Limit,
        Ours,
        Other,
    }

    impl Named for What {
        fn name(self) -> &'static str {
            unreachable!("nothing here is shown")
        }
    }

    #[test]
    fn ratios_compare_only_what_the_same_round_has() {
        let mut results = Results::default();
        // A slow minute in round 2 slows both, and changes no ratio.
        for (ours, other) in [(1.0, Ok(2.0)), (10.0, Ok(20.0)), (1.0, Err("crashed".to_owned()))] {
            results.begin_round();
            results.add_time(8, What::Ours, Ok(ours));
            results.add_time(8, What::Other, other);
        }
        let ratio = results.ratio((8, What::Ours), (8, What::Other)).unwrap();
        assert_eq!((ratio.median, ratio.p1, ratio.p99, ratio.samples), (0.5, 0.5, 0.5, 2));
        assert_eq!(results.time_us(8, What::Ours).unwrap().median, 1.0);
        assert_eq!(results.missing[&What::Other], "crashed");
        assert_eq!(results.measured(), [What::Ours, What::Other]);
    }

    #[test]
    fn a_round_that_was_left_out_keeps_its_place() {
        let mut results = Results::default();
        results.begin_round();
        results.add_rate(What::Ours, Ok(30.0));
        results.begin_round();
        results.add_rate(What::Ours, Ok(60.0));
        results.add_rate(What::Other, Ok(10.0));
        assert_eq!(results.rate_ratio(What::Ours, What::Other).unwrap().median, 6.0);
        assert_eq!(results.rate(What::Other).unwrap().samples, 1);
        assert!(results.rate(What::Limit).is_none());
    }

    #[test]
    fn times_are_of_what_was_measured_and_nothing_else() {
        let mut results = Results::default();
        results.begin_round();
        results.add_time(64, What::Ours, Ok(0.1));
        results.add_time(8, What::Limit, Ok(0.05));
        results.add_time(8, What::Other, Err("not installed".into()));
        let shown: Vec<_> = results.times().map(|t| (t.size, t.what, t.rounds_us)).collect();
        assert_eq!(shown, [(8, What::Limit, vec![0.05]), (64, What::Ours, vec![0.1])]);
        assert_eq!(results.sizes(), [8, 64]);
    }
}
