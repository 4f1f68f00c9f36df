//! The job from its start to its end: one thread, one poll, every event.

use super::guard::Guard;
use super::heartbeat::Heartbeats;
use super::keyboard::{self, Keyboard};
use super::life::{Event, Life};
use super::members::Members;
use super::open_barrier::BarrierWatch;
use super::outlets::{self, Outlets, To};
use super::output::Output;
use super::ranks::{self, Environment, Rank, RankEnv, Start, Streams};
use super::recovery::Recovery;
use super::server::Server;
use super::signals::{self, Meaning, Signals};
use super::{Args, Failure, cpus, in_words, job_name, left_behind, say};
use crate::eventlog::Kept;
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use std::collections::VecDeque;
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::Stdio;
use std::time::{Duration, Instant};
use taffrail::words::counted;

/// How long the output of a job that has failed waits for its reader, after its last rank has ended.
pub(super) const DELIVERY: Duration = Duration::from_secs(3);

/// Starts the job, watches it to its end, and returns its status.
pub fn job(args: &Args) -> Result<u8, Failure> {
    let plan = args.failures.plan(&vec![0; args.ranks() as usize], Kept::Process)?;
    let places = cpus::places(args.bind, args.ranks() as usize)?;
    let signals = Signals::catch()?;
    let outlets = outlets::start().map_err(|e| {
        Failure::new(format!("no thread that writes output (socketpair, clone3): {}", in_words(&e)))
    })?;
    let (name, digest) = job_name::draw()?;
    let guard = Guard::start(&name, args.ranks(), None)?;
    let (on_failure, restarts) = (plan.on_failure, plan.restarts());
    let recovery = plan.logging.map(|logged| Recovery::of_all(logged, args, digest, &guard));
    // What a rank leaves behind becomes our child, so that it can be found and ended.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));

    let mut job = Job {
        args,
        places,
        // What passes the network is not logged.
        server: Server::new(args.ranks() as usize, name.clone(), args.failures.log())
            .with_apps(args.app_numbers()),
        name,
        ranks: Vec::new(),
        keyboard: Keyboard::new(args),
        outlets,
        signals,
        life: Life::new(args.ranks() as usize, on_failure, restarts),
        recovery: recovery.transpose()?,
        guard,
        members: Members::new(args.ranks()),
        barrier: BarrierWatch::default(),
        heartbeats: args.failures.heartbeat().map(|limit| Heartbeats::new(limit, args.ranks())),
        timeout: args.timeout,
        started: Instant::now(),
    };
    for number in 0..args.ranks() as usize {
        // If this fails, dropping the job ends those that run already.
        let rank = job.start(number, None)?;
        let pid = rank.pid().as_raw_pid();
        job.ranks.push(rank);
        job.dispatch(vec![Event::Started { rank: number, pid }]);
    }
    while job.life.goes_on() {
        job.take_turn()?;
    }
    (0..job.ranks.len()).for_each(|number| job.finish_output(number));
    job.report_failures();
    job.deliver()?;
    Ok(job.life.status())
}

pub(super) struct Job<'a> {
    pub(super) args: &'a Args,
    /// No other job has it.
    pub(super) name: String,
    /// The CPU of each rank, if they are bound.
    places: Option<cpus::Places>,
    pub(super) server: Server,
    pub(super) ranks: Vec<Rank>,
    pub(super) keyboard: Keyboard,
    pub(super) outlets: &'static Outlets,
    signals: Signals,
    /// What is decided about ranks.
    pub(super) life: Life,
    /// If messages are logged.
    pub(super) recovery: Option<Recovery>,
    pub(super) guard: Guard,
    pub(super) members: Members,
    barrier: BarrierWatch,
    /// If ranks that hang are to be killed.
    heartbeats: Option<Heartbeats>,
    timeout: Option<Duration>,
    started: Instant,
}

/// Something that became ready.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Source {
    Signals,
    Line(usize),
    Out(usize),
    Err(usize),
    Outlets,
    Keyboard,
    Rank0Input,
    Logger,
    Members(usize),
    Member(usize, i32),
}

impl Job<'_> {
    /// Starts the process of a rank; `replay` has the events of those before it.
    pub(super) fn start(
        &mut self,
        number: usize,
        replay: Option<OwnedFd>,
    ) -> Result<Rank, Failure> {
        let mut env = match &self.recovery {
            Some(recovery) => recovery.next_env(number, replay, self.life.generations())?,
            None => RankEnv::default(),
        };
        env.set("TAFFRAIL_JOB", &self.name);
        self.members.env(number, &mut env)?;
        if let Some(heartbeats) = &mut self.heartbeats {
            heartbeats.env(number, &mut env)?;
        }
        let cpu = self.places.as_ref().map(|places| places.of(number));
        match cpu {
            Some(cpu) => tracing::debug!("rank {number} is bound to CPU {cpu}"),
            None => tracing::debug!("rank {number} is not bound to a CPU"),
        }
        let args = self.args;
        let piped = |to| (args.label || outlets::needs_help(to)).then(Stdio::piped);
        let start = Start {
            rank: number,
            ranks: args.ranks(),
            // All ranks are on this machine.
            local: (number, args.ranks() as usize),
            app: args.app_of(number).1,
            pmix: args.pmix,
            cpu,
            from: Environment::Ours(&args.environment),
            streams: Streams {
                input: keyboard::stdin_of(number, args.failures.log()),
                output: piped(To::Out),
                error: piped(To::Err),
            },
            label: args.label.then_some(number),
        };
        let (rank, input) = Rank::start(start, env, &self.guard)?;
        if number == 0 {
            self.keyboard.connect(input);
        }
        Ok(rank)
    }

    /// Waits until something is ready, or this moment has come.
    fn wait(&self, until: Option<Instant>) -> Result<Vec<Source>, Failure> {
        let watched = self.watched();
        let mut fds: Vec<PollFd<'_>> =
            watched.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
        let limit = until.map(|at| at.saturating_duration_since(Instant::now()));
        let limit = limit
            .map(|d| Timespec { tv_sec: d.as_secs() as i64, tv_nsec: d.subsec_nanos().into() });
        match rustix::event::poll(&mut fds, limit.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(Failure::new(format!("cannot watch the job (poll): {e}"))),
        }
        let ready = fds.iter().zip(&watched).filter(|(fd, _)| !fd.revents().is_empty());
        Ok(ready.map(|(_, (source, ..))| *source).collect())
    }

    fn watched(&self) -> Vec<(Source, BorrowedFd<'_>, PollFlags)> {
        let mut all = Vec::with_capacity(8 + 4 * self.ranks.len());
        all.push((Source::Signals, self.signals.watched(), PollFlags::IN));
        all.push((Source::Outlets, self.outlets.watched(), PollFlags::IN));
        let (room_out, room_err) = (self.outlets.has_room(To::Out), self.outlets.has_room(To::Err));
        for (number, rank) in self.ranks.iter().enumerate() {
            if let Some((fd, busy)) = rank.line.as_ref().map(|line| line.watched()) {
                let flags = if busy { PollFlags::OUT } else { PollFlags::IN };
                all.push((Source::Line(number), fd, flags));
            }
            if let Some(fd) = rank.out.as_ref().filter(|_| room_out).and_then(Output::source) {
                all.push((Source::Out(number), fd.as_fd(), PollFlags::IN));
            }
            if let Some(fd) = rank.err.as_ref().filter(|_| room_err).and_then(Output::source) {
                all.push((Source::Err(number), fd.as_fd(), PollFlags::IN));
            }
        }
        let keyboard = self.keyboard.source();
        all.extend(keyboard.map(|fd| (Source::Keyboard, fd, PollFlags::IN)));
        all.extend(self.keyboard.sink().map(|fd| (Source::Rank0Input, fd, PollFlags::OUT)));
        let loggers = self.recovery.iter().flat_map(|recovery| recovery.logger.sockets());
        all.extend(loggers.map(|fd| (Source::Logger, fd, PollFlags::IN)));
        let members = self.members.connections();
        all.extend(members.map(|(rank, fd)| (Source::Members(rank), fd, PollFlags::IN)));
        let gone = self.members.watched();
        all.extend(gone.map(|(rank, pid, fd)| (Source::Member(rank, pid), fd, PollFlags::IN)));
        all
    }

    /// Waits until something happens or is due, and does what follows.
    fn take_turn(&mut self) -> Result<(), Failure> {
        let ready = self.wait(self.due())?;
        let events = self.handle(ready)?;
        self.dispatch(events);
        Ok(())
    }

    /// What has happened, of what became ready and of what is due.
    fn handle(&mut self, ready: Vec<Source>) -> Result<Vec<Event>, Failure> {
        let signals = match ready.contains(&Source::Signals) {
            true => self.signals.take(),
            false => Vec::new(),
        };
        let mut events: Vec<Event> =
            signals.iter().filter_map(|&signal| self.signalled(signal)).collect();
        self.handle_sources(ready, &mut events);
        if signals.iter().any(|&signal| signals::meaning(signal) == Meaning::Child) {
            let all = 0..self.ranks.len();
            let ended: Vec<usize> = all.filter(|&rank| self.ranks[rank].has_ended()).collect();
            // What a rank said before it ended is heard first.
            let before = self.wait(Some(Instant::now()))?;
            self.handle_sources(before, &mut events);
            events.extend(self.reap(&ended));
        }
        events.extend(self.timed_out());
        events.extend(self.overdue());
        events.push(Event::Tick);
        self.look_at_barrier();
        Ok(events)
    }

    fn handle_sources(&mut self, ready: Vec<Source>, events: &mut Vec<Event>) {
        for source in ready {
            match source {
                // They are taken together, before and after the others.
                Source::Signals => {}
                Source::Line(rank) => events.extend(self.listen(rank)),
                Source::Out(rank) => {
                    let said = self.ranks[rank].out.as_mut().map(Output::pump);
                    self.outlets.push(To::Out, said.unwrap_or_default());
                }
                Source::Err(rank) => {
                    let said = self.ranks[rank].err.as_mut().map(Output::pump);
                    self.outlets.push(To::Err, said.unwrap_or_default());
                }
                Source::Outlets => events.extend(self.check_outlets()),
                Source::Keyboard => self.keyboard.read(),
                Source::Rank0Input => self.keyboard.write(),
                Source::Logger => events.extend(self.check_logger()),
                Source::Members(rank) => events.extend(self.listen_to_members(rank)),
                Source::Member(rank, pid) => events.push(self.members.gone(rank, pid)),
            }
        }
    }

    /// Reports events to the state machine, and carries out what it says.
    fn dispatch(&mut self, events: Vec<Event>) {
        let mut actions = VecDeque::from(self.life.handle(self.started.elapsed(), events));
        while let Some(action) = actions.pop_front() {
            let answers = self.carry_out(action);
            if !answers.is_empty() {
                actions.extend(self.life.handle(self.started.elapsed(), answers));
            }
        }
    }

    /// What a signal means is done.
    fn signalled(&mut self, number: i32) -> Option<Event> {
        match signals::meaning(number) {
            Meaning::Child | Meaning::None => None,
            Meaning::Forward(signal) => {
                self.ranks.iter().for_each(|rank| rank.signal(signal));
                None
            }
            Meaning::Stop => {
                self.stop();
                None
            }
            Meaning::Continue => {
                self.ranks.iter().for_each(|rank| rank.signal_all(Signal::CONT));
                None
            }
            Meaning::End(to_ranks) => {
                Some(Event::Signalled { signal: number, to_ranks: to_ranks.as_raw() })
            }
        }
    }

    /// Stops the job and this process. Time in which it is stopped counts for no limit.
    fn stop(&mut self) {
        let stopped = Instant::now();
        self.ranks.iter().for_each(|rank| rank.signal_all(Signal::STOP));
        // Of this thread: it is stopped when the call returns.
        let _ = signal_hook::low_level::raise(signal_hook::consts::SIGSTOP);
        // From when everything else is counted.
        self.started += stopped.elapsed();
    }

    fn check_outlets(&mut self) -> Option<Event> {
        trouble(self.outlets)
    }

    /// All ranks have ended. Their output waits for its reader; signals and the time limit are obeyed meanwhile, and
    /// that of a job that has failed does not wait for long.
    fn deliver(&mut self) -> Result<(), Failure> {
        self.life.extend_grace(self.started.elapsed() + DELIVERY);
        let kills = self.life.kills();
        while self.outlets.pending() > 0 && self.life.kills() == kills {
            self.take_turn()?;
        }
        let failed = self.check_outlets();
        self.dispatch(failed.into_iter().collect());
        match self.outlets.pending() {
            0 => {}
            bytes => {
                let bytes = counted(bytes, "byte");
                say(&format!("nobody reads the output of ranks; lost: the last {bytes}"))
            }
        }
        Ok(())
    }

    /// Sends a signal to all ranks and all that they have started.
    pub(super) fn signal_all(&self, signal: Signal) {
        self.ranks.iter().for_each(|rank| rank.signal(signal));
    }

    /// When something is to be done if nothing happens before.
    fn due(&self) -> Option<Instant> {
        let limit = self.timeout.filter(|_| !self.life.is_ending());
        let of_job = self.life.due().into_iter().chain(limit).chain(self.barrier.due());
        let of_job = of_job.map(|at| self.started + at);
        of_job.chain(self.heartbeats.as_ref().map(Heartbeats::due)).min()
    }

    fn timed_out(&self) -> Option<Event> {
        let limit = self.timeout.filter(|limit| self.started.elapsed() >= *limit)?;
        (!self.life.is_ending()).then_some(Event::TimedOut { limit })
    }

    /// The ranks that hang.
    fn overdue(&mut self) -> Vec<Event> {
        let Some(heartbeats) = &mut self.heartbeats else { return Vec::new() };
        let limit = heartbeats.limit();
        let overdue = heartbeats.overdue(|rank| self.ranks[rank].is_stopped());
        overdue.into_iter().map(|rank| Event::Overdue { rank, limit }).collect()
    }

    /// Says who has not come to a barrier that others have waited in for long.
    fn look_at_barrier(&mut self) {
        let open = self.server.open_barrier().filter(|_| !self.life.is_ending());
        let ranks = &self.ranks;
        let who = |rank: usize| {
            let stopped = if ranks[rank].is_stopped() { ", which is stopped," } else { "" };
            format!("{}{stopped}", ranks[rank].name(rank))
        };
        let line = self.barrier.look(self.started.elapsed(), open, who);
        line.iter().for_each(|line| say(line));
    }
}

impl Drop for Job<'_> {
    /// However the job ends, nobody of it is left.
    fn drop(&mut self) {
        for rank in self.ranks.iter().filter(|rank| rank.runs()) {
            rank.signal(Signal::KILL);
        }
        for rank in self.ranks.iter_mut().filter(|rank| rank.runs()) {
            let _ = rank.reap(&self.guard);
        }
        crate::mpi::remove_left_behind(&self.name, 0..self.ranks.len());
        let loggers = self.recovery.iter().flat_map(|recovery| recovery.logger.pids());
        let ours: Vec<Pid> = loggers.chain([self.guard.pid()]).collect();
        left_behind::end(&left_behind::mark(&self.name, None), &ours);
        // It keeps what is left in the rings, and ends by itself when it is dropped.
        if let Some(recovery) = &self.recovery {
            recovery.logger.forget(&self.guard);
        }
    }
}

/// What follows if the output of ranks cannot be written.
pub(super) fn trouble(outlets: &Outlets) -> Option<Event> {
    let e = outlets.check().err()?;
    let status = match e.kind() {
        ErrorKind::BrokenPipe => ranks::low_byte(128 + Signal::PIPE.as_raw()),
        _ => 1,
    };
    Some(Event::Trouble { status, why: format!("cannot pass on the output of ranks: {e}") })
}
