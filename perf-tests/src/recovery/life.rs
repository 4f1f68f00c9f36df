//! What a process of a rank has gone through, told by itself: a killed one cannot be asked later.

use crate::Error;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

/// One process of a rank. Times are of the clock that all processes of a machine share, in
/// nanoseconds: those of two ranks are not compared, which may be on two machines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Life {
    /// Its rank.
    pub rank: u32,
    /// How many processes of this rank there were before.
    pub incarnation: u32,
    /// When its `main` began.
    pub begun_ns: u64,
    /// When it was connected with the others, and its work began.
    pub ready_ns: u64,
    /// When it was where the process before it had been killed.
    pub caught_up_ns: Option<u64>,
    /// When its work was over, or it was killed.
    pub over_ns: u64,
    /// It was killed.
    pub killed: bool,
    /// The answer of the application, on rank 0, if it got so far.
    pub checksum: Option<String>,
}

/// What the clock says that all processes share, in nanoseconds.
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

impl Life {
    /// Adds this life to a file, in one piece: other processes add theirs.
    pub fn record(&self, path: &Path) -> Result<(), Error> {
        let mut line = serde_json::to_vec(self).map_err(|e| Error::file(path)(e.into()))?;
        line.push(b'\n');
        let file = OpenOptions::new().append(true).create(true).open(path);
        file.and_then(|mut file: File| file.write_all(&line)).map_err(Error::file(path))
    }

    /// All that are recorded in a file: by rank, and of a rank one after the other.
    pub fn recorded(path: &Path) -> Result<Vec<Life>, Error> {
        let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
        let mut lives = text
            .lines()
            .map(|line| serde_json::from_str(line).map_err(|e| Error::file(path)(e.into())))
            .collect::<Result<Vec<Life>, Error>>()?;
        lives.sort_by_key(|life| (life.rank, life.incarnation));
        Ok(lives)
    }
}

/// What all lives of a job say together.
#[derive(Clone, Debug, PartialEq)]
pub struct Cost {
    /// From the first begin to the last end of a rank, in milliseconds: of the rank that took longest.
    pub whole_ms: f64,
    /// Of that, until the first processes of all ranks were connected.
    pub met_ms: f64,
    /// The work of the first process that was killed, in milliseconds: until then.
    pub original_ms: Option<f64>,
    /// For each process that was killed, from the begin of the next to where the one before had
    /// been, in milliseconds.
    pub again_ms: Vec<f64>,
    /// The same from when the next was connected.
    pub replay_ms: Vec<f64>,
    /// For each, from SIGKILL to the begin of the next, in milliseconds.
    pub started_ms: Vec<f64>,
    /// The answer.
    pub checksum: String,
}

impl Cost {
    /// The whole without what it took from each SIGKILL until the next process was connected with the
    /// others.
    pub fn working_ms(&self) -> f64 {
        let sum = |times: &[f64]| times.iter().sum::<f64>();
        let connected = sum(&self.again_ms) - sum(&self.replay_ms);
        self.whole_ms - sum(&self.started_ms) - connected
    }

    /// Of a job with so many kills.
    ///
    /// # Errors
    /// [`Error::Invalid`] when a kill was not made, or not made good.
    #[expect(clippy::unreachable, reason = "windows of two have two")]
    pub fn of(lives: &[Life], kills: usize) -> Result<Cost, Error> {
        let invalid = |what, expected: String, got: String| Error::Invalid { what, expected, got };
        let ms = |from: u64, to: u64| (to as f64 - from as f64) / 1e6;
        let mut cost = Cost {
            whole_ms: 0.0,
            met_ms: 0.0,
            original_ms: None,
            again_ms: Vec::new(),
            replay_ms: Vec::new(),
            started_ms: Vec::new(),
            checksum: String::new(),
        };
        for pair in lives.windows(2).filter(|pair| pair[0].killed) {
            let [before, after] = pair else { unreachable!("windows of two") };
            let (true, Some(caught_up)) = (after.rank == before.rank, after.caught_up_ns) else {
                let got = {
                    let caught_up = if after.caught_up_ns.is_some() { "" } else { "not " };
                    format!("rank {} after rank {}, {caught_up}caught up", after.rank, before.rank)
                };
                return Err(invalid("the successor of a killed rank", "one".into(), got));
            };
            cost.original_ms.get_or_insert(ms(before.ready_ns, before.over_ns));
            cost.again_ms.push(ms(after.begun_ns, caught_up));
            cost.replay_ms.push(ms(after.ready_ns, caught_up));
            cost.started_ms.push(ms(before.over_ns, after.begun_ns));
        }
        if cost.again_ms.len() != kills {
            let (expected, got) = (kills.to_string(), cost.again_ms.len().to_string());
            return Err(invalid("the number of ranks killed and replayed", expected, got));
        }
        for first in lives.iter().filter(|life| life.incarnation == 0) {
            let of_rank = lives.iter().filter(|life| life.rank == first.rank);
            let over = of_rank.map(|life| life.over_ns).max().unwrap_or(first.over_ns);
            cost.whole_ms = cost.whole_ms.max(ms(first.begun_ns, over));
            cost.met_ms = cost.met_ms.max(ms(first.begun_ns, first.ready_ns));
        }
        let mut checksums = lives.iter().filter_map(|life| life.checksum.clone());
        let first = checksums.next();
        cost.checksum = first.ok_or_else(|| {
            invalid("the answers of the application", "at least one".into(), "none".into())
        })?;
        match checksums.find(|next| *next != cost.checksum) {
            Some(other) => Err(invalid("the checksum of a replay", cost.checksum, other)),
            None => Ok(cost),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(rank: u32, incarnation: u32, ms: [u64; 3], killed: bool) -> Life {
        let [begun, ready, over] = ms.map(|ms| ms * 1_000_000);
        let caught_up_ns = (incarnation > 0).then_some(over);
        let checksum = (rank == 0 && !killed).then(|| "ab".to_owned());
        Life {
            rank,
            incarnation,
            begun_ns: begun,
            ready_ns: ready,
            caught_up_ns,
            over_ns: over,
            killed,
            checksum,
        }
    }

    fn lives() -> Vec<Life> {
        vec![
            life(0, 0, [1, 2, 90], false),
            life(1, 0, [0, 5, 45], true),
            life(1, 1, [50, 52, 60], false),
        ]
    }

    #[test]
    fn costs_follow_from_lives() {
        let cost = Cost::of(&lives(), 1).unwrap();
        assert_eq!((cost.whole_ms, cost.met_ms, cost.original_ms), (89.0, 5.0, Some(40.0)));
        assert_eq!(cost.working_ms(), 89.0 - 5.0 - 2.0);
        assert_eq!((cost.again_ms, cost.replay_ms), (vec![10.0], vec![8.0]));
        assert_eq!((cost.started_ms, &*cost.checksum), (vec![5.0], "ab"));
    }

    #[test]
    fn a_job_that_was_not_made_good_has_no_figure() {
        assert!(Cost::of(&lives(), 2).is_err(), "one was not killed");
        let mut late = lives();
        late[2].caught_up_ns = None;
        assert!(Cost::of(&late, 1).is_err(), "it did not catch up");
        assert!(Cost::of(&lives()[..2], 1).is_err(), "nobody came after it");
        assert!(Cost::of(&lives()[1..], 1).is_err(), "no answer");
        let mut wrong = lives();
        wrong[2].checksum = Some("cd".into());
        let error = Cost::of(&wrong, 1).unwrap_err().to_string();
        assert!(error.contains("expected ab, got cd"), "{error}");
    }

    #[test]
    fn lives_come_back_from_a_file_in_their_order() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lives");
        for at in [2, 0, 1] {
            lives()[at].record(&path).unwrap();
        }
        assert_eq!(Life::recorded(&path).unwrap(), lives());
        assert!(now_ns() <= now_ns());
    }
}
