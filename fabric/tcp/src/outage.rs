//! The time in which nothing comes through to a peer: there is no connection, or those that are made carry nothing.

use crate::call::Failed;
use std::time::{Duration, Instant};
use taffrail_fabric::{Incarnation, PeerId};

/// Pauses between two attempts: the first, and the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// After how long without a connection a user should know; then after twice the time, and so on.
const LONG: Duration = Duration::from_secs(10);

/// After how long a peer's host that does not answer is reported.
const DOWN: Duration = Duration::from_secs(1);
/// How long later it is reported again, with the next attempt that fails. An attempt takes up to a heartbeat, and so a rank that
/// waits reports at least every 8 s: reports that are not repeated within 15 s do not count (`LINK_LAPSE` of the launcher).
const DOWN_STILL: Duration = Duration::from_secs(2);

/// A connection that has lasted for this number of heartbeats has carried something: else the kernel would have ended it.
const LASTING: u32 = 3;

/// Reports that the host of a peer does not answer (why), or that it does again.
pub(crate) type ReportLink = fn(PeerId, Incarnation, Option<&str>);

/// A link that was reported as down. It is reported as up again when this is dropped.
struct LinkDown {
    peer: PeerId,
    incarnation: Incarnation,
    report: ReportLink,
}

impl Drop for LinkDown {
    fn drop(&mut self) {
        (self.report)(self.peer, self.incarnation, None);
    }
}

/// It ends when the peer has received more than before, or everything; not with a handshake.
pub(crate) struct Outage {
    /// Its begin.
    pub(crate) since: Instant,
    /// Why the last connection was lost.
    pub(crate) lost: Option<String>,
    /// How long there may be none before that is said.
    quiet: Duration,
    pause: Duration,
    /// When it is to be reported that the peer's host does not answer; `None` if the last attempt was answered.
    down_at: Option<Instant>,
    down: Option<LinkDown>,
    /// Bytes that the peer had acknowledged when it began.
    acknowledged: u64,
    /// Connections that were made since then.
    connections: u32,
    /// When the connection that is up has lasted long enough to end it.
    expires: Option<Instant>,
}

impl Outage {
    pub(crate) fn new(now: Instant, lost: Option<String>, acknowledged: u64) -> Outage {
        Outage {
            since: now,
            lost,
            quiet: LONG,
            pause: FIRST_PAUSE,
            down_at: None,
            down: None,
            acknowledged,
            connections: 0,
            expires: None,
        }
    }

    /// For how long nothing has come through, if that is to be said now.
    pub(crate) fn long(&mut self, now: Instant) -> Option<Duration> {
        let took = now.saturating_duration_since(self.since);
        let is_long = took >= self.quiet;
        while self.quiet <= took {
            self.quiet *= 2;
        }
        is_long.then_some(took)
    }

    /// The connection that was made is lost as well. It may have carried something that was not acknowledged yet: only where
    /// the one before has carried nothing, by the word of the peer, the time counts from the first loss.
    pub(crate) fn lost_again(&mut self, now: Instant, why: String) {
        if self.is_stalled() {
            self.lost = Some(why);
        } else {
            let (connections, pause) = (self.connections, self.pause);
            *self = Outage { connections, pause, ..Outage::new(now, Some(why), self.acknowledged) };
        }
    }

    /// The pause before the next attempt.
    pub(crate) fn next_pause(&mut self) -> Duration {
        let next = (self.pause * 2).min(LONGEST_PAUSE);
        std::mem::replace(&mut self.pause, next)
    }

    /// An attempt has failed. Reports that the peer's host does not answer, if it has not for long.
    pub(crate) fn report_down(
        &mut self,
        now: Instant,
        (peer, incarnation): (PeerId, Incarnation),
        failed: &Failed,
        report: ReportLink,
    ) {
        if failed.nobody || now < *self.down_at.get_or_insert(now + DOWN) {
            return;
        }
        self.down_at = Some(now + DOWN_STILL);
        report(peer, incarnation, Some(&failed.why));
        self.down.get_or_insert_with(|| LinkDown { peer, incarnation, report });
    }

    /// The peer's host has answered. Where connections carry nothing that means nothing.
    pub(crate) fn answered(&mut self) {
        if !self.is_stalled() {
            (self.down_at, self.down) = (None, None);
        }
    }

    /// Whether connections are made and carry nothing.
    fn is_stalled(&self) -> bool {
        self.connections > 1
    }

    /// A connection is up, over which the peer says that it has received this many bytes; `is_done` if that is all. Whether it
    /// lasts; and if so, why it is one, if connections carry nothing.
    pub(crate) fn connected(
        &mut self,
        now: Instant,
        received: u64,
        is_done: bool,
        heartbeat: Duration,
    ) -> Option<Option<Failed>> {
        if is_done || received > self.acknowledged {
            return None;
        }
        self.connections += 1;
        self.expires = Some(now + heartbeat * LASTING);
        Some(self.is_stalled().then(|| {
            self.down_at.get_or_insert(now);
            let times = self.connections - 1;
            Failed::new(format!(
                "{times} connections were made and have carried nothing; check the MTU of all networks on the way"
            ))
        }))
    }

    /// When it ends, if the connection that is up is not lost.
    pub(crate) fn expires(&self) -> Option<Instant> {
        self.expires
    }

    /// Nothing more is reported of it: this is a forked child.
    pub(crate) fn abandon(&mut self) {
        std::mem::forget(self.down.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::io::Errno;

    #[test]
    fn that_there_is_no_connection_is_said_after_10_20_and_40_seconds() {
        let begun = Instant::now();
        let mut outage = Outage::new(begun, None, 0);
        let said =
            (0..100).filter(|&second| outage.long(begun + Duration::from_secs(second)).is_some());
        assert_eq!(said.collect::<Vec<_>>(), [10, 20, 40, 80]);
        assert!(outage.long(begun + Duration::from_secs(159)).is_none());
        // Nobody has looked for long.
        assert!(outage.long(begun + Duration::from_secs(1000)).is_some());
        assert!(outage.long(begun + Duration::from_secs(1279)).is_none());
    }

    thread_local! {
        static REPORTS: std::cell::RefCell<Vec<(u32, Option<String>)>> = const { std::cell::RefCell::new(Vec::new()) };
    }

    fn report(peer: PeerId, _: Incarnation, why: Option<&str>) {
        REPORTS.with_borrow_mut(|all| all.push((peer.0, why.map(str::to_owned))));
    }

    fn reports() -> Vec<(u32, Option<String>)> {
        REPORTS.take()
    }

    #[test]
    fn a_host_that_does_not_answer_is_reported_and_that_it_does_again() {
        let (begun, peer) = (Instant::now(), (PeerId(3), Incarnation(2)));
        let mut outage = Outage::new(begun, None, 0);
        let mut failed_at = |millis: u64, errno| {
            let now = begun + Duration::from_millis(millis);
            outage.report_down(now, peer, &Failed::os(errno), report);
            reports().len()
        };
        // A process that has ended is none that cannot be reached.
        assert_eq!(failed_at(0, Errno::CONNREFUSED) + failed_at(5000, Errno::CONNREFUSED), 0);
        let times = [6000, 6999, 7000, 8000, 8999, 9000, 9001];
        let said = times.map(|millis| failed_at(millis, Errno::HOSTUNREACH));
        assert_eq!(said, [0, 0, 1, 0, 0, 1, 0]);
        outage.abandon();
        assert_eq!(reports(), [], "of a forked child");
        outage.report_down(begun + Duration::from_secs(60), peer, &Failed::new("lost"), report);
        drop(outage);
        assert_eq!(reports(), [(3, Some("lost".to_owned())), (3, None)]);
    }

    #[test]
    fn an_outage_ends_when_something_has_come_through_and_not_with_a_handshake() {
        let (now, beat) = (Instant::now(), Duration::from_secs(5));
        let mut outage = Outage::new(now, None, 100);
        let stalled = |outage: &mut Outage, received, is_done| {
            outage.connected(now, received, is_done, beat).map(|failed| failed.is_some())
        };
        assert_eq!(stalled(&mut outage, 100, false), Some(false), "the first may carry something");
        assert_eq!(outage.expires(), Some(now + beat * LASTING));
        let later = now + beat;
        outage.lost_again(later, "lost".to_owned());
        assert_eq!(outage.since, later, "it may have carried something");
        assert_eq!(stalled(&mut outage, 100, false), Some(true));
        outage.lost_again(later + beat, "lost".to_owned());
        assert_eq!(outage.since, later, "it has carried nothing");
        assert_eq!(stalled(&mut outage, 101, false), None);
        assert_eq!(stalled(&mut outage, 100, true), None, "there is nothing to carry");
    }

    #[test]
    fn a_handshake_is_no_answer_where_connections_carry_nothing() {
        let (now, peer) = (Instant::now(), (PeerId(3), Incarnation(2)));
        for (connections, reported) in [(1, 0), (2, 1)] {
            let mut outage = Outage::new(now, None, 0);
            let mut why = None;
            for _ in 0..connections {
                why =
                    outage.connected(now, 0, false, Duration::ZERO).expect("nothing came through");
            }
            if let Some(failed) = why {
                outage.report_down(now, peer, &failed, report);
            }
            outage.answered();
            assert_eq!(reports().len(), reported);
            drop(outage);
            assert_eq!(reports().len(), reported, "that it is up again");
        }
    }
}
