//! The fastest path for long messages from a peer, found by measuring all of them.
//!
//! The speed of a copy depends on the placement of the two processors, which changes under a running program on
//! virtual machines. The receiver chooses the path. For each peer and size class it keeps the recent cost of each path, takes
//! the cheapest, and now and then tries another. The first messages on another path take longer than the rest,
//! since their buffers are in no cache. So a trial has several messages, and its first messages count only if they are
//! faster than the known cost.

/// The path of the payload of an announced message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RndvPath {
    /// The receiver reads it out of the sender's memory.
    Get,
    /// The sender sends it in fragments.
    Fragments,
    /// The sender sends it in fragments, and copies them past its caches.
    FragmentsNonTemporal,
}

/// All paths, in the order of the tables.
pub const RNDV_PATHS: [RndvPath; 3] =
    [RndvPath::Get, RndvPath::Fragments, RndvPath::FragmentsNonTemporal];

/// The exponent of the smallest size class, a power of two.
const SMALLEST: u32 = 14;
/// Number of size classes.
const SIZES: usize = 16;
/// Messages in a trial.
const TRIAL: u32 = 8;
/// Messages after a change of the path that may be slow because of the change.
const COLD: u32 = 5;
/// Messages before the first trial. The number doubles before each further trial.
const FIRST_AFTER: u32 = 4;
/// The largest number of messages between two trials.
const NEXT_AFTER: u32 = 256;
/// A path that costs this multiple of the best is tried five times less often.
const HOPELESS: f32 = 3.0;
/// Fragments are taken unless they cost this multiple of another path. They are fastest when both sides use them,
/// since their memory then stays in the caches, and each side learns alone.
const RELUCTANCE: f32 = 1.25;

/// The recent costs of the paths.
#[derive(Default)]
pub(crate) struct RndvPaths {
    sizes: [Lately; SIZES],
}

#[derive(Clone, Copy, Default)]
struct Lately {
    /// Nanoseconds for each byte; 0 while nothing is known.
    cost: [f32; RNDV_PATHS.len()],
    /// Trials so far, the way of the last, and how many of its messages are still to come.
    trials: u32,
    tried: usize,
    left: u32,
    /// Messages since, on the way that is known to be the best.
    messages: u32,
    /// The way of the message noted last, and how many before it came the same way.
    last: Option<RndvPath>,
    before: u32,
}

impl RndvPaths {
    fn size(len: usize) -> usize {
        (len.max(1).ilog2().saturating_sub(SMALLEST) as usize).min(SIZES - 1)
    }

    /// The way for the next message of `len` bytes. `expected` is what each way is thought to cost,
    /// in nanoseconds, as long as nothing was measured; `None` for a way that is not to be had.
    pub(crate) fn choose(
        &mut self,
        len: usize,
        expected: [Option<f64>; RNDV_PATHS.len()],
    ) -> RndvPath {
        let lately = &mut self.sizes[Self::size(len)];
        if lately.left > 0 && expected[lately.tried].is_some() {
            lately.left -= 1;
            return RNDV_PATHS[lately.tried];
        }
        let cost = |way: usize| {
            let known = lately.cost[way];
            let cost =
                expected[way].map(|e| if known > 0.0 { known } else { (e / len as f64) as f32 });
            if RNDV_PATHS[way] == RndvPath::Fragments {
                cost
            } else {
                cost.map(|cost| cost * RELUCTANCE)
            }
        };
        let cheapest = (0..RNDV_PATHS.len())
            .filter_map(|way| cost(way).map(|c| (way, c)))
            .min_by(|a, b| a.1.total_cmp(&b.1));
        let Some((best, least)) = cheapest else { return RndvPath::Fragments };
        if lately.messages < (FIRST_AFTER << lately.trials.min(8)).min(NEXT_AFTER) {
            lately.messages += 1;
            return RNDV_PATHS[best];
        }
        let round = lately.trials;
        let other = (best + 1 + (round as usize % (RNDV_PATHS.len() - 1))) % RNDV_PATHS.len();
        let worth = cost(other).is_some_and(|c| c < least * HOPELESS || round % 10 < 2);
        (lately.messages, lately.trials) = (0, round.wrapping_add(1));
        if !worth {
            return RNDV_PATHS[best];
        }
        (lately.tried, lately.left) = (other, TRIAL - 1);
        RNDV_PATHS[other]
    }

    /// Records the cost of a message of `len` bytes. A lower cost than the known one is believed at once, a higher
    /// one slowly, since the program may have been late. A higher cost right after a change of the path is
    /// ignored.
    pub(crate) fn note(&mut self, len: usize, way: RndvPath, ns: f64) {
        let now = (ns / len.max(1) as f64) as f32;
        let lately = &mut self.sizes[Self::size(len)];
        let same = lately.last.replace(way) == Some(way);
        lately.before = if same { lately.before.saturating_add(1) } else { 0 };
        let known = &mut lately.cost[way as usize];
        if *known == 0.0 || now < *known {
            *known = now.max(f32::MIN_POSITIVE);
        } else if lately.before >= COLD {
            *known += (now.min(*known * 2.0) - *known) / 8.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `messages` messages, each way costing what `costs` says; how many went each way.
    fn run(rndv_paths: &mut RndvPaths, messages: u32, costs: [f64; 3]) -> [u32; 3] {
        let mut taken = [0; 3];
        for _ in 0..messages {
            let way = rndv_paths.choose(1 << 20, [Some(5.0e4), Some(4.0e4), Some(9.0e4)]);
            taken[way as usize] += 1;
            rndv_paths.note(1 << 20, way, costs[way as usize]);
        }
        taken
    }

    #[test]
    fn the_cheapest_is_found_whatever_was_expected() {
        for best in 0..3 {
            let mut costs = [2.0e5; 3];
            costs[best] = 1.0e5;
            let mut rndv_paths = RndvPaths::default();
            run(&mut rndv_paths, 200, costs);
            let taken = run(&mut rndv_paths, 1000, costs);
            assert!(taken[best] > 950, "{best}: {taken:?}");
            assert!(taken.iter().all(|&n| n > 0), "the others are still tried: {taken:?}");
        }
    }

    /// Caches have to be filled first: the first messages after a change of rndv_paths cost three times as much.
    #[test]
    fn the_cheapest_is_found_though_it_begins_slowly() {
        let costs = [1.3e5, 1.0e5, 3.0e5];
        let mut rndv_paths = RndvPaths::default();
        let (mut taken, mut since, mut last) = ([0; 3], 0, None);
        for n in 0..2000 {
            let way = rndv_paths.choose(1 << 20, [Some(1.0e4), Some(4.0e4), Some(9.0e4)]);
            since = if last.replace(way) == Some(way) { since + 1 } else { 0 };
            let cold = if since < 5 { 3.0 } else { 1.0 };
            rndv_paths.note(1 << 20, way, costs[way as usize] * cold);
            taken[way as usize] += u32::from(n >= 200);
        }
        assert!(taken[RndvPath::Fragments as usize] > 1700, "{taken:?}");
    }

    #[test]
    fn a_change_is_noticed() {
        let mut rndv_paths = RndvPaths::default();
        run(&mut rndv_paths, 500, [1.0e5, 1.5e5, 3.0e5]);
        run(&mut rndv_paths, 500, [4.0e5, 1.5e5, 3.0e5]);
        let taken = run(&mut rndv_paths, 500, [4.0e5, 1.5e5, 3.0e5]);
        assert!(taken[RndvPath::Fragments as usize] > 470, "{taken:?}");
    }

    #[test]
    fn a_way_that_is_not_to_be_had_is_never_taken() {
        let mut rndv_paths = RndvPaths::default();
        for _ in 0..10_000 {
            assert_ne!(rndv_paths.choose(1 << 22, [None, Some(1.0), Some(2.0)]), RndvPath::Get);
        }
        assert_eq!(rndv_paths.choose(1, [None; 3]), RndvPath::Fragments);
    }
}
