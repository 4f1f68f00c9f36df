//! Jobs over several nodes: the processes around the state machines of `taffrail_agent` (`docs/spec/agent.md`). The
//! launcher starts an agent on each host, through ssh or another command, and the agents start ranks.

mod agent;
mod allocation;
mod channel;
mod invitation;
mod launcher;
mod logging;
mod options;
mod relay;
mod starter;

pub use agent::{AgentArgs, agent};
pub use launcher::job;
pub use options::NodeOptions;

use super::Failure;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::os::fd::BorrowedFd;
use std::time::Duration;
use taffrail_agent::RankIncarnation;

/// The number of a rank as an index.
fn index(life: RankIncarnation) -> usize {
    life.rank as usize
}

/// Waits until something is ready, or for this time.
fn poll_all<Source: Copy + PartialEq>(
    watched: &[(Source, BorrowedFd<'_>, PollFlags)],
    limit: Option<Duration>,
) -> Result<Vec<Source>, Failure> {
    let mut fds: Vec<PollFd<'_>> =
        watched.iter().map(|(_, fd, flags)| PollFd::from_borrowed_fd(*fd, *flags)).collect();
    let limit = limit.map(|left| Timespec {
        tv_sec: left.as_secs() as i64,
        tv_nsec: left.subsec_nanos().into(),
    });
    match poll(&mut fds, limit.as_ref()) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(e) => {
            return Err(Failure::new(format!("cannot watch the job (poll): {e}")));
        }
    }
    let ready = fds.iter().zip(watched).filter(|(fd, _)| !fd.revents().is_empty());
    let mut ready: Vec<Source> = ready.map(|(_, (source, ..))| *source).collect();
    // Both ends of a channel are one source.
    ready.dedup();
    Ok(ready)
}
