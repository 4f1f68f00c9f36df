//! Times by size, by what was measured, and by round, of commands that measure several things in
//! turn.

use crate::plot::{Axis, Curve, Panel, Scale, Unit};
use crate::settled::{Taken, marked};
use crate::stats::Spread;
use crate::table;
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
    /// In how many rounds the processors did not stay where they were to be, of times.
    moved: BTreeMap<(usize, W), usize>,
    /// The same of rates.
    rates_moved: BTreeMap<W, usize>,
    /// Why something is missing, by what it is.
    pub missing: BTreeMap<W, String>,
}

impl<W> Default for Results<W> {
    fn default() -> Self {
        let (times, rates, missing) = Default::default();
        let (moved, rates_moved) = Default::default();
        Results { rounds: 0, times, rates, moved, rates_moved, missing }
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
    /// In how many of them the processors did not stay where they were to be.
    pub moved: usize,
}

impl<W: Named> Results<W> {
    /// Begins a round; what is added from now on belongs to it.
    pub fn begin_round(&mut self) {
        self.rounds += 1;
    }

    /// Adds a time, in microseconds.
    pub fn add_time(&mut self, size: usize, what: W, time_us: impl Into<Taken<f64>>) {
        let Taken { figure, stayed } = time_us.into();
        let time_us = self.note_missing(what, figure);
        if time_us.is_some() && !stayed {
            *self.moved.entry((size, what)).or_default() += 1;
        }
        put(self.times.entry((size, what)).or_default(), self.rounds, time_us);
    }

    /// Adds a rate, in messages a second.
    pub fn add_rate(&mut self, what: W, rate: impl Into<Taken<f64>>) {
        let Taken { figure, stayed } = rate.into();
        let rate = self.note_missing(what, figure);
        if rate.is_some() && !stayed {
            *self.rates_moved.entry(what).or_default() += 1;
        }
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

    /// What was measured, or was to be.
    pub fn tried(&self) -> Vec<W> {
        let mut whats: Vec<W> = self.times.keys().map(|&(_, what)| what).collect();
        whats.sort();
        whats.dedup();
        whats
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
            let moved = self.moved.get(&(size, what)).copied().unwrap_or(0);
            Some(Times { size, what, spread_us, rounds_us, moved })
        })
    }
}

/// Cells of tables: a dash where there is no figure, a mark where the processors did not stay.
impl<W: Named> Results<W> {
    /// A time with its spread.
    pub fn time_cell(&self, size: usize, what: W) -> String {
        let stayed = !self.moved.contains_key(&(size, what));
        self.time_us(size, what).map_or("-".into(), |time| marked(table::spread(time), stayed))
    }

    /// A ratio of times with its spread.
    pub fn ratio_cell(&self, above: (usize, W), below: (usize, W)) -> String {
        let stayed = [above, below].iter().all(|figure| !self.moved.contains_key(figure));
        self.ratio(above, below).map_or("-".into(), |ratio| marked(table::times(ratio), stayed))
    }

    /// A rate, of messages of so many bytes.
    pub fn rate_cell(&self, what: W, size: usize) -> String {
        let stayed = !self.rates_moved.contains_key(&what);
        let cell = |rate| marked(table::message_rate(rate, size), stayed);
        self.rate(what).map_or("-".into(), cell)
    }

    /// A ratio of rates with its spread.
    pub fn rate_ratio_cell(&self, above: W, below: W) -> String {
        let stayed = [above, below].iter().all(|what| !self.rates_moved.contains_key(what));
        let cell = |ratio| marked(table::times(ratio), stayed);
        self.rate_ratio(above, below).map_or("-".into(), cell)
    }

    /// In how many rounds the processors did not stay where they were to be, of each rate.
    pub fn rates_moved(&self) -> &BTreeMap<W, usize> {
        &self.rates_moved
    }

    /// Whether any cell has a mark.
    pub fn any_moved(&self) -> bool {
        !self.moved.is_empty() || !self.rates_moved.is_empty()
    }
}

impl<W: Named> Results<W> {
    /// The times, and the throughput of what has bytes to move; `limits` only have times. `when` goes
    /// behind the titles.
    pub fn panels(&self, movers: &[W], limits: &[W], when: &str) -> [Panel; 2] {
        let panel = |title: &str, y: &str, unit, curves| Panel {
            title: format!("{title}{when}"),
            x: Axis::new("message size (bytes)", Scale::Bytes),
            y: Axis::new(y, Scale::Log(unit)),
            curves,
        };
        let times = self.curves(&[movers, limits].concat(), |_, us| us);
        let rates = self.curves(movers, |bytes, us| bytes * 8.0 / us * 1e6);
        [
            panel("Latency", "half a round trip", Unit::Us, times),
            panel("Throughput", "throughput", Unit::BitsPerSecond, rates),
        ]
    }

    fn curves(&self, whats: &[W], y: fn(f64, f64) -> f64) -> Vec<Curve> {
        let point = |what, size| Some((size as f64, self.time_us(size, what)?.median));
        let curve = |&what: &W| {
            let points = self.sizes().into_iter().filter_map(|size| point(what, size));
            let points = points.map(|(size, us)| (size, y(size, us))).collect();
            Curve { name: what.name().into(), points, ..Curve::default() }
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
    fn what_is_of_processors_that_moved_is_marked_and_so_is_what_is_relative_to_it() {
        let mut results = Results::default();
        let moved = |figure| Taken { figure, stayed: false };
        for first in [true, false] {
            results.begin_round();
            results.add_time(8, What::Limit, Ok(1.0));
            let ours = Taken { figure: Ok(2.0), stayed: first };
            results.add_time(8, What::Ours, ours);
            results.add_time(8, What::Other, moved(Err("crashed".into())));
            results.add_rate(What::Ours, Ok(2e6));
            results.add_rate(What::Limit, moved(Ok(1e6)));
        }
        let (limit, ours, other) = ((8, What::Limit), (8, What::Ours), (8, What::Other));
        assert_eq!(results.time_cell(8, What::Limit), "1.000 (1.000-1.000)");
        assert_eq!(results.time_cell(8, What::Ours), "*2.000 (2.000-2.000)");
        assert_eq!(results.time_cell(8, What::Other), "-");
        assert_eq!(results.ratio_cell(ours, limit), "*2.00 (2.00-2.00)");
        assert_eq!(results.ratio_cell(limit, ours), "*0.50 (0.50-0.50)");
        assert_eq!(results.ratio_cell(limit, limit), "1.00 (1.00-1.00)");
        assert_eq!(results.ratio_cell(limit, other), "-");
        assert!(results.rate_cell(What::Ours, 8).starts_with("  2.00 million"));
        assert!(results.rate_cell(What::Limit, 8).starts_with("*  1.00 million"));
        assert_eq!(results.rate_ratio_cell(What::Ours, What::Limit), "*2.00 (2.00-2.00)");
        let rounds: Vec<usize> = results.times().map(|times| times.moved).collect();
        assert_eq!(rounds, [0, 1]);
        assert!(results.any_moved() && !Results::<What>::default().any_moved());
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
