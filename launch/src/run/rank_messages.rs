//! What ranks say to the launcher, by PMI and on the connections of their members.

use super::event_loop::Job;
use super::family;
use super::life::{By, Event};
use super::line::{Heard, Line};
use super::outlets::To;
use super::output::Output;
use super::ranks::Rank;
use super::server::{Membership, Server, ServerAction};
use super::speaker::{self, Speech};
use crate::log::note;

/// What a rank has said on its PMI connection.
pub enum Said {
    /// The server wants this done.
    Action(ServerAction),
    /// The process of this number has joined or finalised.
    Membership(Membership, i32),
    /// It was another process than the one that takes part, and is refused.
    Refused(String),
    /// It is not PMI, and nothing more is heard.
    Broken(String),
}

impl Membership {
    /// The event that a process of a rank has said this by PMI.
    pub fn event(self, rank: usize, pid: i32) -> Event {
        let by = By::Pmi;
        match self {
            Membership::Joined => Event::Joined { rank, pid, by },
            Membership::Finalised => Event::Finalised { rank, pid, by },
        }
    }
}

/// Hears what a rank says, and has the server answer.
pub fn hear(line: &mut Option<Line>, server: &mut Server, rank: usize, who: &str) -> Vec<Said> {
    let Some(connection) = line else { return Vec::new() };
    connection.flush();
    let (mut lines, mut said) = (Vec::new(), Vec::new());
    let mut heard = connection.listen(&mut lines);
    let pid = connection.sender();
    for line in lines {
        if let Speech::OfOther { is_new, answer } = connection.speaker.hear(pid, &line) {
            // It may be gone already.
            let _ = answer.map(|answer| connection.say(&answer));
            let why = || Said::Refused(speaker::why(who, pid, &family::name(pid)));
            said.extend(is_new.then(why));
            continue;
        }
        match server.hear(rank, &line) {
            Ok(actions) => said.extend(actions.into_iter().map(Said::Action)),
            Err(e) => heard = Err(e),
        }
        said.extend(server.membership(rank).map(|membership| Said::Membership(membership, pid)));
    }
    match heard {
        Ok(Heard::More) => {}
        Ok(Heard::End) => *line = None,
        Err(e) => {
            *line = None;
            said.push(Said::Broken(format!("{who} broke the start-up protocol: {e}")));
        }
    }
    said
}

impl Job<'_> {
    pub(super) fn listen(&mut self, number: usize) -> Vec<Event> {
        let who = self.who(number);
        let said = hear(&mut self.ranks[number].line, &mut self.server, number, &who);
        let mut events = Vec::new();
        for said in said {
            match said {
                Said::Action(action) => events.extend(self.act(number, action)),
                Said::Membership(membership, pid) => {
                    events.extend(self.membership(number, membership, pid));
                }
                Said::Refused(why) => note(&why),
                Said::Broken(why) => events.push(Event::Trouble { status: 1, why }),
            }
        }
        events
    }

    /// A process has joined or finalised. A PMIx server does so for itself.
    fn membership(&mut self, rank: usize, membership: Membership, pid: i32) -> Vec<Event> {
        if self.args.pmix {
            return Vec::new();
        }
        let gone = match membership {
            Membership::Joined => self.watch_member(rank, pid),
            Membership::Finalised => None,
        };
        [membership.event(rank, pid)].into_iter().chain(gone).collect()
    }

    pub(super) fn listen_to_members(&mut self, rank: usize) -> Vec<Event> {
        self.members.hear(rank, self.ranks[rank].pid().as_raw_pid())
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
                note(&spawn_refused(&self.who(from)));
                None
            }
            // They are of servers of one node among several.
            ServerAction::Put { .. } | ServerAction::Enter(_) => None,
            ServerAction::Abort { code, message } => {
                Some(Event::Aborted { rank: from, code, text: message })
            }
            ServerAction::Stuck { waiting, gone } => Some(Event::Stuck { waiting, gone }),
        }
    }

    /// A rank has ended; a process it left behind may still hold its output open.
    pub(super) fn finish_output(&mut self, number: usize) {
        let Rank { out, err, .. } = &mut self.ranks[number];
        self.outlets.push(To::Out, out.as_mut().map(Output::rest).unwrap_or_default());
        self.outlets.push(To::Err, err.as_mut().map(Output::rest).unwrap_or_default());
    }

    pub(super) fn who(&self, rank: usize) -> String {
        self.ranks[rank].name(rank)
    }
}

/// What is said of a rank that asks for further processes.
pub fn spawn_refused(who: &str) -> String {
    format!(
        "{who} asks for further processes (MPI_Comm_spawn): taffrail run starts none, and refuses; start all ranks at \
         once, or use the launcher of the MPI (taffrail mpi)"
    )
}
