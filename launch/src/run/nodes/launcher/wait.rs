//! What the launcher waits for.

use super::{FAREWELL, Job};
use crate::run::Failure;
use crate::run::guard::boot_time;
use crate::run::nodes::invitation::Callers;
use crate::run::nodes::poll_all;
use crate::run::nodes::starter::Starter;
use rustix::event::PollFlags;
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

/// Something that became ready.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Source {
    Signals,
    Outlets,
    Input,
    Channel(usize),
    Callers,
    Error(usize),
}

impl Job<'_> {
    pub(super) fn wait(&self) -> Result<Vec<Source>, Failure> {
        let mut watched: Vec<(Source, BorrowedFd<'_>, PollFlags)> = vec![
            (Source::Signals, self.signals.watched(), PollFlags::IN),
            (Source::Outlets, self.outlets.watched(), PollFlags::IN),
        ];
        let reads = self.placed.first().is_some_and(Option::is_some);
        watched.extend(self.input.source(reads).map(|fd| (Source::Input, fd, PollFlags::IN)));
        let callers = self.callers.as_ref();
        watched.extend(callers.map(|callers| (Source::Callers, callers.fd(), PollFlags::IN)));
        for (node, starter) in self.starters.iter().enumerate() {
            let Some(starter) = starter else { continue };
            let channel = starter.channel.iter().flat_map(|channel| channel.watched());
            watched.extend(channel.map(|(fd, flags)| (Source::Channel(node), fd, flags)));
            watched.extend(starter.error().map(|fd| (Source::Error(node), fd, PollFlags::IN)));
        }
        poll_all(&watched, self.due())
    }

    /// The time until something is to be done, if nothing happens before.
    fn due(&self) -> Option<Duration> {
        let limit = self.args.timeout.filter(|_| !self.life.is_ending());
        let of_job = self.life.due().into_iter().chain(limit).map(|at| self.started + at);
        let of_starters = self.starters.iter().flatten().filter_map(Starter::due);
        let farewell = self.finishing.map(|since| since + FAREWELL);
        let now = Instant::now();
        let of_callers = self.callers.as_ref().and_then(Callers::due);
        let all = of_job.chain(of_starters).chain(of_callers).chain(farewell);
        let left = all.map(|at| at.saturating_duration_since(now));
        let of_launcher = self.launcher.due().map(|at| at.saturating_sub(boot_time()));
        left.chain(of_launcher).min()
    }
}
