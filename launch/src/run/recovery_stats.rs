//! Cost of the failures of a job, reported at its end.

use std::time::Duration;
use taffrail::words::counted;

/// Of one job.
#[derive(Default)]
pub struct RecoveryStats {
    /// Ranks that were killed by somebody else than the launcher.
    pub failures: u32,
    /// Processes that took the place of others.
    pub successors: u32,
    /// Of these, those that went on from a checkpoint.
    pub checkpoints: u32,
    /// Events that they had to replay.
    pub events: u64,
    /// For each restart: from when the launcher saw the first death until all successors ran.
    pub restarts: Vec<Duration>,
}

impl RecoveryStats {
    /// In one line; `None` if nothing has happened.
    pub fn text(&self, logger_deaths: u32) -> Option<String> {
        if self.failures == 0 && logger_deaths == 0 {
            return None;
        }
        let mut parts = vec![
            counted(self.failures, "failure"),
            match self.checkpoints {
                0 => format!("{} started again", counted(self.successors, "process")),
                some => {
                    let successors = counted(self.successors, "process");
                    format!("{successors} started again, {some} from checkpoints")
                }
            },
        ];
        let mut times = self.restarts.clone();
        times.sort_unstable();
        if let (Some(median), Some(most)) = (times.get(times.len() / 2), times.last()) {
            parts.push(format!(
                "from noticing a failure until all successors ran: median {}, maximum {}",
                milliseconds(*median),
                milliseconds(*most)
            ));
            parts.push(format!("{} handed out for replay", counted(self.events, "event")));
        }
        if logger_deaths > 0 {
            parts.push(format!("event logger started again {}", counted(logger_deaths, "time")));
        }
        Some(parts.join("; "))
    }
}

fn milliseconds(time: Duration) -> String {
    format!("{:.1} ms", time.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_happened_is_told_in_one_line() {
        assert_eq!(RecoveryStats::default().text(0), None);
        let restarts = [3, 1, 9].map(Duration::from_millis).to_vec();
        let mut stats =
            RecoveryStats { failures: 3, successors: 4, checkpoints: 0, events: 17, restarts };
        let told = stats.text(1).unwrap();
        assert_eq!(
            told,
            "3 failures; 4 processes started again; from noticing a failure until all successors \
             ran: median 3.0 ms, maximum 9.0 ms; 17 events handed out for replay; event logger \
             started again 1 time"
        );
        stats.checkpoints = 2;
        let told = stats.text(0).unwrap();
        assert!(told.starts_with("3 failures; 4 processes started again, 2 from checkpoints; "));
    }
}
