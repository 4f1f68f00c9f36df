//! The side that calls.

use super::bytes::{
    Hello, PROVEN_BY_CLIENT, PROVEN_BY_SERVER, decode_challenge, decode_welcome, encode_proof,
};
use super::{
    CHALLENGE, CLIENT, HELLO, Identity, Nonce, PROOF, Rejected, SERVER, Standing, Verdict, WELCOME,
};
use taffrail_fabric::Incarnation;

/// A handshake that this process has begun.
#[derive(Debug)]
pub struct Client {
    /// All packets so far.
    transcript: Vec<u8>,
    /// Where the packet that is awaited ends.
    end: usize,
}

/// What is to be done after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientStep {
    /// To read more.
    More,
    /// To send this, and read more.
    Send([u8; PROOF]),
    /// The server has proven itself, and decided.
    Answer {
        /// Whether the connection is to be used.
        verdict: Verdict,
        /// What it says of the stream.
        standing: Standing,
        /// Which start of its rank it is.
        incarnation: Incarnation,
    },
}

impl Client {
    /// A handshake with incarnation `wanted` of rank `to`, and its first packet.
    pub fn new(me: &Identity, to: u32, wanted: Incarnation, nonce: Nonce) -> (Client, [u8; HELLO]) {
        let (from, incarnation, job) = (me.rank, me.incarnation, me.job);
        let hello = Hello { from, to, incarnation, wanted, job, nonce }.encode();
        (Client { transcript: hello.to_vec(), end: HELLO + CHALLENGE }, hello)
    }

    /// How many bytes it can take now. 0: the handshake is complete.
    pub fn wants(&self) -> usize {
        self.end - self.transcript.len()
    }

    /// Takes what has come. The standing is what this side has to say when it is challenged.
    ///
    /// # Errors
    /// [`Rejected`]: the connection is to be dropped.
    ///
    /// # Panics
    /// If these are more bytes than it wants.
    pub fn take(
        &mut self,
        bytes: &[u8],
        me: &Identity,
        standing: &Standing,
    ) -> Result<ClientStep, Rejected> {
        assert!(bytes.len() <= self.wants(), "more than was asked for");
        self.transcript.extend_from_slice(bytes);
        if bytes.is_empty() || self.transcript.len() < self.end {
            return Ok(ClientStep::More);
        }
        match self.end == HELLO + CHALLENGE {
            true => self.challenge(me, standing),
            false => self.welcome(me),
        }
    }

    fn challenge(&mut self, me: &Identity, standing: &Standing) -> Result<ClientStep, Rejected> {
        let Some((_, challenge)) = self.transcript.split_last_chunk() else {
            return Ok(ClientStep::More);
        };
        decode_challenge(challenge)?;
        let mut packet = [0; PROOF];
        let fields = encode_proof(standing);
        packet[..PROVEN_BY_CLIENT].copy_from_slice(&fields);
        let proof = me.secret.prove(&[CLIENT, &self.transcript, &fields]);
        packet[PROVEN_BY_CLIENT..].copy_from_slice(&proof);
        self.transcript.extend_from_slice(&packet);
        self.end = HELLO + CHALLENGE + PROOF + WELCOME;
        Ok(ClientStep::Send(packet))
    }

    fn welcome(&mut self, me: &Identity) -> Result<ClientStep, Rejected> {
        let Some((_, welcome)) = self.transcript.split_last_chunk::<WELCOME>() else {
            return Ok(ClientStep::More);
        };
        let Some((_, proof)) = welcome.split_last_chunk() else { return Ok(ClientStep::More) };
        let proven = &self.transcript[..HELLO + CHALLENGE + PROOF + PROVEN_BY_SERVER];
        if !me.secret.verifies(&[SERVER, proven], proof) {
            return Err(Rejected::Secret);
        }
        let (verdict, standing, incarnation) = decode_welcome(welcome)?;
        Ok(ClientStep::Answer { verdict, standing, incarnation })
    }
}
