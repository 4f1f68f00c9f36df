//! Leases: how both ends count time, each on its own clock. `docs/spec/agent.md`, section 5, has the proof.
//!
//! Times are since any moment of the clock of one end; those of two ends are never compared.

use crate::wire::Malformed;
use std::collections::VecDeque;
use std::time::Duration;

/// How long leases are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// From when the agent has asked for it.
    pub lease: Duration,
    /// How long a process takes to end once it was killed.
    pub kill: Duration,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { lease: Duration::from_secs(10), kill: Duration::from_secs(2) }
    }
}

impl Terms {
    /// The time between two renewals.
    pub fn renew(&self) -> Duration {
        self.lease / 5
    }

    /// When the launcher knows that the ranks of a node have ended, which was granted a lease at this time.
    pub fn expiry(&self, granted: Duration) -> Duration {
        if mutant!(NoMargin) {
            return granted + self.lease;
        }
        // Clocks have rates that differ by 1 in 200 from real time, at either end.
        granted + self.lease + self.lease / 64 + self.kill
    }

    /// Whether a lease that expires then was not renewed when it should have been, until there is hardly any left of it.
    pub fn is_late(&self, expiry: Duration, now: Duration) -> bool {
        now + self.renew() + self.expiry(Duration::ZERO) >= expiry + self.lease
    }
}

/// The lease that an agent holds.
#[derive(Debug)]
pub struct Held {
    lease: Duration,
    /// Renewals without an answer, and when they were sent.
    asked: VecDeque<(u64, Duration)>,
    next: u64,
    deadline: Option<Duration>,
}

impl Held {
    /// Asks for the first one: renewal 0, in HELLO.
    pub fn ask_first(now: Duration) -> Held {
        // How long it is comes with the first grant.
        let lease = Duration::ZERO;
        Held { lease, asked: VecDeque::from([(0, now)]), next: 1, deadline: None }
    }

    /// WELCOME says how long leases are.
    pub fn set_lease(&mut self, lease: Duration) {
        self.lease = lease;
    }

    /// Asks for the next one. Its number.
    pub fn ask(&mut self, now: Duration) -> u64 {
        let renewal = self.next;
        self.asked.push_back((renewal, now));
        self.next += 1;
        renewal
    }

    /// The launcher has granted a renewal. The new deadline, if it is later than the one before.
    ///
    /// # Errors
    /// The renewal was not asked for, or was granted already.
    pub fn granted(&mut self, renewal: u64, now: Duration) -> Result<Option<Duration>, Malformed> {
        let mut asked = None;
        while let Some((_, at)) = self.asked.pop_front_if(|(number, _)| *number <= renewal) {
            asked = Some(at);
        }
        let first = self.asked.front().map_or(self.next, |(number, _)| *number);
        let asked = asked.filter(|_| renewal < self.next).ok_or_else(|| {
            Malformed::new("renewal", format!("{first} or later, asked for"), renewal)
        })?;
        let from = if mutant!(LeaseFromReceipt) { now } else { asked };
        let deadline = from + self.lease;
        let later = self.deadline.is_none_or(|before| deadline > before);
        self.deadline = self.deadline.max(Some(deadline));
        Ok(self.deadline.filter(|_| later))
    }

    /// When all ranks are to be killed.
    pub fn deadline(&self) -> Option<Duration> {
        self.deadline
    }

    /// Whether ranks may be started, or live.
    pub fn holds(&self, now: Duration) -> bool {
        mutant!(DeadlineIgnored) || self.deadline.is_some_and(|deadline| now < deadline)
    }
}

/// The lease that the launcher has granted a node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Granted {
    last: Option<u64>,
    expiry: Option<Duration>,
}

impl Granted {
    /// Grants a renewal.
    ///
    /// # Errors
    /// It is not the next one.
    pub fn grant(&mut self, renewal: u64, now: Duration, terms: &Terms) -> Result<(), Malformed> {
        let next = self.last.map_or(0, |last| last + 1);
        if renewal != next {
            return Err(Malformed::new("renewal", next, renewal));
        }
        self.last = Some(renewal);
        self.expiry = self.expiry.max(Some(terms.expiry(now)));
        Ok(())
    }

    /// When no rank of the node lives any more; `None` if none was ever allowed to.
    pub fn expiry(&self) -> Option<Duration> {
        self.expiry
    }

    /// Whether no rank of the node lives any more.
    pub fn has_expired(&self, now: Duration) -> bool {
        self.expiry.is_none_or(|expiry| now >= expiry)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Time on a clock that differs by so many in 10 000 from real time.
    fn on_clock(real_us: u64, rate: i64) -> Duration {
        let us = i128::from(real_us) * (10_000 + i128::from(rate)) / 10_000;
        Duration::from_micros(us as u64)
    }

    proptest! {
        /// The invariant `lease`: with clocks of any allowed rate and messages of any delay, ranks that are killed at
        /// the deadline have ended when the launcher's clock reaches the expiry.
        #[test]
        fn ranks_have_ended_at_the_expiry(
            lease_ms in 50u64..100_000,
            kill_ms in 1u64..10_000,
            // Of each renewal: pause before it, delay of the question and of the answer, lost or not.
            renewals in prop::collection::vec((0u64..60_000_000, 0u64..90_000_000, 0u64..90_000_000, any::<bool>()), 1..20),
            agent_rate in -50i64..=50,
            launcher_rate in -50i64..=50,
        ) {
            let terms = Terms {
                lease: Duration::from_millis(lease_ms),
                kill: Duration::from_millis(kill_ms),
            };
            let mut held = Held::ask_first(on_clock(0, agent_rate));
            held.set_lease(terms.lease);
            let mut granted = Granted::default();
            let (mut sent, mut at_launcher, mut at_agent) = (0, 0, 0);
            for (number, (pause, question, answer, lost)) in (0..).zip(renewals) {
                if number > 0 {
                    sent += pause;
                    prop_assert_eq!(held.ask(on_clock(sent, agent_rate)), number);
                }
                // Channels keep the order.
                at_launcher = (sent + question).max(at_launcher);
                granted.grant(number, on_clock(at_launcher, launcher_rate), &terms).unwrap();
                if !lost {
                    at_agent = (at_launcher + answer).max(at_agent);
                    held.granted(number, on_clock(at_agent, agent_rate)).unwrap();
                }
            }
            let Some(deadline) = held.deadline() else { return Ok(()) };
            // In ten thousandths of a microsecond of real time.
            let real = |clock: Duration, rate: i64| clock.as_micros() as i128 * 10_000 * 10_000 / i128::from(10_000 + rate);
            let killed = real(deadline, agent_rate) + terms.kill.as_micros() as i128 * 9_900;
            let expired = real(granted.expiry().unwrap(), launcher_rate);
            // Times were rounded down to microseconds.
            prop_assert!(killed <= expired + 30_000, "{killed} {expired}");
        }
    }

    #[test]
    fn only_what_was_asked_for_is_granted_and_only_once() {
        let second = Duration::from_secs;
        let mut held = Held::ask_first(second(5));
        held.set_lease(second(10));
        assert!(!held.holds(second(5)), "nothing was granted yet");
        assert_eq!(held.granted(1, second(6)).unwrap_err().field, "renewal");
        assert_eq!(held.ask(second(7)), 1);
        assert_eq!(held.ask(second(8)), 2);
        // The answer to a later one answers those before.
        assert_eq!(held.granted(1, second(9)), Ok(Some(second(17))));
        assert!(held.granted(0, second(9)).is_err());
        assert!(held.granted(1, second(9)).is_err());
        assert!(held.holds(second(16)) && !held.holds(second(17)));

        let mut granted = Granted::default();
        assert!(granted.has_expired(second(0)), "no rank was ever allowed to live");
        assert!(granted.grant(1, second(1), &Terms::default()).is_err());
        granted.grant(0, second(1), &Terms::default()).unwrap();
        assert!(granted.grant(0, second(2), &Terms::default()).is_err());
        assert!(!granted.has_expired(second(13)) && granted.has_expired(second(14)));
    }
}
