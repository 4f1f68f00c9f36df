//! Links between nodes that are cut at a given moment of a rendezvous: before its RTS, before its CTS, before its body, and within
//! that. The counters of the kernels prove that the cut fell there.

use super::cuts::{FOLDER, Pair, assert_all, is_marked, mark};
use super::messages::{bytes, joined, line};
use super::sockets::Connection;
use super::spaces::Nodes;
use super::*;
use taffrail::Endpoint;

/// Longer than what is sent without RTS, logged or not, and than what the buffers of both kernels hold.
const LEN: usize = 64 << 20;
/// RTS and CTS, and what agents say to each other meanwhile, are shorter. One fragment of the body is longer.
const FEW: u64 = 64 << 10;
/// An RTS, or a CTS, with its header. No other frame between the ranks is as long, but those of the body.
const CONTROL: u64 = 24 + 16;
/// Agents that copy events, and kernels that ask for room, send less meanwhile.
const AGENTS: u64 = 4 << 10;
/// The kernel takes more than this of a body, also of a connection that is new.
const BODY: u64 = 8 << 10;

/// When the link is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    BeforeRts,
    BeforeCts,
    BeforeBody,
    WithinBody,
}

use Moment::{BeforeBody, BeforeCts, BeforeRts, WithinBody};

const ALL: [Moment; 4] = [BeforeRts, BeforeCts, BeforeBody, WithinBody];

/// The files of one moment, by which test and ranks wait for each other.
#[derive(Clone, Copy)]
struct Marks<'a> {
    folder: &'a str,
    number: usize,
}

impl Marks<'_> {
    fn name(&self, what: &str) -> String {
        format!("{}.{what}", self.number)
    }

    fn set(&self, what: &str) {
        mark(self.folder, &self.name(what));
    }

    fn is_set(&self, what: &str) -> bool {
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
    let pair = Pair::of(&nodes, options, "rendezvous_cuts::a_rank_of_all_moments");
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

/// The link is not healed: without a log the job ends by name, and a logged one comes to its answer on the node that is left.
#[test]
fn a_rendezvous_whose_link_stays_cut_ends_by_name_or_begins_anew() {
    let Some(nodes) = Nodes::new() else { return };
    let test = "rendezvous_cuts::a_rank_before_a_body";
    let mut pair = Pair::of(&nodes, &[], test);
    pair.job.before = vec!["env".to_owned(), "TAFFRAIL_CONNECT_TIMEOUT=3".to_owned()];
    let ended = run(&pair, || Cutting::begin(&pair, false, 0, BeforeBody)?.cut_for_good());
    let by_name = ["rank 0", "rank 1"].iter().any(|rank| ended.err.contains(rank));
    assert!(ended.status != 0 && by_name, "{}{}", ended.out, ended.err);

    let pair = Pair::of(&nodes, &[&LOGGED[..], &["--link-timeout", "8s"]].concat(), test);
    let ended = run(&pair, || Cutting::begin(&pair, true, 0, BeforeBody)?.cut_for_good());
    assert!(ended.err.contains("have not reached each other for 8 s"), "{}", ended.err);
    assert!(ended.err.contains("restarting"), "{}", ended.err);
    assert_all(&ended);
}
