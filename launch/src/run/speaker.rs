//! The process of a rank that speaks PMI on its line. Programs that it starts inherit the line, and are refused:
//! served, they would take the answers of the rank, and wait in its barriers for ever.

use super::server::refused;
use taffrail::pmi::{self, Message};

/// Variables that make an MPI program a part of a job.
pub const VARIABLES: [&str; 3] = ["PMI_FD", "PMI_RANK", "PMI_SIZE"];

/// Of one life of a rank.
#[derive(Default)]
pub struct Speaker {
    /// The process that has said `init`, and not `finalize`; 0 if there is none, or its sender is not known.
    pid: i32,
    refused: Vec<i32>,
}

/// What is to be done about a line.
#[derive(Debug, PartialEq, Eq)]
pub enum Speech {
    /// It is the rank's.
    OfRank,
    /// It is of another process, which gets this answer, if any.
    OfOther { is_new: bool, answer: Option<Message> },
}

impl Speaker {
    /// A process has said a line.
    pub fn hear(&mut self, pid: i32, line: &[u8]) -> Speech {
        let message = pmi::parse(line).ok();
        let cmd = message.as_ref().map(|message| message.cmd.as_str()).unwrap_or_default();
        let is_other = ![0, pid].contains(&self.pid) && pid != 0;
        let was_refused = self.refused.contains(&pid);
        if cmd == "init" && is_other && !was_refused {
            self.refused.push(pid);
        }
        if cmd == "init" && is_other || cmd != "init" && was_refused {
            return Speech::OfOther { is_new: !was_refused, answer: answer(cmd) };
        }
        match cmd {
            "init" => {
                self.pid = pid;
                self.refused.retain(|&other| other != pid);
            }
            "finalize" => self.pid = 0,
            _ => {}
        }
        Speech::OfRank
    }
}

/// Nothing that it asks is left unanswered, so that it does not wait.
fn answer(cmd: &str) -> Option<Message> {
    match cmd {
        "init" => Some(refused("response_to_init", "this_rank_has_joined_already")),
        "finalize" => Some(Message::new("finalize_ack")),
        "" | "abort" => None,
        other => Some(refused(&format!("{other}_result"), "this_rank_has_joined_already"))
            .filter(|answer| answer.to_line().is_ok()),
    }
}

/// What is said of a process that was refused.
pub fn why(rank: &str, pid: i32, program: &str) -> String {
    // It may be gone already.
    let program = if program.is_empty() { "PROGRAM" } else { program };
    let unset = VARIABLES.map(|name| format!("-u {name}")).join(" ");
    format!(
        "{rank} has started the MPI program {program} (pid {pid}), which asks to join the job as the same rank; it is \
         refused. To run it by itself: env {unset} {program}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const INIT: &[u8] = b"cmd=init pmi_version=1 pmi_subversion=1\n";

    fn is_refused(speech: &Speech) -> bool {
        matches!(speech, Speech::OfOther { answer: Some(answer), .. } if answer.get("rc") == Some("-1"))
    }

    #[test]
    fn a_second_process_is_refused_and_the_first_goes_on() {
        let mut speaker = Speaker::default();
        assert_eq!(speaker.hear(7, INIT), Speech::OfRank);
        let first = speaker.hear(8, INIT);
        assert!(is_refused(&first) && matches!(first, Speech::OfOther { is_new: true, .. }));
        assert!(is_refused(&speaker.hear(8, b"cmd=get_maxes\n")));
        let abort = Speech::OfOther { is_new: false, answer: None };
        assert_eq!(speaker.hear(8, b"cmd=abort exitcode=1\n"), abort);
        assert_eq!(speaker.hear(7, b"cmd=barrier_in\n"), Speech::OfRank);
        assert!(is_refused(&speaker.hear(9, INIT)), "and a third");
        assert_eq!(speaker.hear(7, b"cmd=finalize\n"), Speech::OfRank);
        assert_eq!(speaker.hear(8, b"cmd=abort exitcode=1\n"), abort, "it has not joined since");
        assert_eq!(speaker.hear(8, INIT), Speech::OfRank);
        assert_eq!(speaker.hear(8, b"cmd=barrier_in\n"), Speech::OfRank);
    }

    #[test]
    fn one_after_the_other_is_served() {
        let mut speaker = Speaker::default();
        for pid in [8, 9, 9, 0] {
            assert_eq!(speaker.hear(pid, INIT), Speech::OfRank, "{pid}");
            assert_eq!(speaker.hear(pid, INIT), Speech::OfRank, "{pid} has become another program");
            assert_eq!(speaker.hear(pid, b"cmd=finalize\n"), Speech::OfRank);
        }
    }

    #[test]
    fn senders_that_are_not_known_are_served() {
        let mut speaker = Speaker::default();
        assert_eq!(speaker.hear(7, INIT), Speech::OfRank);
        assert_eq!(speaker.hear(0, INIT), Speech::OfRank);
        assert_eq!(speaker.hear(7, INIT), Speech::OfRank);
    }
}
