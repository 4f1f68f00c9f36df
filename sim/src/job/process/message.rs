//! The bytes of messages: each says which one it is, and all follow from its words.

use crate::call::{Body, KEYS, Message, NUMBERED};
use taffrail_engine::one_sided::RemoteMemory;
use taffrail_engine::{Data, Rank, Status};
use taffrail_logging::MsgId;

/// Bytes of a message by the pieces that the program asks for: in one, in several, and announced.
const LENS: [usize; 3] = [32, 120, 700];
/// Bytes that every message has: its words, and which one it is.
const FRONT: usize = 32;

/// The bytes of a message: its words, which one it is, and as many more as make it as long as it is to be.
pub(super) fn encode(body: &Body, name: (u16, u32)) -> Box<[u8]> {
    let mut bytes = front(body.words, name);
    let len = LENS[usize::from(body.pieces - 1)];
    bytes.extend((FRONT..len).map(|at| fill(body.words[0], at)));
    bytes.into()
}

/// The bytes of a message that carries a key.
pub(super) fn encode_key(words: [u64; 3], name: (u16, u32), key: &RemoteMemory) -> Box<[u8]> {
    [&front(words, name)[..], &key.to_bytes()].concat().into()
}

fn front(words: [u64; 3], (context, seq): (u16, u32)) -> Vec<u8> {
    let name = u64::from(context) << 32 | u64::from(seq);
    words.iter().chain([&name]).flat_map(|word| word.to_le_bytes()).collect()
}

/// What a message has beside its payload.
pub(super) fn data(words: [u64; 3], context: u16) -> Data {
    if context == NUMBERED { Data::new(words[0] as u32) } else { Data::NONE }
}

/// The message that these bytes are, and the key that it carries.
pub(crate) fn decode(bytes: &[u8], status: Status) -> (Message, Option<RemoteMemory>) {
    assert!(bytes.len() >= FRONT, "whole-message: {} bytes", bytes.len());
    let word = |k: usize| u64::from_le_bytes(bytes[8 * k..][..8].try_into().expect("8 bytes"));
    let (words, name) = ([word(0), word(1), word(2)], word(3));
    let (context, seq, source) = ((name >> 32) as u16, name as u32, status.source);
    assert_eq!(status.data, data([word(0), word(1), word(2)], context), "whole-message");
    let message = Message { name: MsgId { source, context, seq }, tag: status.tag, words };
    if context == KEYS {
        let key = bytes[FRONT..].try_into().expect("a key behind the words");
        return (message, Some(RemoteMemory::from_bytes(key)));
    }
    check(bytes, source);
    (message, None)
}

/// Fails unless these are the bytes of one message.
pub(crate) fn check(bytes: &[u8], source: Rank) {
    let first = u64::from_le_bytes(bytes[..8].try_into().expect("8 bytes"));
    let whole =
        LENS.contains(&bytes.len()) && (FRONT..bytes.len()).all(|at| bytes[at] == fill(first, at));
    assert!(
        whole,
        "whole-message: bytes of another message, or none, behind the word {first:x} of {source}"
    );
}

fn fill(word: u64, at: usize) -> u8 {
    (word as u8).wrapping_mul(31).wrapping_add(at as u8)
}
