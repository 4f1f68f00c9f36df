//! The four packets of the handshake as bytes.

use super::{CHALLENGE, HELLO, Nonce, PROOF, Rejected, Standing, VERSION, Verdict, WELCOME};
use taffrail_fabric::Incarnation;

const HELLO_MARK: [u8; 8] = *b"TAFFRAIL";
const CHALLENGE_MARK: [u8; 4] = *b"TFCH";
const PROOF_MARK: [u8; 4] = *b"TFPR";
const WELCOME_MARK: [u8; 4] = *b"TFWE";

/// Bytes of a PROOF and of a WELCOME before their proof.
pub(super) const PROVEN_BY_CLIENT: usize = PROOF - 32;
pub(super) const PROVEN_BY_SERVER: usize = WELCOME - 32;

/// First packet: both ranks and incarnations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    pub(crate) from: u32,
    pub(crate) to: u32,
    pub(crate) incarnation: Incarnation,
    /// The incarnation of `to` that is called.
    pub(crate) wanted: Incarnation,
    pub(crate) job: [u8; 16],
    pub(crate) nonce: Nonce,
}

/// Takes numbers out of bytes, from the front.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    #[expect(clippy::expect_used, reason = "packets have fixed lengths, and are read whole before")]
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (array, behind) = self.0.split_first_chunk().expect("packets have fixed lengths");
        self.0 = behind;
        *array
    }

    fn u16(&mut self) -> u16 {
        u16::from_le_bytes(self.array())
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

/// Puts parts one behind the other. They fill the array.
#[expect(clippy::expect_used, reason = "the lengths of the parts are constants")]
fn join<const N: usize>(parts: &[&[u8]]) -> [u8; N] {
    parts.concat().try_into().expect("parts of fixed lengths")
}

impl Hello {
    pub(crate) fn encode(&self) -> [u8; HELLO] {
        join(&[
            &HELLO_MARK,
            &VERSION.to_le_bytes(),
            &[0; 2],
            &self.from.to_le_bytes(),
            &self.to.to_le_bytes(),
            &self.incarnation.0.to_le_bytes(),
            &self.wanted.0.to_le_bytes(),
            &[0; 4],
            &self.job,
            &self.nonce,
        ])
    }

    pub(crate) fn decode(bytes: &[u8; HELLO]) -> Result<Hello, Rejected> {
        let mut reader = Reader(bytes);
        if reader.array() != HELLO_MARK {
            return Err(Rejected::Garbage("its first packet"));
        }
        version(reader.u16())?;
        let zero = reader.u16();
        let (from, to) = (reader.u32(), reader.u32());
        let (incarnation, wanted) = (Incarnation(reader.u32()), Incarnation(reader.u32()));
        if (zero, reader.u32()) != (0, 0) {
            return Err(Rejected::Garbage("its first packet"));
        }
        let (job, nonce) = (reader.array(), reader.array());
        Ok(Hello { from, to, incarnation, wanted, job, nonce })
    }
}

fn version(got: u16) -> Result<(), Rejected> {
    if got == VERSION { Ok(()) } else { Err(Rejected::Version { got }) }
}

pub(super) fn encode_challenge(nonce: &Nonce) -> [u8; CHALLENGE] {
    join(&[&CHALLENGE_MARK, &VERSION.to_le_bytes(), &[0; 2], nonce])
}

pub(super) fn decode_challenge(bytes: &[u8; CHALLENGE]) -> Result<Nonce, Rejected> {
    let mut reader = Reader(bytes);
    if reader.array() != CHALLENGE_MARK {
        return Err(Rejected::Garbage("its challenge"));
    }
    version(reader.u16())?;
    if reader.u16() != 0 {
        return Err(Rejected::Garbage("its challenge"));
    }
    Ok(reader.array())
}

pub(super) fn encode_proof(standing: &Standing) -> [u8; PROVEN_BY_CLIENT] {
    join(&[
        &PROOF_MARK,
        &standing.accepted.to_le_bytes(),
        &standing.session.to_le_bytes(),
        &standing.peer_session.to_le_bytes(),
        &standing.received.to_le_bytes(),
    ])
}

/// Reads what the proof was made for. The proof itself is the last 32 bytes, and is checked by the caller.
pub(super) fn decode_proof(bytes: &[u8; PROOF]) -> Result<Standing, Rejected> {
    let mut reader = Reader(bytes);
    if reader.array() != PROOF_MARK {
        return Err(Rejected::Garbage("its proof"));
    }
    let accepted = reader.u32();
    let (session, peer_session, received) = (reader.u64(), reader.u64(), reader.u64());
    if session == 0 {
        return Err(Rejected::Garbage("its proof"));
    }
    Ok(Standing { session, peer_session, received, accepted })
}

pub(super) fn encode_welcome(
    verdict: Verdict,
    standing: &Standing,
    incarnation: Incarnation,
) -> [u8; PROVEN_BY_SERVER] {
    join(&[
        &WELCOME_MARK,
        &verdict.code().to_le_bytes(),
        &standing.session.to_le_bytes(),
        &standing.peer_session.to_le_bytes(),
        &standing.received.to_le_bytes(),
        &standing.accepted.to_le_bytes(),
        &incarnation.0.to_le_bytes(),
    ])
}

/// As [`decode_proof`].
pub(super) fn decode_welcome(
    bytes: &[u8; WELCOME],
) -> Result<(Verdict, Standing, Incarnation), Rejected> {
    let mut reader = Reader(bytes);
    if reader.array() != WELCOME_MARK {
        return Err(Rejected::Garbage("its answer"));
    }
    let code = reader.u32();
    let (session, peer_session, received) = (reader.u64(), reader.u64(), reader.u64());
    let (accepted, incarnation) = (reader.u32(), Incarnation(reader.u32()));
    let verdict = Verdict::ALL.into_iter().find(|verdict| verdict.code() == code);
    let verdict = verdict.ok_or(Rejected::Garbage("its answer"))?;
    if verdict == Verdict::Welcome && session == 0 {
        return Err(Rejected::Garbage("its answer"));
    }
    Ok((verdict, Standing { session, peer_session, received, accepted }, incarnation))
}
