//! Limits and costs, as data.

/// What a fabric can do for a peer. Lengths are in bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Limits {
    /// The name users know the fabric by: `shm`, `tcp`, `verbs`, `libfabric`.
    pub fabric: &'static str,
    /// The longest payload of one [`send`](crate::Fabric::send).
    pub max_message: usize,
    /// The longest payload that travels inside the message's own descriptor.
    pub inline: usize,
    /// The fragment length at which a long message moves fastest.
    pub fragment: usize,
    /// The same of a message whose receiver has asked for it, and waits with the memory it goes to.
    pub rndv_fragment: usize,
    /// [`map`](crate::Fabric::map) works: views of the peer's memory without a copy.
    pub maps: bool,
    /// Deregistered memory is out of the peer's reach at once, and a get or put past the end of a
    /// region fails. Where this is not so, the holders of keys must take care of it.
    pub guards: bool,
    /// Bytes that are sent whole are copied by the call, as by a socket, or kept in the log ([`BeforeLog`](crate::BeforeLog)). So a
    /// message may be written to the log while it is on its way, and the answer is never [`Later`](crate::Sent::Later).
    pub copies_sends: bool,
}

/// The price of moving bytes in one way: a straight line, or a short table of what was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost(Shape);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Shape {
    Linear {
        latency_ns: f64,
        bytes_per_ns: f64,
    },
    /// The first `used` points count; bytes and nanoseconds, bytes ascending.
    Table {
        points: [(f64, f64); Cost::POINTS],
        used: usize,
    },
}

impl Cost {
    /// The most points of a table.
    pub const POINTS: usize = 8;

    /// `latency_ns` nanoseconds before the first byte moves, `bytes_per_ns` (GB/s) from then on.
    pub const fn linear(latency_ns: f64, bytes_per_ns: f64) -> Cost {
        Cost(Shape::Linear { latency_ns, bytes_per_ns })
    }

    /// What was measured: bytes, and the nanoseconds they took. Between two points the cost runs
    /// straight if both axes are logarithmic. Beyond the last point bytes cost what they cost there;
    /// before the first, the curve continues as it begins, but never falls towards longer messages.
    ///
    /// # Errors
    /// [`BadTable`] when there is no point or there are too many, when bytes do not ascend, and when
    /// a time is not positive and finite.
    pub fn table(measured: &[(usize, f64)]) -> Result<Cost, BadTable> {
        let used = measured.len();
        if used == 0 || used > Cost::POINTS {
            return Err(BadTable::Points(used));
        }
        let mut points = [(0.0, 0.0); Cost::POINTS];
        let mut before = 0;
        for (place, &(len, ns)) in points.iter_mut().zip(measured) {
            // Sizes that are one as numbers of this kind have no slope between them.
            if len as f64 <= before as f64 {
                return Err(BadTable::Order { before, len });
            }
            if !(ns.is_finite() && ns > 0.0) {
                return Err(BadTable::Time { len, ns });
            }
            *place = (len as f64, ns);
            before = len;
        }
        Ok(Cost(Shape::Table { points, used }))
    }

    /// Nanoseconds to move `len` bytes.
    pub fn of(&self, len: usize) -> f64 {
        match &self.0 {
            Shape::Linear { latency_ns, bytes_per_ns } => latency_ns + len as f64 / bytes_per_ns,
            Shape::Table { points, used } => look_up(&points[..*used], len.max(1) as f64),
        }
    }
}

fn look_up(points: &[(f64, f64)], len: f64) -> f64 {
    let above = points.partition_point(|&(at, _)| at < len);
    match (above.checked_sub(1).map(|below| points[below]), points.get(above)) {
        (Some(below), Some(&above)) => below.1 * (len / below.0).powf(slope(below, above)),
        (Some(last), None) => last.1 * len / last.0,
        (None, _) => {
            let first = points[0];
            let slope = points.get(1).map_or(1.0, |&second| slope(first, second));
            first.1 * (len / first.0).powf(slope.clamp(0.0, 1.0))
        }
    }
}

fn slope(from: (f64, f64), to: (f64, f64)) -> f64 {
    (to.1 / from.1).ln() / (to.0 / from.0).ln()
}

/// What makes no table of costs.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BadTable {
    /// The wrong number of points.
    #[error("expected 1 to {most} sizes, got {0}", most = Cost::POINTS)]
    Points(usize),
    /// Sizes that do not ascend.
    #[error("sizes must ascend and be above 0, but {len} follows {before}")]
    Order {
        /// The size before, or 0.
        before: usize,
        /// The size.
        len: usize,
    },
    /// Times that are none.
    #[error("{ns} ns for {}; a time must be finite and above 0", crate::words::counted(*.len, "byte"))]
    Time {
        /// The size.
        len: usize,
        /// Its time.
        ns: f64,
    },
}

/// Why a way of moving bytes is not to be had, and what would help.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is not available: {why}; {remedy}")]
pub struct Denied {
    /// The way that was looked at.
    pub what: &'static str,
    /// What stands in its way.
    pub why: String,
    /// What the user can do about it.
    pub remedy: &'static str,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_latency_and_rate() {
        let cost = Cost::linear(300.0, 2.0);
        assert_eq!([0, 1, 1000].map(|len| cost.of(len)), [300.0, 300.5, 800.0]);
    }

    #[test]
    fn a_table_gives_its_points_and_runs_straight_between_them() {
        let cost = Cost::table(&[(1024, 100.0), (4096, 400.0), (16384, 6400.0)]).unwrap();
        for (len, ns) in [(1024, 100.0), (4096, 400.0), (16384, 6400.0)] {
            assert!((cost.of(len) - ns).abs() < 1e-9 * ns, "{len}: {}", cost.of(len));
        }
        // Twice the bytes: twice the time in the first part, four times in the second.
        assert!((cost.of(2048) - 200.0).abs() < 1e-6);
        assert!((cost.of(8192) - 1600.0).abs() < 1e-6);
    }

    #[test]
    fn beyond_its_ends_a_table_goes_on() {
        let cost = Cost::table(&[(1 << 16, 1000.0), (1 << 18, 2000.0)]).unwrap();
        assert!((cost.of(1 << 20) - 8000.0).abs() < 1e-6, "at the rate of the end");
        assert!((cost.of(1 << 14) - 500.0).abs() < 1e-6, "as it begins");
        let noisy = Cost::table(&[(1 << 16, 1000.0), (1 << 17, 900.0)]).unwrap();
        assert!((noisy.of(1) - 1000.0).abs() < 1e-6, "fewer bytes do not cost more");
        let one = Cost::table(&[(100, 50.0)]).unwrap();
        assert_eq!([10, 100, 1000].map(|len| one.of(len)), [5.0, 50.0, 500.0]);
        assert!(one.of(0) > 0.0);
    }

    #[test]
    fn what_makes_no_table_is_refused() {
        assert_eq!(Cost::table(&[]), Err(BadTable::Points(0)));
        assert_eq!(Cost::table(&[(1, 1.0); 9]), Err(BadTable::Points(9)));
        assert_eq!(Cost::table(&[(0, 1.0)]), Err(BadTable::Order { before: 0, len: 0 }));
        let twice = Cost::table(&[(8, 1.0), (8, 2.0)]);
        assert_eq!(twice, Err(BadTable::Order { before: 8, len: 8 }));
        // The next size is the same number here, and there is no slope between them.
        let close = Cost::table(&[(1 << 60, 1.0), ((1 << 60) + 1, 2.0)]);
        assert!(matches!(close, Err(BadTable::Order { .. })), "{close:?}");
        for ns in [0.0, -1.0, f64::INFINITY, f64::NAN] {
            assert!(matches!(Cost::table(&[(8, ns)]), Err(BadTable::Time { len: 8, .. })));
        }
    }
}
