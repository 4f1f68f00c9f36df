//! Writes frames.

use super::bytes::Writer;
use super::frame::{
    BringOrder, CopyOrder, Durability, End, Frame, Hello, LeftBehind, Logging, Program,
    RosterUpdate, WaveWords, Welcome,
};
use super::shape::{Header, TEXT};
use crate::RankIncarnation;
use std::net::IpAddr;

/// Room for words in a frame that has little else.
const WORDS: usize = TEXT - 32;

/// A frame that the format has no room for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{frame} of {bytes} bytes; it may have {limit}")]
pub struct TooLong {
    /// Which frame.
    pub frame: &'static str,
    /// Bytes of its body.
    pub bytes: usize,
    /// Bytes of its body at most.
    pub limit: usize,
}

impl Frame {
    /// The bytes.
    ///
    /// # Errors
    /// [`TooLong`] if the body is longer than the limit of its type. Words for people are cut off instead.
    pub fn encode(&self) -> Result<Vec<u8>, TooLong> {
        let mut body = Writer::default();
        let kind = self.body(&mut body);
        let life = self.life().unwrap_or_default();
        let (rank, incarnation) = (life.rank, life.incarnation.0);
        let header = Header { kind, length: body.0.len(), rank, incarnation };
        let shape = header.shape();
        if body.0.len() > shape.limit {
            return Err(TooLong { frame: shape.name, bytes: body.0.len(), limit: shape.limit });
        }
        let mut bytes = header.encode().to_vec();
        bytes.append(&mut body.0);
        Ok(bytes)
    }

    /// The incarnation that the frame is of.
    pub fn life(&self) -> Option<RankIncarnation> {
        match self {
            Frame::Start { life, .. }
            | Frame::Started { life, .. }
            | Frame::Ended { life, .. }
            | Frame::Member { life, .. }
            | Frame::Output { life, .. }
            | Frame::Input { life, .. }
            | Frame::InputTaken { life, .. }
            | Frame::Kill { life }
            | Frame::Put { life, .. }
            | Frame::Enter { life, .. }
            | Frame::Address { life, .. }
            | Frame::Wave { life, .. }
            | Frame::Recover { life, .. }
            | Frame::Recovered { life, .. }
            | Frame::Link { life, .. }
            | Frame::Bring { life, .. }
            | Frame::Brought { life, .. }
            | Frame::Finalizing { life, .. }
            | Frame::Left { life, .. } => Some(*life),
            _ => None,
        }
    }

    /// The name of its type.
    pub fn name(&self) -> &'static str {
        let kind = self.body(&mut Writer::default());
        Header { kind, length: 0, rank: 0, incarnation: 0 }.shape().name
    }

    /// Writes the body. The number of the type.
    fn body(&self, to: &mut Writer) -> u8 {
        match self {
            Frame::Hello(hello) => write_hello(hello, to),
            Frame::Welcome(welcome) => write_welcome(welcome, to),
            Frame::Renew { renewal } => word(3, *renewal, to),
            Frame::Grant { renewal } => word(4, *renewal, to),
            Frame::Roster(update) => write_roster(update, to),
            Frame::RosterAck { epoch } => word(6, *epoch, to),
            Frame::Program(program) => write_program(program, to),
            Frame::Start { app, generations, .. } => {
                to.u32(*app);
                to.list(generations, |to, generation| to.u32(*generation));
                8
            }
            Frame::Started { pid, .. } => one(9, *pid, to),
            Frame::Ended { end, .. } => write_end(end, to),
            Frame::Member { member, .. } => {
                to.u32(member.event as u32);
                to.u32(member.pid);
                to.i64(member.value);
                to.words(&member.text, WORDS);
                11
            }
            Frame::Output { stream, bytes, .. } => {
                to.u8(*stream as u8);
                to.0.extend(bytes);
                12
            }
            Frame::OutputTaken { bytes } => one(13, *bytes, to),
            Frame::Input { bytes, .. } => {
                to.0.extend(bytes);
                14
            }
            Frame::InputTaken { bytes, .. } => one(15, *bytes, to),
            Frame::Signal { signal, reach } => two(16, *signal as u32, *reach as u32, to),
            Frame::Kill { .. } => 17,
            Frame::Release => 18,
            Frame::Put { key, value, .. } => {
                to.text(key);
                to.text(value);
                19
            }
            Frame::Enter { barrier, .. } => word(20, *barrier, to),
            Frame::Complete { barriers } => word(21, *barriers, to),
            Frame::Address { address, .. } => {
                to.0.extend(address);
                22
            }
            Frame::Wave { words, .. } => write_wave(words, to),
            Frame::End { signal, grace_ms } => two(24, *signal as u32, *grace_ms, to),
            Frame::Farewell => 25,
            Frame::Revoke { why } => words(26, why, to),
            Frame::Goodbye { refused } => {
                refused.iter().for_each(|&count| to.u64(count));
                27
            }
            Frame::Failed { status, why } => people(28, *status, why, to),
            Frame::Note { level, text } => people(29, *level as u32, text, to),
            Frame::Logging(logging) => write_logging(logging, to),
            Frame::Recover { copy, .. } => word(31, *copy, to),
            Frame::Recovered { left, .. } => write_left(left, to),
            Frame::Left { known, .. } => word(33, *known, to),
            Frame::Store { address } => text(34, address, to),
            Frame::Copy(order) => write_copy(order, to),
            Frame::Copied { epoch } => word(36, *epoch, to),
            Frame::Uncopied { epoch, why } => write_failed(37, *epoch, why, to),
            Frame::Bring { order, .. } => write_bring(order, to),
            Frame::Brought { epoch, why, .. } => write_failed(43, *epoch, why, to),
            Frame::Finalizing { known, .. } => word(44, *known, to),
            Frame::AskHeld { number } => word(38, *number, to),
            Frame::Network { network } => text(40, network, to),
            Frame::Link { peer, down, .. } => write_link(*peer, down.as_deref(), to),
            Frame::Held { number, more, determinants } => {
                write_held(*number, *more, determinants, to)
            }
        }
    }
}

fn write_wave(words: &WaveWords, to: &mut Writer) -> u8 {
    let words = [words.wave, words.target, words.committed, words.schedule];
    words.into_iter().for_each(|word| to.u64(word));
    23
}

/// Words for people, behind a number.
fn people(kind: u8, number: u32, words: &str, to: &mut Writer) -> u8 {
    to.u32(number);
    to.words(words, WORDS);
    kind
}

fn write_left(left: &LeftBehind, to: &mut Writer) -> u8 {
    let (number, covered) = left.checkpoint.map_or((0, 0), |last| (last.number, last.events));
    [left.events, number, covered].into_iter().for_each(|word| to.u64(word));
    32
}

fn word(kind: u8, value: u64, to: &mut Writer) -> u8 {
    to.u64(value);
    kind
}

fn one(kind: u8, value: u32, to: &mut Writer) -> u8 {
    to.u32(value);
    kind
}

fn two(kind: u8, first: u32, second: u32, to: &mut Writer) -> u8 {
    to.u32(first);
    to.u32(second);
    kind
}

fn write_hello(hello: &Hello, to: &mut Writer) -> u8 {
    let Hello { renewal, pid, cpus, host, program, interfaces } = hello;
    to.u64(*renewal);
    to.u32(*pid);
    to.u32(*cpus);
    to.text(host);
    to.text(program);
    to.list(interfaces, |to, one| {
        let family = if one.address.is_ipv4() { 4 } else { 6 };
        to.u8(family);
        to.u8(one.prefix);
        to.text(&one.interface);
        match one.address {
            IpAddr::V4(address) => to.0.extend(address.octets()),
            IpAddr::V6(address) => to.0.extend(address.octets()),
        }
    });
    1
}

fn write_welcome(welcome: &Welcome, to: &mut Writer) -> u8 {
    let w = welcome;
    to.u64(w.renewal);
    [w.node.into(), w.nodes, w.ranks, w.lease_ms, w.renew_ms, w.output_window]
        .into_iter()
        .chain([w.care.heartbeat_ms, w.care.binding as u32])
        .for_each(|number| to.u32(number));
    to.0.extend(w.secret.0);
    to.text(&w.job);
    2
}

fn write_roster(update: &RosterUpdate, to: &mut Writer) -> u8 {
    to.u64(update.epoch);
    to.list(&update.changes, |to, change| {
        to.u32(change.life.rank);
        to.u32(change.life.incarnation.0);
        to.0.extend(change.node.to_le_bytes());
        to.u8(change.state as u8);
        to.u8(0);
    });
    5
}

fn write_program(program: &Program, to: &mut Writer) -> u8 {
    to.u32(program.app);
    to.bytes(&program.directory);
    to.list(&program.arguments, |to, argument| to.bytes(argument));
    to.list(&program.environment, |to, (name, value)| {
        to.bytes(name);
        to.bytes(value);
    });
    7
}

fn write_logging(logging: &Logging, to: &mut Writer) -> u8 {
    let (kind, copies, folder): (u32, u32, &[u8]) = match &logging.durability {
        Durability::Process => (1, 0, &[]),
        Durability::Disk(folder) => (2, 0, folder),
        Durability::Copies(copies) => (3, *copies, &[]),
    };
    [logging.protocol as u32, logging.events as u32, kind, copies]
        .into_iter()
        .for_each(|word| to.u32(word));
    to.bytes(folder);
    to.u64(logging.memory);
    to.list(&logging.sets, |to, set| to.u32(*set));
    30
}

fn text(kind: u8, text: &str, to: &mut Writer) -> u8 {
    to.text(text);
    kind
}

/// Words for people.
fn words(kind: u8, words: &str, to: &mut Writer) -> u8 {
    to.words(words, WORDS);
    kind
}

/// What has become of an order, and why.
fn write_failed(kind: u8, epoch: u64, why: &str, to: &mut Writer) -> u8 {
    to.u64(epoch);
    words(kind, why, to)
}

fn write_bring(order: &BringOrder, to: &mut Writer) -> u8 {
    to.u64(order.copy);
    to.u64(order.epoch);
    to.u32(order.node.into());
    text(42, &order.address, to)
}

fn write_link(peer: RankIncarnation, down: Option<&str>, to: &mut Writer) -> u8 {
    to.u32(peer.rank);
    to.u32(peer.incarnation.0);
    to.u32(if down.is_some() { 1 } else { 2 });
    words(41, down.unwrap_or_default(), to)
}

fn write_copy(order: &CopyOrder, to: &mut Writer) -> u8 {
    to.u64(order.epoch);
    to.u32(order.logger);
    to.u32(order.node.into());
    to.text(&order.address);
    35
}

fn write_held(number: u64, more: bool, determinants: &[u8], to: &mut Writer) -> u8 {
    to.u64(number);
    to.u32(more.into());
    to.0.extend(determinants);
    39
}

fn write_end(end: &End, to: &mut Writer) -> u8 {
    let (kind, value, why) = match end {
        End::Exited(status) => (1, *status, ""),
        End::Signal(signal) => (2, *signal, ""),
        End::NotStarted(status, why) => (3, *status, why.as_str()),
    };
    to.u32(kind);
    to.i32(value);
    to.words(why, WORDS);
    10
}
