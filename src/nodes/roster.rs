//! Who of a job over nodes lives: the roster that this node's agent publishes.

use taffrail_agent::client::Client;
use taffrail_agent::roster::{Change, RankState, Reader};
use taffrail_fabric::{Life, Membership, PeerId};

/// What was said of the ranks, and what is new in the roster since.
pub(super) struct Roster {
    client: Client,
    known: Known,
}

/// The entries of the roster that verdicts were given for.
#[derive(Default)]
struct Known {
    me: u32,
    /// The roster's count of changes; `None`: it was not read yet.
    notice: Option<u64>,
    entries: Vec<Change>,
}

impl Roster {
    pub(super) fn new(client: Client) -> Roster {
        let known = Known { me: client.life().rank, ..Known::default() };
        Roster { client, known }
    }
}

impl Membership for Roster {
    fn poll(&mut self, verdict: &mut dyn FnMut(PeerId, Life)) {
        // Where it is not the job's any more nobody knows more than the links.
        if let Ok(roster) = self.client.roster() {
            self.known.read(&roster, verdict);
        }
    }

    fn finalizing(&mut self) {
        // An agent that is gone takes this rank along.
        let _ = self.client.report_finalizing(self.known.incarnations());
    }

    fn is_settled(&self) -> bool {
        self.client.roster().is_ok_and(|roster| self.known.notice == Some(roster.notice()))
    }
}

impl Known {
    /// What the incarnations of all ranks add up to, as this rank has read them. The launcher compares it with that of its own roster
    /// (*neighbours-only*). Incarnations only grow, and those that this rank has read are none that the launcher's roster does not have or
    /// has had: so sums that are equal say that all incarnations are equal, and this rank knew of each restart.
    fn incarnations(&self) -> u64 {
        self.entries.iter().map(|entry| u64::from(entry.life.incarnation.0)).sum()
    }

    fn read(&mut self, roster: &Reader<'_>, verdict: &mut dyn FnMut(PeerId, Life)) {
        let notice = Some(roster.notice());
        if std::mem::replace(&mut self.notice, notice) == notice {
            return;
        }
        self.entries.resize(roster.ranks() as usize, Change::default());
        for (rank, known) in (0..).zip(&mut self.entries) {
            let Ok(now) = roster.life(rank) else { continue };
            let before = std::mem::replace(known, now);
            if now == before || rank == self.me {
                continue;
            }
            let (peer, incarnation) = (PeerId(rank), now.life.incarnation);
            if incarnation > before.life.incarnation {
                verdict(peer, Life::Restarted(incarnation));
            }
            match now.state {
                RankState::Dead => verdict(peer, Life::Dead(incarnation)),
                RankState::Finished => verdict(peer, Life::Finished),
                RankState::Finalizing => verdict(peer, Life::Finalizing(incarnation)),
                RankState::Absent | RankState::Live => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;
    use taffrail_agent::roster::{Writer, words_of};
    use taffrail_agent::{Incarnation, RankIncarnation};

    fn entry(rank: u32, incarnation: u32, state: RankState) -> Change {
        Change { life: RankIncarnation::new(rank, incarnation), node: 0, state }
    }

    fn heard(known: &mut Known, words: &[AtomicU64]) -> Vec<(u32, Life)> {
        let mut all = Vec::new();
        let roster = Reader::open(words, 7).unwrap();
        known.read(&roster, &mut |peer, life| all.push((peer.0, life)));
        all
    }

    #[test]
    fn each_change_is_said_once_and_nothing_of_the_own_rank() {
        let words: Vec<AtomicU64> = (0..words_of(3)).map(|_| AtomicU64::new(0)).collect();
        let mut writer = Writer::create(&words, 3, 7, (0, 1)).unwrap();
        let mut known = Known { me: 1, ..Known::default() };
        use RankState::{Dead, Finalizing, Finished, Live};
        assert_eq!(known.incarnations(), 0, "before the first look");
        writer.publish(1, &[0, 1, 2].map(|rank| entry(rank, 0, Live)));
        assert_eq!(heard(&mut known, &words), []);
        writer.publish(2, &[entry(0, 0, Finished), entry(1, 0, Dead), entry(2, 0, Dead)]);
        let expected = [(0, Life::Finished), (2, Life::Dead(Incarnation(0)))];
        assert_eq!(heard(&mut known, &words), expected);
        assert_eq!(heard(&mut known, &words), []);
        writer.publish(3, &[entry(2, 2, Live)]);
        assert_eq!(heard(&mut known, &words), [(2, Life::Restarted(Incarnation(2)))]);
        writer.publish(4, &[entry(2, 3, Finalizing)]);
        let third = Incarnation(3);
        let expected = [(2, Life::Restarted(third)), (2, Life::Finalizing(third))];
        assert_eq!(heard(&mut known, &words), expected);
        // Another one is restarted, and this is taken back and published again; so is the own rank, of which nothing is said.
        writer.publish(5, &[entry(0, 4, Live), entry(1, 1, Live), entry(2, 3, Live)]);
        assert_eq!(known.incarnations(), 3, "what was read counts");
        assert_eq!(heard(&mut known, &words), [(0, Life::Restarted(Incarnation(4)))]);
        assert_eq!(known.incarnations(), 8, "the own one is among them");
        writer.publish(6, &[entry(2, 3, Finalizing)]);
        assert_eq!(heard(&mut known, &words), [(2, Life::Finalizing(third))]);
    }

    #[test]
    fn the_end_of_a_rank_before_the_first_look_is_said() {
        let words: Vec<AtomicU64> = (0..words_of(2)).map(|_| AtomicU64::new(0)).collect();
        let mut writer = Writer::create(&words, 2, 7, (0, 1)).unwrap();
        writer.publish(1, &[entry(0, 0, RankState::Live), entry(1, 0, RankState::Dead)]);
        let said = heard(&mut Known::default(), &words);
        assert_eq!(said, [(1, Life::Dead(Incarnation(0)))]);
    }
}
