//! The side of whoever starts a copy store: its process, its address, and what it hands out.

use super::keeper::{Download, Elsewhere, KeeperError};
use super::packet::Packet;
use super::running::{Heard, Running, unasked};
use rustix::process::Pid;
use std::ffi::OsString;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

/// The copy store of a node.
#[derive(Debug)]
pub struct CopyStore {
    running: Running,
    address: String,
}

impl CopyStore {
    /// Starts it, and waits until it listens. `job` is the digest of the job, `network` where to listen; anywhere if it is
    /// empty.
    ///
    /// # Errors
    /// [`KeeperError`]: it has ended, or does not answer.
    pub fn start(
        program: &Path,
        job: u64,
        elsewhere: &Elsewhere,
        network: &str,
    ) -> Result<CopyStore, KeeperError> {
        let network = (!network.is_empty()).then(|| ["--network".into(), network.into()]);
        let arguments: Vec<OsString> = network.into_iter().flatten().collect();
        let mut running = Running::start(program, "copies", &arguments, false)?;
        let Elsewhere { secret, node, nodes } = elsewhere;
        let packet = Packet::Secret { node: *node, job, nodes: *nodes };
        running.say(&packet, &[secret.as_fd()])?;
        match running.await_packet()? {
            Packet::Listens { address } => Ok(CopyStore { running, address }),
            other => Err(unasked(&other).into()),
        }
    }

    /// Where it listens.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Its process.
    pub fn pid(&self) -> Pid {
        self.running.pid()
    }

    /// Readable when it is gone.
    pub fn socket(&self) -> Option<BorrowedFd<'_>> {
        self.running.socket()
    }

    /// Whether it is not gone.
    pub fn is_there(&mut self) -> bool {
        self.running.is_there()
    }

    /// All events that a copy has of a rank, by an order of this number. Nothing is added to that copy any more.
    ///
    /// # Errors
    /// [`KeeperError::Refused`]: it has none. Else it is gone, and all its copies with it.
    pub fn fetch(&mut self, rank: u32, epoch: u64) -> Result<Download, KeeperError> {
        let packet = Packet::Fetch { rank, epoch };
        let download = self.running.ask(&packet, &[], &mut Heard::default())?;
        download.ok_or_else(|| unasked(&packet).into())
    }
}
