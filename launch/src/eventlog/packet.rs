//! What the event logger and its starter tell each other: `docs/logging.md`, section 10. Bytes in, a
//! validated copy out.

const SERVE: u64 = u64::from_le_bytes(*b"TAFFEVSV");
const READY: u64 = u64::from_le_bytes(*b"TAFFEVRD");
const FETCH: u64 = u64::from_le_bytes(*b"TAFFEVFE");
const EVENTS: u64 = u64::from_le_bytes(*b"TAFFEVEV");
const TOLD: u64 = u64::from_le_bytes(*b"TAFFEVTD");
const SECRET: u64 = u64::from_le_bytes(*b"TAFFEVSC");
const LISTENS: u64 = u64::from_le_bytes(*b"TAFFEVLI");
const COPY: u64 = u64::from_le_bytes(*b"TAFFEVCO");
const COPIED: u64 = u64::from_le_bytes(*b"TAFFEVCD");
const LOST: u64 = u64::from_le_bytes(*b"TAFFEVLO");
const FETCH_CHECKPOINT: u64 = u64::from_le_bytes(*b"TAFFEVFC");
const CHECKPOINT: u64 = u64::from_le_bytes(*b"TAFFEVCP");
const BRING: u64 = u64::from_le_bytes(*b"TAFFEVBR");
const VERSION: u32 = 7;

/// Bytes of a packet without text.
const LEN: usize = 40;
/// Bytes of text in a packet at most.
const TEXT: usize = 480;
/// No packet is longer, in bytes.
pub const LONGEST: usize = LEN + TEXT;

/// Rings have at most so many records.
const MAX_RECORDS: u64 = 1 << 32;

/// A field that is not what the format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event logger's packet, {field}: expected {expected}, got {got}")]
pub struct Malformed {
    /// Which field.
    pub field: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What was there.
    pub got: String,
}

/// A packet, without its descriptors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Packet {
    /// To the logger: keep the events of this rank. With its ring and, where events are kept in
    /// memory, their store, or what a copy of it begins with.
    Serve {
        /// The rank.
        rank: u32,
        /// Digest of the job's identity.
        job: u64,
        /// Records that the ring has room for.
        capacity: u64,
        /// The number of its set, whose events are stable together.
        set: u32,
        /// How many ranks that has.
        members: u32,
    },
    /// From the logger: it keeps them.
    Ready {
        /// The rank.
        rank: u32,
        /// The clock of the last event that is stable already.
        kept: u64,
        /// Bytes at the end that were cut off, for nobody had finished writing them.
        cut: u64,
    },
    /// To the logger: give me all events of this rank, which is dead.
    Fetch {
        /// The rank.
        rank: u32,
        /// To a copy store: the order by which it has the copy. To an event logger: 0.
        epoch: u64,
    },
    /// From the logger: here they are, with a file.
    Events {
        /// The rank.
        rank: u32,
        /// How many they are.
        count: u64,
    },
    /// To a copy store: give me the last checkpoint that it has of this rank, whose events it has handed out.
    FetchCheckpoint {
        /// The rank.
        rank: u32,
        /// The order by which it has the copy.
        epoch: u64,
    },
    /// From a copy store: here it is, with its file, the places of the segments of the log, and these; or there is none.
    Checkpoint {
        /// The rank.
        rank: u32,
        /// Its number; 0: there is none.
        number: u64,
        /// The incarnation that has taken it.
        incarnation: u64,
    },
    /// From the logger: something has happened.
    Told(Told),
    /// To an event logger that copies to another node, or to a copy store: who it is among the nodes of the job. With
    /// the job's secret, and the counters of what its listener refuses.
    Secret {
        /// The number of its node.
        node: u32,
        /// Digest of the job's identity.
        job: u64,
        /// How many nodes there are.
        nodes: u32,
    },
    /// From a copy store: it is there.
    Listens {
        /// Its address and port.
        address: String,
    },
    /// To an event logger: copy everything to this copy store from now on.
    Copy {
        /// The number of this order, more than that of the one before.
        epoch: u64,
        /// The node.
        node: u32,
        /// The address and port. Empty: to nobody.
        address: String,
    },
    /// To a copy store: bring the log of this rank, of which you have a copy, to that of another node. Answered by `Copied` or
    /// `Lost`.
    Bring {
        /// The rank.
        rank: u32,
        /// The order by which it has the copy.
        copy: u64,
        /// The number of this order.
        epoch: u64,
        /// The node.
        node: u32,
        /// The address and port.
        address: String,
    },
    /// From an event logger: all of it is there.
    Copied {
        /// The number of the order.
        epoch: u64,
    },
    /// From an event logger: it cannot be brought there.
    Lost {
        /// The number of the order.
        epoch: u64,
        /// Why.
        why: String,
    },
}

impl std::fmt::Display for Packet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let what = match self {
            Packet::Serve { .. } => "serve",
            Packet::Ready { .. } => "ready",
            Packet::Fetch { .. } => "fetch",
            Packet::Events { .. } => "events",
            Packet::FetchCheckpoint { .. } => "fetch checkpoint",
            Packet::Checkpoint { .. } => "checkpoint",
            Packet::Told(_) => "news",
            Packet::Bring { .. } => "bring",
            Packet::Secret { .. } => return f.write_str("`secret`"),
            Packet::Listens { .. } => return f.write_str("`listens`"),
            Packet::Copy { .. } => return f.write_str("`copy`"),
            Packet::Copied { .. } => return f.write_str("`copied`"),
            Packet::Lost { .. } => return f.write_str("`lost`"),
        };
        write!(f, "`{what}` of rank {}", self.rank())
    }
}

/// What the logger says about a rank.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("event logger: {text}")]
pub struct Told {
    /// The rank.
    pub rank: u32,
    /// What kind of news it is.
    pub what: What,
    /// In words.
    pub text: String,
}

/// Kinds of news.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Events cannot be kept now: the rank waits.
    Waiting,
    /// They can be kept again.
    Resumed,
    /// The ring is damaged: nothing more of it is kept.
    Damaged,
    /// What was asked for cannot be done.
    Refused,
}

const KINDS: [What; 4] = [What::Waiting, What::Resumed, What::Damaged, What::Refused];

impl Told {
    /// The text is cut off where a packet ends.
    pub fn new(rank: u32, what: What, text: &impl ToString) -> Self {
        let mut text = text.to_string();
        text.truncate(text.floor_char_boundary(TEXT));
        Told { rank, what, text }
    }
}

impl Packet {
    /// What was ordered cannot be done. The reason is cut off where a packet ends.
    pub fn lost(epoch: u64, why: &impl ToString) -> Packet {
        let Told { text, .. } = Told::new(0, What::Refused, why);
        Packet::Lost { epoch, why: text }
    }

    /// The rank that it is about, or the node.
    pub fn rank(&self) -> u32 {
        match self {
            Packet::Serve { rank, .. }
            | Packet::Ready { rank, .. }
            | Packet::Fetch { rank, .. }
            | Packet::Events { rank, .. }
            | Packet::FetchCheckpoint { rank, .. }
            | Packet::Checkpoint { rank, .. }
            | Packet::Bring { rank, .. }
            | Packet::Told(Told { rank, .. }) => *rank,
            Packet::Secret { node, .. } | Packet::Copy { node, .. } => *node,
            Packet::Listens { .. } | Packet::Copied { .. } | Packet::Lost { .. } => 0,
        }
    }

    /// How many descriptors come with it: two with SERVE where events are kept in memory.
    pub fn descriptors(&self, in_memory: bool) -> usize {
        match self {
            Packet::Serve { .. } => 1 + usize::from(in_memory),
            Packet::Events { .. } => 1,
            Packet::Secret { .. } => 2,
            Packet::Checkpoint { number: 1.., .. } => 3,
            _ => 0,
        }
    }

    /// The bytes.
    #[expect(clippy::expect_used, reason = "KINDS has every kind")]
    pub fn encode(&self) -> Vec<u8> {
        let (mut set, mut members) = (0, 0);
        let (magic, rank, a, b, text) = match self {
            Packet::Serve { rank, job, capacity, set: number, members: count } => {
                (set, members) = (*number, *count);
                (SERVE, *rank, *job, *capacity, "")
            }
            Packet::Ready { rank, kept, cut } => (READY, *rank, *kept, *cut, ""),
            Packet::Fetch { rank, epoch } => (FETCH, *rank, *epoch, 0, ""),
            Packet::Events { rank, count } => (EVENTS, *rank, *count, 0, ""),
            Packet::FetchCheckpoint { rank, epoch } => (FETCH_CHECKPOINT, *rank, *epoch, 0, ""),
            Packet::Checkpoint { rank, number, incarnation } => {
                (CHECKPOINT, *rank, *number, *incarnation, "")
            }
            Packet::Told(Told { rank, what, text }) => {
                let kind = KINDS.iter().position(|kind| kind == what).expect("all kinds") as u64;
                (TOLD, *rank, kind + 1, text.len() as u64, text.as_str())
            }
            Packet::Secret { node, job, nodes } => (SECRET, *node, *job, u64::from(*nodes), ""),
            Packet::Listens { address } => (LISTENS, 0, 0, address.len() as u64, address.as_str()),
            Packet::Copy { epoch, node, address } => {
                (COPY, *node, *epoch, address.len() as u64, address.as_str())
            }
            Packet::Bring { rank, copy, epoch, node, address } => {
                (set, members) = (*node, address.len() as u32);
                (BRING, *rank, *epoch, *copy, address.as_str())
            }
            Packet::Copied { epoch } => (COPIED, 0, *epoch, 0, ""),
            Packet::Lost { epoch, why } => (LOST, 0, *epoch, why.len() as u64, why.as_str()),
        };
        let mut bytes = Vec::with_capacity(LEN + text.len());
        bytes.extend(magic.to_le_bytes());
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(rank.to_le_bytes());
        bytes.extend(a.to_le_bytes());
        bytes.extend(b.to_le_bytes());
        bytes.extend(u32::to_le_bytes(set));
        bytes.extend(u32::to_le_bytes(members));
        bytes.extend(text.as_bytes());
        bytes
    }
}

fn kind(number: u64) -> Option<What> {
    KINDS.get(usize::try_from(number).ok()?.checked_sub(1)?).copied()
}

/// Reads a packet.
///
/// # Errors
/// [`Malformed`], naming the first field that is wrong.
pub fn decode(bytes: &[u8]) -> Result<Packet, Malformed> {
    let wrong = |field, expected: &str, got: String| {
        Err(Malformed { field, expected: expected.into(), got })
    };
    let Some((head, text)) = bytes.split_first_chunk::<LEN>() else {
        return wrong("length", "40 bytes or more", bytes.len().to_string());
    };
    let words = head.as_chunks::<8>().0;
    let [magic, middle, a, b, last] = [0, 1, 2, 3, 4].map(|n| u64::from_le_bytes(words[n]));
    let (version, rank) = (middle as u32, (middle >> 32) as u32);
    let (set, members) = (last as u32, (last >> 32) as u32);
    if version != VERSION {
        return wrong("version", "7", version.to_string());
    }
    let has_text = matches!(magic, TOLD | LISTENS | COPY | LOST);
    let expected = match magic {
        BRING => members.into(),
        _ if has_text => b,
        _ => 0,
    };
    if expected != text.len() as u64 || text.len() > TEXT {
        return wrong(
            "text",
            &format!("{} bytes", expected.min(TEXT as u64)),
            text.len().to_string(),
        );
    }
    if ![SERVE, BRING].contains(&magic) && last != 0 {
        return wrong("set and members", "0", format!("{set}, {members}"));
    }
    let text = match std::str::from_utf8(text) {
        Ok(text) => text.to_owned(),
        Err(e) => return wrong("text", "UTF-8", e.to_string()),
    };
    match magic {
        LISTENS | COPIED | LOST if rank != 0 => wrong("rank", "0", rank.to_string()),
        LISTENS if a != 0 => wrong("third word", "0", a.to_string()),
        LISTENS => Ok(Packet::Listens { address: text }),
        COPY => Ok(Packet::Copy { epoch: a, node: rank, address: text }),
        BRING => Ok(Packet::Bring { rank, copy: b, epoch: a, node: set, address: text }),
        COPIED if b != 0 => wrong("fourth word", "0", b.to_string()),
        COPIED => Ok(Packet::Copied { epoch: a }),
        LOST => Ok(Packet::Lost { epoch: a, why: text }),
        SECRET => match u32::try_from(b) {
            Ok(nodes) => Ok(Packet::Secret { node: rank, job: a, nodes }),
            Err(_) => wrong("nodes", "32 bits", b.to_string()),
        },
        SERVE if members == 0 => wrong("members", "1 or more", "0".into()),
        SERVE if !b.is_power_of_two() || b > MAX_RECORDS => {
            wrong("capacity", "a power of two up to 2^32", b.to_string())
        }
        SERVE => Ok(Packet::Serve { rank, job: a, capacity: b, set, members }),
        READY => Ok(Packet::Ready { rank, kept: a, cut: b }),
        FETCH | EVENTS | FETCH_CHECKPOINT if b != 0 => wrong("fourth word", "0", b.to_string()),
        FETCH => Ok(Packet::Fetch { rank, epoch: a }),
        EVENTS => Ok(Packet::Events { rank, count: a }),
        FETCH_CHECKPOINT => Ok(Packet::FetchCheckpoint { rank, epoch: a }),
        CHECKPOINT => Ok(Packet::Checkpoint { rank, number: a, incarnation: b }),
        TOLD => match kind(a) {
            Some(what) => Ok(Packet::Told(Told { rank, what, text })),
            None => wrong("kind of news", "1 to 4", a.to_string()),
        },
        _ => {
            let expected =
                "one of TAFFEVSV, -RD, -FE, -EV, -TD, -SC, -LI, -CO, -CD, -LO, -FC, -CP, -BR";
            wrong("magic", expected, format!("{magic:#x}"))
        }
    }
}

#[cfg(test)]
mod tests;
