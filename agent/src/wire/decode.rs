//! Reads frames.

use super::Malformed;
use super::bytes::Reader;
use super::frame::{
    Binding, BringOrder, CopyOrder, Durability, End, EventKind, Frame, Hello, LastCheckpoint,
    LeftBehind, Level, Logging, LoggingProtocol, Member, MemberEvent, Program, RankCare, Reach,
    RosterUpdate, Stream, WaveWords, Welcome,
};
use super::shape::{DETERMINANT, Direction, HEADER, Header};
use crate::network::{HostAddress, INTERFACE_NAME_MAX, INTERFACES_MAX};
use crate::roster::{ADDRESS_MAX, Change, RankState};
use crate::{NODES_MAX, NodeId, RANKS_MAX, RankIncarnation, Secret};
use std::net::IpAddr;

/// Event loggers of a node at the most.
const COPIES_MAX: u32 = 8;

/// Reads one frame, which is all of these bytes.
///
/// # Errors
/// [`Malformed`], naming the first field that is wrong.
pub fn decode(bytes: &[u8], from: Direction) -> Result<Frame, Malformed> {
    let Some((header, body)) = bytes.split_first_chunk::<HEADER>() else {
        return Err(Malformed::new("header", "16 bytes", bytes.len()));
    };
    let header = Header::decode(header, from)?;
    if header.length != body.len() {
        return Err(Malformed::new("length", body.len(), header.length));
    }
    decode_body(&header, body)
}

pub(super) fn decode_body(header: &Header, body: &[u8]) -> Result<Frame, Malformed> {
    let life = RankIncarnation::new(header.rank, header.incarnation);
    if header.shape().of_rank && life.rank as usize >= RANKS_MAX {
        return Err(Malformed::new("rank", format!("below {RANKS_MAX}"), life.rank));
    }
    let mut from = Reader(body);
    let from = &mut from;
    let frame = match header.shape().of_rank {
        true => of_rank(header.kind, life, from)?,
        false => of_node(header.kind, from)?,
    };
    from.end()?;
    Ok(frame)
}

fn of_rank(kind: u8, life: RankIncarnation, from: &mut Reader<'_>) -> Result<Frame, Malformed> {
    Ok(match kind {
        8 => {
            let app = from.u32("app")?;
            let generations = from.list("generations", 4, |from| from.u32("generation"))?;
            Frame::Start { life, app, generations }
        }
        9 => Frame::Started { life, pid: from.u32("pid")? },
        10 => Frame::Ended { life, end: read_end(from)? },
        11 => Frame::Member { life, member: read_member(from)? },
        12 => {
            let stream = match from.u8("stream")? {
                1 => Stream::Output,
                2 => Stream::Error,
                other => return Err(Malformed::new("stream", "1 or 2", other)),
            };
            Frame::Output { life, stream, bytes: from.rest() }
        }
        14 => Frame::Input { life, bytes: from.rest() },
        15 => Frame::InputTaken { life, bytes: from.u32("bytes")? },
        17 => Frame::Kill { life },
        19 => Frame::Put { life, key: from.text("key")?, value: from.text("value")? },
        20 => Frame::Enter { life, barrier: from.u64("barrier")? },
        22 => match from.rest() {
            address if (1..=ADDRESS_MAX).contains(&address.len()) => {
                Frame::Address { life, address }
            }
            address => return Err(Malformed::new("address", "1 to 112 bytes", address.len())),
        },
        31 => Frame::Recover { life, copy: from.u64("copy")? },
        32 => Frame::Recovered { life, left: read_left(from)? },
        33 => Frame::Left { life, known: from.u64("known")? },
        41 => read_link(life, from)?,
        42 => Frame::Bring { life, order: read_bring(from)? },
        43 => Frame::Brought { life, epoch: from.u64("epoch")?, why: from.text("why")? },
        44 => Frame::Finalizing { life, known: from.u64("known")? },
        _ => {
            let (wave, target) = (from.u64("wave")?, from.u64("target")?);
            let (committed, schedule) = (from.u64("committed")?, from.u64("schedule")?);
            Frame::Wave { life, words: WaveWords { wave, target, committed, schedule } }
        }
    })
}

fn of_node(kind: u8, from: &mut Reader<'_>) -> Result<Frame, Malformed> {
    Ok(match kind {
        1 => Frame::Hello(read_hello(from)?),
        2 => Frame::Welcome(Box::new(read_welcome(from)?)),
        3 => Frame::Renew { renewal: from.u64("renewal")? },
        4 => Frame::Grant { renewal: from.u64("renewal")? },
        5 => {
            let epoch = from.u64("epoch")?;
            Frame::Roster(RosterUpdate { epoch, changes: from.list("changes", 12, read_change)? })
        }
        6 => Frame::RosterAck { epoch: from.u64("epoch")? },
        7 => Frame::Program(read_program(from)?),
        13 => Frame::OutputTaken { bytes: from.u32("bytes")? },
        16 => {
            let signal = from.i32("signal")?;
            let reach = match from.u32("reach")? {
                1 => Reach::Groups,
                2 => Reach::Everything,
                other => return Err(Malformed::new("reach", "1 or 2", other)),
            };
            Frame::Signal { signal: checked_signal(signal)?, reach }
        }
        18 => Frame::Release,
        21 => Frame::Complete { barriers: from.u64("barriers")? },
        24 => {
            let signal = checked_signal(from.i32("signal")?)?;
            Frame::End { signal, grace_ms: from.u32("grace")? }
        }
        25 => Frame::Farewell,
        26 => Frame::Revoke { why: from.text("why")? },
        27 => {
            let mut refused = [0; 5];
            for count in &mut refused {
                *count = from.u64("refused")?;
            }
            Frame::Goodbye { refused }
        }
        30 => Frame::Logging(read_logging(from)?),
        34 => Frame::Store { address: from.text("address")? },
        35 => Frame::Copy(read_copy(from)?),
        36 => Frame::Copied { epoch: from.u64("epoch")? },
        37 => Frame::Uncopied { epoch: from.u64("epoch")?, why: from.text("why")? },
        38 => Frame::AskHeld { number: from.u64("question")? },
        39 => read_held(from)?,
        40 => Frame::Network { network: from.text("network")? },
        28 => Frame::Failed { status: from.u32("status")?, why: from.text("why")? },
        _ => {
            let level = match from.u32("level")? {
                1 => Level::Error,
                2 => Level::Note,
                3 => Level::Debug,
                other => return Err(Malformed::new("level", "1 to 3", other)),
            };
            Frame::Note { level, text: from.text("text")? }
        }
    })
}

/// Signals that a kernel knows.
fn checked_signal(signal: i32) -> Result<i32, Malformed> {
    match signal {
        1..=64 => Ok(signal),
        _ => Err(Malformed::new("signal", "1 to 64", signal)),
    }
}

fn read_hello(from: &mut Reader<'_>) -> Result<Hello, Malformed> {
    Ok(Hello {
        renewal: from.u64("renewal")?,
        pid: from.u32("pid")?,
        cpus: from.u32("cpus")?,
        host: from.text("host")?,
        program: from.text("program")?,
        interfaces: read_interfaces(from)?,
    })
}

fn read_interfaces(from: &mut Reader<'_>) -> Result<Vec<HostAddress>, Malformed> {
    let interfaces = from.list("interfaces", 9, |from| {
        let (family, prefix) = (from.u8("family")?, from.u8("prefix")?);
        let interface = from.text("name of an interface")?;
        if !(1..=INTERFACE_NAME_MAX).contains(&interface.len()) {
            let expected = format!("1 to {INTERFACE_NAME_MAX} bytes");
            return Err(Malformed::new("name of an interface", expected, interface.len()));
        }
        let (address, bits) = match family {
            4 => (from.array::<4>("address").map(IpAddr::from)?, 32),
            6 => (from.array::<16>("address").map(IpAddr::from)?, 128),
            other => return Err(Malformed::new("family", "4 or 6", other)),
        };
        match prefix <= bits {
            true => Ok(HostAddress { interface, address, prefix }),
            false => Err(Malformed::new("prefix", format!("at most {bits}"), prefix)),
        }
    })?;
    match interfaces.len() <= INTERFACES_MAX {
        true => Ok(interfaces),
        false => {
            let expected = format!("at most {INTERFACES_MAX}");
            Err(Malformed::new("interfaces", expected, interfaces.len()))
        }
    }
}

fn read_welcome(from: &mut Reader<'_>) -> Result<Welcome, Malformed> {
    let renewal = from.u64("renewal")?;
    let node = from.u32("node")?;
    let welcome = Welcome {
        renewal,
        node: NodeId::try_from(node).map_err(|_| Malformed::new("node", "16 bits", node))?,
        nodes: from.u32("nodes")?,
        ranks: from.u32("ranks")?,
        lease_ms: from.u32("lease")?,
        renew_ms: from.u32("renew")?,
        output_window: from.u32("output window")?,
        care: read_care(from)?,
        secret: Secret(from.array("secret")?),
        job: from.text("job")?,
    };
    let Welcome { nodes, ranks, lease_ms, renew_ms, .. } = welcome;
    if u32::from(welcome.node) >= nodes || nodes as usize > NODES_MAX {
        return Err(Malformed::new("nodes", format!("above {node}, at most {NODES_MAX}"), nodes));
    }
    if ranks == 0 || ranks as usize > RANKS_MAX {
        return Err(Malformed::new("ranks", format!("1 to {RANKS_MAX}"), ranks));
    }
    if renew_ms == 0 || renew_ms >= lease_ms {
        return Err(Malformed::new("renew", format!("1 to less than {lease_ms}"), renew_ms));
    }
    Ok(welcome)
}

fn read_care(from: &mut Reader<'_>) -> Result<RankCare, Malformed> {
    let heartbeat_ms = from.u32("heartbeat")?;
    let binding = match from.u32("binding")? {
        0 => Binding::Auto,
        1 => Binding::Core,
        2 => Binding::None,
        other => return Err(Malformed::new("binding", "0 to 2", other)),
    };
    Ok(RankCare { heartbeat_ms, binding })
}

fn read_change(from: &mut Reader<'_>) -> Result<Change, Malformed> {
    let life = RankIncarnation::new(from.u32("rank")?, from.u32("incarnation")?);
    if life.rank as usize >= RANKS_MAX {
        return Err(Malformed::new("rank", format!("below {RANKS_MAX}"), life.rank));
    }
    let node = from.u16("node")?;
    let state = from.u8("state")?;
    let state =
        RankState::from_u8(state).ok_or_else(|| Malformed::new("state", "0 to 4", state))?;
    match from.u8("byte 11")? {
        0 => Ok(Change { life, node, state }),
        other => Err(Malformed::new("byte 11", 0, other)),
    }
}

fn read_program(from: &mut Reader<'_>) -> Result<Program, Malformed> {
    let program = Program {
        app: from.u32("app")?,
        directory: from.bytes("directory")?,
        arguments: from.list("arguments", 4, |from| from.bytes("argument"))?,
        environment: from
            .list("environment", 8, |from| Ok((from.bytes("name")?, from.bytes("value")?)))?,
    };
    if strings(&program).any(|string| string.contains(&0)) {
        return Err(Malformed::new("strings", "no byte that is 0", "one"));
    }
    match program.arguments.first().is_some_and(|program| !program.is_empty()) {
        true => Ok(program),
        false => Err(Malformed::new("arguments", "the name of a program", "none")),
    }
}

/// What becomes strings of C.
fn strings(program: &Program) -> impl Iterator<Item = &Vec<u8>> {
    let pairs = program.environment.iter().flat_map(|(name, value)| [name, value]);
    program.arguments.iter().chain([&program.directory]).chain(pairs)
}

fn read_end(from: &mut Reader<'_>) -> Result<End, Malformed> {
    let (kind, value, why) = (from.u32("kind")?, from.i32("value")?, from.text("why")?);
    match kind {
        1 | 2 if !why.is_empty() => Err(Malformed::new("why", "nothing", why)),
        1 => Ok(End::Exited(value)),
        2 => checked_signal(value).map(End::Signal),
        3 => Ok(End::NotStarted(value, why)),
        _ => Err(Malformed::new("kind of end", "1 to 3", kind)),
    }
}

fn read_logging(from: &mut Reader<'_>) -> Result<Logging, Malformed> {
    let protocol = match from.u32("protocol")? {
        1 => LoggingProtocol::Pessimistic,
        2 => LoggingProtocol::Causal,
        other => return Err(Malformed::new("protocol", "1 or 2", other)),
    };
    let events = match from.u32("events")? {
        1 => EventKind::Nondeterministic,
        2 => EventKind::All,
        other => return Err(Malformed::new("events", "1 or 2", other)),
    };
    let (kind, copies) = (from.u32("durability")?, from.u32("copies")?);
    let folder = from.bytes("folder")?;
    let durability = match (kind, copies, folder.is_empty()) {
        (1, 0, true) => Durability::Process,
        (2, 0, false) if !folder.contains(&0) => Durability::Disk(folder),
        (3, 1..=COPIES_MAX, true) => Durability::Copies(copies),
        _ => {
            let expected = "1; 2 with a folder; or 3 with 1 to 8 copies";
            let got = format!("{kind} with {copies} copies and {} bytes", folder.len());
            return Err(Malformed::new("durability", expected, got));
        }
    };
    let memory = from.u64("memory")?;
    let sets = from.list("sets", 4, |from| from.u32("set"))?;
    Ok(Logging { protocol, events, durability, memory, sets })
}

fn read_node(from: &mut Reader<'_>) -> Result<NodeId, Malformed> {
    let node = from.u32("node")?;
    let known = NodeId::try_from(node).ok().filter(|node| usize::from(*node) < NODES_MAX);
    known.ok_or_else(|| Malformed::new("node", format!("below {NODES_MAX}"), node))
}

fn read_bring(from: &mut Reader<'_>) -> Result<BringOrder, Malformed> {
    let (copy, epoch, node) = (from.u64("copy")?, from.u64("epoch")?, read_node(from)?);
    match copy {
        0 => Err(Malformed::new("copy", "1 or more", copy)),
        _ if epoch <= copy => Err(Malformed::new("epoch", format!("above {copy}"), epoch)),
        _ => Ok(BringOrder { copy, epoch, node, address: from.text("address")? }),
    }
}

fn read_copy(from: &mut Reader<'_>) -> Result<CopyOrder, Malformed> {
    let (epoch, logger) = (from.u64("epoch")?, from.u32("logger")?);
    if !(1..COPIES_MAX).contains(&logger) {
        return Err(Malformed::new("logger", format!("1 to {}", COPIES_MAX - 1), logger));
    }
    let node = read_node(from)?;
    match epoch {
        0 => Err(Malformed::new("epoch", "1 or more", epoch)),
        _ => Ok(CopyOrder { epoch, logger, node, address: from.text("address")? }),
    }
}

fn read_link(life: RankIncarnation, from: &mut Reader<'_>) -> Result<Frame, Malformed> {
    let peer = RankIncarnation::new(from.u32("peer")?, from.u32("incarnation of the peer")?);
    if peer.rank as usize >= RANKS_MAX {
        return Err(Malformed::new("peer", format!("below {RANKS_MAX}"), peer.rank));
    }
    let (state, why) = (from.u32("state of the link")?, from.text("why")?);
    match state {
        1 => Ok(Frame::Link { life, peer, down: Some(why) }),
        2 if why.is_empty() => Ok(Frame::Link { life, peer, down: None }),
        2 => Err(Malformed::new("why", "nothing", why)),
        _ => Err(Malformed::new("state of the link", "1 or 2", state)),
    }
}

fn read_held(from: &mut Reader<'_>) -> Result<Frame, Malformed> {
    let number = from.u64("question")?;
    let more = match from.u32("more")? {
        0 => false,
        1 => true,
        other => return Err(Malformed::new("more", "0 or 1", other)),
    };
    let determinants = from.rest();
    match determinants.len() % DETERMINANT {
        0 => Ok(Frame::Held { number, more, determinants }),
        _ => Err(Malformed::new("determinants", "40 bytes each", determinants.len())),
    }
}

fn read_left(from: &mut Reader<'_>) -> Result<LeftBehind, Malformed> {
    let (events, number, covered) =
        (from.u64("events")?, from.u64("checkpoint")?, from.u64("events of the checkpoint")?);
    match (number, covered) {
        (0, 0) => Ok(LeftBehind { events, checkpoint: None }),
        (0, _) => Err(Malformed::new("events of the checkpoint", "0 without one", covered)),
        _ => {
            let checkpoint = LastCheckpoint { number, events: covered };
            Ok(LeftBehind { events, checkpoint: Some(checkpoint) })
        }
    }
}

fn read_member(from: &mut Reader<'_>) -> Result<Member, Malformed> {
    let kind = from.u32("kind")?;
    let event = (kind as usize).checked_sub(1).and_then(|at| MemberEvent::ALL.get(at).copied());
    Ok(Member {
        event: event.ok_or_else(|| Malformed::new("kind of event", "1 to 10", kind))?,
        pid: from.u32("pid")?,
        value: from.i64("value")?,
        text: from.text("text")?,
    })
}
