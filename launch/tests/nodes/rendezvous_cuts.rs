//! Links that are cut at each moment of a long message: before its announcement leaves, before the answer, before its bytes, and within
//! these.

use super::cuts::{FOLDER, IS_CUT, Pair, Steps, assert_all};
use super::messages::{bytes, joined, line};
use super::spaces::Nodes;
use super::*;
use std::path::Path;
use taffrail::Scope;

/// Longer than what a connection keeps, and than what is sent without asking if it is logged.
const LEN: usize = 64 << 20;
/// All that passes of a message before its bytes do, with what agents say to each other meanwhile.
const LITTLE: u64 = 16 << 10;
/// Less than what sockets take before nobody reads from them.
const MUCH: u64 = 64 << 10;

/// The variable that has the moment.
const MOMENT: &str = "CUTS_MOMENT";
/// The file that is there when the message may begin.
const MAY_BEGIN: &str = "begin";
/// The file that is there when the receiver has taken in enough of its bytes.
const ENOUGH: &str = "enough";

/// The moment at which the link is cut.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Moment {
    /// The receive is posted, and the message not begun.
    BeforeAnnouncement,
    /// The receiver has seen the announcement, and posts its receive only then.
    BeforeAnswer,
    /// The receiver has answered, and the sender looks at that only then.
    BeforeBytes,
    /// The sockets are full of bytes that the receiver does not take.
    WithinBytes,
}

use Moment::*;
const MOMENTS: [Moment; 4] = [BeforeAnnouncement, BeforeAnswer, BeforeBytes, WithinBytes];

/// Waits for a file of the test without any call of the library.
fn await_file(folder: &str, name: &str) {
    assert!(soon(|| Path::new(folder).join(name).exists()), "there is no {name}");
}

/// A rank of two, of which one sends a long message to the other.
#[test]
fn a_rank_with_a_long_message() {
    let Ok(folder) = std::env::var(FOLDER) else { return };
    let moment = std::env::var(MOMENT).unwrap();
    let moment = MOMENTS.into_iter().find(|known| format!("{known:?}") == moment).unwrap();
    let (_job, mut ep) = joined();
    let (me, other) = (ep.rank(), 1 - ep.rank());
    let life = std::env::var("TAFFRAIL_INCARNATION").unwrap().parse().unwrap();
    let mut steps = Steps::begin(&folder, me, life);
    ep.sendrecv((other, 1), &[], (other, 1), &mut []).unwrap();
    steps.done();
    await_file(&folder, MAY_BEGIN);
    let all = bytes(LEN, 0);
    match me {
        0 => ep.scope(|scope| send(scope, moment, &folder, &all)).unwrap(),
        _ => {
            let mut into = vec![0; LEN];
            ep.scope(|scope| receive(scope, moment, &folder, &mut steps, &mut into)).unwrap();
            assert!(into == all);
        }
    }
    ep.sendrecv((other, 3), &[], (other, 3), &mut []).unwrap();
    assert_eq!(ep.probe((other, 2)).unwrap(), None, "nothing came twice");
    // Before that the other one does not finalise.
    ep.sendrecv((other, 4), &[], (other, 4), &mut []).unwrap();
    line(&format!("rank {me}: all"));
}

fn send<'env>(
    scope: &mut Scope<'_, 'env>,
    moment: Moment,
    folder: &str,
    all: &'env [u8],
) -> Result<(), taffrail::Error> {
    if moment == BeforeAnnouncement {
        await_file(folder, IS_CUT);
    }
    let send = scope.isend((1, 2), all)?;
    match moment {
        BeforeBytes => await_file(folder, IS_CUT),
        WithinBytes => {
            let cut = Path::new(folder).join(IS_CUT);
            // With logging the send has completed already: a look for another message makes progress.
            assert!(soon(|| {
                assert_eq!(scope.endpoint().probe((1, 5)).unwrap(), None, "nobody sends this");
                cut.exists()
            }));
        }
        BeforeAnnouncement | BeforeAnswer => {}
    }
    scope.wait(send).map(drop)
}

fn receive<'env>(
    scope: &mut Scope<'_, 'env>,
    moment: Moment,
    folder: &str,
    steps: &mut Steps,
    into: &'env mut [u8],
) -> Result<(), taffrail::Error> {
    if moment != BeforeAnnouncement {
        let mut seen = None;
        assert!(soon(|| {
            seen = scope.endpoint().probe((0, 2)).unwrap();
            seen.is_some()
        }));
        assert_eq!(seen.unwrap().len, LEN);
    }
    if moment == BeforeAnswer {
        steps.done();
        await_file(folder, IS_CUT);
    }
    let receive = scope.irecv((0, 2), into)?;
    if matches!(moment, BeforeBytes | WithinBytes) {
        // The answer leaves, when the event that the message was seen has been copied if that is logged.
        let enough = Path::new(folder).join(ENOUGH);
        for turn in 0.. {
            assert_eq!(scope.test(receive)?, None);
            std::thread::sleep(Duration::from_millis(10));
            if (moment == BeforeBytes && turn == 100) || enough.exists() {
                break;
            }
        }
        steps.done();
        await_file(folder, IS_CUT);
    }
    scope.wait(receive).map(drop)
}

impl Pair<'_> {
    /// The bytes that have come to the second node.
    fn come(&self) -> u64 {
        let node = format!("{}n1", self.nodes.id);
        let file = "/sys/class/net/eth0/statistics/rx_bytes";
        let output = Command::new("ip").args(["netns", "exec", &node, "cat", file]).output();
        let output = String::from_utf8(output.unwrap().stdout).unwrap();
        output.trim().parse().unwrap()
    }

    /// Begins the message, and cuts the link at this moment of it. How many bytes had come by then.
    fn cut_at(&self, moment: Moment) -> u64 {
        assert!(soon(|| ["0.0", "1.0"].iter().all(|life| self.steps(life) == 1)));
        let before = self.come();
        std::fs::write(self.folder.path().join(MAY_BEGIN), []).unwrap();
        let come = || self.come() - before;
        assert!(match moment {
            BeforeAnnouncement => true,
            BeforeAnswer | BeforeBytes => soon(|| self.steps("1.0") == 2),
            WithinBytes => {
                let mut last = 0;
                let begun = soon(|| come() > MUCH);
                std::fs::write(self.folder.path().join(ENOUGH), []).unwrap();
                begun
                    && soon(|| {
                        std::thread::sleep(Duration::from_millis(300));
                        let now = come();
                        let before = std::mem::replace(&mut last, now);
                        before > MUCH && now - before < LITTLE
                    })
            }
        });
        let come = come();
        self.cut_link();
        come
    }
}

/// What has come says where the message was cut: of one that was announced nothing has come but that.
fn assert_moment(moment: Moment, come: u64) {
    println!("{moment:?}: {come} bytes had come");
    let expected = match moment {
        WithinBytes => MUCH..LEN as u64 / 2,
        _ => 0..LITTLE,
    };
    assert!(expected.contains(&come), "{moment:?}: {come} bytes");
}

fn pair<'a>(nodes: &'a Nodes, moment: Moment, options: &[&str]) -> Pair<'a> {
    let moment = format!("{MOMENT}={moment:?}");
    let mut pair = Pair::of(nodes, options, "rendezvous_cuts::a_rank_with_a_long_message");
    let at = pair.job.args.iter().position(|arg| arg == "env").unwrap();
    pair.job.args.insert(at + 1, moment);
    pair
}

/// The kernel outlasts two seconds; after seven the connection is another one.
fn cut_at_each_moment(options: &[&str]) {
    let Some(nodes) = Nodes::new() else { return };
    for (moment, seconds) in MOMENTS.into_iter().flat_map(|moment| [(moment, 2), (moment, 7)]) {
        let pair = pair(&nodes, moment, options);
        let (child, started) = (pair.job.command().spawn().unwrap(), Instant::now());
        let come = pair.cut_at(moment);
        std::thread::sleep(Duration::from_secs(seconds));
        pair.set_cut(false);
        assert_all(&pair.job.end(child, started));
        assert_moment(moment, come);
    }
}

#[test]
fn a_long_message_is_whole_wherever_its_link_is_cut() {
    cut_at_each_moment(&[]);
}

#[test]
fn a_logged_long_message_is_whole_wherever_its_link_is_cut() {
    cut_at_each_moment(&["--logging", "pessimistic"]);
}

/// The link is not healed: one of the nodes is ended, and its rank continues on the other one.
#[test]
fn a_logged_long_message_is_whole_where_its_link_stays_cut() {
    let Some(nodes) = Nodes::new() else { return };
    let options = ["--logging", "pessimistic", "--link-timeout", "4s"];
    for moment in MOMENTS {
        let pair = pair(&nodes, moment, &options);
        let (child, started) = (pair.job.command().spawn().unwrap(), Instant::now());
        let come = pair.cut_at(moment);
        let ended = pair.job.end(child, started);
        pair.set_cut(false);
        assert!(ended.err.contains("have not reached each other for 4 s"), "{}", ended.err);
        assert_all(&ended);
        assert_moment(moment, come);
    }
}
