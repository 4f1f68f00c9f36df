//! Causal logging: what leaves is preceded by the events that it may depend on.

use super::departure::Leaving;
use super::{Identity, Trouble, Wiring};
use crate::broken::Broken;
use std::fmt;
use taffrail_logging::causal::DETERMINANT;
use taffrail_logging::{Causal, Event, LoggedEvent, Rank};

/// No rank has more events that are not stable.
const MOST_OPEN: u64 = 1 << 20;
/// Bytes of a frame: so few that what there is to say often takes several.
const FRAME: usize = 2 * DETERMINANT;

/// What a rank knows that starts. What survivors hold of its events is put behind those that are left.
pub(super) fn open(
    who: &Identity,
    events: &mut Vec<(u64, Event)>,
    stable: u64,
    held: &[Vec<u8>],
) -> Result<Causal, Trouble> {
    let mut causal = Causal::new(who.me, who.ranks, MOST_OPEN);
    causal.stable(who.me, stable);
    for &(clock, event) in events.iter().filter(|(clock, _)| *clock > stable) {
        causal.restore(&LoggedEvent { clock, event });
    }
    let only_own = who.broken == Some(Broken::OnlyOwnAdopted);
    for bytes in held {
        match only_own {
            true => causal.adopt(&of_rank(bytes, who.me))?,
            false => causal.adopt(bytes)?,
        }
    }
    let last = events.last().map_or(0, |(clock, _)| *clock);
    let more = causal.held_of(who.me).filter(|determinant| determinant.clock > last);
    events.extend(more.map(|determinant| (determinant.clock, determinant.event())));
    Ok(causal)
}

impl Wiring {
    /// Puts the events that a message may depend on before it into the queue.
    pub(super) fn precede(&mut self, to: Rank) {
        let me = self.who.me;
        let own = self.is(Broken::DeterminantsNotPassedOn);
        let drops = self.is(Broken::DeterminantsDroppedEarly);
        let Some(causal) = &mut self.causal else { return };
        while let Some(mut bytes) = causal.next_piggyback(to, FRAME) {
            if own {
                bytes = of_rank(&bytes, me);
            }
            if !bytes.is_empty() {
                self.lines[to as usize].push(Leaving::Determinants(bytes));
            }
        }
        if drops {
            causal.stable(me, self.recorder.clock());
        }
    }

    /// The connection with a peer is another one.
    pub(super) fn forget_what_it_has(&mut self, peer: Rank) {
        let forgets = self.is(Broken::LostForgotten);
        if let Some(causal) = self.causal.as_mut().filter(|_| !forgets) {
            causal.lost(peer);
        }
    }

    /// What this rank holds, for those that are started again.
    pub fn all_held(&self) -> Vec<u8> {
        self.causal.as_ref().map_or(Vec::new(), Causal::all_held)
    }

    /// Whether it knows an event, or knows it to be stable.
    pub fn knows(&self, rank: Rank, clock: u64) -> bool {
        self.causal.as_ref().is_some_and(|causal| causal.knows(rank, clock))
    }
}

/// The determinants of one rank.
fn of_rank(bytes: &[u8], rank: Rank) -> Vec<u8> {
    let (all, _) = bytes.as_chunks::<DETERMINANT>();
    all.iter().filter(|one| one[..4] == rank.to_le_bytes()).flatten().copied().collect()
}

/// Ranks and clocks.
pub(super) fn show(bytes: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let (all, _) = bytes.as_chunks::<DETERMINANT>();
    write!(f, "determinants")?;
    all.iter().try_for_each(|one| {
        let word = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|k| one[at + k]));
        write!(f, " {}.{} ({} open)", word(0), word(8), word(4))
    })
}
