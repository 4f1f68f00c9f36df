//! `taffrail run`: starts the ranks, serves PMI-1 to them, watches them, starts those again that were
//! killed if their messages are logged, and ends them.

mod addresses;
mod cpus;
mod event_loop;
mod failures;
mod files;
mod finalize;
mod guard;
mod heartbeat;
mod keyboard;
mod line;
mod logger;
mod output;
mod pmix;
mod rank_files;
mod ranks;
mod recovery;
mod recovery_stats;
mod restart;
mod server;
mod sets;
mod signals;

/// What the fuzz targets need beside the public interface.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::line::{Heard, Line};
    pub use super::server::{Server, ServerAction};
}

pub use cpus::allowed as allowed_cpus;
pub use failures::Options as FailureOptions;
pub use guard::guard;
pub use pmix::{pmix_rank, pmix_server};

use std::ffi::{OsStr, OsString};
use std::process::ExitCode;

/// How to start a job.
#[derive(clap::Args)]
pub struct Args {
    /// How many ranks to start
    #[arg(short = 'n', long = "ranks", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    ranks: u32,
    /// Give each rank a CPU of its own, round robin, or none [default: core, if there are enough]
    #[arg(long, value_enum)]
    bind: Option<Bind>,
    /// Put `[rank] ` before each line of output
    #[arg(long)]
    label: bool,
    /// End the job after this many seconds, with status 124
    #[arg(long, value_name = "SECS", value_parser = clap::value_parser!(u64).range(1..))]
    timeout: Option<u64>,
    /// Serve PMIx, by which Open MPI starts, and not PMI-1 [default: if the program is linked with Open MPI]
    #[arg(long)]
    pmix: bool,
    /// The program, looked up in PATH
    program: OsString,
    /// Its arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    args: Vec<OsString>,
    /// What ranks find in their environment beside what is in ours.
    #[arg(skip)]
    environment: Vec<(&'static str, OsString)>,
    // The last: what comes after it would stand under its heading.
    #[command(flatten)]
    failures: failures::Options,
}

impl Args {
    /// `ranks` ranks of a program, looked up in `PATH`; no labels, no time limit, no logging.
    pub fn new(ranks: u32, bind: Bind, program: OsString, args: Vec<OsString>) -> Self {
        Args {
            ranks,
            bind: Some(bind),
            label: false,
            timeout: None,
            pmix: false,
            program,
            args,
            environment: Vec::new(),
            failures: failures::Options::default(),
        }
    }

    /// The same, with this to be done about ranks that fail.
    pub fn with(self, failures: FailureOptions) -> Self {
        Args { failures, ..self }
    }

    /// The same, with these variables in the environment of every rank.
    pub(crate) fn with_environment(self, environment: Vec<(&'static str, OsString)>) -> Self {
        Args { environment, ..self }
    }

    /// The same, with PMIx for its ranks.
    pub(crate) fn with_pmix(self) -> Self {
        Args { pmix: true, ..self }
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.ranks
    }

    pub(crate) fn program(&self) -> &OsStr {
        &self.program
    }

    /// The program and its arguments.
    pub(crate) fn command(&self) -> impl ExactSizeIterator<Item = &OsStr> {
        let words = std::iter::once(&self.program).chain(&self.args);
        words.map(OsString::as_os_str).collect::<Vec<_>>().into_iter()
    }

    /// Whether anything is asked for that no launcher but this one does.
    pub(crate) fn asks_for_our_launcher(&self) -> bool {
        let failures = self.failures != failures::Options::default();
        failures || self.bind.is_some() || self.label || self.timeout.is_some() || self.pmix
    }
}

/// Where ranks run.
#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bind {
    /// Each on one CPU of those allowed here
    Core,
    /// Wherever the system puts them
    None,
}

/// Runs the job and returns its status; what goes wrong is told on standard error.
///
/// To be called on a thread that outlives the job, of a program that has no other child processes,
/// and that does nothing but call [`guard`] when it is itself started with the one argument
/// `guard`, and, where messages are logged, [`eventlog`](crate::eventlog::eventlog) when it is
/// started with `eventlog` and its arguments. Only `taffrail` itself runs programs of Open MPI.
pub fn run(mut args: Args) -> ExitCode {
    files::raise_limit();
    args.pmix |= crate::mpi::is_open_mpi(&args.program);
    if args.pmix {
        if let Err(e) = taffrail_pmix::check() {
            say(&format!("Open MPI starts through PMIx: {e}"));
            return ExitCode::FAILURE;
        }
        args.environment.extend(pmix::settings(args.ranks));
    }
    if args.failures.log() {
        addresses::settle();
    }
    // With PMIx every rank is on a node of its own, so that nothing else is quick.
    if args.failures.log() || args.pmix {
        args.environment.extend(crate::mpi::through_provider(args.failures.has_sets_apart()));
    }
    match event_loop::job(&args) {
        Ok(status) => ExitCode::from(status),
        Err(failure) => {
            say(&failure.why);
            ExitCode::from(failure.status)
        }
    }
}

/// Why a job could not be started, and the status to end with.
#[derive(Debug)]
struct Failure {
    status: u8,
    why: String,
}

impl Failure {
    fn new(why: String) -> Self {
        Failure { status: 1, why }
    }
}

/// What the system says, and what helps.
fn in_words(e: &std::io::Error) -> String {
    match e.raw_os_error() {
        Some(libc::EMFILE) => format!("{e}; raise the limit of open files (ulimit -n)"),
        _ => e.to_string(),
    }
}

/// One line on standard error, for one event. When nobody listens there is nobody to tell.
pub(crate) fn say(what: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("taffrail: {what}\n").as_bytes());
}
