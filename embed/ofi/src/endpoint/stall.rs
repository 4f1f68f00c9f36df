//! What is said of a program that reads its queues in vain for long: what its endpoint waits for. Once for
//! each such wait, and again when that has changed.

use super::Endpoint;
use crate::say::say;
use std::time::Instant;

/// The last line, and when it was said.
#[derive(Default)]
pub struct Stall(Option<(Instant, String)>);

impl Stall {
    /// Whether a line is to be said, of a wait that has begun at `since`.
    fn is_news(&mut self, since: Instant, line: &str) -> bool {
        // Two queues of one endpoint are read in vain together: their lines are the same.
        let is_said = |(at, said): &(Instant, String)| *at > since && said == line;
        if self.0.as_ref().is_some_and(is_said) {
            return false;
        }
        self.0 = Some((Instant::now(), line.to_owned()));
        true
    }
}

impl Endpoint {
    /// The program has found nothing in a queue of this endpoint since then.
    #[cold]
    pub fn waits_since(&mut self, since: Instant) {
        let line = self.engine.stalled();
        if self.stall.is_news(since, &line) {
            let seconds = since.elapsed().as_secs();
            say(&format!("{line}; nothing has completed for {seconds} s"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_once_and_again_when_it_has_changed() {
        let mut stall = Stall::default();
        let first = Instant::now();
        assert!(stall.is_news(first, "for a"));
        assert!(!stall.is_news(first, "for a"), "said already");
        assert!(stall.is_news(first, "for b"), "it has changed");
        assert!(!stall.is_news(first, "for b"));
        assert!(stall.is_news(Instant::now(), "for b"), "another wait");
    }
}
