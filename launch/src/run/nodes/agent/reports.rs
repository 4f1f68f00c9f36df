//! What the processes of ranks report, for the launcher: where they can be reached, and by whom not, and that their programs are over.

use super::job::Job;
use taffrail_agent::agent::Event;
use taffrail_agent::roster::ADDRESS_MAX;
use taffrail_agent::wire::Frame;

impl Job {
    /// What they have reported since this was asked last.
    pub(super) fn reports(&mut self) -> Vec<Event> {
        let mut reports = self.addresses();
        reports.extend(self.links());
        reports.extend(self.finalizing());
        reports
    }

    /// Where ranks can be reached, for all rosters.
    fn addresses(&mut self) -> Vec<Event> {
        let said = self.members.take_addresses();
        let right = said.into_iter().filter(|(_, of)| (1..=ADDRESS_MAX).contains(&of.len()));
        let frame = |(number, address)| {
            let rank = self.ranks.get_mut(&number)?;
            // Readers of a roster count on it that there is one for each incarnation.
            let is_first = !std::mem::replace(&mut rank.has_address, true);
            is_first.then_some(Event::Say(Frame::Address { life: rank.life, address }))
        };
        right.filter_map(frame).collect()
    }

    /// Whose programs are over.
    fn finalizing(&mut self) -> Vec<Event> {
        let frame = |(number, known)| {
            let life = self.ranks.get(&number)?.life;
            Some(Event::Say(Frame::Finalizing { life, known }))
        };
        self.members.take_finalizing().into_iter().filter_map(frame).collect()
    }

    /// Which nodes ranks cannot reach.
    fn links(&mut self) -> Vec<Event> {
        let frame = |(number, (peer, down))| {
            let life = self.ranks.get(&number)?.life;
            Some(Event::Say(Frame::Link { life, peer, down }))
        };
        self.members.take_links().filter_map(frame).collect()
    }
}
