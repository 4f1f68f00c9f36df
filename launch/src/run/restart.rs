//! Ranks that have ended: what is done about those that failed.

use super::event_loop::Job;
use super::failures::OnFailure;
use super::finalize::Programs;
use super::ranks::{self, Bad};
use super::{Failure, say};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::os::fd::OwnedFd;
use std::time::Instant;

/// A rank that ended badly.
struct Failed {
    rank: usize,
    /// `rank 2 (pid 17)`: its number is not its own for long.
    who: String,
    bad: Bad,
}

impl Job<'_> {
    /// Ranks have ended. What is done about one may depend on the others: those that died together
    /// are started again knowing of each other.
    pub(super) fn ended(&mut self, ended: &[usize]) {
        let noticed = Instant::now();
        let mut failed = Vec::new();
        for &rank in ended {
            let who = self.who(rank);
            match self.ranks[rank].reap(&self.guard) {
                Err(e) => return self.fail(1, &format!("{who}: its status cannot be had: {e}")),
                Ok(status) => match ranks::failure(status) {
                    Some(bad) => failed.push(Failed { rank, who, bad }),
                    None => {
                        self.done.get_or_insert(rank);
                        self.leaves(rank);
                        self.check_leave(rank, &who);
                    }
                },
            }
        }
        // What has ended by itself has decided to.
        if let Some(Failed { who, bad, .. }) = failed.iter().find(|failed| !failed.bad.killed) {
            self.fail(bad.status, &format!("{who} {}", bad.how));
        }
        let ending = self.kill_at.is_some();
        match self.on_failure {
            OnFailure::Restart if !ending && !failed.is_empty() => {
                if let Err(Failure { status, why }) = self.restart(&failed, noticed) {
                    self.fail(status, &why);
                }
            }
            on_failure => {
                for Failed { rank, who, bad } in failed {
                    if on_failure == OnFailure::ShrinkReport && !ending {
                        say(&format!("{who} was {}; the others go on without it", bad.how));
                        self.gone.push(rank);
                        self.verdict.get_or_insert(bad.status);
                    } else {
                        self.fail(bad.status, &format!("{who} {}", bad.how));
                    }
                    self.leaves(rank);
                }
            }
        }
    }

    /// A rank has ended with success; was that after all restarts?
    fn check_leave(&mut self, rank: usize, who: &str) {
        let early =
            self.recovery.as_ref().map_or(Ok(false), |recovery| recovery.left_too_early(rank));
        match early {
            Ok(false) => {}
            Ok(true) => self.fail(
                1,
                &format!(
                    "{who} was done with all others when one of them was killed, whose successor \
                     waits for it in vain; {NOT_DONE}"
                ),
            ),
            Err(Failure { status, why }) => self.fail(status, &why),
        }
    }

    /// A rank has ended for good.
    fn leaves(&mut self, rank: usize) {
        for action in self.server.gone(rank) {
            self.act(rank, action);
        }
    }

    /// Starts the sets of ranks that were killed again.
    fn restart(&mut self, failed: &[Failed], noticed: Instant) -> Result<(), Failure> {
        let recovery = self.recovery.as_mut().expect("restarts need logging");
        recovery.stats.failures += failed.len() as u32;
        let how: Vec<String> =
            failed.iter().map(|failed| format!("{} was {}", failed.who, failed.bad.how)).collect();
        let how = how.join(", ");
        let status = failed[0].bad.status;
        let end = |why: String| Err(Failure { status, why: format!("{how}; {why}") });
        if self.programs.as_ref().is_some_and(Programs::are_over) {
            return end(format!("it is not restarted, since all programs were over: {NOT_DONE}"));
        }
        if let Some(done) = self.done.or(recovery.who_left()?) {
            return end(all_were_done(done));
        }
        let sets: BTreeSet<usize> =
            failed.iter().map(|failed| recovery.logged.sets.of(failed.rank)).collect();
        let (wanted, left) = (sets.len() as u32, recovery.restarts_left());
        if wanted > left {
            let most = recovery.logged.max_restarts;
            return end(format!(
                "it is not restarted: --max-restarts is {most}, and {left} are left"
            ));
        }
        let all: Vec<usize> =
            sets.iter().flat_map(|&set| recovery.logged.sets.members(set)).collect();
        let fellows: Vec<usize> =
            all.iter().copied().filter(|&rank| self.ranks[rank].runs()).collect();
        self.kill(&fellows)?;
        let recovery = self.recovery.as_mut().expect("as above");
        if let Some(done) = self.done.or(recovery.who_left()?) {
            return end(all_were_done(done));
        }

        // All members of each set are dead: what they have written is one cut.
        let mut replays: Vec<(usize, OwnedFd)> = Vec::new();
        let mut events = 0;
        for &rank in &all {
            let download = recovery.logger.fetch(rank, &self.guard)?;
            replays.push((rank, download.file));
            events += download.count;
        }
        let mut checkpoints = Vec::new();
        for &set in &sets {
            let last = recovery.begin_again(set)?;
            events -= last.map_or(0, |last| last.clock);
            checkpoints.extend(last);
        }
        for &rank in &all {
            self.server.restarted(rank);
            self.finish_output(rank);
        }
        if all.contains(&0) {
            self.keyboard.rewind()?;
        }
        // Where messages are logged, an MPI takes each rank for a node.
        crate::mpi::remove_left_behind(&self.name, all.iter().copied());
        for (rank, replay) in replays {
            self.ranks[rank] = self.start(rank, Some(replay))?;
        }
        let recovery = self.recovery.as_mut().expect("as above");
        recovery.stats.restarts.push(noticed.elapsed());
        recovery.stats.successors += all.len() as u32;
        recovery.stats.events += events;
        recovery.stats.checkpoints += checkpoints.len() as u32;
        let running = self.ranks.iter().filter(|rank| rank.runs()).map(ranks::Rank::pid);
        self.guard.replace_if_dead(running.chain(recovery.logger.pids()))?;
        let what = match all[..] {
            [rank] => format!("it as incarnation {}", recovery.incarnation(rank)),
            _ => format!("ranks {}", spans(&all)),
        };
        let from = match checkpoints[..] {
            [] => String::new(),
            [last] => format!(" from checkpoint {}", last.number),
            ref several => format!(", {} from checkpoints", several.len()),
        };
        say(&format!("{how}; restarting {what}{from} ({events} events to replay)"));
        Ok(())
    }

    /// Ends ranks that are to be started again with others of their sets.
    fn kill(&mut self, fellows: &[usize]) -> Result<(), Failure> {
        for &rank in fellows {
            self.ranks[rank].signal(Signal::KILL);
        }
        for &rank in fellows {
            let who = self.who(rank);
            let status = self.ranks[rank]
                .reap(&self.guard)
                .map_err(|e| Failure::new(format!("{who}: its status cannot be had: {e}")))?;
            match ranks::failure(status) {
                Some(Bad { killed: true, .. }) => {}
                // It was faster.
                None => {
                    self.done.get_or_insert(rank);
                }
                Some(Bad { status, how, .. }) => {
                    return Err(Failure { status, why: format!("{who} {how}") });
                }
            }
        }
        Ok(())
    }

    /// The event logger has said something, or is gone.
    pub(super) fn look_at_logger(&mut self) {
        let Some(recovery) = &mut self.recovery else { return };
        if let Err(Failure { status, why }) = recovery.logger.look(&self.guard) {
            self.fail(status, &why);
        }
    }

    /// What is to be said of failures when all is over.
    pub(super) fn tell_failures(&self) {
        if !self.gone.is_empty() {
            let (gone, all) = (self.gone.len(), self.ranks.len());
            let mut ranks = self.gone.clone();
            ranks.sort_unstable();
            say(&format!(
                "{gone} of {all} ranks were killed, the others went on: {}",
                spans(&ranks)
            ));
        }
        if let Some(recovery) = &self.recovery {
            recovery.stats.text(recovery.logger.deaths()).iter().for_each(|text| say(text));
            if let Ok(Some(sent)) = recovery.sent() {
                say(&format!("causal logging: {sent}"));
            }
        }
    }
}

/// What it means when a rank is killed after all were done with each other.
const NOT_DONE: &str = "all messages were done with; what it had still to do by itself, such as to write its results, is not done";

fn all_were_done(rank: usize) -> String {
    format!("it is not restarted, since rank {rank} is done with all others: {NOT_DONE}")
}

/// `0-3, 5`, of numbers in order.
fn spans(numbers: &[usize]) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for &number in numbers {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => spans.push((number, number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    spans.iter().map(text).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::spans;

    #[test]
    fn neighbours_are_joined() {
        assert_eq!(spans(&[]), "");
        assert_eq!(spans(&[3]), "3");
        assert_eq!(spans(&[0, 1, 2, 5, 7, 8]), "0-2, 5, 7-8");
    }
}
