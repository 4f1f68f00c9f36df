//! Links between nodes that are cut at a given moment of a rendezvous: before its RTS, before its CTS, before its body, and within
//! that. The counters of the kernels prove that the cut fell there.

use super::cuts::{Pair, assert_all};
use super::rendezvous_ranks::Moment::{BeforeBody, BeforeCts, BeforeRts, WithinBody};
use super::rendezvous_ranks::{ALL, LEN, Marks, Moment};
use super::sockets::Connection;
use super::spaces::Nodes;
use super::*;

/// RTS and CTS, and what agents say to each other meanwhile, are shorter. One fragment of the body is longer.
const FEW: u64 = 64 << 10;
/// An RTS, or a CTS, with its header. No other frame between the ranks is as long, but those of the body.
const CONTROL: u64 = 24 + 16;
/// Agents that copy events, and kernels that ask for room, send less meanwhile.
const AGENTS: u64 = 4 << 10;
/// The kernel takes more than this of a body, also of a connection that is new.
const BODY: u64 = 8 << 10;

/// One moment of a job, as the test sees it.
struct Cutting<'a> {
    pair: &'a Pair<'a>,
    is_logged: bool,
    marks: Marks<'a>,
    moment: Moment,
    sender: Process,
    receiver: Process,
    /// Bytes that had come to the receiver's node before the message began.
    received: u64,
}

/// An error says what does not hold. The job is ended before the test fails.
type Outcome<T = ()> = Result<T, String>;

fn unacknowledged(process: &Process) -> u64 {
    process.connections().iter().map(|connection| connection.unacknowledged).sum()
}

impl<'a> Cutting<'a> {
    /// Waits until both ranks are about to begin the message, and lets them.
    fn begin(
        pair: &'a Pair<'a>,
        is_logged: bool,
        number: usize,
        moment: Moment,
    ) -> Outcome<Cutting<'a>> {
        let marks = Marks { folder: pair.folder.path().to_str().unwrap(), number };
        let is_ready = |rank: usize| marks.is_set(&format!("rank {rank} is ready"));
        if !soon(|| is_ready(0) && is_ready(1)) {
            return Err(format!("{moment:?}: ranks are not ready"));
        }
        let [Some(sender), Some(receiver)] = [0, 1].map(|node| pair.job.ranks_of(node).pop())
        else {
            return Err(format!("{moment:?}: a node has no rank"));
        };
        let received = receiver.received_over("eth0").ok_or("the receiver has ended")?;
        marks.set("begin");
        Ok(Cutting { pair, is_logged, marks, moment, sender, receiver, received })
    }

    /// Bytes that have come to the receiver's node since the message began. None if the receiver has ended.
    fn passed(&self) -> u64 {
        self.receiver.received_over("eth0").map_or(0, |received| received - self.received)
    }

    /// Bytes in the sender's kernel that the sender has not read.
    fn unread(&self) -> u64 {
        self.sender.connections().iter().map(|connection| connection.unread).sum()
    }

    fn ensure(&self, holds: bool, what: &str) -> Outcome {
        if holds {
            return Ok(());
        }
        let (moment, passed) = (self.moment, self.passed());
        let ends = [&self.sender, &self.receiver].map(Process::connections);
        Err(format!("{moment:?}: not {what:?}; {passed} bytes have passed; {ends:?}"))
    }

    fn wait(&self, what: &str) -> Outcome {
        self.ensure(soon(|| self.marks.is_set(what)), what)
    }

    /// Cuts the link at the moment.
    fn cut(&self) -> Outcome {
        match self.moment {
            BeforeRts => {}
            BeforeCts => {
                self.wait("probed")?;
                self.ensure((1..FEW).contains(&self.passed()), "an RTS without a body")?;
            }
            BeforeBody => self.answer()?,
            WithinBody => {
                self.answer()?;
                self.marks.set("answered");
                self.wait("receiver is quiet")?;
                self.fill()?;
            }
        }
        self.pair.set_cut(true);
        let written = [&self.sender, &self.receiver].map(unacknowledged);
        self.marks.set("cut");
        self.ensure_moment(written)
    }

    /// The CTS comes to the sender's kernel, and stays there: the sender does not read it.
    fn answer(&self) -> Outcome {
        self.wait("sender is quiet")?;
        let before = self.unread();
        self.marks.set("post");
        self.ensure(soon(|| self.unread() >= before + CONTROL), "a CTS for the sender")?;
        self.ensure((1..FEW).contains(&self.passed()), "an RTS without a body")
    }

    /// The body comes until there is no room for more: the receiver does not read it.
    fn fill(&self) -> Outcome {
        let mut before = 0;
        let is_full = soon(|| {
            std::thread::sleep(Duration::from_millis(400));
            let now = self.passed();
            now < std::mem::replace(&mut before, now) + AGENTS && now > 4 * FEW
        });
        self.ensure(is_full && self.passed() < LEN as u64, "a part of a body")
    }

    /// The link was cut when so much was written at both ends. What comes next in the rendezvous goes into the cut link.
    fn ensure_moment(&self, written: [u64; 2]) -> Outcome {
        let rts_is_written = || unacknowledged(&self.sender) >= written[0] + CONTROL;
        let cts_is_written = || unacknowledged(&self.receiver) >= written[1] + CONTROL;
        let body_is_written = || self.unread() < CONTROL && unacknowledged(&self.sender) > BODY;
        match self.moment {
            BeforeRts => self.ensure(soon(rts_is_written), "an RTS in the sender's kernel"),
            // A CTS waits for the event of the probe, which may not have been copied.
            BeforeCts if self.is_logged => self.wait("posted"),
            BeforeCts => self.ensure(soon(cts_is_written), "a CTS in the receiver's kernel"),
            BeforeBody => self.ensure(soon(body_is_written), "a body in the sender's kernel"),
            WithinBody if self.is_logged => Ok(()),
            WithinBody => self.wait("incomplete"),
        }
    }

    /// The link is still cut. The sender polls meanwhile: if it had the CTS, the body would be in its kernel.
    fn ensure_nothing_passed(&self) -> Outcome {
        let is_short = self.passed() < FEW;
        let (holds, what) = match self.moment {
            BeforeRts => (is_short && !self.marks.is_set("probed"), "an RTS that has not come"),
            BeforeCts => {
                (is_short && unacknowledged(&self.sender) < FEW, "a CTS that has not come")
            }
            BeforeBody => (is_short, "a body that has not come"),
            WithinBody => (self.passed() < LEN as u64, "a body that has come in part"),
        };
        self.ensure(holds, what)
    }

    /// Cuts the link at the moment, and for good.
    fn cut_for_good(&self) -> Outcome {
        self.marks.set("seen");
        self.cut()
    }

    /// Cuts the link at the moment, and for some seconds.
    fn cut_and_heal(&self, seconds: u64) -> Outcome {
        let ends = |of: &Process| of.connections().iter().map(Connection::ends).collect::<Vec<_>>();
        let before = ends(&self.sender);
        let cut = Instant::now();
        self.cut()?;
        std::thread::sleep(Duration::from_secs(seconds));
        self.ensure_nothing_passed()?;
        self.marks.set("healed");
        self.pair.set_cut(false);
        let took = cut.elapsed();
        self.wait("rank 0 is done")?;
        self.wait("rank 1 is done")?;
        let is_same = ends(&self.sender).iter().any(|ends| before.contains(ends));
        self.marks.set("seen");
        if seconds > 5 {
            self.ensure(!is_same, "a connection that was made anew")
        } else if self.moment != WithinBody && took < Duration::from_millis(2500) {
            // The kernel also ends a connection whose receiver has had no room for too long.
            self.ensure(is_same, "the same connection")
        } else {
            Ok(())
        }
    }
}

/// Starts the job, does something with it, and waits for its end.
fn run(pair: &Pair<'_>, act: impl FnOnce() -> Outcome) -> Ended {
    let (child, started) = (pair.job.command().spawn().unwrap(), Instant::now());
    let outcome = act();
    if outcome.is_err() {
        pair.set_cut(false);
    }
    let ended = pair.job.end(child, started);
    pair.set_cut(false);
    assert_eq!(outcome, Ok(()), "{}{}", ended.out, ended.err);
    ended
}

const LOGGED: [&str; 2] = ["--logging", "pessimistic"];

/// Cuts the link of a job at each moment.
fn cut_at_each(seconds: u64, is_logged: bool) {
    let Some(nodes) = Nodes::new() else { return };
    let options = if is_logged { &LOGGED[..] } else { &[] };
    let pair = Pair::of(&nodes, options, "rendezvous_ranks::a_rank_of_all_moments");
    let cut =
        |(number, moment)| Cutting::begin(&pair, is_logged, number, moment)?.cut_and_heal(seconds);
    let ended = run(&pair, || ALL.into_iter().enumerate().try_for_each(cut));
    assert_all(&ended);
    assert!(!ended.err.contains("restarting"), "{}", ended.err);
}

#[test]
fn a_rendezvous_whose_connection_outlasts_the_cut_is_whole() {
    cut_at_each(2, false);
}

#[test]
fn a_rendezvous_whose_connection_is_made_anew_is_whole() {
    cut_at_each(7, false);
}

#[test]
fn a_logged_rendezvous_whose_connection_outlasts_the_cut_is_whole() {
    cut_at_each(2, true);
}

#[test]
fn a_logged_rendezvous_whose_connection_is_made_anew_is_whole() {
    cut_at_each(7, true);
}

/// The link is cut and not healed: without a log the job ends by name, and a logged one comes to its answer on the node that is left.
fn cut_for_good(moment: Moment, test: &str) {
    let Some(nodes) = Nodes::new() else { return };
    let mut pair = Pair::of(&nodes, &[], test);
    pair.job.before = vec!["env".to_owned(), "TAFFRAIL_CONNECT_TIMEOUT=3".to_owned()];
    let ended = run(&pair, || Cutting::begin(&pair, false, 0, moment)?.cut_for_good());
    let by_name = ["rank 0", "rank 1"].iter().any(|rank| ended.err.contains(rank));
    assert!(ended.status != 0 && by_name, "{}{}", ended.out, ended.err);

    let pair = Pair::of(&nodes, &[&LOGGED[..], &["--link-timeout", "8s"]].concat(), test);
    let ended = run(&pair, || Cutting::begin(&pair, true, 0, moment)?.cut_for_good());
    assert!(ended.err.contains("have not reached each other for 8 s"), "{}", ended.err);
    assert!(ended.err.contains("restarting"), "{}", ended.err);
    assert_all(&ended);
}

#[test]
fn a_rendezvous_whose_link_stays_cut_before_the_body_ends_by_name_or_begins_anew() {
    cut_for_good(BeforeBody, "rendezvous_ranks::a_rank_before_a_body");
}

#[test]
fn a_rendezvous_whose_link_stays_cut_within_the_body_ends_by_name_or_begins_anew() {
    cut_for_good(WithinBody, "rendezvous_ranks::a_rank_within_a_body");
}
