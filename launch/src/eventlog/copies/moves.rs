//! Logs of ranks of lost nodes, which are brought from the copy store that has them to that of the node where the ranks are to be
//! started.

use super::super::packet::Packet;
use super::super::sending::{send, send_events, transact};
use super::super::stream::{self, CopyFrame, GIVE_UP, Identity, PAUSE, wrong};
use super::checkpoints::{Arriving, WholeCheckpoint};
use super::events::{Written, new_file};
use super::{Held, Shared, say};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, Read, Result as IoResult};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

/// The log of a rank: all of it is here.
#[derive(Clone)]
pub struct Brought {
    pub events: Arc<File>,
    pub clock: u64,
    pub checkpoint: Option<WholeCheckpoint>,
}

/// Logs that were brought here, by rank and order.
#[derive(Default)]
pub struct BroughtLogs(BTreeMap<(u32, u64), Brought>);

impl BroughtLogs {
    /// That of a rank by this order.
    pub fn of(&self, rank: u32, epoch: u64) -> Option<&Brought> {
        self.0.get(&(rank, epoch))
    }

    /// One was handed out: the node has it, and asks no more.
    pub fn forget(&mut self, rank: u32, epoch: u64) {
        self.0.remove(&(rank, epoch));
    }

    /// One takes the place of those before, and of one by the same order, whose sender has not heard that it was taken.
    fn keep(&mut self, rank: u32, epoch: u64, brought: Brought) -> IoResult<()> {
        if self.0.keys().any(|(of, other)| *of == rank && *other > epoch) {
            return Err(wrong("order", "the last one for its rank", epoch));
        }
        self.0.retain(|(of, _), _| *of != rank);
        self.0.insert((rank, epoch), brought);
        Ok(())
    }
}

/// Where the log of a rank is brought to.
pub struct Order {
    pub rank: u32,
    pub epoch: u64,
    pub node: u32,
    pub address: String,
}

impl Held {
    /// All that there is of a rank by this order. Nothing is added to it any more.
    fn hand_over(&mut self, rank: u32, copy: u64) -> IoResult<Brought> {
        let missing = || wrong("rank", "one of which there is a copy", rank);
        let (events, clock) = self.close(rank, copy).ok_or_else(missing)?;
        let checkpoint = self.checkpoint(rank, copy);
        Ok(Brought { events, clock, checkpoint })
    }
}

impl Shared {
    /// Brings the log of a rank to another copy store, in a thread of its own. What has become of the order is said; or that it
    /// cannot be had here, of the order that has brought it here.
    pub fn bring(self: &Arc<Self>, copy: u64, order: Order) {
        let brought = match self.held().hand_over(order.rank, copy) {
            Ok(brought) => brought,
            Err(e) => return self.said(copy, Err(e)),
        };
        let shared = self.clone();
        let work = move || {
            let sent = brought.send(&shared.me, &order);
            shared.said(order.epoch, sent);
        };
        if let Err(e) = std::thread::Builder::new().name("bring".into()).spawn(work) {
            self.said(copy, Err(e));
        }
    }

    fn said(&self, epoch: u64, sent: IoResult<()>) {
        let packet = match sent {
            Ok(()) => Packet::Copied { epoch },
            Err(e) => Packet::lost(epoch, &e),
        };
        // An agent that hears nothing more is about to end; its launcher does not wait for longer than a while.
        if let Err(e) = self.channel.send(&packet, &[]) {
            say(&format!("it cannot be said that a log was brought: {e}"));
        }
    }

    /// Takes the log of a rank: its checkpoint, if it has one, and its events, all of it or nothing.
    pub(super) fn take_brought(
        &self,
        (rank, epoch): (u32, u64),
        reader: &mut impl Read,
        stream: &mut TcpStream,
    ) -> IoResult<()> {
        let mut arriving = Arriving::default();
        let mut checkpoint = None;
        let events = Arc::new(new_file(rank, self.job)?);
        let mut written = Written { file: events.clone(), clock: 0, kept: 0 };
        loop {
            match CopyFrame::read(reader)? {
                CopyFrame::Records { rank: of, clock, bytes } if of == rank => {
                    written.write(clock, &bytes)?;
                }
                CopyFrame::Cut { number, clocks } if clocks == [(rank, written.clock)] => {
                    let clock = written.clock;
                    let brought = Brought { events, clock, checkpoint };
                    self.held().brought.keep(rank, epoch, brought)?;
                    return send(stream, &CopyFrame::Taken { number });
                }
                CopyFrame::Cut { .. } | CopyFrame::Records { .. } => {
                    return Err(wrong("rank and clock", "those of the log", rank));
                }
                part => {
                    let Some((of, whole)) = arriving.take(part, self.job)? else { continue };
                    if of != rank {
                        return Err(wrong("rank", rank, of));
                    }
                    send(stream, &CopyFrame::Taken { number: whole.number })?;
                    checkpoint = Some(whole);
                }
            }
        }
    }
}

impl Brought {
    /// Sends it, as often as that fails for a while.
    fn send(&self, me: &Identity, order: &Order) -> IoResult<()> {
        let began = Instant::now();
        loop {
            match self.try_to_send(me, order) {
                // It is refused for good, or the time is over.
                Err(e) if e.kind() == ErrorKind::InvalidData || began.elapsed() >= GIVE_UP => {
                    return Err(e);
                }
                Err(_) => std::thread::sleep(PAUSE),
                Ok(()) => return Ok(()),
            }
        }
    }

    fn try_to_send(&self, me: &Identity, order: &Order) -> IoResult<()> {
        let Order { rank, epoch, node, ref address } = *order;
        let mut stream = stream::connect(me, node, address)?;
        send(&mut stream, &CopyFrame::Bring { rank, epoch })?;
        if let Some(checkpoint) = &self.checkpoint {
            checkpoint.send(&mut stream, rank)?;
        }
        send_events(&mut stream, rank, &self.events, self.clock)?;
        let mut cut = Vec::new();
        CopyFrame::Cut { number: 0, clocks: vec![(rank, self.clock)] }.encode(&mut cut);
        transact(&mut stream, &cut)
    }
}
