//! What ranks say to the launcher, by PMI and on the connections of their members.

use super::event_loop::Job;
use super::family;
use super::life::{By, Event};
use super::line::Heard;
use super::server::{Membership, ServerAction};
use super::speaker::{self, Speech};
use crate::log::note;

impl Job<'_> {
    pub(super) fn listen(&mut self, number: usize) -> Vec<Event> {
        let mut events = Vec::new();
        let Some(line) = &mut self.ranks[number].line else { return events };
        line.flush();
        let mut lines = Vec::new();
        let mut heard = line.listen(&mut lines);
        let pid = line.sender();
        for line in lines {
            if self.refuses(number, pid, &line) {
                continue;
            }
            match self.server.hear(number, &line) {
                Ok(actions) => {
                    let answers = actions.into_iter().flat_map(|action| self.act(number, action));
                    events.extend(answers);
                }
                Err(e) => heard = Err(e),
            }
            events.extend(self.membership(number, pid));
        }
        match heard {
            Ok(Heard::More) => {}
            Ok(Heard::End) => self.ranks[number].line = None,
            Err(e) => {
                self.ranks[number].line = None;
                let why = format!("{} broke the start-up protocol: {e}", self.who(number));
                events.push(Event::Trouble { status: 1, why });
            }
        }
        events
    }

    /// Whether a line is of a process that is not the one that takes part as this rank. It is answered here.
    fn refuses(&mut self, number: usize, pid: i32, line: &[u8]) -> bool {
        let Some(connection) = &mut self.ranks[number].line else { return false };
        let Speech::OfOther { is_new, answer } = connection.speaker.hear(pid, line) else {
            return false;
        };
        // It may be gone already.
        let _ = answer.map(|answer| connection.say(&answer));
        if is_new {
            note(&speaker::why(&self.who(number), pid, &family::name(pid)));
        }
        true
    }

    /// Whether a process has joined or finalised with its last line. A PMIx server does so for itself.
    fn membership(&mut self, rank: usize, pid: i32) -> Vec<Event> {
        let by = By::Pmi;
        match self.server.membership(rank) {
            Some(_) | None if self.args.pmix => Vec::new(),
            Some(Membership::Joined) => {
                let gone = self.watch_member(rank, pid);
                [Event::Joined { rank, pid, by }].into_iter().chain(gone).collect()
            }
            Some(Membership::Finalised) => vec![Event::Finalised { rank, pid, by }],
            None => Vec::new(),
        }
    }

    pub(super) fn listen_to_members(&mut self, rank: usize) -> Vec<Event> {
        let mut events = self.members.listen(rank);
        let joined = events.iter().filter_map(|event| match event {
            Event::Joined { pid, .. } => Some(*pid),
            _ => None,
        });
        for pid in joined.collect::<Vec<_>>() {
            events.extend(self.watch_member(rank, pid));
        }
        events
    }

    /// The end of a direct child is seen in any case.
    fn watch_member(&mut self, rank: usize, pid: i32) -> Option<Event> {
        let is_child = pid == self.ranks[rank].pid().as_raw_pid();
        if is_child { None } else { self.members.watch(rank, pid) }
    }

    /// Does what the PMI server says. What comes of it for ranks.
    pub(super) fn act(&mut self, from: usize, action: ServerAction) -> Option<Event> {
        match action {
            ServerAction::Say { to, message } => {
                let said = self.ranks[to].line.as_mut().map(|line| line.say(&message));
                let Some(Err(e)) = said else { return None };
                let why = format!("cannot answer {}: {e}", self.who(to));
                Some(Event::Trouble { status: 1, why })
            }
            ServerAction::SpawnRefused => {
                crate::log::note(&format!(
                    "{} asks for further processes (MPI_Comm_spawn): taffrail run starts none, and refuses; \
                     start all ranks at once, or use the launcher of the MPI (taffrail mpi)",
                    self.who(from)
                ));
                None
            }
            ServerAction::Abort { code, message } => {
                Some(Event::Aborted { rank: from, code, text: message })
            }
            ServerAction::Stuck { waiting, gone } => Some(Event::Stuck { waiting, gone }),
        }
    }
}
