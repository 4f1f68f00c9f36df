//! The launcher of a job over nodes: one thread, one poll, every event. What is decided about ranks is decided by the same
//! state machine as on one host (`life.rs`); what is done on nodes by that of `taffrail_agent`.

mod agents;
mod config;
mod input;
mod reports;
mod wait;

use super::invitation::Callers;
use super::logging;
use super::options::Plan;
use super::starter::Starter;
use crate::run::event_loop::{DELIVERY, trouble};
use crate::run::guard::boot_time;
use crate::run::life::{Action, Event, Life};
use crate::run::outlets::{self, Outlets, To};
use crate::run::output::Lines;
use crate::run::signals::{self, Meaning, Signals};
use crate::run::{Args, Failure, in_words, say};
use input::Input;
use rustix::process::Signal;
use std::collections::VecDeque;
use std::time::{Duration, Instant};
use taffrail::words::counted;
use taffrail_agent::launcher;
use taffrail_agent::wire::Reach;
use taffrail_agent::{Launcher, NodeId};
use wait::Source;

/// How long ranks have to end by themselves once asked to; as on one host, the state machine of ranks counts it, too.
const END_GRACE: Duration = Duration::from_secs(2);

/// How long agents have to leave once the job has ended.
const FAREWELL: Duration = Duration::from_secs(5);

/// Starts the job on its hosts, watches it to its end, and returns its status.
pub fn job(args: &Args) -> Result<u8, Failure> {
    let plan = args.nodes.plan(args)?;
    let (failures, logging) = logging::plan(args, &plan)?;
    let copies = logging.as_ref().map_or(0, logging::copies_elsewhere);
    let copies = copies.min(plan.hosts.0.len() as u32 - 1);
    let not_survived = match copies {
        0 => "",
        _ => "; no other node has a whole copy of their events",
    };
    let ranks = args.ranks() as usize;
    let signals = Signals::catch()?;
    let outlets = outlets::start().map_err(|e| {
        Failure::new(format!("no thread that writes output (socketpair, clone3): {}", in_words(&e)))
    })?;
    let launcher = Launcher::new(config::config(args, &plan, logging)?);
    let launcher = launcher.map_err(|e| Failure { status: 2, why: e.to_string() })?;
    let lines = |_| [To::Out, To::Err].map(|_| Lines::new(None));
    let mut job = Job {
        names: plan.hosts.0.iter().map(|host| host.name.clone()).collect(),
        starters: plan.hosts.0.iter().map(|_| None).collect(),
        callers: plan.is_called().then(|| Callers::listen(&plan.network)).transpose()?,
        owed: vec![0; plan.hosts.0.len()],
        copies: vec![copies; plan.hosts.0.len()],
        plan,
        args,
        not_survived,
        launcher,
        life: Life::new(ranks, failures.on_failure, failures.restarts()),
        queue: VecDeque::new(),
        placed: vec![None; ranks],
        lines: (0..ranks).map(lines).collect(),
        input: Input::new(args),
        outlets,
        signals,
        started: Instant::now(),
        finishing: None,
        has_named_silent: false,
        done: false,
    };
    for (number, lines) in job.lines.iter_mut().enumerate().filter(|_| args.label) {
        *lines = [To::Out, To::Err].map(|_| Lines::new(Some(number)));
    }
    job.launch(vec![launcher::Event::Begin]);
    while !job.done {
        job.take_turn()?;
    }
    job.life.summary().iter().for_each(|line| say(line));
    job.callers.iter().for_each(|callers| reports::say_refused("the launcher", callers.refused()));
    // Of event loggers that were started again each agent has said so.
    job.life.stats.text(0).iter().for_each(|text| crate::log::note(text));
    job.deliver()?;
    Ok(job.life.status())
}

pub(super) struct Job<'a> {
    args: &'a Args,
    plan: Plan,
    /// Of each node, how many others are to have copies of its events, as was said.
    copies: Vec<u32>,
    /// Why the loss of a node ends the job, where it need not.
    not_survived: &'static str,
    launcher: Launcher,
    life: Life,
    /// Of each host.
    names: Vec<String>,
    starters: Vec<Option<Starter>>,
    /// Where agents connect that do so by themselves.
    callers: Option<Callers>,
    /// Output of each node that was taken, and not said so.
    owed: Vec<u32>,
    /// Hosts whose turn to be connected with has not come.
    queue: VecDeque<NodeId>,
    /// Of each rank, the node where its process may live.
    placed: Vec<Option<NodeId>>,
    /// Of each rank, what it writes to standard output and error.
    lines: Vec<[Lines; 2]>,
    input: Input,
    outlets: &'static Outlets,
    signals: Signals,
    started: Instant,
    /// Since when agents were asked to leave.
    finishing: Option<Instant>,
    /// The job has failed, and those nodes were named that give no sign of life.
    has_named_silent: bool,
    done: bool,
}

impl Job<'_> {
    /// Waits until something happens or is due, and does what follows.
    fn take_turn(&mut self) -> Result<(), Failure> {
        let input = std::iter::from_fn(|| self.input.take()).collect();
        self.launch(input);
        let ready = self.wait()?;
        let (mut of_life, mut of_launcher) = (Vec::new(), Vec::new());
        for source in ready {
            match source {
                Source::Signals => self.take_signals(&mut of_life, &mut of_launcher),
                Source::Outlets => of_life.extend(trouble(self.outlets)),
                Source::Input => self.input.read(),
                Source::Channel(node) => self.receive(node, &mut of_launcher),
                Source::Error(node) => of_launcher.extend(self.take_lines(node)),
                Source::Callers => {}
            }
        }
        self.take_callers(&mut of_launcher);
        self.give_back(&mut of_launcher);
        of_launcher.push(launcher::Event::Tick);
        self.launch(of_launcher);
        of_life.extend(self.timed_out());
        of_life.push(Event::Tick);
        self.dispatch(of_life);
        self.check_silent();
        self.check_starters();
        self.check_end();
        Ok(())
    }

    /// The rank that fails first may have waited for one whose node stands still.
    fn check_silent(&mut self) {
        if self.has_named_silent || !self.life.is_ending() {
            return;
        }
        self.has_named_silent = true;
        for node in self.launcher.silent(boot_time()) {
            let name = &self.names[usize::from(node)];
            say(&format!(
                "node {name}: its agent gives no sign of life; its ranks end with its lease"
            ));
        }
    }

    fn timed_out(&self) -> Option<Event> {
        let limit = self.args.timeout.filter(|limit| self.started.elapsed() >= *limit)?;
        (!self.life.is_ending()).then_some(Event::TimedOut { limit })
    }

    /// What a signal means is done.
    fn take_signals(&mut self, of_life: &mut Vec<Event>, of_launcher: &mut Vec<launcher::Event>) {
        use launcher::Event::Signal as Send;
        for number in self.signals.take() {
            match signals::meaning(number) {
                Meaning::Child | Meaning::None => {}
                Meaning::Forward(signal) => of_launcher.push(Send(signal.as_raw(), Reach::Groups)),
                Meaning::Stop => {
                    say(&format!(
                        "ranks are stopped; the launcher stays awake, since their nodes end them without it. To \
                         continue: kill -CONT {}",
                        std::process::id()
                    ));
                    of_launcher.push(Send(Signal::STOP.as_raw(), Reach::Everything));
                }
                Meaning::Continue => {
                    of_launcher.push(Send(Signal::CONT.as_raw(), Reach::Everything));
                }
                Meaning::End(to_ranks) => {
                    let to_ranks = to_ranks.as_raw();
                    of_life.push(Event::Signalled { signal: number, to_ranks });
                }
            }
        }
    }

    /// Output that was written makes room for more.
    fn give_back(&mut self, events: &mut Vec<launcher::Event>) {
        if !self.outlets.has_room(To::Out) || !self.outlets.has_room(To::Err) {
            return;
        }
        for (node, bytes) in (0..).zip(&mut self.owed).filter(|(_, bytes)| **bytes > 0) {
            events.push(launcher::Event::OutputTaken { node, bytes: std::mem::take(bytes) });
        }
    }

    /// Reports events to the state machine of nodes, and carries out what it says.
    fn launch(&mut self, events: Vec<launcher::Event>) {
        let mut batches = VecDeque::from([events]);
        while let Some(batch) = batches.pop_front() {
            let mut of_life = Vec::new();
            for action in self.launcher.handle(boot_time(), batch) {
                let broken = match action {
                    launcher::Action::StartAgent(node) => {
                        self.queue.push_back(node);
                        None
                    }
                    launcher::Action::Send(node, frame) => self.send(node, &frame),
                    launcher::Action::Close(node) => {
                        self.close(node);
                        None
                    }
                    launcher::Action::Report(report) => {
                        of_life.extend(self.reported(report));
                        None
                    }
                };
                batches.extend(broken.map(|event| vec![event]));
            }
            batches.extend(self.start_queued());
            if !of_life.is_empty() {
                self.dispatch(of_life);
            }
        }
    }

    /// Reports events to the state machine of ranks, and carries out what it says.
    fn dispatch(&mut self, events: Vec<Event>) {
        let mut actions = VecDeque::from(self.life.handle(self.started.elapsed(), events));
        while let Some(action) = actions.pop_front() {
            if action == Action::FindExiting {
                // Nobody sees that of other hosts. A failure that follows from another one waits for it a moment.
                let none = vec![Event::Exiting { processes: Vec::new() }];
                actions.extend(self.life.handle(self.started.elapsed(), none));
            } else {
                self.carry_out(action);
            }
        }
    }

    fn carry_out(&mut self, action: Action) {
        use launcher::Event as On;
        let events = match action {
            Action::Report(line) if self.life.is_ending() => return say(&line),
            Action::Report(line) => return crate::log::note(&line),
            Action::Stop(ranks) => ranks.into_iter().map(|rank| On::Kill(rank as u32)).collect(),
            Action::Leave(rank) => vec![On::Leave(rank as u32)],
            Action::Kill(rank) => vec![On::Kill(rank as u32)],
            Action::EndAll(signal) => vec![On::End(signal, END_GRACE)],
            Action::KillAll => vec![On::End(Signal::KILL.as_raw(), Duration::ZERO)],
            Action::Release => vec![On::Release],
            Action::Recover(ranks) => vec![On::Recover(numbers(&ranks))],
            Action::Start(ranks) => match self.input.rewind(&ranks) {
                Ok(()) => {
                    let generation =
                        ranks.first().map(|&rank| self.life.generations()[rank].generation);
                    let generation = generation.unwrap_or(0);
                    vec![On::Restart { ranks: numbers(&ranks), generation }]
                }
                Err(Failure { status, why }) => {
                    return self.dispatch(vec![Event::Trouble { status, why }]);
                }
            },
            // It is answered at once.
            Action::FindExiting => return,
        };
        self.launch(events);
    }

    /// Whether no rank may live any more: then agents leave.
    fn check_end(&mut self) {
        let none_lives = self.placed.iter().all(Option::is_none);
        let is_over = !self.life.goes_on() || self.life.is_ending() && none_lives;
        match self.finishing {
            None if is_over => {
                self.finishing = Some(Instant::now());
                for number in 0..self.lines.len() {
                    self.finish_lines(number);
                }
                self.launch(vec![launcher::Event::Finish]);
            }
            Some(since) if since.elapsed() >= FAREWELL && !self.done => {
                let left = |starter: &Option<Starter>| {
                    starter.as_ref().is_some_and(|starter| starter.channel.is_some())
                };
                for (node, _) in
                    self.starters.iter().enumerate().filter(|(_, starter)| left(starter))
                {
                    let name = &self.names[node];
                    say(&format!(
                        "node {name}: its agent has not left for {} s; it ends with its lease",
                        FAREWELL.as_secs()
                    ));
                }
                self.done = true;
            }
            _ => {}
        }
    }

    /// All ranks have ended. Their output waits for its reader, that of a job that has failed not for long.
    fn deliver(&mut self) -> Result<(), Failure> {
        let failed = self.life.status() != 0;
        let until = failed.then(|| Instant::now() + DELIVERY);
        self.life.extend_grace(self.started.elapsed() + DELIVERY);
        let kills = self.life.kills();
        let is_late = |until: Option<Instant>| until.is_some_and(|at| Instant::now() >= at);
        while self.outlets.pending() > 0 && !is_late(until) && self.life.kills() == kills {
            self.take_turn()?;
        }
        let failed = trouble(self.outlets);
        self.dispatch(failed.into_iter().collect());
        match self.outlets.pending() {
            0 => {}
            bytes => {
                let bytes = counted(bytes, "byte");
                say(&format!("nobody reads the output of ranks; lost: the last {bytes}"));
            }
        }
        Ok(())
    }
}

/// Ranks in the words of the wire.
fn numbers(ranks: &[usize]) -> Vec<u32> {
    ranks.iter().map(|rank| *rank as u32).collect()
}
