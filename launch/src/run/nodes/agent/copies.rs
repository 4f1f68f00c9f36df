//! What an agent has to do with copies on other nodes: those of its ranks' events, and those that it keeps for others
//! (`docs/spec/agent.md`, section 11).

use super::job::Job;
use super::recovery::failed;
use crate::eventlog::{
    Announcing, ChannelError, CheckpointCopier, CopiedCheckpoint, CopyNews, CopyStore, Download,
    KeeperError, Patience, Target,
};
use crate::run::{Failure, in_words, own_program, say};
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};
use taffrail_agent::RankIncarnation;
use taffrail_agent::agent::Event;
use taffrail_agent::roster::job_digest;
use taffrail_agent::wire::{BringOrder, CopyOrder, Frame};

/// A copy store that was killed so often is killed by something that will not end.
const MAX_DEATHS: u32 = 100;
/// Who copies checkpoints, beside the loggers of the groups of ranks with their numbers.
const CHECKPOINTS: usize = usize::MAX;

/// The events of a rank of a lost node, and its last checkpoint.
pub type CopyOfRank = (Download, Option<CopiedCheckpoint>);

#[derive(Default)]
pub struct Copies {
    /// Where copies for others are kept.
    pub store: Option<CopyStore>,
    /// Orders to bring a log to another node, which the copy store has: whose, and by which order it has the log.
    brings: BTreeMap<u64, (RankIncarnation, u64)>,
    /// Events that the copy store has handed out, as long as their checkpoint is missing: whose, and by which order.
    fetched: Option<(u32, u64, Download)>,
    deaths: u32,
    /// Those of this node: one for each event logger behind the first.
    elsewhere: Vec<Copy>,
}

/// A copy of this node's events and checkpoints on another one.
struct Copy {
    /// Brings the checkpoints there.
    copier: CheckpointCopier,
    target: Option<Target>,
    done: Done,
}

impl Copies {
    /// Where loggers that are started now copy to, by their numbers.
    pub fn targets(&self) -> Vec<(usize, Target)> {
        let all = (1..).zip(&self.elsewhere);
        all.filter_map(|(logger, copy)| Some((logger, copy.target.clone()?))).collect()
    }

    /// What brings checkpoints to other nodes.
    pub fn copiers(&self) -> impl Iterator<Item = &CheckpointCopier> {
        self.elsewhere.iter().map(|copy| &copy.copier)
    }

    /// From now on events are copied there by this logger.
    pub fn order(&mut self, order: CopyOrder) -> Option<(usize, Target)> {
        let CopyOrder { epoch, logger, node, address } = order;
        let logger = logger as usize;
        let copy = self.elsewhere.get_mut(logger.checked_sub(1)?)?;
        copy.done = Done { epoch, ..Done::default() };
        let target = Target { epoch, node: node.into(), address };
        copy.copier.copy_to(target.clone());
        Some((logger, copy.target.insert(target).clone()))
    }

    /// An event logger of these ranks' events reports. What the launcher is to know at once.
    pub fn hear(&mut self, ranks: usize, news: CopyNews) -> Option<Event> {
        match news {
            CopyNews::Copied { epoch } => {
                let of_order = self.elsewhere.iter_mut().find(|copy| copy.done.epoch == epoch);
                of_order.into_iter().for_each(|copy| _ = copy.done.by.insert(ranks));
                None
            }
            CopyNews::Lost { epoch, why } => Some(Event::Say(Frame::Uncopied { epoch, why })),
        }
    }

    /// What has come of the orders: what the launcher is to know, also that the loggers of all ranks, which are in so many groups,
    /// have carried one out.
    pub fn check(&mut self, groups: usize) -> Vec<Event> {
        let news: Vec<CopyNews> = self.copiers().flat_map(CheckpointCopier::news).collect();
        let mut events: Vec<Event> =
            news.into_iter().filter_map(|news| self.hear(CHECKPOINTS, news)).collect();
        let done = self.elsewhere.iter_mut().filter(|_| groups > 0);
        let done = done.filter_map(|copy| copy.done.check(groups + 1));
        events.extend(done.map(|epoch| Event::Copied { epoch }));
        events
    }

    /// The log of a rank of a lost node is to be brought to another node.
    fn bring(&mut self, life: RankIncarnation, order: BringOrder) -> Result<(), KeeperError> {
        let BringOrder { copy, epoch, node, address } = order;
        self.brings.insert(epoch, (life, copy));
        let store = self.store.as_mut().ok_or(KeeperError::Channel(ChannelError::Closed))?;
        store.bring(life.rank, copy, Target { epoch, node: node.into(), address })
    }

    /// What has become of that, for the launcher, unless the copy store is gone.
    fn brought(&mut self) -> Result<Vec<Event>, KeeperError> {
        let Some(store) = self.store.as_mut() else { return Ok(Vec::new()) };
        let mut events = Vec::new();
        match store.listen() {
            Ok(true) => {
                events.push(Event::Say(Frame::Store { address: store.address().to_owned() }));
            }
            Ok(false) | Err(KeeperError::Unanswered) => {}
            Err(error) => return Err(error),
        }
        let news = store.news()?;
        for news in news {
            let (order, why) = match news {
                CopyNews::Copied { epoch } => (epoch, String::new()),
                CopyNews::Lost { epoch, why } => (epoch, why),
            };
            match self.brings.remove(&order) {
                Some((life, _)) => events.push(Event::Brought { life, epoch: order, why }),
                None => events.extend(self.give_up(|copy| copy == order, &why)),
            }
        }
        Ok(events)
    }

    /// The copy store does not have these copies, which it was to bring to other nodes.
    fn give_up(&mut self, is_lost: impl Fn(u64) -> bool, why: &str) -> Vec<Event> {
        let lost = self.brings.extract_if(.., |_, (_, copy)| is_lost(*copy));
        let event = |(_, (life, epoch))| Event::Brought { life, epoch, why: why.to_owned() };
        lost.map(event).collect()
    }

    /// The events of a rank of a lost node, and its last checkpoint, as this order has brought them here. None: the copy
    /// store has not answered yet, and is to be asked again, before it is asked for another rank.
    pub fn fetch(&mut self, rank: u32, epoch: u64) -> Result<Option<CopyOfRank>, Failure> {
        let lost = Failure::new;
        let none = || lost("no copies are kept here".to_owned());
        // One that does not listen yet has none.
        let store = self.store.as_mut().filter(|store| !store.address().is_empty());
        let store = store.ok_or_else(none)?;
        let before = self.fetched.take().filter(|(of, by, _)| (*of, *by) == (rank, epoch));
        let events = before.map_or_else(|| store.fetch(rank, epoch), |(_, _, events)| Ok(events));
        let both = events.and_then(|events| match store.fetch_checkpoint(rank, epoch) {
            Err(KeeperError::Unanswered) => {
                self.fetched = Some((rank, epoch, events));
                Err(KeeperError::Unanswered)
            }
            checkpoint => Ok((events, checkpoint?)),
        });
        match both {
            Ok(both) => Ok(Some(both)),
            Err(KeeperError::Unanswered) => Ok(None),
            Err(KeeperError::Refused(told)) => Err(lost(told.text)),
            Err(other) => Err(lost(format!("the copy of its events is gone: {other}"))),
        }
    }
}

impl Job {
    /// Starts the copy store, where there is to be one. Its address is reported when it listens.
    pub fn keep_copies(&mut self) -> Option<Event> {
        self.start_store().err().map(failed)
    }

    fn start_store(&mut self) -> Result<(), Failure> {
        let Some(elsewhere) = self.elsewhere()? else { return Ok(()) };
        let job = job_digest(&self.about.name);
        let program = own_program::path();
        let patience = Patience::of_agent(self.about.lease);
        let store = CopyStore::begin(&program, job, &elsewhere, &self.network, patience);
        let store = store.map_err(|error| not_kept(&error))?;
        self.guard.watch(store.pid());
        self.logs.copies.store = Some(store);
        if self.logs.copies.elsewhere.is_empty() {
            self.start_copiers(job)?;
        }
        Ok(())
    }

    fn start_copiers(&mut self, job: u64) -> Result<(), Failure> {
        for announcing in Announcing::of_copies(self.logs.loggers_that_copy()) {
            let Some(elsewhere) = self.elsewhere()? else { continue };
            let copier = CheckpointCopier::start(job, elsewhere, announcing).map_err(|e| {
                let why = format!("checkpoints cannot be copied to other nodes: {}", in_words(&e));
                Failure::new(why)
            })?;
            let copy = Copy { copier, target: None, done: Done::default() };
            self.logs.copies.elsewhere.push(copy);
        }
        Ok(())
    }

    /// The log of a rank of a lost node is to be brought to another node. Whether it is there is said later.
    pub fn bring(&mut self, life: RankIncarnation, order: BringOrder) -> Vec<Event> {
        let copy = order.copy;
        let Err(error) = self.logs.copies.bring(life, order) else { return Vec::new() };
        let lost = self.logs.copies.give_up(|of| of == copy, &error.to_string());
        lost.into_iter().chain(self.check_store()).collect()
    }

    /// The copy store has said what has become of logs that it brings to others; or it is gone: another one begins with nothing, and
    /// other nodes copy everything to it.
    pub fn check_store(&mut self) -> Vec<Event> {
        let said = self.logs.copies.brought();
        let store = self.logs.copies.store.as_ref();
        let is_there = store.is_none_or(|store| store.socket().is_some());
        let events = match said {
            Ok(events) if is_there => return events,
            Err(error) if store.is_some_and(|store| store.address().is_empty()) => {
                let failure = not_kept(&error);
                self.end_store();
                return vec![failed(failure)];
            }
            said => said.unwrap_or_default(),
        };
        self.logs.copies.fetched = None;
        let lost = self.logs.copies.give_up(|_| true, "the copy store that has it has ended");
        events.into_iter().chain(lost).chain(self.replace_store()).collect()
    }

    /// Which one was ended.
    fn end_store(&mut self) -> Option<Pid> {
        let store = self.logs.copies.store.take()?;
        self.guard.forget(store.pid());
        Some(store.pid())
    }

    fn replace_store(&mut self) -> Option<Event> {
        let pid = self.end_store()?;
        self.logs.copies.deaths += 1;
        if self.logs.copies.deaths > MAX_DEATHS {
            let deaths = self.logs.copies.deaths;
            let why = format!("the copy store has ended {deaths} times, and is not started again");
            return Some(failed(Failure::new(why)));
        }
        say(&format!("the copy store (pid {pid}) has ended; another one is filled again"));
        self.keep_copies()
    }
}

/// Why there is no copy store.
fn not_kept(error: &KeeperError) -> Failure {
    Failure::new(format!("copies of the events of other nodes cannot be kept: {error}"))
}

/// What groups of ranks have carried out of an order.
#[derive(Default)]
struct Done {
    by: BTreeSet<usize>,
    epoch: u64,
    said: bool,
}

impl Done {
    /// The order, once all of so many have carried it out.
    fn check(&mut self, all: usize) -> Option<u64> {
        let is_done = self.by.len() == all && !self.said;
        self.said |= is_done;
        is_done.then_some(self.epoch)
    }
}
