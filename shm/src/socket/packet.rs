//! What travels over the sockets: `docs/wire.md`, section 4. Bytes in, a validated copy out.

use super::Address;
use crate::layout::VERSION;
use taffrail_fabric::Fault;

const HELLO: u64 = u64::from_le_bytes(*b"TAFFHELO");
const REGION: u64 = u64::from_le_bytes(*b"TAFFREGN");
const FORGET: u64 = u64::from_le_bytes(*b"TAFFFORG");

/// No packet is longer, in bytes.
pub(crate) const LONGEST: usize = 256;

/// A field that is not what the format says.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: expected {expected}, got {got}")]
pub struct Malformed {
    /// Which field of which structure.
    pub place: &'static str,
    /// What would have been right.
    pub expected: String,
    /// What was there.
    pub got: String,
}

impl From<Malformed> for Fault {
    fn from(bad: Malformed) -> Self {
        Fault::Protocol { place: bad.place, expected: bad.expected, got: bad.got }
    }
}

/// First packet of a connection, in both directions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hello {
    /// The sender's rank; its own peer slot in an open job.
    pub rank: u32,
    /// Which life of that rank this is.
    pub incarnation: u32,
    /// Ranks in the job; peer slots of the sender's inbox in an open job.
    pub ranks: u32,
    /// Digest of the job's identity.
    pub job: [u64; 2],
    /// Address of the cookie, in the sender's memory.
    pub cookie_at: u64,
    /// What must be found there.
    pub cookie: u64,
    /// Length of the inbox in bytes.
    pub inbox_len: u64,
    /// Bytes beyond which the outbox never grows.
    pub outbox_max: u64,
    /// The sender cannot be fenced from outside.
    pub fenced: bool,
    /// How many restarts the job had seen when the sender was started.
    pub generation: u32,
    /// The sender's job is an open one.
    pub open: bool,
    /// The peer slot of the sender's inbox that the receiver writes, in an open job; 0 otherwise.
    pub peer_slot: u32,
    /// Where the sender listens.
    pub address: Address,
}

impl Hello {
    /// Length of the packet in bytes.
    pub const LEN: usize = 208;

    /// The packet.
    pub fn encode(&self) -> [u8; Hello::LEN] {
        let mut bytes = [0; Hello::LEN];
        let mut put = |at: usize, field: &[u8]| bytes[at..at + field.len()].copy_from_slice(field);
        put(0, &HELLO.to_le_bytes());
        put(8, &VERSION.to_le_bytes());
        put(12, &self.rank.to_le_bytes());
        put(16, &self.incarnation.to_le_bytes());
        put(20, &self.ranks.to_le_bytes());
        put(24, &self.job[0].to_le_bytes());
        put(32, &self.job[1].to_le_bytes());
        put(40, &self.cookie_at.to_le_bytes());
        put(48, &self.cookie.to_le_bytes());
        put(56, &self.inbox_len.to_le_bytes());
        put(64, &self.outbox_max.to_le_bytes());
        put(72, &u32::from(self.fenced).to_le_bytes());
        put(76, &self.generation.to_le_bytes());
        put(80, &u32::from(self.open).to_le_bytes());
        put(84, &self.peer_slot.to_le_bytes());
        let address = self.address.as_str().as_bytes();
        put(88, &(address.len() as u32).to_le_bytes());
        put(96, address);
        bytes
    }
}

/// Reads a HELLO.
///
/// # Errors
/// [`Malformed`], naming the first field that is wrong. What depends on the reader (its job, the
/// rank it expects) is the reader's business.
pub fn decode_hello(bytes: &[u8]) -> Result<Hello, Malformed> {
    // Another version may have another length: its number is checked first.
    if bytes.len() >= 12 {
        magic("HELLO, magic", HELLO, word(bytes, 0))?;
        same("HELLO, version", VERSION, half(bytes, 8))?;
    }
    same("HELLO, length", Hello::LEN, bytes.len())?;
    let (rank, ranks) = (half(bytes, 12), half(bytes, 20));
    if rank >= ranks {
        return Err(Malformed {
            place: "HELLO, rank",
            expected: format!("less than {ranks}, the number of ranks"),
            got: rank.to_string(),
        });
    }
    let fenced = yes("HELLO, fenced", half(bytes, 72))?;
    let open = yes("HELLO, open", half(bytes, 80))?;
    let peer_slot = half(bytes, 84);
    let expected = match open {
        true if peer_slot >= ranks || peer_slot == rank => Some(format!(
            "less than {ranks}, the number of peer slots, and not {rank}, the sender's own"
        )),
        false if peer_slot != 0 => Some("0 in a closed job".into()),
        _ => None,
    };
    if let Some(expected) = expected {
        return Err(Malformed { place: "HELLO, peer slot", expected, got: peer_slot.to_string() });
    }
    Ok(Hello {
        rank,
        incarnation: half(bytes, 16),
        ranks,
        job: [word(bytes, 24), word(bytes, 32)],
        cookie_at: word(bytes, 40),
        cookie: word(bytes, 48),
        inbox_len: word(bytes, 56),
        outbox_max: word(bytes, 64),
        fenced,
        generation: half(bytes, 76),
        open,
        peer_slot,
        address: address(bytes)?,
    })
}

/// The address at the end of a HELLO.
fn address(bytes: &[u8]) -> Result<Address, Malformed> {
    let len = half(bytes, 88) as usize;
    zero("HELLO, bytes 92 to 96", &bytes[92..96])?;
    if len > Address::MAX_LEN {
        return Err(Malformed {
            place: "HELLO, length of the address",
            expected: format!("at most {}", Address::MAX_LEN),
            got: len.to_string(),
        });
    }
    let (text, rest) = bytes[96..].split_at(len);
    zero("HELLO, last bytes", rest)?;
    Address::parse(text).map_err(|bad| Malformed { place: "HELLO, address", ..bad })
}

/// A word that says yes or no.
fn yes(place: &'static str, word: u32) -> Result<bool, Malformed> {
    match word {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(Malformed { place, expected: "0 or 1".into(), got: word.to_string() }),
    }
}

/// What a peer says after its HELLO, without the descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// Memory that the receiver may map from now on; a descriptor comes with it.
    Region {
        /// Its name in keys.
        region: u32,
        /// Its length in bytes.
        len: u64,
        /// How many of them count: the file is whole pages.
        used: u64,
    },
    /// A region's name is not valid any more.
    Forget {
        /// Its name in keys.
        region: u32,
    },
}

impl Notice {
    /// Descriptors that come with the packet.
    pub fn descriptors(&self) -> usize {
        match self {
            Notice::Region { .. } => 1,
            Notice::Forget { .. } => 0,
        }
    }

    /// The packet.
    pub fn encode(&self) -> Vec<u8> {
        match *self {
            Notice::Region { region, len, used } => {
                let front = [REGION, u64::from(region), len, used];
                front.iter().flat_map(|word| word.to_le_bytes()).collect()
            }
            Notice::Forget { region } => {
                [FORGET, u64::from(region)].iter().flat_map(|word| word.to_le_bytes()).collect()
            }
        }
    }
}

/// Reads a REGION or a FORGET.
///
/// # Errors
/// [`Malformed`], naming the first field that is wrong.
pub fn decode_notice(bytes: &[u8]) -> Result<Notice, Malformed> {
    if bytes.len() < 8 {
        return Err(Malformed {
            place: "packet, length",
            expected: "32 (REGION) or 16 (FORGET)".into(),
            got: bytes.len().to_string(),
        });
    }
    match word(bytes, 0) {
        REGION => {
            same("REGION, length", 32, bytes.len())?;
            zero("REGION, bytes 12 to 16", &bytes[12..16])?;
            let (region, len, used) = (name(bytes)?, word(bytes, 16), word(bytes, 24));
            if used == 0 || used > len {
                return Err(Malformed {
                    place: "REGION, used",
                    expected: format!("1 to {len}"),
                    got: used.to_string(),
                });
            }
            Ok(Notice::Region { region, len, used })
        }
        FORGET => {
            same("FORGET, length", 16, bytes.len())?;
            zero("FORGET, bytes 12 to 16", &bytes[12..16])?;
            Ok(Notice::Forget { region: name(bytes)? })
        }
        other => Err(Malformed {
            place: "packet, magic",
            expected: "TAFFREGN or TAFFFORG".into(),
            got: ascii(other),
        }),
    }
}

fn name(bytes: &[u8]) -> Result<u32, Malformed> {
    match half(bytes, 8) {
        0 => Err(Malformed { place: "packet, region", expected: "not 0".into(), got: "0".into() }),
        region => Ok(region),
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

fn half(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

/// # Errors
/// [`Malformed`] when the two differ.
pub(super) fn same<T: PartialEq + std::fmt::Display>(
    place: &'static str,
    expected: T,
    got: T,
) -> Result<(), Malformed> {
    if expected == got {
        return Ok(());
    }
    Err(Malformed { place, expected: expected.to_string(), got: got.to_string() })
}

fn magic(place: &'static str, expected: u64, got: u64) -> Result<(), Malformed> {
    same(place, ascii(expected), ascii(got))
}

fn ascii(magic: u64) -> String {
    magic.to_le_bytes().escape_ascii().to_string()
}

fn zero(place: &'static str, bytes: &[u8]) -> Result<(), Malformed> {
    if bytes.iter().all(|&byte| byte == 0) {
        return Ok(());
    }
    Err(Malformed { place, expected: "zeros".into(), got: format!("{bytes:02x?}") })
}

#[cfg(test)]
mod tests;
