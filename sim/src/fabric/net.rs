//! The handle on a network for the owner of the schedule.

use super::coverage::Coverage;
use super::roster::SimRoster;
use super::sim_fabric::SimFabric;
use super::state::{Kinds, Link, Net, State, Violation};
use super::watch::Watch;
use super::{Settings, Step};
use crate::broken::Broken;
use std::cell::RefCell;
use std::rc::Rc;
use taffrail_fabric::{Incarnation, Life};

/// A network of processes; their fabrics have these constants. Between two [steps](Self::step) nothing happens in it
/// but the calls of processes.
#[derive(Clone)]
pub struct SimNet<const ORDERED: bool, const STREAMS: bool, const LEASES: bool>(
    pub(super) Rc<RefCell<Net>>,
);

impl<const ORDERED: bool, const STREAMS: bool, const LEASES: bool>
    SimNet<ORDERED, STREAMS, LEASES>
{
    /// Processes that are connected with each other.
    pub fn new(processes: usize, settings: Settings) -> Self {
        let kinds = Kinds { ordered: ORDERED, streams: STREAMS };
        SimNet(Rc::new(RefCell::new(Net::new(processes, settings, kinds))))
    }

    /// The fabric of a process, once at the beginning and once after each [`Step::Restart`].
    pub fn open(&self, rank: usize) -> SimFabric<ORDERED, STREAMS, LEASES> {
        SimFabric::new(self.0.clone(), rank)
    }

    /// The node of each process: links between nodes are made when a process asks for one.
    pub fn over_nodes(&self, nodes: Vec<usize>, broken: Option<Broken>) {
        let mut net = self.0.borrow_mut();
        (net.nodes, net.broken) = (nodes, broken);
    }

    /// Whether two processes are on different nodes.
    pub fn are_far(&self, a: usize, b: usize) -> bool {
        self.0.borrow().are_far(a, b)
    }

    /// What a process hears of the lives of others, as [`open`](Self::open).
    pub fn roster(&self, rank: usize) -> SimRoster {
        SimRoster::new(self.0.borrow_mut().processes[rank].verdicts.open())
    }

    /// All that can happen next, in an order that the state of the network decides.
    pub fn possible(&self) -> Vec<Step> {
        self.0.borrow().possible(false)
    }

    /// The possible steps by which nothing fails.
    pub fn calm(&self) -> Vec<Step> {
        self.0.borrow().possible(true)
    }

    /// Does a step, if it is possible. One that is not is skipped, so that a schedule stays one when steps are taken
    /// out of it.
    pub fn step(&self, step: Step) -> bool {
        let mut net = self.0.borrow_mut();
        let may = net.allows(step);
        if may {
            net.perform(step);
        }
        may
    }

    /// Whether something waits for the next poll of a process, or is on the way to it.
    pub fn concerns(&self, rank: usize) -> bool {
        let net = self.0.borrow();
        let peers = 0..net.processes.len();
        !net.processes[rank].ready.is_empty()
            || net.sends.values().any(|send| send.from == rank)
            || net.operations.values().any(|one| one.by.0 == rank)
            || peers.clone().any(|from| !net.channel(from, rank).flight.is_empty())
            || peers.clone().any(|from| net.has_part(from, rank))
            || peers.clone().any(|peer| net.end(rank, peer).ended.is_some())
    }

    /// Whether there is a link between two processes, as one of them sees it; with `reported` only a link that its sink
    /// knows.
    pub fn is_linked(&self, rank: usize, peer: usize, reported: bool) -> bool {
        match self.0.borrow().end(rank, peer).link {
            Link::Up => true,
            Link::Coming => !reported,
            Link::Down(_) | Link::Unasked => false,
        }
    }

    /// Whether the roster of a process has all that happened to another one.
    pub fn has_roster_of(&self, rank: usize, other: usize) -> bool {
        let net = self.0.borrow();
        net.processes[rank].heard[other] == net.lives[other].len()
    }

    /// Lets the rosters of others hear that the program of a process has completed, if it has just published that and knows of all
    /// restarts. Whether they will.
    pub fn note_finalizing(&self, rank: usize) -> bool {
        let mut net = self.0.borrow_mut();
        let is_new = net.processes[rank].verdicts.takes_finalizing();
        let is_new =
            is_new && (net.knows_all_restarts(rank) || net.broken == Some(Broken::StaleFinalizing));
        if is_new {
            let incarnation = Incarnation(net.processes[rank].incarnation);
            net.lives[rank].push(Life::Finalizing(incarnation));
        }
        is_new
    }

    /// Whether a process has polled all that its roster has.
    pub fn has_read_roster(&self, rank: usize) -> bool {
        self.0.borrow().processes[rank].verdicts.are_heard()
    }

    /// The sum of the incarnations that the roster of a process has.
    pub fn heard_incarnations(&self, rank: usize) -> u64 {
        let net = self.0.borrow();
        let heard =
            net.lives.iter().zip(&net.processes[rank].heard).map(|(of, &heard)| &of[..heard]);
        let restarts = heard.flatten().filter(|life| matches!(life, Life::Restarted(_)));
        restarts.count() as u64
    }

    /// Whether a process that has used no link with another one hears next that the program of that is over.
    pub fn is_to_hear_of_an_end(&self, rank: usize, other: usize) -> bool {
        let net = self.0.borrow();
        let unheard = &net.lives[other][net.processes[rank].heard[other]..];
        unheard.iter().any(|life| matches!(life, Life::Finalizing(_)))
            && !net.was_linked(rank, other)
    }

    /// From now on this observer sees what happens.
    pub fn watch(&self, watch: Rc<RefCell<dyn Watch>>) {
        self.0.borrow_mut().watch = Some(watch);
    }

    /// Whether a process runs.
    pub fn lives(&self, rank: usize) -> bool {
        self.0.borrow().lives(rank)
    }

    /// Whether a process has died and was not started again.
    pub fn is_dead(&self, rank: usize) -> bool {
        self.0.borrow().processes[rank].state == State::Dead
    }

    /// Which start of a process this is, or was.
    pub fn incarnation(&self, rank: usize) -> u32 {
        self.0.borrow().processes[rank].incarnation
    }

    /// Messages on the way from one process to another that were accepted and not handed over.
    pub fn waiting(&self, from: usize, to: usize) -> usize {
        self.0.borrow().channel(from, to).waiting
    }

    /// How often each situation was reached.
    pub fn coverage(&self) -> Coverage {
        self.0.borrow().coverage.clone()
    }

    /// Rules that were broken: memory overwritten before it was read.
    pub fn violations(&self) -> Vec<Violation> {
        self.0.borrow().violations.clone()
    }

    /// The first of them.
    pub fn violation(&self) -> Option<Violation> {
        self.0.borrow().violations.first().cloned()
    }

    /// A line for each step, message and operation, if [`Settings::trace`] says so.
    pub fn trace(&self) -> Vec<String> {
        self.0.borrow().trace.clone()
    }

    /// Adds a line to the trace.
    pub fn say(&self, line: impl FnOnce() -> String) {
        self.0.borrow_mut().say(line);
    }
}
