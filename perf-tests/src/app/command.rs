//! Running an application as a command.

use super::{Name, run};
use crate::session::{Member, Placement, Session};
use crate::{Error, launching, say};
use std::process::ExitCode;
use std::time::Instant;
use taffrail::words::counted;
use taffrail_launch::FailureOptions;

/// A small application with a known answer: its checksum is the same in every run
///
/// The last line is `checksum`, which depends on the size, the iterations and, for some, on the
/// number of ranks, and on nothing else. The time taken is told on standard error.
#[derive(Clone, Debug, clap::Args)]
pub struct App {
    /// Which one
    #[arg(value_enum)]
    pub name: Name,
    /// How many ranks to start; started by a launcher, it runs on the ranks of that job
    #[arg(short = 'n', long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    pub ranks: u32,
    /// How large the problem is [default: what takes about two seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub size: Option<u32>,
    /// How many iterations to do [default: what takes about two seconds]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub iterations: Option<u32>,
    /// Take a checkpoint of each rank whenever so many iterations are done, from which it goes on if it
    /// is killed; 0: never. Where messages are logged, each rank has to be its own set (--sets rank)
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub checkpoint_every: u32,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub failures: FailureOptions,
}

impl App {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        let least = if launching::in_a_job() { 1 } else { self.ranks_to_start()? };
        match Session::start_logged(least, Placement::Free, &self.failures)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member).map(|()| ExitCode::SUCCESS),
        }
    }

    /// How many ranks to start, if it has a part for each. So that is said once, and not by each.
    pub(crate) fn ranks_to_start(&self) -> Result<u32, Error> {
        self.name.check(self.ranks, self.size()).map(|()| self.ranks)
    }

    fn be_a_rank(&self, mut member: Member) -> Result<(), Error> {
        let (size, iterations) = (self.size(), self.iterations());
        let reports = member.reports();
        let begin = Instant::now();
        let every = self.checkpoint_every;
        let checksum = run(self.name, &mut member.endpoint, size, iterations, every, |done| {
            if reports && say::is_verbose() && ends_a_tenth(done, iterations) {
                say::note(format_args!("iteration {done} of {iterations}"));
            }
        })?;
        if reports {
            let seconds = begin.elapsed().as_secs_f64();
            let (name, ranks) = (self.name, counted(member.job.size(), "rank"));
            let done = counted(iterations, "iteration");
            say::note(format_args!("{name}, size {size}, {done} on {ranks}: {seconds:.3} s"));
            say::line(format_args!("checksum {checksum:016x}"))?;
        }
        Ok(())
    }

    pub(crate) fn size(&self) -> u32 {
        self.size.unwrap_or(self.name.defaults().0)
    }

    pub(crate) fn iterations(&self) -> u32 {
        self.iterations.unwrap_or(self.name.defaults().1)
    }
}

fn ends_a_tenth(done: u32, of: u32) -> bool {
    let tenths = |done: u32| u64::from(done) * 10 / u64::from(of);
    tenths(done) > tenths(done - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_ten_tenths_of_many_iterations() {
        for of in [10, 11, 99, 1000] {
            let told: Vec<u32> = (1..=of).filter(|&done| ends_a_tenth(done, of)).collect();
            assert_eq!((told.len(), told.last()), (10, Some(&of)), "{of}");
        }
        assert_eq!((1..=3).filter(|&done| ends_a_tenth(done, 3)).count(), 3);
    }
}
