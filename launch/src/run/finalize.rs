//! Programs that are over: no process whose messages are logged ends before all of them are, since what
//! it has logged ends with it.
//!
//! An MPI's process says so when it ends, and waits for the answer: a byte each way.

use super::Failure;
use super::in_words;
use super::ranks::RankEnv;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

/// Where the present process of each rank says that its program is over.
pub struct Programs {
    all: Vec<Program>,
    /// They were let go.
    released: bool,
}

struct Program {
    /// Until the process has closed it.
    line: Option<UnixStream>,
    over: bool,
}

impl Programs {
    /// Of so many ranks.
    pub fn new(ranks: u32) -> Programs {
        let all = (0..ranks).map(|_| Program { line: None, over: false }).collect();
        Programs { all, released: false }
    }

    /// Gives the next process of a rank a connection.
    pub fn env(&mut self, rank: usize, env: &mut RankEnv) -> Result<(), Failure> {
        let failed = |e| Failure::new(format!("no connection for rank {rank}: {}", in_words(&e)));
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        ours.set_nonblocking(true).map_err(failed)?;
        let theirs = OwnedFd::from(theirs);
        env.tell("TAFFRAIL_OVER", &[theirs.as_raw_fd()]);
        env.inherited.push(theirs);
        self.all[rank] = Program { line: Some(ours), over: false };
        Ok(())
    }

    /// The connections of those whose programs are not over.
    pub fn watched(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let waiting = self.all.iter().enumerate().filter(|(_, program)| !program.over);
        waiting.filter_map(|(rank, program)| Some((rank, program.line.as_ref()?.as_fd())))
    }

    /// A process has said something, or closed its connection.
    pub fn listen(&mut self, rank: usize) {
        let Program { line, over } = &mut self.all[rank];
        let Some(stream) = line else { return };
        match stream.read(&mut [0]) {
            Ok(1..) => *over = true,
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Ok(0) | Err(_) => *line = None,
        }
    }

    /// Lets all go, if no program goes on; `runs` says which processes have not ended.
    pub fn release(&mut self, runs: impl Fn(usize) -> bool) {
        let mut all = self.all.iter().enumerate();
        if self.released || !all.all(|(rank, program)| program.over || !runs(rank)) {
            return;
        }
        self.released = true;
        for line in self.all.iter_mut().filter_map(|program| program.line.as_mut()) {
            // One that does not listen does not wait.
            let _ = line.write_all(b".");
        }
    }

    /// Whether all programs are over, so that nobody has what is logged any more.
    pub fn are_over(&self) -> bool {
        self.released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Processes of two ranks: our end of what each was given.
    fn two() -> (Programs, Vec<UnixStream>) {
        let mut programs = Programs::new(2);
        let lines = [0, 1].map(|rank| start(&mut programs, rank)).into();
        (programs, lines)
    }

    fn start(programs: &mut Programs, rank: usize) -> UnixStream {
        let mut env = RankEnv::default();
        programs.env(rank, &mut env).unwrap();
        let stream = UnixStream::from(env.inherited.pop().unwrap());
        stream.set_nonblocking(true).unwrap();
        stream
    }

    fn is_free(mut stream: &UnixStream) -> bool {
        stream.read(&mut [0]).is_ok_and(|bytes| bytes == 1)
    }

    #[test]
    fn all_are_let_go_when_no_program_goes_on() {
        let (mut programs, mut lines) = two();
        lines[1].write_all(b".").unwrap();
        programs.listen(1);
        programs.release(|_| true);
        assert!(!programs.are_over() && !is_free(&lines[1]));
        assert_eq!(programs.watched().map(|(rank, _)| rank).collect::<Vec<_>>(), [0]);
        // The other one starts again, and says it then.
        lines[1] = start(&mut programs, 1);
        lines[0].write_all(b".").unwrap();
        programs.listen(0);
        programs.release(|_| true);
        assert!(!programs.are_over() && !is_free(&lines[0]), "it was said by one that was killed");
        lines[1].write_all(b".").unwrap();
        programs.listen(1);
        programs.release(|_| true);
        assert!(programs.are_over() && lines.iter().all(is_free));
    }

    #[test]
    fn whose_process_has_ended_is_not_waited_for() {
        let (mut programs, mut lines) = two();
        drop(lines.remove(1));
        programs.listen(1);
        programs.release(|_| true);
        lines[0].write_all(b".").unwrap();
        programs.listen(0);
        programs.release(|_| true);
        assert!(!programs.are_over(), "a process that runs may do so without a connection");
        programs.release(|rank| rank == 0);
        assert!(programs.are_over() && is_free(&lines[0]));
    }
}
