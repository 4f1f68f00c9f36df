//! Programs that have completed: their ranks send FINALIZING, again when they learn of a restart, and stay until all ranks have
//! completed (*neighbours-only*).

use super::world::{Happening, World};
use crate::agent::Event;
use crate::roster::{Change, RankState};
use crate::wire::Frame;
use crate::{Incarnation, RankIncarnation};

/// What a rank whose program has completed knows of the others.
#[derive(Debug)]
pub struct Completed {
    /// The incarnations of all ranks, as it has read them last.
    read: Vec<Incarnation>,
    /// Those with which it has sent FINALIZING last.
    sent: Option<Vec<Incarnation>>,
}

impl World {
    /// A step of a rank whose program has completed. What it sends says what it has read a step before.
    pub fn stays(&mut self, node: usize, life: RankIncarnation) {
        let entries = self.hosts[node].published.entries();
        let ends =
            |entry: &Change| matches!(entry.state, RankState::Finalizing | RankState::Finished);
        let all_have_completed = entries.iter().all(ends);
        let read = entries.iter().map(|entry| entry.life.incarnation).collect();
        let Some(known) = self.completed.get_mut(&life) else {
            self.completed.insert(life, Completed { read, sent: None });
            return self.goes_on(node, life);
        };
        let before = std::mem::replace(&mut known.read, read);
        let is_said = known.sent.as_ref() == Some(&before);
        if all_have_completed {
            return self.at(self.now, Happening::Dies(node, life, None));
        }
        if !is_said {
            let sum = before.iter().map(|incarnation| u64::from(incarnation.0)).sum();
            self.ended.finalizing_again += u32::from(known.sent.replace(before).is_some());
            self.agent_event(node, Event::Say(Frame::Finalizing { life, known: sum }));
        }
        self.goes_on(node, life);
    }

    /// neighbours-only: where a restarted rank lives, the roster shows no rank as FINALIZING that has not said so since it knows of this
    /// incarnation.
    pub fn check_finalizing(&self) -> Result<(), String> {
        for host in &self.hosts {
            let entries = host.published.entries().iter();
            for entry in entries.filter(|entry| entry.state == RankState::Finalizing) {
                let sent = self.completed.get(&entry.life).and_then(|known| known.sent.as_ref());
                let sent = sent.ok_or_else(|| format!("{} has not sent FINALIZING", entry.life))?;
                let is_unknown = |rank: u32, of: Incarnation| sent[rank as usize] < of;
                let mut here = host.processes.iter();
                if let Some((rank, process)) =
                    here.find(|(rank, process)| is_unknown(**rank, process.incarnation))
                {
                    return Err(format!(
                        "neighbours-only: {} sees {} as FINALIZING, which does not know of it",
                        process.life(*rank),
                        entry.life
                    ));
                }
            }
        }
        Ok(())
    }
}
