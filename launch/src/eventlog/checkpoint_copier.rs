//! Copies checkpoints of a node's ranks, with the logs that they refer to, to the copy store of another node: there is one for
//! each copy of the node
//! (`docs/spec/agent.md`, section 11; `docs/logging.md`, section 14).
//!
//! One thread of the agent has the connection: it may wait for the other node, and its agent never does. It looks for new checkpoints,
//! which ranks write without a word, and says which ones its copy has, so that they may be announced.

use super::announcing::Announcing;
use super::copies::read_secret;
use super::keeper::{Elsewhere, Target};
use super::running::CopyNews;
use super::sending::{end_checkpoint, send, send_checkpoint};
use super::stream::{self, CheckpointAbout, CopyFrame, GIVE_UP, Identity, LIMIT, PAUSE, identity};
use rustix::event::{EventfdFlags, eventfd};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{Error, Result};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};
use taffrail_logging::store::{CheckpointFiles, Extent, LiveLog};

/// It is looked for new checkpoints as soon as this behind the last one, and less and less often until there is another.
const LOOK: Duration = Duration::from_millis(1);
const LOOK_MAX: Duration = Duration::from_millis(16);

/// The files of the log of one process.
#[derive(Debug)]
pub struct RankLog {
    /// Its incarnation.
    pub incarnation: u32,
    /// The files.
    pub files: LiveLog,
}

/// What there is of a rank that takes checkpoints.
#[derive(Debug)]
pub struct CheckpointSource {
    /// Whose it is.
    pub rank: u32,
    /// Its checkpoints.
    pub checkpoints: CheckpointFiles,
    /// The logs of its present process, and of that which has taken the last checkpoint.
    pub logs: Vec<Arc<RankLog>>,
}

enum Order {
    CopyTo(Target),
    Source(CheckpointSource),
}

/// The agent's side.
#[derive(Debug)]
pub struct CheckpointCopier {
    orders: Sender<Order>,
    news: Receiver<CopyNews>,
    bell: Arc<OwnedFd>,
}

impl CheckpointCopier {
    /// Starts that of a copy, as this node among those of a job.
    ///
    /// # Errors
    /// There is no thread or descriptor for it.
    pub fn start(
        job: u64,
        elsewhere: Elsewhere,
        announcing: Announcing,
    ) -> Result<CheckpointCopier> {
        let Elsewhere { secret, node, .. } = elsewhere;
        let secret = read_secret(secret)?;
        let bell = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (orders, to_do) = channel();
        let (say, news) = channel();
        let mut work = Work::new(identity(job, secret, node), announcing, say, bell.clone());
        let run = move || work.run(&to_do);
        std::thread::Builder::new().name("checkpoints".into()).spawn(run)?;
        Ok(CheckpointCopier { orders, news, bell })
    }

    /// From now on checkpoints are copied there.
    pub fn copy_to(&self, target: Target) {
        self.order(Order::CopyTo(target));
    }

    /// A process of a rank is about to be started with these.
    pub fn add(&self, source: CheckpointSource) {
        self.order(Order::Source(source));
    }

    fn order(&self, order: Order) {
        if self.orders.send(order).is_err() {
            // The thread has panicked, and said so.
            std::process::abort();
        }
    }

    /// Readable when there is news.
    pub fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// What has become of orders.
    pub fn news(&self) -> Vec<CopyNews> {
        let _ = rustix::io::read(&self.bell, &mut [0; 8]);
        self.news.try_iter().collect()
    }
}

/// A rank, and what the other node has of it.
struct Rank {
    source: CheckpointSource,
    /// The number of the last checkpoint that is whole there.
    sent: u64,
    /// The incarnation whose log was sent, and segments of it that do not change any more.
    log: Option<(u32, BTreeSet<u64>)>,
    /// Its checkpoints do not wait for this copy.
    is_free: bool,
}

/// The thread's side.
struct Work {
    me: Identity,
    announcing: Announcing,
    news: Sender<CopyNews>,
    bell: Arc<OwnedFd>,
    ranks: BTreeMap<u32, Rank>,
    target: Option<Target>,
    stream: Option<TcpStream>,
    said_copied: bool,
    /// Since when all attempts have failed.
    since: Option<Instant>,
    said_lost: bool,
}

impl Work {
    fn new(
        me: Identity,
        announcing: Announcing,
        news: Sender<CopyNews>,
        bell: Arc<OwnedFd>,
    ) -> Work {
        Work {
            me,
            announcing,
            news,
            bell,
            ranks: BTreeMap::new(),
            target: None,
            stream: None,
            said_copied: false,
            since: None,
            said_lost: false,
        }
    }

    fn run(&mut self, orders: &Receiver<Order>) {
        let mut pause = LOOK;
        loop {
            let first = match orders.recv_timeout(pause) {
                Ok(order) => Some(order),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            for order in first.into_iter().chain(orders.try_iter()) {
                match order {
                    Order::CopyTo(target) => self.copy_to(target),
                    Order::Source(source) => self.add(source),
                }
            }
            pause = match self.turn() {
                Ok(0) => (2 * pause).min(LOOK_MAX),
                Ok(_) => LOOK,
                Err(why) => {
                    tracing::debug!("copy of checkpoints: {why}");
                    self.broken(&why);
                    PAUSE
                }
            };
        }
    }

    fn say(&self, news: CopyNews) {
        // The agent is about to end if nobody hears it.
        let _ = self.news.send(news);
        let _ = rustix::io::write(&self.bell, &1_u64.to_ne_bytes());
    }

    fn copy_to(&mut self, target: Target) {
        self.target = Some(target);
        (self.said_copied, self.said_lost, self.since) = (false, false, None);
        self.disconnect();
    }

    /// What was sent counts no more: all of it is sent anew.
    fn disconnect(&mut self) {
        self.stream = None;
        self.ranks.values_mut().for_each(|rank| (rank.sent, rank.log) = (0, None));
    }

    fn broken(&mut self, why: &Error) {
        self.disconnect();
        let since = *self.since.get_or_insert_with(Instant::now);
        let Some(target) = self.target.as_ref().filter(|_| since.elapsed() >= GIVE_UP) else {
            return;
        };
        if !std::mem::replace(&mut self.said_lost, true) {
            let (to, seconds) = (&target.address, GIVE_UP.as_secs());
            let why = format!("checkpoints cannot be brought to {to} for {seconds} s: {why}");
            self.say(CopyNews::Lost { epoch: target.epoch, why });
        }
    }

    fn add(&mut self, source: CheckpointSource) {
        let number = source.rank;
        match self.ranks.get_mut(&number) {
            Some(rank) => rank.source = source,
            None => {
                self.announcing.begin(number, source.checkpoints.last_number());
                let rank = Rank { source, sent: 0, log: None, is_free: false };
                self.ranks.insert(number, rank);
            }
        }
    }

    /// Copies what is new. How many checkpoints that was.
    fn turn(&mut self) -> Result<u32> {
        let Some(target) = self.target.clone() else { return Ok(0) };
        let (mut copied, mut is_all) = (0, true);
        for rank in self.ranks.values_mut() {
            if target.address.is_empty() {
                rank.let_go(&self.announcing)?;
                continue;
            }
            rank.hold(&self.announcing)?;
            if rank.source.checkpoints.look()? <= rank.sent {
                continue;
            }
            let Some((last, log)) = rank.last()? else {
                is_all = false;
                continue;
            };
            let stream = match &mut self.stream {
                Some(stream) => stream,
                none => none.insert(begin(&self.me, &target)?),
            };
            let number = last.number;
            rank.send(stream, last, &log)?;
            // commit-then-announce: all of it is there.
            self.announcing.has(rank.source.rank, Some(number), &rank.source.checkpoints)?;
            copied += 1;
        }
        self.since = None;
        if is_all && !std::mem::replace(&mut self.said_copied, true) {
            self.say(CopyNews::Copied { epoch: target.epoch });
        }
        Ok(copied)
    }
}

fn begin(me: &Identity, target: &Target) -> Result<TcpStream> {
    let mut stream = stream::connect(me, target.node, &target.address)?;
    send(&mut stream, &CopyFrame::BeginCheckpoints { epoch: target.epoch })?;
    Ok(stream)
}

impl Rank {
    /// There is no other node for this copy: nothing waits for it.
    fn let_go(&mut self, announcing: &Announcing) -> Result<()> {
        if !std::mem::replace(&mut self.is_free, true) {
            announcing.has(self.source.rank, None, &self.source.checkpoints)?;
        }
        Ok(())
    }

    /// There is one: no checkpoint is announced that is not there. One that is announced just now is found by the look that
    /// follows.
    fn hold(&mut self, announcing: &Announcing) -> Result<()> {
        if std::mem::take(&mut self.is_free) {
            let last = self.source.checkpoints.look()?;
            announcing.has(self.source.rank, Some(last), &self.source.checkpoints)?;
        }
        Ok(())
    }

    /// The last checkpoint, and the log that it refers to. None: that of a process of which this thread does not know yet.
    fn last(&self) -> Result<Option<(Extent, Arc<RankLog>)>> {
        let last = self.source.checkpoints.extent().map_err(Error::other)?;
        Ok(last.and_then(|last| {
            let mut logs = self.source.logs.iter();
            Some((last, logs.find(|log| log.incarnation == last.incarnation)?.clone()))
        }))
    }

    /// Brings a checkpoint to the other node, with what its log has that is not there yet.
    fn send(&mut self, stream: &mut TcpStream, last: Extent, log: &RankLog) -> Result<()> {
        let rank = self.source.rank;
        let segment = log.files.list()?.size();
        let about = CheckpointAbout {
            len: last.len,
            incarnation: last.incarnation,
            segment: u32::try_from(segment).map_err(Error::other)?,
        };
        send(stream, &CopyFrame::Checkpoint { rank, number: last.number, about })?;
        let read = |bytes: &mut [u8], at| self.source.checkpoints.read(bytes, last.at + at);
        send_checkpoint(stream, rank, last.len, read)?;
        let needed = self.send_log(stream, log)?;
        end_checkpoint(stream, (rank, last.number, last.len), &runs(&needed))?;
        self.sent = last.number;
        Ok(())
    }

    /// Brings segments of a log there. The numbers of those that are needed.
    fn send_log(&mut self, stream: &mut TcpStream, log: &RankLog) -> Result<Vec<u64>> {
        let rank = self.source.rank;
        if self.log.as_ref().is_none_or(|(of, _)| *of != log.incarnation) {
            self.log = Some((log.incarnation, BTreeSet::new()));
        }
        let Some((_, there)) = &mut self.log else { return Ok(Vec::new()) };
        let mut listed = log.files.list()?;
        let mut needed = listed.numbers();
        let (last, size) = (needed.last().copied(), listed.size());
        let mut bytes = Vec::new();
        let mut given_up = BTreeSet::new();
        for &number in &needed {
            if there.contains(&number) {
                continue;
            }
            if !log.files.read(&mut listed, number, &mut bytes)? {
                given_up.insert(number);
                continue;
            }
            for (at, part) in (0..).step_by(LIMIT).zip(bytes.chunks(LIMIT)) {
                let place = number * size + at;
                send(stream, &CopyFrame::Log { rank, place, bytes: part.to_vec() })?;
            }
            // What is not the last one is full.
            if Some(number) != last {
                there.insert(number);
            }
        }
        needed.retain(|number| !given_up.contains(number));
        there.retain(|number| needed.binary_search(number).is_ok());
        Ok(needed)
    }
}

/// Numbers in their order as runs: the first of each, and how many there are.
fn runs(numbers: &[u64]) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for &number in numbers {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == number => *count += 1,
            _ => runs.push((number, 1)),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_runs() {
        assert_eq!(runs(&[]), []);
        assert_eq!(runs(&[0, 1, 2, 5, 7, 8]), [(0, 3), (5, 1), (7, 2)]);
    }
}
