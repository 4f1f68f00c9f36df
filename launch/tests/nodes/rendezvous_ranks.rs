//! The ranks of a job whose links are cut at a given moment of a rendezvous ([`rendezvous_cuts`](super::rendezvous_cuts)).

use super::cuts::{FOLDER, is_marked, mark};
use super::messages::{bytes, joined, line};
use super::*;
use taffrail::Endpoint;

/// Longer than what is sent without RTS, logged or not, and than what the buffers of both kernels hold.
pub(super) const LEN: usize = 64 << 20;

/// When the link is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Moment {
    BeforeRts,
    BeforeCts,
    BeforeBody,
    WithinBody,
}

use Moment::{BeforeBody, BeforeCts, BeforeRts, WithinBody};

pub(super) const ALL: [Moment; 4] = [BeforeRts, BeforeCts, BeforeBody, WithinBody];

/// The files of one moment, by which test and ranks wait for each other.
#[derive(Clone, Copy)]
pub(super) struct Marks<'a> {
    pub(super) folder: &'a str,
    pub(super) number: usize,
}

impl Marks<'_> {
    fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.number)
    }

    pub(super) fn set(&self, what: &str) {
        mark(self.folder, &self.name(what));
    }

    pub(super) fn is_set(&self, what: &str) -> bool {
        is_marked(self.folder, &self.name(what))
    }

    /// Waits without a call of the library.
    fn wait(&self, what: &str) {
        assert!(soon(|| self.is_set(what)), "{} does not come", self.name(what));
    }

    fn poll_until(&self, ep: &mut Endpoint, what: &str) {
        let comes = soon(|| {
            ep.progress();
            self.is_set(what)
        });
        assert!(comes, "{} does not come", self.name(what));
    }
}

/// Sends a long message to rank 1.
fn send(ep: &mut Endpoint, moment: Moment, marks: Marks<'_>, data: &[u8]) {
    if moment == BeforeRts {
        marks.wait("cut");
    }
    let sent = ep.scope(|scope| {
        let request = scope.isend((1, 1), data)?;
        marks.set("begun");
        if matches!(moment, BeforeBody | WithinBody) {
            marks.poll_until(scope.endpoint(), "probed");
            marks.set("sender is quiet");
            marks.wait(if moment == BeforeBody { "cut" } else { "receiver is quiet" });
        }
        if moment == WithinBody {
            marks.poll_until(scope.endpoint(), "cut");
            // A logged send is complete when it is in the log.
            if let Some(status) = scope.test(request)? {
                return Ok(status);
            }
            marks.set("incomplete");
        }
        scope.wait(request)
    });
    sent.unwrap();
}

/// Receives it.
fn receive(ep: &mut Endpoint, moment: Moment, marks: Marks<'_>, into: &mut [u8]) {
    if moment == BeforeRts {
        marks.wait("cut");
    }
    let mut probed = None;
    let found = soon(|| {
        probed = ep.probe((0, 1)).unwrap();
        probed.is_some()
    });
    assert!(found, "no message comes");
    assert_eq!(probed.unwrap().len, LEN);
    assert!(moment != BeforeRts || marks.is_set("healed"), "it came over a cut link");
    marks.set("probed");
    match moment {
        BeforeRts => {}
        BeforeCts => marks.wait("cut"),
        BeforeBody | WithinBody => marks.wait("post"),
    }
    let received = ep.scope(|scope| {
        let request = scope.irecv((0, 1), into)?;
        marks.set("posted");
        if moment == WithinBody {
            marks.poll_until(scope.endpoint(), "answered");
            marks.set("receiver is quiet");
            marks.wait("cut");
        }
        scope.wait(request)
    });
    assert_eq!(received.unwrap().len, LEN);
}

/// Takes part in a message for each moment. No byte is the same in two of them that follow each other.
fn take_part(moments: &[Moment]) {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let (_job, mut ep) = joined();
    let (me, other) = (ep.rank(), 1 - ep.rank());
    let meet = |ep: &mut Endpoint| {
        ep.sendrecv((other, 2), &[], (other, 2), &mut []).unwrap();
    };
    let mut into = vec![0; LEN];
    // The kernels then have large buffers for the link: of a body that is not read more has come than of anything else.
    let warm = bytes(LEN / 4, 0);
    ep.sendrecv((other, 2), &warm, (other, 2), &mut into).unwrap();
    for (number, &moment) in moments.iter().enumerate() {
        let (marks, whole) = (Marks { folder: &folder, number }, bytes(LEN, number as u32 + 1));
        meet(&mut ep);
        marks.set(&format!("rank {me} is ready"));
        // Logged, the message to the other rank may not have left before.
        marks.poll_until(&mut ep, "begin");
        if me == 0 {
            send(&mut ep, moment, marks, &whole);
        } else {
            receive(&mut ep, moment, marks, &mut into);
            assert!(into == whole, "{moment:?}: other bytes");
        }
        meet(&mut ep);
        assert_eq!(ep.probe((other, 1)).unwrap(), None, "{moment:?}: it came twice");
        marks.set(&format!("rank {me} is done"));
        marks.poll_until(&mut ep, "seen");
    }
    line(&format!("rank {me}: all"));
}

#[test]
fn a_rank_of_all_moments() {
    take_part(&ALL);
}

#[test]
fn a_rank_before_a_body() {
    take_part(&[BeforeBody]);
}

#[test]
fn a_rank_within_a_body() {
    take_part(&[WithinBody]);
}
