//! The `faults` command: one run of an application, some of whose ranks are killed.

use super::life::{Life, now_ns};
use crate::app::{self, App};
use crate::outputs::JsonOutput;
use crate::session::{About, Member, Placement, Session};
use crate::{Error, launching, say};
use rustix::process::{Signal, getpid, kill_process};
use std::path::PathBuf;
use std::process::ExitCode;
use std::str::FromStr;
use taffrail_launch::NodeOptions;

/// An application some of whose ranks are killed with SIGKILL; what each of their processes went
/// through
#[derive(Clone, Debug, clap::Args)]
pub struct Faults {
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub app: App,
    /// Kill a rank when it has done so many iterations, or all (`end`). Each of several of one rank
    /// is for another of its processes, in their order. With --checkpoint-every, before it takes the
    /// checkpoint of that iteration: it goes on from the one before
    #[arg(
        long,
        value_name = "RANK@ITERATION,..",
        value_delimiter = ',',
        help_heading = "Failures"
    )]
    pub kill: Vec<Kill>,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub output: JsonOutput,
    #[command(flatten)]
    #[expect(missing_docs, reason = "documented at its type")]
    pub nodes: NodeOptions,
    /// Where processes of ranks tell what they went through; given by whoever starts them
    #[arg(long, hide = true)]
    pub record: Option<PathBuf>,
}

/// A point of a rank's work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kill {
    /// Its rank.
    pub rank: u32,
    /// The iterations that it has done; `None`: all, and its answer is known.
    pub after: Option<u32>,
}

impl FromStr for Kill {
    type Err = String;

    fn from_str(text: &str) -> Result<Kill, String> {
        let kill = text.split_once('@').and_then(|(rank, after)| {
            let after = match after {
                "end" => None,
                number => Some(number.parse().ok().filter(|&number| number > 0)?),
            };
            Some(Kill { rank: rank.parse().ok()?, after })
        });
        kill.ok_or_else(|| {
            format!("expected a rank, @ and a number of iterations above 0 or `end`, got {text:?}")
        })
    }
}

impl Faults {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        let begun_ns = now_ns();
        if !launching::in_a_job() {
            self.output.outputs().check()?;
            return self.start();
        }
        match Session::start(1, Placement::Free)? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member, begun_ns).map(|()| ExitCode::SUCCESS),
        }
    }

    fn start(&self) -> Result<ExitCode, Error> {
        let ranks = self.app.ranks_to_start()?;
        let folder = tempfile::tempdir()
            .map_err(|source| Error::System { what: "making a temporary folder", source })?;
        let record = folder.path().join("lives");
        let more = ["--record".as_ref(), record.as_os_str()];
        let code = launching::this_command(ranks, &self.app.failures, &self.nodes, &more)?;
        if code == ExitCode::SUCCESS {
            let lives = Life::recorded(&record)?;
            lives.iter().try_for_each(print)?;
            self.output.outputs().write(&About::new(None), &(), &lives, &[])?;
        }
        Ok(code)
    }

    fn be_a_rank(&self, mut member: Member, begun_ns: u64) -> Result<(), Error> {
        let rank = member.job.rank();
        let incarnation = launching::incarnation()?;
        let deaths: Vec<Option<u32>> =
            self.kill.iter().filter(|kill| kill.rank == rank).map(|kill| kill.after).collect();
        let death_of = |incarnation: u32| deaths.get(incarnation as usize).copied();
        let dies = death_of(incarnation);
        let caught_up = incarnation.checked_sub(1).and_then(death_of);
        let mut life = Life {
            rank,
            incarnation,
            begun_ns,
            ready_ns: now_ns(),
            caught_up_ns: None,
            over_ns: 0,
            killed: false,
            checksum: None,
        };
        let mut failed = None;
        let (size, iterations) = (self.app.size(), self.app.iterations());
        let (endpoint, every) = (&mut member.endpoint, self.app.checkpoint_every);
        let checksum = app::run(self.app.name, endpoint, size, iterations, every, |done| {
            // Whoever goes on from a checkpoint may be beyond a point without having come by it.
            let reached = |point: Option<Option<u32>>| point.flatten().is_some_and(|at| done >= at);
            if reached(caught_up) {
                life.caught_up_ns.get_or_insert_with(now_ns);
            }
            if reached(dies) && failed.is_none() {
                failed = self.die(&mut life).err();
            }
        })?;
        if let Some(error) = failed {
            return Err(error);
        }
        if caught_up == Some(None) {
            life.caught_up_ns = Some(now_ns());
        }
        life.checksum = member.reports().then(|| format!("{checksum:016x}"));
        if dies == Some(None) {
            self.die(&mut life)?;
        }
        life.over_ns = now_ns();
        match &self.record {
            Some(path) => life.record(path),
            None => Ok(()),
        }
    }

    /// Ends this process, as anybody could end it who may send it signals.
    fn die(&self, life: &mut Life) -> Result<(), Error> {
        life.killed = true;
        // Telling it is part of the time until the next one runs, though not of any use to that.
        life.over_ns = now_ns();
        if let Some(path) = &self.record {
            life.record(path)?;
        }
        kill_process(getpid(), Signal::KILL)
            .map_err(|errno| Error::System { what: "killing this process", source: errno.into() })
    }
}

fn print(life: &Life) -> Result<(), Error> {
    let since = |from: u64, to: u64| (to as f64 - from as f64) / 1e6;
    let end = if life.killed { "killed" } else { "done" };
    let caught_up = life.caught_up_ns.map_or(String::new(), |at| {
        format!(" was where the one before had been after {:.3} ms,", since(life.begun_ns, at))
    });
    say::line(format_args!(
        "rank {}, incarnation {}: connected after {:.3} ms,{caught_up} {end} after {:.3} ms",
        life.rank,
        life.incarnation,
        since(life.begun_ns, life.ready_ns),
        since(life.begun_ns, life.over_ns)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_of_work_are_read() {
        assert_eq!("2@17".parse(), Ok(Kill { rank: 2, after: Some(17) }));
        assert_eq!("0@end".parse(), Ok(Kill { rank: 0, after: None }));
        for text in ["", "2", "2@", "@3", "2@0", "2@x", "x@2", "2@-1"] {
            let error = text.parse::<Kill>().unwrap_err();
            assert!(error.ends_with(&format!("got {text:?}")), "{error}");
        }
    }
}
