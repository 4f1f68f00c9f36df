//! One rank of an agent.

use super::job::Job;
use super::{Source, Watched};
use crate::run::guard::Guard;
use crate::run::nodes::index;
use crate::run::outlets::To;
use crate::run::output::Output;
use crate::run::ranks::{Environment, Rank, RankEnv, Start, Streams};
use crate::run::{Failure, in_words, left_behind};
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use std::os::fd::AsFd;
use std::os::unix::process::ExitStatusExt;
use std::process::{ChildStdin, Stdio};
use taffrail_agent::RankIncarnation;
use taffrail_agent::agent::Event;
use taffrail_agent::client::variable;
use taffrail_agent::wire::{End, Frame};

pub struct NodeRank {
    pub life: RankIncarnation,
    pub process: Rank,
    /// It has a PMIx server, which says by PMI that itself has joined.
    pub pmix: bool,
    /// It has said where it can be reached.
    pub has_address: bool,
    input: Input,
    ended: Option<Ended>,
}

/// A rank whose process was reaped.
struct Ended {
    end: End,
    /// Bytes of its output that were there, and have not been read.
    out: usize,
    err: usize,
}

/// What a rank gets as standard input.
#[derive(Default)]
struct Input {
    to: Option<ChildStdin>,
    unread: Vec<u8>,
    /// Nothing comes after it.
    ended: bool,
}

impl NodeRank {
    /// Starts it; `env` is what it is given so that it logs.
    pub fn start(
        job: &mut Job,
        life: RankIncarnation,
        app: u32,
        mut env: RankEnv,
    ) -> Result<NodeRank, Failure> {
        let number = index(life);
        env.set("TAFFRAIL_JOB", &job.about.name);
        env.set(left_behind::NODE, left_behind::node_value(&job.about.name, job.about.node));
        env.set(variable::INCARNATION, life.incarnation.0);
        if !job.network.is_empty() {
            env.set(variable::NETWORK, &job.network);
        }
        let files = [
            (variable::ROSTER, &job.roster),
            (variable::SECRET, &job.secret),
            (variable::REFUSED, &job.refused.1),
        ];
        for (name, file) in files {
            let number = env.inherit(file)?;
            env.tell(name, &[number]);
        }
        job.members.env(number, &mut env)?;
        let of_node = (0..).zip(&job.nodes).filter(|(_, node)| **node == job.about.node);
        let of_node: Vec<usize> = of_node.map(|(rank, _)| rank).collect();
        // Whatever the roster says when the rank looks at it: others may come to this node meanwhile.
        if let Some(near) = job.logs.near(number) {
            let near: Vec<String> = near.iter().map(usize::to_string).collect();
            env.set(variable::NEAR, near.join(","));
        }
        if let Some(heartbeats) = &mut job.heartbeats {
            heartbeats.env(number, &mut env)?;
        }
        let program = job.programs.get(&app);
        let unknown = || Failure::new(format!("program {app} of rank {number} is not known"));
        let program = program.ok_or_else(unknown)?;
        let cpu = job.bound.cpu(number, of_node.len())?;
        let start = Start {
            rank: number,
            ranks: job.about.ranks,
            local: (of_node.iter().position(|rank| *rank == number).unwrap_or(0), of_node.len()),
            app: &program.app,
            pmix: program.pmix,
            cpu,
            from: Environment::Sent {
                variables: &program.variables,
                directory: &program.directory,
            },
            streams: Streams {
                input: if number == 0 { Stdio::piped() } else { Stdio::null() },
                output: Some(Stdio::piped()),
                error: Some(Stdio::piped()),
            },
            label: None,
        };
        let (process, to) = Rank::start(start, env, &job.guard)?;
        to.as_ref().map(|to| rustix::io::ioctl_fionbio(to, true));
        let input = Input { to, ..Input::default() };
        let pmix = program.pmix;
        Ok(NodeRank { life, process, pmix, has_address: false, input, ended: None })
    }

    pub fn pid(&self) -> Pid {
        self.process.pid()
    }

    pub fn kill(&self) {
        self.process.signal(Signal::KILL);
    }

    pub fn has_ended(&self) -> bool {
        self.ended.is_some()
    }

    /// Where it has something to say. Output is read while the launcher takes it.
    pub fn watch<'a>(&'a self, number: usize, has_room: bool, watched: &mut Watched<'a>) {
        if let Some((fd, busy)) = self.process.line.as_ref().map(|line| line.watched()) {
            let flags = if busy { PollFlags::OUT } else { PollFlags::IN };
            watched.push((Source::Line(number), fd, flags));
        }
        // What is left of one that has ended is read as soon as there is room.
        if has_room && !self.has_ended() {
            let source = |to| Source::Output(number, to);
            let out = self.process.out.as_ref().and_then(Output::source);
            watched.extend(out.map(|fd| (source(To::Out), fd.as_fd(), PollFlags::IN)));
            let err = self.process.err.as_ref().and_then(Output::source);
            watched.extend(err.map(|fd| (source(To::Err), fd.as_fd(), PollFlags::IN)));
        }
        let input = self.input.to.as_ref().filter(|_| !self.input.unread.is_empty());
        watched.extend(input.map(|fd| (Source::Input(number), fd.as_fd(), PollFlags::OUT)));
    }

    /// What it has written there: up to [`TURN`](crate::run::output::TURN) bytes.
    pub fn read(&mut self, to: To) -> Vec<u8> {
        let bytes = match to {
            To::Out => self.process.out.as_mut().map(Output::pump),
            To::Err => self.process.err.as_mut().map(Output::pump),
        };
        bytes.unwrap_or_default()
    }

    /// More standard input, or its end. What it has taken of it, for the launcher.
    pub fn push_input(&mut self, bytes: Vec<u8>) -> Option<Event> {
        self.input.ended |= bytes.is_empty();
        self.input.unread.extend(bytes);
        self.write_input()
    }

    pub fn write_input(&mut self) -> Option<Event> {
        let Input { to, unread, ended } = &mut self.input;
        let written = to.as_ref().map(|to| rustix::io::write(to, unread));
        let taken = match written {
            Some(Ok(len)) => len,
            Some(Err(Errno::AGAIN | Errno::INTR)) => 0,
            // It has closed it: what comes is for nobody.
            Some(Err(_)) | None => unread.len(),
        };
        unread.drain(..taken);
        let is_closed = matches!(written, Some(Err(e)) if e != Errno::AGAIN && e != Errno::INTR);
        if is_closed || *ended && unread.is_empty() {
            *to = None;
        }
        let (life, bytes) = (self.life, taken as u32);
        (bytes > 0).then_some(Event::Say(Frame::InputTaken { life, bytes }))
    }

    /// Its process has ended, or was killed: ends what is left of its process group.
    pub fn reap(&mut self, guard: &Guard) {
        if self.ended.is_some() {
            return;
        }
        let end = match self.process.reap(guard) {
            Ok(status) => match (status.code(), status.signal()) {
                (Some(code), _) => End::Exited(code),
                (None, signal) => End::Signal(signal.unwrap_or(libc::SIGKILL)),
            },
            Err(e) => {
                let who = self.process.name(index(self.life));
                let why = format!("{who}: its end cannot be seen (wait4): {}", in_words(&e));
                End::NotStarted(1, why)
            }
        };
        // A process that it has left behind may still write: that is not waited for.
        let out = self.process.out.as_ref().map_or(0, Output::waiting);
        let err = self.process.err.as_ref().map_or(0, Output::waiting);
        self.ended = Some(Ended { end, out, err });
    }

    /// Of one that has ended: where it has written what was not read yet.
    pub fn unread(&self) -> Option<To> {
        let ended = self.ended.as_ref()?;
        [(To::Out, ended.out), (To::Err, ended.err)]
            .into_iter()
            .find_map(|(to, left)| (left > 0).then_some(to))
    }

    /// How much that is.
    pub fn unread_bytes(&self) -> usize {
        self.ended.as_ref().map_or(0, |ended| ended.out + ended.err)
    }

    /// Of that, so much was read; nothing: there is no more.
    pub fn was_read(&mut self, to: To, bytes: usize) {
        let Some(ended) = &mut self.ended else { return };
        let left = if to == To::Out { &mut ended.out } else { &mut ended.err };
        *left = if bytes == 0 { 0 } else { left.saturating_sub(bytes) };
    }

    /// How it has ended.
    pub fn end(&self) -> Option<End> {
        self.ended.as_ref().map(|ended| ended.end.clone())
    }
}
