//! Ranks that wait in a barrier of the launcher for long: who has not entered it is said, once for each barrier.
//! They cannot say so themselves: in an MPI's start-up and end they sleep on their connection.

use std::time::Duration;
use taffrail::words::{listed, numbered};

/// Waits that are shorter are not worth a line.
const LONG: Duration = Duration::from_secs(10);

/// A barrier that some ranks have entered, and others have not.
#[derive(Debug, PartialEq, Eq)]
pub struct OpenBarrier {
    /// How many were complete before it.
    pub number: u64,
    pub waiting: Vec<u32>,
    pub missing: Vec<u32>,
}

impl OpenBarrier {
    /// The line; `who` names a rank.
    fn line(&self, who: impl Fn(usize) -> String) -> String {
        let waits = if self.waiting.len() == 1 { "waits" } else { "wait" };
        let has = if self.missing.len() == 1 { "has" } else { "have" };
        let missing: Vec<String> = self.missing.iter().map(|&rank| who(rank as usize)).collect();
        format!(
            "{} {waits} in a barrier of the launcher (as in MPI_Init and MPI_Finalize) that {} {has} not \
             entered; nothing has happened for {} s",
            numbered("rank", &self.waiting),
            listed(&missing),
            LONG.as_secs()
        )
    }
}

/// Since when ranks wait. Times are those of the job.
#[derive(Default)]
pub struct BarrierWatch {
    /// What is waited for, since when, and whether that was said.
    seen: Option<(OpenBarrier, Duration, bool)>,
}

impl BarrierWatch {
    /// How it is now: what is to be said, if anything is.
    pub fn look(
        &mut self,
        now: Duration,
        open: Option<OpenBarrier>,
        who: impl Fn(usize) -> String,
    ) -> Option<String> {
        let Some(open) = open else {
            self.seen = None;
            return None;
        };
        match &mut self.seen {
            // Of a barrier of which it was said nothing is said again, whoever enters it meanwhile.
            Some((before, _, true)) if before.number == open.number => None,
            Some((before, since, is_said)) if *before == open => {
                *is_said = now.saturating_sub(*since) >= LONG;
                is_said.then(|| open.line(who))
            }
            _ => {
                self.seen = Some((open, now, false));
                None
            }
        }
    }

    /// When it is to be looked at again.
    pub fn due(&self) -> Option<Duration> {
        self.seen.as_ref().filter(|(.., is_said)| !is_said).map(|(_, since, _)| *since + LONG)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(number: u64, waiting: &[u32], missing: &[u32]) -> Option<OpenBarrier> {
        Some(OpenBarrier { number, waiting: waiting.to_vec(), missing: missing.to_vec() })
    }

    fn look(watch: &mut BarrierWatch, seconds: u64, open: Option<OpenBarrier>) -> Option<String> {
        watch.look(Duration::from_secs(seconds), open, |rank| format!("rank {rank} (pid 7)"))
    }

    #[test]
    fn who_is_missing_is_said_once_after_ten_seconds_without_a_change() {
        let mut watch = BarrierWatch::default();
        assert_eq!(watch.due(), None);
        assert_eq!(look(&mut watch, 0, open(3, &[0], &[1, 2])), None);
        assert_eq!(look(&mut watch, 9, open(3, &[0, 2], &[1])), None);
        assert_eq!(watch.due(), Some(Duration::from_secs(19)), "rank 2 has entered it since");
        assert_eq!(look(&mut watch, 18, open(3, &[0, 2], &[1])), None);
        assert_eq!(
            look(&mut watch, 19, open(3, &[0, 2], &[1])).unwrap(),
            "ranks 0, 2 wait in a barrier of the launcher (as in MPI_Init and MPI_Finalize) that rank 1 (pid 7) has \
             not entered; nothing has happened for 10 s"
        );
        assert_eq!(watch.due(), None);
        assert_eq!(look(&mut watch, 50, open(3, &[0, 2], &[1])), None, "once");
        assert_eq!(look(&mut watch, 51, open(3, &[0], &[1, 2])), None, "rank 2 was started again");
        assert_eq!(look(&mut watch, 60, None), None);
    }

    #[test]
    fn the_next_barrier_is_another_one() {
        let mut watch = BarrierWatch::default();
        assert_eq!(look(&mut watch, 0, open(0, &[0], &[1])), None);
        assert!(look(&mut watch, 10, open(0, &[0], &[1])).is_some());
        assert_eq!(look(&mut watch, 11, open(1, &[1], &[0])), None);
        assert!(look(&mut watch, 21, open(1, &[1], &[0])).unwrap().starts_with("rank 1 waits in"));
    }
}
