//! `taffrail copies`: keeps copies of the events and checkpoints of other nodes' ranks, which are used when such a node is
//! lost (`docs/spec/agent.md`, section 11).

mod checkpoints;
mod events;
mod held;
mod moves;

use super::channel::{Channel, ChannelError};
use super::packet::{Packet, Told, What};
use super::serve::seal;
use super::stream::{CopyFrame, Identity, identity, wrong};
use events::{Written, new_file};
use held::Held;
use moves::Order;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::MemfdFlags;
use std::collections::BTreeMap;
use std::error::Error;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Result as IoResult, Write};
use std::net::TcpStream;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use taffrail_agent::NODES_MAX;
use taffrail_agent::client::memory::RefusedMemory;
use taffrail_logging::store::{Owner, hand_out};
use taffrail_tcp::admission::Admission;
use taffrail_tcp::{Config, Interface, Listener};

/// How long a handshake may take, and a begin behind it.
const HANDSHAKE: Duration = Duration::from_secs(10);
/// Copies at a time: several event loggers of each node.
const CONNECTIONS: usize = 4 * NODES_MAX;

/// Where to listen.
#[derive(clap::Args)]
pub struct CopiesArgs {
    /// Listen at the interface of this name, or at one of this network
    #[arg(long, value_name = "CIDR|IFACE")]
    network: Option<Interface>,
}

type Anything = Box<dyn Error>;

/// Runs the copy store until whoever started it closes the connection, which is standard input.
pub fn copies(args: &CopiesArgs) -> ExitCode {
    crate::run::own_program::name_process(c"taffrail-copies");
    match Store::start(args).and_then(|store| store.serve()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            say(&e.to_string());
            ExitCode::FAILURE
        }
    }
}

struct Store {
    admission: Admission,
    shared: Arc<Shared>,
}

struct Shared {
    /// To the agent.
    channel: Channel,
    me: Identity,
    job: u64,
    held: Mutex<Held>,
    connections: AtomicUsize,
}

impl Shared {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    fn start(args: &CopiesArgs) -> Result<Store, Anything> {
        let socket = std::io::stdin().as_fd().try_clone_to_owned()?;
        let channel = Channel::inherited(socket, false);
        let (node, job, secret, refused) = await_secret(&channel)?;
        let interface = match &args.network {
            Some(network) => network.clone(),
            None => Interface::outward()?,
        };
        let tally = Some(refused.leak());
        let config = Config { handshake: HANDSHAKE, say, tally, ..Config::default() };
        let listener = Listener::bind(&interface, 0)?;
        let me = identity(job, secret, node);
        let admission = Admission::new(listener, me.clone(), NODES_MAX as u32, &config)?;
        let mut address = admission.address();
        if address.ip().is_unspecified() {
            address.set_ip(Interface::outward()?.address()?);
        }
        channel.send(&Packet::Listens { address: address.to_string() }, &[])?;
        let (held, connections) = (Mutex::default(), AtomicUsize::new(0));
        let shared = Arc::new(Shared { channel, me, job, held, connections });
        Ok(Store { admission, shared })
    }

    fn serve(mut self) -> Result<(), Anything> {
        loop {
            let mut fds = [
                PollFd::new(&self.shared.channel, PollFlags::IN),
                PollFd::from_borrowed_fd(self.admission.fd(), PollFlags::IN),
            ];
            let left = self.admission.due().map(|at| at.saturating_duration_since(Instant::now()));
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            match poll(&mut fds, left.as_ref()) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
            match self.obey() {
                Ok(()) => {}
                Err(ChannelError::Closed) => return Ok(()),
                Err(e) => return Err(e.into()),
            }
            for (home, socket) in self.admission.take() {
                self.admit(home, TcpStream::from(socket));
            }
        }
    }

    fn obey(&self) -> Result<(), ChannelError> {
        while let Some((packet, _)) = self.shared.channel.receive()? {
            let found = match packet {
                Packet::Fetch { rank, epoch } => self.fetch(rank, epoch),
                Packet::FetchCheckpoint { rank, epoch } => self.fetch_checkpoint(rank, epoch),
                Packet::Bring { rank, copy, epoch, node, address } => {
                    self.shared.bring(copy, Order { rank, epoch, node, address });
                    continue;
                }
                other => return Err(super::running::unasked(&other)),
            };
            let (answer, files) = found.unwrap_or_else(|e| {
                let refused = Told::new(packet.rank(), What::Refused, &e);
                (Packet::Told(refused), Vec::new())
            });
            let files: Vec<BorrowedFd<'_>> = files.iter().map(AsFd::as_fd).collect();
            self.shared.channel.send(&answer, &files)?;
        }
        Ok(())
    }

    fn fetch_checkpoint(&self, rank: u32, epoch: u64) -> Result<(Packet, Vec<OwnedFd>), Anything> {
        let mut held = self.shared.held();
        let whole = held.checkpoint(rank, epoch);
        // Events are handed out before.
        held.brought.forget(rank, epoch);
        drop(held);
        let Some(whole) = whole else {
            return Ok((Packet::Checkpoint { rank, number: 0, incarnation: 0 }, Vec::new()));
        };
        let (number, incarnation) = (whole.number, whole.incarnation.into());
        let files = whole.files()?.map(OwnedFd::from).into();
        Ok((Packet::Checkpoint { rank, number, incarnation }, files))
    }

    fn fetch(&self, rank: u32, epoch: u64) -> Result<(Packet, Vec<OwnedFd>), Anything> {
        let found = self.shared.held().close(rank, epoch);
        let (file, count) =
            found.ok_or_else(|| format!("there is no copy of the events of rank {rank}"))?;
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let into = File::from(rustix::fs::memfd_create("taffrail-events", flags)?);
        let owner = Owner { rank, job: self.shared.job };
        hand_out(file.try_clone()?, &format!("the copy of rank {rank}"), owner, count, &into)?;
        Ok((Packet::Events { rank, count }, vec![seal(into)?]))
    }

    /// Takes a copy from a node in a thread of its own.
    fn admit(&self, home: u32, stream: TcpStream) {
        if self.shared.connections.fetch_add(1, Ordering::Relaxed) >= CONNECTIONS {
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            return say(&format!("a copy of node {home} is refused: there are {CONNECTIONS}"));
        }
        let shared = self.shared.clone();
        let work = move || {
            if let Err(e) = shared.take(home, stream)
                && !matches!(e.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
            {
                say(&format!("the copy of node {home} is ended: {e}"));
            }
            shared.connections.fetch_sub(1, Ordering::Relaxed);
        };
        if let Err(e) = std::thread::Builder::new().name("copy".into()).spawn(work) {
            self.shared.connections.fetch_sub(1, Ordering::Relaxed);
            say(&format!("a copy of node {home} is refused: {e}"));
        }
    }
}

impl Shared {
    /// Takes a copy, as long as its connection lasts.
    fn take(&self, home: u32, mut stream: TcpStream) -> IoResult<()> {
        stream.set_nonblocking(false)?;
        stream.set_read_timeout(Some(HANDSHAKE))?;
        stream.set_write_timeout(Some(HANDSHAKE))?;
        let mut reader = BufReader::with_capacity(1 << 17, stream.try_clone()?);
        let (epoch, mut ranks) = match CopyFrame::read(&mut reader)? {
            CopyFrame::Begin { epoch, ranks } => (epoch, ranks),
            CopyFrame::BeginCheckpoints { epoch } => {
                stream.set_read_timeout(None)?;
                return self.take_checkpoints((home, epoch), &mut reader, stream);
            }
            CopyFrame::Bring { rank, epoch } => {
                return self.take_brought((rank, epoch), &mut reader, &mut stream);
            }
            other => return Err(wrong("frame", "the begin of a copy", format!("{other:?}"))),
        };
        // A connection whose other end is lost is found by the next one.
        stream.set_read_timeout(None)?;
        ranks.sort_unstable();
        ranks.dedup();
        let new = |rank: u32| Ok((rank, Arc::new(new_file(rank, self.job)?)));
        let files = ranks.into_iter().map(new).collect::<IoResult<Vec<_>>>()?;
        let mut written: BTreeMap<u32, Written> = files
            .iter()
            .map(|(rank, file)| (*rank, Written { file: file.clone(), clock: 0, kept: 0 }))
            .collect();
        let number = self.held().begin(home, epoch, stream.try_clone()?, files)?;
        loop {
            match CopyFrame::read(&mut reader)? {
                CopyFrame::Records { rank, clock, bytes } => {
                    let of = written.get_mut(&rank);
                    of.ok_or_else(|| wrong("rank", "one of the copy", rank))?
                        .write(clock, &bytes)?;
                }
                CopyFrame::Cut { number: cut, clocks } => {
                    for (rank, clock) in &clocks {
                        let of = written.get_mut(rank);
                        of.ok_or_else(|| wrong("rank", "one of the copy", rank))?.keep(*clock)?;
                    }
                    self.held().cut(number, &clocks)?;
                    let mut taken = Vec::new();
                    CopyFrame::Taken { number: cut }.encode(&mut taken);
                    stream.write_all(&taken)?;
                }
                other => return Err(wrong("frame", "records or a cut", format!("{other:?}"))),
            }
        }
    }
}

/// Who this process is among the nodes of the job, which its starter says first.
fn await_secret(channel: &Channel) -> Result<(u32, u64, [u8; 32], RefusedMemory), Anything> {
    loop {
        match channel.receive()? {
            Some((Packet::Secret { node, job, .. }, files)) => {
                let [secret, refused]: [OwnedFd; 2] = files.try_into().map_err(|_| "no secret")?;
                return Ok((
                    node,
                    job,
                    read_secret(secret)?,
                    RefusedMemory::open(refused.as_fd())?,
                ));
            }
            Some((other, _)) => return Err(super::running::unasked(&other).into()),
            None => channel.wait(Duration::from_secs(1)),
        }
    }
}

pub fn read_secret(file: OwnedFd) -> IoResult<[u8; 32]> {
    let mut secret = [0; 32];
    File::from(file).read_exact_at(&mut secret, 0)?;
    Ok(secret)
}

/// One line on standard error.
fn say(what: &str) {
    let _ = std::io::stderr().write_all(format!("taffrail copies: {what}\n").as_bytes());
}
