//! The side that was called.

use super::bytes::{
    Hello, PROVEN_BY_CLIENT, PROVEN_BY_SERVER, decode_proof, encode_challenge, encode_welcome,
};
use super::{
    CHALLENGE, CLIENT, HELLO, Identity, Nonce, PROOF, Rejected, SERVER, Standing, Verdict, WELCOME,
};
use taffrail_fabric::Incarnation;

/// A handshake that somebody else has begun.
#[derive(Debug)]
pub struct Server {
    nonce: Nonce,
    /// HELLO, CHALLENGE and PROOF, as far as they are here.
    transcript: Vec<u8>,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hello,
    Proof(Hello),
    Over,
}

/// What is to be done after some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStep {
    /// To read more.
    More,
    /// To send this, and read more.
    Send([u8; CHALLENGE]),
    /// To decide on a process of the job, and [answer](Server::answer).
    Proven(Proven),
}

/// A process that has proven that it knows the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Proven {
    /// Its rank, which is not the server's own.
    pub rank: u32,
    /// Which start of the rank it is.
    pub incarnation: Incarnation,
    /// Which incarnation of the server it looks for.
    pub wanted: Incarnation,
    /// What it says of the stream.
    pub standing: Standing,
}

impl Server {
    /// A server that is going to send this nonce.
    pub fn new(nonce: Nonce) -> Server {
        Server { nonce, transcript: Vec::new(), state: State::Hello }
    }

    /// How many bytes it can take now. 0: the handshake is complete.
    pub fn wants(&self) -> usize {
        let end = match self.state {
            State::Hello => HELLO,
            State::Proof(_) => HELLO + CHALLENGE + PROOF,
            State::Over => return 0,
        };
        end - self.transcript.len()
    }

    /// Takes what has come, in a job of `ranks` ranks.
    ///
    /// # Errors
    /// [`Rejected`]: the connection is to be dropped without an answer.
    ///
    /// # Panics
    /// If these are more bytes than it wants.
    pub fn take(
        &mut self,
        bytes: &[u8],
        me: &Identity,
        ranks: u32,
    ) -> Result<ServerStep, Rejected> {
        assert!(bytes.len() <= self.wants(), "more than was asked for");
        self.transcript.extend_from_slice(bytes);
        match self.state {
            State::Hello => self.hello(me, ranks),
            State::Proof(hello) => self.proof(hello, me),
            State::Over => Ok(ServerStep::More),
        }
    }

    fn hello(&mut self, me: &Identity, ranks: u32) -> Result<ServerStep, Rejected> {
        let Ok(bytes) = self.transcript[..].try_into() else { return Ok(ServerStep::More) };
        let hello = Hello::decode(bytes)?;
        let Hello { from, to, .. } = hello;
        if hello.job != me.job {
            return Err(Rejected::Job);
        }
        if to != me.rank || from == to || from >= ranks {
            return Err(Rejected::Rank { from, to });
        }
        self.state = State::Proof(hello);
        let challenge = encode_challenge(&self.nonce);
        self.transcript.extend_from_slice(&challenge);
        Ok(ServerStep::Send(challenge))
    }

    fn proof(&mut self, hello: Hello, me: &Identity) -> Result<ServerStep, Rejected> {
        let Some(bytes) = self.transcript.get(HELLO + CHALLENGE..) else {
            return Ok(ServerStep::More);
        };
        let Ok(bytes): Result<&[u8; PROOF], _> = bytes.try_into() else {
            return Ok(ServerStep::More);
        };
        let Some((_, proof)) = bytes.split_last_chunk() else { return Ok(ServerStep::More) };
        let proven = &self.transcript[..HELLO + CHALLENGE + PROVEN_BY_CLIENT];
        if !me.secret.verifies(&[CLIENT, proven], proof) {
            return Err(Rejected::Secret);
        }
        let standing = decode_proof(bytes)?;
        self.state = State::Over;
        let (rank, incarnation, wanted) = (hello.from, hello.incarnation, hello.wanted);
        Ok(ServerStep::Proven(Proven { rank, incarnation, wanted, standing }))
    }

    /// The last packet, to a process that has proven itself.
    pub fn answer(&self, verdict: Verdict, standing: &Standing, me: &Identity) -> [u8; WELCOME] {
        let mut bytes = [0; WELCOME];
        let welcome = encode_welcome(verdict, standing, me.incarnation);
        bytes[..PROVEN_BY_SERVER].copy_from_slice(&welcome);
        let proof = me.secret.prove(&[SERVER, &self.transcript, &welcome]);
        bytes[PROVEN_BY_SERVER..].copy_from_slice(&proof);
        bytes
    }
}
