//! The job from its start to its end: one thread, one poll, every event.

use super::failures::OnFailure;
use super::finalize::Programs;
use super::guard::Guard;
use super::heartbeat::Heartbeats;
use super::keyboard::Keyboard;
use super::line::Heard;
use super::outlets::{self, Outlets, To};
use super::output::Output;
use super::ranks::{self, Rank, RankEnv};
use super::recovery::Recovery;
use super::server::{Server, ServerAction};
use super::signals::{self, Meaning, Signals};
use super::{Args, Failure, cpus, in_words, say};
use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::{Pid, Signal};
use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

/// How long ranks have to end by themselves once asked to.
const GRACE: Duration = Duration::from_secs(2);

/// How long the output of a job that has failed waits for its reader, after its last rank has ended.
const DELIVERY: Duration = Duration::from_secs(5);

/// The status of a job that took too long, as of timeout(1).
const TIMED_OUT: u8 = 124;

/// Starts the job, watches it to its end, and returns its status.
pub fn job(args: &Args) -> Result<u8, Failure> {
    let plan = args.failures.plan(args.ranks as usize)?;
    let places = cpus::places(args)?;
    let signals = Signals::catch()?;
    let outlets = outlets::start()
        .map_err(|e| Failure::new(format!("no thread that writes output: {}", in_words(&e))))?;
    let guard = Guard::start()?;
    // What a rank leaves behind becomes our child, so that it can be found and ended.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));

    let (name, digest) = identity()?;
    let mut job = Job {
        args,
        places,
        // What passes the network is not logged.
        server: Server::new(args.ranks as usize, name.clone(), args.failures.log())
            .with_apps(args.app_numbers()),
        name,
        ranks: Vec::new(),
        keyboard: Keyboard::new(args),
        outlets,
        signals,
        on_failure: plan.on_failure,
        recovery: Recovery::new(plan, args, digest, &guard)?,
        guard,
        programs: args.failures.log().then(|| Programs::new(args.ranks)),
        heartbeats: args.failures.heartbeat().map(|limit| Heartbeats::new(limit, args.ranks)),
        done: None,
        gone: Vec::new(),
        verdict: None,
        kill_at: None,
        timeout: args.timeout.map(Duration::from_secs),
        started: Instant::now(),
    };
    for number in 0..args.ranks as usize {
        // If this fails, dropping the job ends those that run already.
        let rank = job.start(number, None)?;
        job.ranks.push(rank);
    }
    while job.ranks.iter().any(Rank::runs) {
        job.handle(job.wait(job.due())?)?;
        job.check_clock();
        job.check_heartbeats();
    }
    (0..job.ranks.len()).for_each(|number| job.finish_output(number));
    job.tell_failures();
    job.deliver()?;
    Ok(job.verdict.unwrap_or(0))
}

pub(super) struct Job<'a> {
    args: &'a Args,
    /// No other job has it.
    pub(super) name: String,
    /// The CPU of each rank, if they are bound.
    places: Option<Vec<usize>>,
    pub(super) server: Server,
    pub(super) ranks: Vec<Rank>,
    pub(super) keyboard: Keyboard,
    outlets: &'static Outlets,
    signals: Signals,
    pub(super) on_failure: OnFailure,
    /// If messages are logged.
    pub(super) recovery: Option<Recovery>,
    pub(super) guard: Guard,
    /// Which are over, if messages are logged.
    pub(super) programs: Option<Programs>,
    /// If ranks that hang are to be killed.
    heartbeats: Option<Heartbeats>,
    /// The first rank that has ended with success.
    pub(super) done: Option<usize>,
    /// Ranks that the others go on without.
    pub(super) gone: Vec<usize>,
    /// The status to end with, set by the first failure.
    pub(super) verdict: Option<u8>,
    /// Set once the ranks were asked to end.
    pub(super) kill_at: Option<Instant>,
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
    Over(usize),
}

impl Job<'_> {
    /// Starts the process of a rank; `replay` has the events of those before it.
    pub(super) fn start(
        &mut self,
        number: usize,
        replay: Option<OwnedFd>,
    ) -> Result<Rank, Failure> {
        let mut env = match &self.recovery {
            Some(recovery) => recovery.env(number, replay)?,
            None => RankEnv::default(),
        };
        env.set("TAFFRAIL_JOB", &self.name);
        if let Some(programs) = &mut self.programs {
            programs.env(number, &mut env)?;
        }
        if let Some(heartbeats) = &mut self.heartbeats {
            heartbeats.env(number, &mut env)?;
        }
        let cpu = self.places.as_ref().map(|places| places[number]);
        let (rank, input) = Rank::start(self.args, number, cpu, env, &self.guard)?;
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
        let programs = self.programs.iter().flat_map(Programs::watched);
        all.extend(programs.map(|(rank, fd)| (Source::Over(rank), fd, PollFlags::IN)));
        all
    }

    fn handle(&mut self, ready: Vec<Source>) -> Result<(), Failure> {
        let signals = match ready.contains(&Source::Signals) {
            true => self.signals.take(),
            false => Vec::new(),
        };
        signals.iter().for_each(|&signal| self.signalled(signal));
        self.handle_sources(ready);
        if signals.iter().any(|&signal| signals::meaning(signal) == Meaning::Child) {
            let all = 0..self.ranks.len();
            let ended: Vec<usize> = all.filter(|&rank| self.ranks[rank].has_ended()).collect();
            // Ends come last: what a rank said before it ended is heard first.
            let now = Some(Instant::now());
            let before = self.wait(now)?;
            self.handle_sources(before);
            if !ended.is_empty() {
                self.ended(&ended);
            }
        }
        if let Some(programs) = &mut self.programs {
            programs.release(|rank| self.ranks[rank].runs());
        }
        Ok(())
    }

    fn handle_sources(&mut self, ready: Vec<Source>) {
        for source in ready {
            match source {
                // They are taken together, before and after the others.
                Source::Signals => {}
                Source::Line(rank) => self.listen(rank),
                Source::Out(rank) => {
                    let said = self.ranks[rank].out.as_mut().map(Output::pump);
                    self.outlets.push(To::Out, said.unwrap_or_default());
                }
                Source::Err(rank) => {
                    let said = self.ranks[rank].err.as_mut().map(Output::pump);
                    self.outlets.push(To::Err, said.unwrap_or_default());
                }
                Source::Outlets => self.check_outlets(),
                Source::Keyboard => self.keyboard.read(),
                Source::Rank0Input => self.keyboard.write(),
                Source::Logger => self.look_at_logger(),
                Source::Over(rank) => {
                    self.programs.iter_mut().for_each(|programs| programs.listen(rank));
                }
            }
        }
    }

    /// What a signal means is done. The second one that ends the job is obeyed at once.
    fn signalled(&mut self, number: i32) {
        match signals::meaning(number) {
            Meaning::Child | Meaning::None => {}
            Meaning::Forward(signal) => self.ranks.iter().for_each(|rank| rank.signal(signal)),
            Meaning::Stop => self.stop(),
            Meaning::Continue => self.ranks.iter().for_each(|rank| rank.signal_all(Signal::CONT)),
            Meaning::End(_) if self.kill_at.is_some() => self.kill_at = Some(Instant::now()),
            Meaning::End(signal) => {
                say(&format!("signal {}: ending the job", signals::name(number)));
                self.end(ranks::low(128 + number), signal);
            }
        }
    }

    /// Stops the job and this process. Time in which it is stopped counts for no limit.
    fn stop(&mut self) {
        let stopped = Instant::now();
        self.ranks.iter().for_each(|rank| rank.signal_all(Signal::STOP));
        let _ = rustix::process::kill_process(rustix::process::getpid(), Signal::STOP);
        self.started += stopped.elapsed();
        self.kill_at = self.kill_at.map(|at| at + stopped.elapsed());
    }

    fn listen(&mut self, number: usize) {
        let Some(line) = &mut self.ranks[number].line else { return };
        line.flush();
        let mut lines = Vec::new();
        let mut heard = line.listen(&mut lines);
        for line in lines {
            match self.server.hear(number, &line) {
                Ok(actions) => actions.into_iter().for_each(|action| self.act(number, action)),
                Err(e) => heard = Err(e),
            }
        }
        match heard {
            Ok(Heard::More) => {}
            Ok(Heard::End) => self.ranks[number].line = None,
            Err(e) => {
                self.ranks[number].line = None;
                self.fail(1, &format!("{} broke the start-up protocol: {e}", self.who(number)));
            }
        }
    }

    pub(super) fn act(&mut self, from: usize, action: ServerAction) {
        match action {
            ServerAction::Say { to, message } => {
                let said = self.ranks[to].line.as_mut().map(|line| line.say(&message));
                if let Some(Err(e)) = said {
                    self.fail(1, &format!("cannot answer {}: {e}", self.who(to)));
                }
            }
            ServerAction::Abort { code, message } => {
                let status = ranks::low(i32::try_from(code).unwrap_or(1));
                let why = message.map(|m| format!(": {m}")).unwrap_or_default();
                self.fail(status, &format!("{} aborted the job with code {code}{why}", self.who(from)));
            }
            ServerAction::Stuck { waiting, gone } => self.fail(
                1,
                &format!("rank {waiting} waits in a start-up barrier that rank {gone}, which ended, never entered"),
            ),
        }
    }

    fn check_outlets(&mut self) {
        if let Err(e) = self.outlets.check() {
            let status = match e.kind() {
                ErrorKind::BrokenPipe => ranks::low(128 + Signal::PIPE.as_raw()),
                _ => 1,
            };
            self.fail(status, &format!("cannot pass on the output of ranks: {e}"));
        }
    }

    /// All ranks have ended. Their output waits for its reader; signals and the time limit are obeyed meanwhile, and
    /// that of a job that has failed does not wait for long.
    fn deliver(&mut self) -> Result<(), Failure> {
        self.kill_at = self.kill_at.map(|_| Instant::now() + DELIVERY);
        while self.outlets.pending() > 0 && self.kill_at.is_none_or(|at| Instant::now() < at) {
            self.handle(self.wait(self.due())?)?;
            if self.kill_at.is_none() {
                self.check_clock();
            }
        }
        self.check_outlets();
        match self.outlets.pending() {
            0 => {}
            bytes => {
                say(&format!("nobody reads the output of ranks; its last {bytes} bytes are lost"))
            }
        }
        Ok(())
    }

    /// The first failure decides the status, is told, and ends the job. What comes after it is
    /// mostly its consequence.
    pub(super) fn fail(&mut self, status: u8, what: &str) {
        if self.kill_at.is_none() {
            say(what);
            self.end(status, Signal::TERM);
        }
    }

    fn end(&mut self, status: u8, signal: Signal) {
        self.verdict.get_or_insert(status);
        self.kill_at.get_or_insert_with(|| Instant::now() + GRACE);
        for rank in &self.ranks {
            rank.signal(signal);
            // A stopped process ends only when it goes on.
            rank.signal(Signal::CONT);
        }
    }

    /// When the job must be ended, or killed, if nothing happens before.
    fn due(&self) -> Option<Instant> {
        let end = self.kill_at.or_else(|| self.timeout.map(|limit| self.started + limit));
        let look = self.heartbeats.as_ref().map(Heartbeats::due);
        end.into_iter().chain(look).min()
    }

    fn check_clock(&mut self) {
        let now = Instant::now();
        match (self.kill_at, self.timeout) {
            (Some(at), _) if now >= at => {
                for rank in &self.ranks {
                    rank.signal(Signal::KILL);
                }
                self.kill_at = Some(now + GRACE);
            }
            (None, Some(limit)) if now >= self.started + limit => {
                self.fail(TIMED_OUT, &format!("the job did not end within {} s", limit.as_secs()));
            }
            _ => {}
        }
    }

    /// Kills the ranks that hang. What follows is that of any rank that is killed.
    fn check_heartbeats(&mut self) {
        let Some(heartbeats) = &mut self.heartbeats else { return };
        let limit = heartbeats.limit().as_secs();
        for rank in heartbeats.overdue(|rank| self.ranks[rank].is_stopped()) {
            if self.ranks[rank].runs() && self.kill_at.is_none() {
                say(&format!(
                    "{} has not called the library for {limit} s, or is stopped; killing it                      (--heartbeat {limit})",
                    self.who(rank)
                ));
                self.ranks[rank].signal(Signal::KILL);
            }
        }
    }

    /// A rank has ended; a process it left behind may still hold its output open.
    pub(super) fn finish_output(&mut self, number: usize) {
        let Rank { out, err, .. } = &mut self.ranks[number];
        self.outlets.push(To::Out, out.as_mut().map(Output::rest).unwrap_or_default());
        self.outlets.push(To::Err, err.as_mut().map(Output::rest).unwrap_or_default());
    }

    pub(super) fn who(&self, rank: usize) -> String {
        format!("rank {rank} (pid {})", self.ranks[rank].pid())
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
        end_left_behind(&loggers.chain([self.guard.pid()]).collect::<Vec<_>>());
        // It keeps what is left in the rings, and ends by itself when it is dropped.
        if let Some(recovery) = &self.recovery {
            recovery.logger.forget(&self.guard);
        }
    }
}

/// Ends what became our child because its own parent, a rank, is gone.
fn end_left_behind(ours: &[Pid]) {
    loop {
        let children = std::fs::read_to_string("/proc/thread-self/children").unwrap_or_default();
        let pids = children.split_whitespace().filter_map(|pid| Pid::from_raw(pid.parse().ok()?));
        let mut left = pids.filter(|pid| !ours.contains(pid)).peekable();
        if left.peek().is_none() {
            return;
        }
        for pid in left {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty());
        }
    }
}

/// A name no other job has (programs make file names of it), and its digest.
fn identity() -> Result<(String, u64), Failure> {
    let mut bytes = [0u8; 8];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .map_err(|e| Failure::new(format!("no random numbers (getrandom): {e}")))?;
    let (pid, digest) = (rustix::process::getpid(), u64::from_ne_bytes(bytes));
    Ok((format!("taffrail-{pid}-{digest:016x}"), digest))
}
