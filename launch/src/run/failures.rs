//! What is to be done about ranks that fail: the options, and what follows from them.

use super::Failure;
use super::life::Restarts;
use super::sets::Sets;
use crate::eventlog::{Keeping, Kept};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;
use taffrail::{environment, units};
use taffrail_agent::NodeId;
use taffrail_logging::store::MAX_COPIES;

/// Sets that are started again in one job, unless it is said otherwise.
const MAX_RESTARTS: u32 = 100;

/// Event loggers that each have a copy of all events, unless it is said otherwise.
const COPIES: u32 = 2;

/// What to do about ranks that fail.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(next_help_heading = "Failures")]
pub struct Options {
    /// Log the messages of ranks, so that those that are killed can be started again
    #[arg(long, value_enum, default_value_t)]
    logging: Logging,
    /// Which ranks fall back together: all of the node, each for itself, or as a file says, with a
    /// line of rank numbers for each set [default: node]
    #[arg(long, value_name = "node|rank|FILE")]
    sets: Option<OsString>,
    /// Which events are logged: those that chance has decided, or every reception
    /// [default: nondeterministic]
    #[arg(long, value_enum)]
    events: Option<Events>,
    /// What events survive: killed processes, the end of the node, or all but one event logger, of which all but the
    /// first copy to another node each where there are several [default: process; node where there are several]
    #[arg(long, value_enum)]
    durability: Option<Kept>,
    /// Where events are kept for the durability `disk`, a folder for each job
    #[arg(long, value_name = "DIR")]
    log_dir: Option<PathBuf>,
    /// How many event loggers have a copy of all events for the durability `node`; of several nodes one less may be lost at
    /// once [default: 2]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..=i64::from(MAX_COPIES)))]
    copies: Option<u32>,
    /// Memory for the messages that a rank logs: 512M, 2GiB (K is 1024 bytes) [default:
    /// TAFFRAIL_LOG_MEMORY, or 1G]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    log_memory: Option<u64>,
    /// After so many restarts of sets the next failure ends the job [default: 100]
    #[arg(long, value_name = "N")]
    max_restarts: Option<u32>,
    /// What to do when a rank is killed [default: restart with --logging, else abort]
    #[arg(long, value_enum)]
    on_failure: Option<OnFailure>,
    /// Kill a rank that has not called the library for so long (30, 500ms, 2m; seconds without a unit); a
    /// program that computes for longer between two calls is killed as well [default: never]
    #[arg(long, value_name = "TIME", value_parser = units::parse_duration)]
    heartbeat: Option<Duration>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, clap::ValueEnum)]
enum Logging {
    /// Not at all
    #[default]
    None,
    /// By the sender, with events logged before anything depends on them
    Pessimistic,
    /// By the sender; events go with the messages that depend on them until they are logged
    Causal,
}

/// Which events are logged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Events {
    /// What chance has decided
    Nondeterministic,
    /// Every reception
    All,
}

/// What is done when a rank is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum OnFailure {
    /// Its set is started again
    Restart,
    /// The job is ended
    Abort,
    /// The others go on without it to their end; the job has failed then
    ShrinkReport,
}

/// What follows from the options.
pub struct Plan {
    /// When a rank is killed.
    pub on_failure: OnFailure,
    /// If messages are logged.
    pub logging: Option<Logged>,
}

impl Plan {
    /// Where killed ranks are started again.
    pub fn restarts(&self) -> Option<Restarts> {
        let logged = self.logging.as_ref()?;
        Some(Restarts { sets: logged.sets.clone(), max: logged.max_restarts })
    }
}

/// How messages are logged.
pub struct Logged {
    /// Whether events go with the messages that depend on them.
    pub causal: bool,
    /// Who falls back together.
    pub sets: Sets,
    /// Which events are logged.
    pub events: Events,
    /// Where they are kept.
    pub keeping: Keeping,
    /// Bytes for the messages of each rank, if that was said.
    pub memory: Option<u64>,
    /// How often sets are started again.
    pub max_restarts: u32,
}

impl Options {
    /// Whether messages are to be logged.
    pub fn log(&self) -> bool {
        self.logging != Logging::None
    }

    /// Whether they are logged causally.
    pub(super) fn is_causal(&self) -> bool {
        self.logging == Logging::Causal
    }

    /// Whether some ranks may be started again, and others not.
    pub(super) fn has_sets_apart(&self) -> bool {
        self.log() && self.sets.as_deref().is_some_and(|sets| sets != "node")
    }

    /// The longest time between two calls of the library, if ranks that hang are to be killed.
    pub(super) fn heartbeat(&self) -> Option<Duration> {
        self.heartbeat
    }

    /// What follows for ranks on these nodes, whose events survive what is usual there unless it is said otherwise.
    ///
    /// # Errors
    /// When options contradict each other, or sets are not as they should be.
    pub(super) fn plan(&self, nodes: &[NodeId], usual: Kept) -> Result<Plan, Failure> {
        let usage = |why: String| Failure { status: 2, why };
        if self.logging == Logging::None {
            let needs_logging = [
                ("--sets", self.sets.is_some()),
                ("--events", self.events.is_some()),
                ("--durability", self.durability.is_some()),
                ("--log-dir", self.log_dir.is_some()),
                ("--copies", self.copies.is_some()),
                ("--log-memory", self.log_memory.is_some()),
                ("--max-restarts", self.max_restarts.is_some()),
                ("--on-failure restart", self.on_failure == Some(OnFailure::Restart)),
            ];
            if let Some((option, _)) = needs_logging.iter().find(|(_, given)| *given) {
                return Err(usage(format!("{option} needs --logging pessimistic or causal")));
            }
            let on_failure = self.on_failure.unwrap_or(OnFailure::Abort);
            return Ok(Plan { on_failure, logging: None });
        }
        let on_failure = self.on_failure.unwrap_or(OnFailure::Restart);
        if on_failure == OnFailure::ShrinkReport {
            let why = "--on-failure shrink-report goes without --logging: ranks whose messages are \
                       logged wait for those that were killed to be started again";
            return Err(usage(why.into()));
        }
        let keeping = self.keeping(usual).map_err(usage)?;
        let sets = self.sets.as_deref().unwrap_or("node".as_ref());
        let sets = Sets::choose(sets, nodes).map_err(usage)?;
        let logged = Logged {
            causal: self.logging == Logging::Causal,
            sets,
            events: self.events.unwrap_or(Events::Nondeterministic),
            keeping,
            memory: self.log_memory()?,
            max_restarts: self.max_restarts.unwrap_or(MAX_RESTARTS),
        };
        Ok(Plan { on_failure, logging: Some(logged) })
    }
}

impl Options {
    /// Bytes for the messages that a rank logs, if that is said in an option or in the environment.
    fn log_memory(&self) -> Result<Option<u64>, Failure> {
        const NAME: &str = "TAFFRAIL_LOG_MEMORY";
        match (self.log_memory, environment::value(NAME)) {
            (None, Some(text)) => {
                let wrong = |e| Failure { status: 2, why: format!("{NAME}: {e}") };
                units::parse_size(&text).map(Some).map_err(wrong)
            }
            (given, _) => Ok(given),
        }
    }

    fn keeping(&self, usual: Kept) -> Result<Keeping, String> {
        let durability = self.durability.unwrap_or(usual);
        if self.log_dir.is_some() && durability != Kept::Disk {
            return Err("--log-dir needs --durability disk".into());
        }
        if self.copies.is_some() && durability != Kept::Node {
            return Err("--copies needs --durability node".into());
        }
        match durability {
            Kept::Process => Ok(Keeping::Process),
            Kept::Node => Ok(Keeping::Node { copies: self.copies.unwrap_or(COPIES) }),
            Kept::Disk => match &self.log_dir {
                Some(dir) => Ok(Keeping::Disk(dir.clone())),
                None => Err("--durability disk needs --log-dir DIR".into()),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        options: Options,
    }

    fn plan(line: &str) -> Result<Plan, String> {
        let cli = Cli::try_parse_from(["run"].into_iter().chain(line.split_whitespace()));
        cli.map_err(|e| e.to_string())?
            .options
            .plan(&[0; 4], Kept::Process)
            .map_err(|failure| failure.why)
    }

    #[test]
    fn ranks_are_restarted_where_messages_are_logged() {
        let none = plan("").unwrap();
        assert!(none.logging.is_none() && none.on_failure == OnFailure::Abort);
        let all = plan("--logging pessimistic").unwrap();
        assert_eq!(all.on_failure, OnFailure::Restart);
        let logged = all.logging.unwrap();
        assert_eq!((logged.sets.all(), logged.max_restarts), (&[0; 4][..], 100));
        assert!(logged.keeping == Keeping::Process && logged.memory.is_none());
        let more =
            plan("--logging pessimistic --sets rank --durability disk --log-dir x --log-memory 3m");
        let logged = more.unwrap().logging.unwrap();
        assert_eq!((logged.sets.all(), logged.memory), (&[0, 1, 2, 3][..], Some(3 << 20)));
        assert!(logged.keeping == Keeping::Disk("x".into()) && !logged.causal);
        assert!(plan("--logging causal").unwrap().logging.unwrap().causal);
        let node = "--logging pessimistic --durability node";
        let copies = |line: &str| plan(line).unwrap().logging.unwrap().keeping;
        assert_eq!(copies(node), Keeping::Node { copies: 2 });
        assert_eq!(copies(&format!("{node} --copies 3")), Keeping::Node { copies: 3 });
    }

    #[test]
    fn what_does_not_fit_together_is_refused() {
        for (line, why) in [
            ("--sets rank", "--sets needs --logging pessimistic"),
            ("--max-restarts 3", "--max-restarts needs --logging pessimistic"),
            ("--on-failure restart", "--on-failure restart needs --logging pessimistic"),
            ("--logging pessimistic --on-failure shrink-report", "goes without --logging"),
            ("--logging pessimistic --durability disk", "needs --log-dir DIR"),
            ("--logging pessimistic --log-dir x", "--log-dir needs --durability disk"),
            ("--logging pessimistic --durability node --log-dir x", "needs --durability disk"),
            ("--logging pessimistic --copies 2", "--copies needs --durability node"),
            ("--logging pessimistic --durability node --copies 9", "1..=8"),
            ("--copies 2", "--copies needs --logging pessimistic"),
            ("--logging pessimistic --log-memory 0", "expected a size above 0"),
            ("--logging pessimistic --log-memory 20E", "expected a size above 0"),
            ("--logging pessimistic --log-memory 99999999999G", "expected a size"),
            ("--logging pessimistic --sets some", "--sets some: No such file"),
        ] {
            let error = plan(line).err().expect(line);
            assert!(error.contains(why), "{line}: {error}");
        }
    }
}
