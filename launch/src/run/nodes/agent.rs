//! `taffrail agent`: starts and watches the ranks of one node, as the launcher says on its standard input.
//!
//! One loop does all of it, and renews the lease of the node, which ends if a turn takes too long: no turn waits for another process
//! (*no-turn-waits*, [`waiting`]).

mod bound;
mod copies;
mod ends;
mod held;
mod interfaces;
mod job;
mod program;
mod rank;
mod recovery;
mod reports;
mod waiting;

use super::channel::Channel;
use super::invitation::Invitation;
use super::poll_all;
use crate::run::guard::boot_time;
use crate::run::outlets::To;
use crate::run::signals::{self, Meaning, Signals};
use crate::run::{Failure, files, in_words, own_program, say};
use job::Job;
use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use taffrail_agent::Agent;
use taffrail_agent::agent::{Action, Event, State};
use taffrail_agent::wire::{Direction, Hello, Item};
use waiting::HeldFrames;

/// How long the last frames wait for the launcher.
const LAST_WORDS: Duration = Duration::from_secs(2);

/// Something that became ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    Signals,
    Channel,
    Guard,
    Logger,
    CopyStore,
    Line(usize),
    Output(usize, To),
    Input(usize),
    Members(usize),
    Member(usize, i32),
}

/// What is waited for.
type Watched<'a> = Vec<(Source, BorrowedFd<'a>, PollFlags)>;

/// How the launcher is reached.
#[derive(clap::Args)]
pub struct AgentArgs {
    /// Standard input is one line that says where the launcher is, and nothing that was written comes back to it
    #[arg(long)]
    invited: bool,
}

/// Serves as an agent until the launcher is done with this node, or lost.
pub fn agent(args: &AgentArgs) -> ExitCode {
    own_program::name_process(c"taffrail-agent");
    files::raise_limit();
    let status = Process::start(args).and_then(Process::serve).unwrap_or_else(|failure| {
        say(&failure.why);
        failure.status
    });
    ExitCode::from(status)
}

struct Process {
    state: Agent,
    /// Until it has ended.
    channel: Option<Channel>,
    signals: Signals,
    /// From WELCOME on.
    job: Option<Job>,
    held: HeldFrames,
    exit: Option<u8>,
}

impl Process {
    fn start(args: &AgentArgs) -> Result<Process, Failure> {
        let failed = |e: std::io::Error| {
            Failure::new(format!("no connection on standard input and output: {}", in_words(&e)))
        };
        let channel = match args.invited {
            true => answer_invitation().map_err(|e| {
                Failure::new(format!("no connection with the launcher: {}", in_words(&e)))
            })?,
            false => take_channel().map_err(failed)?,
        };
        // What a rank leaves behind becomes our child, so that it can be found and ended.
        let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
        let signals = Signals::catch()?;
        let (state, actions) = Agent::new(boot_time(), hello());
        let (channel, held) = (Some(channel), HeldFrames::default());
        let mut process = Process { state, channel, signals, job: None, held, exit: None };
        process.carry_out_all(actions);
        Ok(process)
    }

    fn serve(mut self) -> Result<u8, Failure> {
        while self.exit.is_none() {
            let ready = self.wait()?;
            // check-before-act: the state machine looks at the clock before it takes any of these.
            let mut events = vec![Event::Tick];
            if let Some(job) = &mut self.job {
                job.begin(&self.state);
            }
            self.handle(ready, &mut events);
            if let Some(job) = &mut self.job {
                job.overdue(&mut events);
                job.drain(&self.state, &mut events);
                // Before the ends of those that have counted it.
                events.insert(1, Event::Refused(job.refused.0.counted()));
            }
            for event in events {
                let is_starting = self.is_starting();
                if let Some(event) = self.held.pass(event, is_starting) {
                    self.dispatch(event);
                }
            }
            self.resume();
        }
        self.send_last();
        // The guard ends with it, and whatever is left of the job.
        self.job = None;
        Ok(self.exit.unwrap_or(1))
    }

    /// Whether a START waits, and with it the frames behind it.
    fn is_starting(&self) -> bool {
        self.job.as_ref().is_some_and(Job::is_starting)
    }

    /// Continues orders that have waited for an answer, if the lease has not ended.
    fn resume(&mut self) {
        self.dispatch(Event::Tick);
        let serves = matches!(self.state.state(), State::Serving | State::Ending);
        let resumed = self.job.as_mut().filter(|_| serves).map(Job::resume);
        resumed.into_iter().flatten().for_each(|event| self.dispatch(event));
        while !self.is_starting()
            && let Some(event) = self.held.next()
        {
            self.dispatch(event);
        }
    }

    fn wait(&self) -> Result<Vec<Source>, Failure> {
        let mut watched: Watched<'_> =
            vec![(Source::Signals, self.signals.watched(), PollFlags::IN)];
        let channel = self.channel.iter().flat_map(Channel::watched);
        watched.extend(channel.map(|(fd, flags)| (Source::Channel, fd, flags)));
        if let Some(job) = &self.job {
            job.watch(&self.state, &mut watched);
        }
        let due = self.state.due().map(|at| at.saturating_sub(boot_time()));
        let of_job = self.job.as_ref().and_then(Job::due);
        let of_job = of_job.map(|at| at.saturating_duration_since(Instant::now()));
        poll_all(&watched, due.into_iter().chain(of_job).min())
    }

    fn handle(&mut self, ready: Vec<Source>, events: &mut Vec<Event>) {
        for source in ready {
            match source {
                Source::Signals => self.take_signals(events),
                Source::Channel => self.receive(events),
                other => {
                    if let Some(job) = &mut self.job {
                        job.handle(other, events);
                    }
                }
            }
        }
    }

    fn take_signals(&mut self, events: &mut Vec<Event>) {
        for signal in self.signals.take() {
            match signals::meaning(signal) {
                // What ranks said before they ended is heard first.
                Meaning::Child => {
                    if let Some(job) = &mut self.job {
                        job.reap(events);
                    }
                }
                Meaning::End(_) => {
                    let why = format!("the agent got signal {}", signals::name(signal));
                    events.push(Event::ChannelLost { why });
                }
                _ => {}
            }
        }
    }

    fn receive(&mut self, events: &mut Vec<Event>) {
        let Some(channel) = &mut self.channel else { return };
        let mut items = Vec::new();
        channel.flush();
        let received = channel.receive(&mut items);
        events.extend(items.into_iter().filter_map(|item| match item {
            Item::Frame(frame) => Some(Event::Frame(frame)),
            Item::Preamble(_) => None,
        }));
        if let Err(why) = received {
            // Nothing more can be said: the other end is gone.
            self.channel = None;
            events.push(Event::ChannelLost { why });
        }
    }

    /// Reports an event to the state machine, and carries out what it says.
    fn dispatch(&mut self, event: Event) {
        let actions = self.state.handle(boot_time(), event);
        self.carry_out_all(actions);
    }

    fn carry_out_all(&mut self, actions: Vec<Action>) {
        let mut actions = VecDeque::from(actions);
        while let Some(action) = actions.pop_front() {
            for answer in self.carry_out(action) {
                actions.extend(self.state.handle(boot_time(), answer));
            }
        }
    }

    /// Does what was decided. What comes of it.
    fn carry_out(&mut self, action: Action) -> Vec<Event> {
        match (action, &mut self.job) {
            (Action::Send(frame), job) => {
                if let (taffrail_agent::wire::Frame::Goodbye { .. }, Some(job)) = (&frame, job) {
                    job.end_left_behind();
                }
                match self.channel.as_mut().map(|channel| channel.send(&frame)) {
                    Some(Err(why)) => {
                        self.channel = None;
                        vec![Event::ChannelLost { why }]
                    }
                    _ => Vec::new(),
                }
            }
            (Action::Set(of_job), _) => match Job::new(of_job) {
                Ok(job) => {
                    self.job = Some(job);
                    Vec::new()
                }
                Err(failure) => vec![Event::ChannelLost { why: failure.why }],
            },
            (Action::Report(line), _) => {
                say(&line);
                Vec::new()
            }
            (Action::Exit(status), _) => {
                self.exit = Some(status);
                Vec::new()
            }
            (other, Some(job)) => job.carry_out(other),
            (_, None) => Vec::new(),
        }
    }

    /// Waits until the launcher has taken the last frames, but not for long.
    fn send_last(&mut self) {
        let until = Instant::now() + LAST_WORDS;
        while let Some(channel) = self.channel.as_mut().filter(|channel| !channel.is_sent()) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let output: Watched<'_> = channel
                .watched()
                .filter(|(_, flags)| *flags == PollFlags::OUT)
                .map(|(fd, flags)| (Source::Channel, fd, flags))
                .collect();
            if poll_all(&output, Some(left)).is_err() {
                return;
            }
            channel.flush();
        }
    }
}

/// The channel, in descriptors that nobody inherits: whoever held its ends would keep it open.
fn take_channel() -> std::io::Result<Channel> {
    let own = |fd: BorrowedFd<'_>| -> std::io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(fd, 3)?)
    };
    let (input, output) = (own(rustix::stdio::stdin())?, own(rustix::stdio::stdout())?);
    leave_standard_streams()?;
    Channel::new(input, output, Direction::Down)
}

/// The channel to a launcher that has sent an invitation.
fn answer_invitation() -> std::io::Result<Channel> {
    let invitation = Invitation::read(std::io::stdin().lock())?;
    leave_standard_streams()?;
    invitation.accept()
}

/// Standard input and output lead nowhere from now on.
fn leave_standard_streams() -> std::io::Result<()> {
    let nowhere = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&nowhere)?;
    Ok(rustix::stdio::dup2_stdout(&nowhere)?)
}

fn hello() -> Hello {
    let uname = rustix::system::uname();
    let program = std::env::current_exe().map(|path| path.to_string_lossy().into_owned());
    Hello {
        renewal: 0,
        pid: std::process::id(),
        cpus: crate::run::allowed_cpus().map_or(0, |cpus| cpus.len() as u32),
        host: uname.nodename().to_string_lossy().into_owned(),
        program: program.unwrap_or_default(),
        interfaces: interfaces::reachable(),
    }
}
