//! What an agent has to do with copies on other nodes: those of its ranks' events, and those that it keeps for others
//! (`docs/spec/agent.md`, section 11).

use super::job::Job;
use super::recovery::{Done, failed};
use crate::eventlog::{CopyNews, CopyStore, Download, KeeperError, Target};
use crate::run::{Failure, own_program, say};
use taffrail_agent::agent::Event;
use taffrail_agent::roster::job_digest;
use taffrail_agent::wire::{CopyOrder, Frame};

/// A copy store that was killed so often is killed by something that will not end.
const MAX_DEATHS: u32 = 100;

#[derive(Default)]
pub struct Copies {
    /// Where copies for others are kept.
    pub store: Option<CopyStore>,
    deaths: u32,
    target: Option<Target>,
    done: Done,
}

impl Copies {
    /// Where loggers that are started now copy to.
    pub fn target(&self) -> Option<Target> {
        self.target.clone()
    }

    /// From now on events are copied there.
    pub fn order(&mut self, order: CopyOrder) -> Target {
        let CopyOrder { epoch, node, address } = order;
        self.done.order(epoch);
        self.target.insert(Target { epoch, node: node.into(), address }).clone()
    }

    /// A logger reports. What the launcher is to know at once.
    pub fn hear(&mut self, logger: usize, news: CopyNews) -> Option<Event> {
        self.done.add(logger, &news);
        match news {
            CopyNews::Copied { .. } => None,
            CopyNews::Lost { epoch, why } => Some(Event::Say(Frame::Uncopied { epoch, why })),
        }
    }

    /// What has come of the order, if all of this many loggers have carried it out.
    pub fn check(&mut self, loggers: usize) -> Option<Event> {
        self.done.check(loggers).map(|epoch| Event::Copied { epoch })
    }

    /// The events of a rank of a lost node, as this order has brought them here.
    pub fn fetch(&mut self, rank: u32, epoch: u64) -> Result<Download, Failure> {
        let lost = |why: String| Failure::new(format!("rank {rank} cannot be restarted: {why}"));
        let store = self.store.as_mut().ok_or_else(|| lost("no copies are kept here".into()))?;
        store.fetch(rank, epoch).map_err(|error| match error {
            KeeperError::Refused(told) => lost(told.text),
            other => lost(format!("the copy of its events is gone: {other}")),
        })
    }
}

impl Job {
    /// Starts the copy store, where there is to be one, and reports its address.
    pub fn keep_copies(&mut self) -> Option<Event> {
        let started = self.start_store();
        started.unwrap_or_else(|failure| Some(failed(failure)))
    }

    fn start_store(&mut self) -> Result<Option<Event>, Failure> {
        let Some(elsewhere) = self.elsewhere()? else { return Ok(None) };
        let job = job_digest(&self.about.name);
        let program = own_program::path();
        let store = CopyStore::start(&program, job, &elsewhere, &self.about.network);
        let store = store.map_err(|error| {
            Failure::new(format!("copies of the events of other nodes cannot be kept: {error}"))
        })?;
        self.guard.watch(store.pid());
        let address = store.address().to_owned();
        self.logs.copies.store = Some(store);
        Ok(Some(Event::Say(Frame::Store { address })))
    }

    /// The copy store has said something that nobody asked for, or is gone: another one begins with nothing, and other nodes
    /// copy everything to it.
    pub fn check_store(&mut self) -> Option<Event> {
        let store = self.logs.copies.store.take()?;
        let pid = store.pid();
        self.guard.forget(pid);
        drop(store);
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
