//! What a rank of a job over nodes gets from its agent (`docs/spec/agent.md`, section 8).
//!
//! Values are put, and barriers entered, on the PMI-1 connection that every rank has (`PMI_FD`), whatever starts it:
//! the agent answers there. Here is what is beside it: the roster, which says where each rank runs, the secret, and the
//! counters of refused connections.

pub mod memory;

use crate::roster::{ADDRESS_MAX, Reader, RosterError, job_digest};
use crate::{Incarnation, NodeId, RankIncarnation, Secret};
use memory::{Inherited, MemoryError, RefusedMemory, RosterMemory};

/// The variables by which an agent describes the job to its ranks, beside `TAFFRAIL_JOB`, `PMI_RANK` and `PMI_SIZE`.
pub mod variable {
    /// The descriptor of the roster.
    pub const ROSTER: &str = "TAFFRAIL_ROSTER";
    /// The descriptor of the secret.
    pub const SECRET: &str = "TAFFRAIL_SECRET";
    /// The descriptor of the counters of refused connections.
    pub const REFUSED: &str = "TAFFRAIL_REFUSED";
    /// Which interfaces listeners may use; not set for any.
    pub const NETWORK: &str = "TAFFRAIL_NETWORK";
    /// The descriptor of the connection with the agent, on which the processes of a rank report.
    pub const AGENT: &str = "TAFFRAIL_OVER";
    /// The ranks that share memory with this one, where these are not those of its node: those that have begun there do, those
    /// that came from lost nodes share it with nobody.
    pub const NEAR: &str = "TAFFRAIL_NEAR";
    /// How often this rank was started before.
    pub const INCARNATION: &str = "TAFFRAIL_INCARNATION";
}

/// What a packet with an address begins with, among those that a rank sends to its agent (`docs/spec/rank-life.md`,
/// section 3).
pub const ADDRESS: u8 = b'n';

/// What a packet about a link begins with: `l`, the rank at its other end, its incarnation, and why the link is down; nothing if
/// it is up again.
pub const LINK: u8 = b'l';

/// First byte of the packet by which a rank reports that its program has completed; behind it, in 8 bytes, little endian, what the
/// incarnations of all ranks in its roster added up to.
pub const FINALIZING: u8 = b'e';

/// A rank's view of its job over nodes.
#[derive(Debug)]
pub struct Client {
    /// Where it sends packets to its agent.
    agent: Inherited,
    life: RankIncarnation,
    memory: RosterMemory,
    job: u64,
    secret: Secret,
    refused: Inherited,
    network: Option<String>,
    near: Option<Vec<u32>>,
}

/// Why a rank cannot learn of its job.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// A variable is not what an agent says.
    #[error("{name}: expected {expected}, got {got:?}; is the environment that of the agent?")]
    Variable {
        /// Its name.
        name: &'static str,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
    /// What a descriptor names is not what it should be.
    #[error("{name}: {why}; did a shell or wrapper between close it?")]
    Memory {
        /// The variable with the descriptor.
        name: &'static str,
        /// What is wrong.
        why: MemoryError,
    },
    /// The roster is not of this job.
    #[error(transparent)]
    Roster(#[from] RosterError),
}

impl Client {
    /// What `look` finds in the environment of this process. `None` where no agent has started it: then all ranks are on
    /// this host. The descriptors stay open, so this may be called again, and they are not passed on to programs that
    /// this process starts from then on.
    ///
    /// # Errors
    /// [`ClientError`], naming what is wrong.
    pub fn from_env(look: impl Fn(&str) -> Option<String>) -> Result<Option<Client>, ClientError> {
        let Some(roster) = look(variable::ROSTER) else { return Ok(None) };
        let text = |name: &'static str| look(name).unwrap_or_default();
        let number = |name: &'static str, text: String| {
            let number = text.parse::<u32>();
            number.map_err(|_| ClientError::Variable { name, expected: "a number", got: text })
        };
        let rank = number("PMI_RANK", text("PMI_RANK"))?;
        let before = look(variable::INCARNATION);
        let incarnation = before.map_or(Ok(0), |text| number(variable::INCARNATION, text))?;
        let memory = RosterMemory::open(&descriptor(variable::ROSTER, roster)?.keep())
            .map_err(|why| ClientError::Memory { name: variable::ROSTER, why })?;
        let job = job_digest(&text("TAFFRAIL_JOB"));
        let ranks = Reader::open(memory.words(), job)?.ranks();
        if rank >= ranks {
            let (name, expected) = ("PMI_RANK", "below the number of ranks in the roster");
            return Err(ClientError::Variable { name, expected, got: rank.to_string() });
        }
        let secret =
            memory::read_secret(&descriptor(variable::SECRET, text(variable::SECRET))?.keep())
                .map_err(|why| ClientError::Memory { name: variable::SECRET, why })?;
        let refused = descriptor(variable::REFUSED, text(variable::REFUSED))?.keep();
        let agent = descriptor(variable::AGENT, text(variable::AGENT))?;
        let life = RankIncarnation { rank, incarnation: Incarnation(incarnation) };
        let near = look(variable::NEAR).map(|text| {
            let all = text.split(',').map(|text| number(variable::NEAR, text.to_owned()));
            all.collect::<Result<Vec<u32>, _>>()
        });
        let (near, network) = (near.transpose()?, look(variable::NETWORK));
        Ok(Some(Client { agent, life, memory, job, secret, refused, network, near }))
    }

    /// This process's rank and incarnation.
    pub fn life(&self) -> RankIncarnation {
        self.life
    }

    /// The roster, as it is now and as it will be: the agent changes it.
    ///
    /// # Errors
    /// It is not of this job any more: somebody else has written it.
    pub fn roster(&self) -> Result<Reader<'_>, RosterError> {
        Reader::open(self.memory.words(), self.job)
    }

    /// The node of every rank. The first incarnations are in the roster before any rank is started.
    ///
    /// # Errors
    /// As [`roster`](Self::roster).
    pub fn nodes(&self) -> Result<Vec<NodeId>, RosterError> {
        let roster = self.roster()?;
        (0..roster.ranks()).map(|rank| Ok(roster.life(rank)?.node)).collect()
    }

    /// The ranks of this node that share memory, this one among them.
    ///
    /// # Errors
    /// As [`roster`](Self::roster).
    pub fn local_ranks(&self) -> Result<Vec<u32>, RosterError> {
        let (roster, near) = (self.roster()?, self.near.as_ref());
        if let Some(near) = near.filter(|near| near.iter().all(|rank| *rank < roster.ranks())) {
            return Ok(near.clone());
        }
        let node = roster.node();
        Ok((0..).zip(self.nodes()?).filter(|(_, of)| *of == node).map(|(rank, _)| rank).collect())
    }

    /// Publishes where this incarnation can be reached, once: 1 to [`ADDRESS_MAX`] bytes, which the rosters of all nodes
    /// have soon after.
    ///
    /// # Errors
    /// The address is empty or too long, or the agent is gone.
    pub fn publish_address(&self, address: &[u8]) -> Result<(), ClientError> {
        let why = match address.len() {
            1..=ADDRESS_MAX => match self.agent.send(&[&[ADDRESS], address].concat()) {
                Ok(()) => return Ok(()),
                Err(why) => why,
            },
            got => {
                MemoryError::Length { expected: "an address of 1 to 112 bytes", got: got as u64 }
            }
        };
        Err(ClientError::Memory { name: variable::AGENT, why })
    }

    /// Reports that the program of this rank has completed, that its messages have left and that its events are stable, when
    /// the incarnations of all ranks in the roster, as it had read it, added up to `known`. The rosters of all nodes show the rank as
    /// finalizing soon after, unless it did not know of all restarts: then this is to be reported again, when it does.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn report_finalizing(&self, known: u64) -> Result<(), ClientError> {
        let sent = self.agent.send(&finalizing_packet(known));
        sent.map_err(|why| ClientError::Memory { name: variable::AGENT, why })
    }

    /// Reports that the node of another rank, of this incarnation, cannot be reached (why), or can again.
    ///
    /// # Errors
    /// The agent is gone.
    pub fn report_link(
        &self,
        peer: RankIncarnation,
        down: Option<&str>,
    ) -> Result<(), ClientError> {
        let packet = link_packet(peer, down);
        let sent = self.agent.send(packet.as_bytes());
        sent.map_err(|why| ClientError::Memory { name: variable::AGENT, why })
    }

    /// The secret of the job, which every connection between nodes is to prove.
    pub fn secret(&self) -> Secret {
        self.secret
    }

    /// Where listeners count what they refuse.
    ///
    /// # Errors
    /// The descriptor names something else.
    pub fn refused(&self) -> Result<RefusedMemory, ClientError> {
        let memory = self.refused.refused();
        memory.map_err(|why| ClientError::Memory { name: variable::REFUSED, why })
    }

    /// Which interfaces listeners may use, as the user has written it (`--network`); `None` for any.
    pub fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }
}

/// The packet of [`FINALIZING`].
fn finalizing_packet(known: u64) -> [u8; 9] {
    let mut packet = [FINALIZING; 9];
    packet[1..].copy_from_slice(&known.to_le_bytes());
    packet
}

/// What a packet says of a program that has completed: what the incarnations of all ranks, as its rank knew them, added up to. `None`:
/// it says nothing of that.
pub fn read_finalizing(packet: &[u8]) -> Option<u64> {
    let (FINALIZING, known) = packet.split_first().map(|(first, rest)| (*first, rest))? else {
        return None;
    };
    known.try_into().ok().map(u64::from_le_bytes)
}

/// The packet of [`LINK`].
fn link_packet(peer: RankIncarnation, down: Option<&str>) -> String {
    let (rank, incarnation) = (peer.rank, peer.incarnation.0);
    format!("{}{rank} {incarnation} {}", char::from(LINK), down.unwrap_or_default())
}

/// What a packet says of a link: the rank at its other end, and why it is down; nothing if it is up again. `None`: it says nothing
/// of a link.
pub fn read_link(packet: &[u8]) -> Option<(RankIncarnation, Option<String>)> {
    let (LINK, text) = packet.split_first().map(|(first, rest)| (*first, rest))? else {
        return None;
    };
    let mut words = std::str::from_utf8(text).ok()?.splitn(3, ' ');
    let mut number = || words.next()?.parse().ok();
    let life = RankIncarnation { rank: number()?, incarnation: Incarnation(number()?) };
    let why = words.next()?;
    Some((life, Some(why.to_owned()).filter(|why| !why.is_empty())))
}

fn descriptor(name: &'static str, text: String) -> Result<Inherited, ClientError> {
    let number = text.parse().ok().filter(|number| *number > 2);
    number.and_then(Inherited::new).ok_or(ClientError::Variable {
        name,
        expected: "an open descriptor above 2",
        got: text,
    })
}

#[cfg(test)]
mod tests;
