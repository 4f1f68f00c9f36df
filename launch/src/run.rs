//! `taffrail run`: starts the ranks, serves PMI-1 to them, watches them, starts those again that were
//! killed if their messages are logged, and ends them.

mod addresses;
mod apps;
mod before_exec;
mod cpus;
mod event_loop;
mod failures;
pub(crate) mod family;
pub(crate) mod files;
mod guard;
mod heartbeat;
mod job_name;
mod kept_input;
mod keyboard;
mod left_behind;
mod life;
mod line;
mod logger;
mod members;
mod nodes;
mod open_barrier;
pub(crate) mod outlets;
mod output;
pub(crate) mod own_program;
mod pmix;
pub(crate) mod rank_files;
mod rank_messages;
mod ranks;
mod recovery;
mod recovery_stats;
mod restart;
mod server;
mod sets;
mod signals;
mod speaker;

/// What the fuzz targets need beside the public interface.
#[cfg(fuzzing)]
#[doc(hidden)]
pub mod fuzzing {
    pub use super::line::{Heard, Line};
    pub use super::server::{Server, ServerAction};
}

use crate::mpi::Needs;
pub(crate) use apps::App;
pub use cpus::allowed as allowed_cpus;
pub use failures::Options as FailureOptions;
pub use guard::guard;
pub use nodes::{AgentArgs, NodeOptions, agent};
pub use pmix::{pmix_rank, pmix_server};

use crate::log::{self, Verbosity};
use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;
use taffrail::environment;

/// How to start a job.
#[derive(clap::Args)]
pub struct Args {
    /// How many ranks to start; -np and --np are the same [default: as many as the hosts have slots]
    #[arg(short = 'n', long = "ranks", alias = "np", value_name = "N", value_parser = clap::value_parser!(u32).range(1..=apps::RANKS_MAX))]
    wanted: Option<u32>,
    /// Give each rank a CPU of its own, from the first on, round robin, or none [default: core, if there are several
    /// ranks and a CPU for each that no other `taffrail` job has bound a rank to; else none]
    #[arg(long, value_enum)]
    bind: Option<Bind>,
    /// Put `[rank] ` before each line of output. Lines of more than 64 KiB are split, and their further parts begin
    /// with `[rank, continued] `
    #[arg(long)]
    label: bool,
    /// End the job after so long (90, 500ms, 2m, 1h; seconds without a unit), with status 124
    #[arg(long, value_name = "TIME", value_parser = taffrail::units::parse_duration)]
    timeout: Option<Duration>,
    /// Serve PMIx, by which Open MPI starts, and not PMI-1 [default: if the program is linked with Open MPI]
    #[arg(long)]
    pmix: bool,
    /// The program, looked up in PATH, and its arguments: all that follows is its own. ` : -n N PROGRAM`
    /// behind it starts further ranks that run another one
    #[arg(required = true, trailing_var_arg = true, value_name = "PROGRAM [ARGS]...")]
    command: Vec<OsString>,
    /// What ranks run, in their order; of all programs once the command line has been split.
    #[arg(skip)]
    apps: Vec<App>,
    /// What ranks find in their environment beside what is in ours.
    #[arg(skip)]
    environment: Vec<(&'static str, OsString)>,
    #[command(flatten)]
    verbosity: Verbosity,
    #[command(flatten)]
    nodes: NodeOptions,
    // The last: what comes after it would stand under its heading.
    #[command(flatten)]
    failures: failures::Options,
}

impl Args {
    /// `ranks` ranks of a program, looked up in `PATH`; no labels, no time limit, no logging.
    pub fn new(ranks: u32, bind: Bind, program: OsString, args: Vec<OsString>) -> Self {
        Args {
            wanted: Some(ranks),
            bind: Some(bind),
            label: false,
            timeout: None,
            pmix: false,
            command: Vec::new(),
            apps: vec![App { ranks, program, args }],
            environment: Vec::new(),
            verbosity: Verbosity::default(),
            nodes: NodeOptions::default(),
            failures: failures::Options::default(),
        }
    }

    /// The same, with this to be done about ranks that fail.
    pub fn with(self, failures: FailureOptions) -> Self {
        Args { failures, ..self }
    }

    /// The same, on these hosts.
    pub fn on(self, nodes: NodeOptions) -> Self {
        Args { nodes, ..self }
    }

    /// The same, with these variables in the environment of every rank.
    pub(crate) fn with_environment(self, environment: Vec<(&'static str, OsString)>) -> Self {
        Args { environment, ..self }
    }

    /// The same, with PMIx for its ranks.
    pub(crate) fn with_pmix(self) -> Self {
        Args { pmix: true, ..self }
    }

    /// With the programs of the command line separated, and all of their ranks counted, and with the hosts of the
    /// allocation that it is in. Behind `--` there
    /// is only one, whatever its arguments are.
    ///
    /// # Errors
    /// When what separates programs has none behind it, there is no allocation that was asked for, or nothing says how many
    /// ranks there are.
    pub(crate) fn split(mut self) -> Result<Self, Failure> {
        if self.apps.is_empty() {
            self.nodes.take_allocation()?;
            let ranks = match self.wanted {
                Some(ranks) => ranks,
                None => self.nodes.slots()?,
            };
            let mut before = std::env::args_os().rev().skip(self.command.len());
            self.apps = match before.next().is_some_and(|word| word == "--") {
                true => vec![App::new(ranks, self.command.clone())],
                false => apps::split(ranks, &self.command)?,
            };
        }
        Ok(self)
    }

    pub(crate) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// How many ranks there are, of all programs, once the command line has been split.
    pub(crate) fn ranks(&self) -> u32 {
        self.apps.iter().map(|app| app.ranks).sum()
    }

    /// How many ranks of the first program were asked for.
    #[cfg(test)]
    pub(crate) fn wanted(&self) -> Option<u32> {
        self.wanted
    }

    /// The programs, in the order of their ranks.
    pub(crate) fn apps(&self) -> &[App] {
        &self.apps
    }

    /// What a rank runs, and which of the programs that is.
    fn app_of(&self, rank: usize) -> (usize, &App) {
        let mut next = 0;
        let of_rank = self.apps.iter().position(|app| {
            next += app.ranks as usize;
            rank < next
        });
        let number = of_rank.unwrap_or(0);
        (number, &self.apps[number])
    }

    /// Of each rank, which of the programs it runs.
    fn app_numbers(&self) -> Vec<usize> {
        (0..self.ranks() as usize).map(|rank| self.app_of(rank).0).collect()
    }

    /// Whether a program is linked with an MPI, as far as its file shows.
    fn has_mpi(&self) -> bool {
        self.apps.iter().any(crate::mpi::is_mpi)
    }

    /// Whether messages are logged.
    pub(crate) fn logs(&self) -> bool {
        self.failures.log()
    }

    /// Gives programs what they need of their MPI, or says that they do not get it. `sets_apart`: some may be started again, and
    /// others not.
    fn meet_needs(&mut self, sets_apart: bool) {
        const ONE_INIT: &str = "MPIR_CVAR_FINALIZE_ATEXIT";
        let needs = self.apps.iter().map(crate::mpi::needs);
        let needs = needs.fold(Needs::default(), Needs::or);
        if needs.shared_windows && (self.failures.log() || self.pmix) {
            let why = if self.failures.log() { "--logging" } else { "taffrail run" };
            say(&format!(
                "the program makes windows in shared memory (MPI_Win_allocate_shared): each is of one rank, since \
                 under {why} each rank is alone on its node for its MPI"
            ));
        }
        if needs.windows && self.pmix && sets_apart {
            say(
                "the program makes windows (MPI_Win_create or MPI_Win_allocate), which end with MPI_ERR_WIN: Open MPI has none where \
                 messages are logged between several sets; use one set (--sets job, on one node), no --logging, or MPICH",
            );
        }
        let has_one_endpoint = self.failures.log() || self.nodes.is_over_nodes();
        if needs.sessions && has_one_endpoint && std::env::var_os(ONE_INIT).is_none() {
            // MPICH keeps its endpoint from one session to the next: a second one is refused.
            self.environment.push((ONE_INIT, "1".into()));
        }
    }

    /// Says what becomes of an MPI's messages without the provider, unless the user has chosen another transport.
    fn say_without_provider(&self, why: &crate::mpi::Error) {
        if self.pmix && std::env::var_os("OMPI_MCA_pml").is_none() {
            say(&format!(
                "Open MPI takes tcp between ranks, which is slow, and has no windows: each rank is alone on its \
                 node for it, and {why}"
            ));
        } else if !self.pmix && self.has_mpi() {
            say(&format!(
                "the messages of MPI are not logged, and no killed rank can be restarted: {why}"
            ));
        }
    }

    /// How many words at the end of the command line are not the launcher's.
    pub(crate) fn words_of_program(&self) -> usize {
        self.command.len()
    }

    /// Whether anything is asked for that no launcher but this one does.
    pub(crate) fn asks_for_our_launcher(&self) -> bool {
        let failures = self.failures != failures::Options::default();
        failures
            || self.nodes.is_over_nodes()
            || self.bind.is_some()
            || self.label
            || self.timeout.is_some()
            || self.pmix
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

/// How long the last lines of the launcher wait for a reader.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// Runs the job and returns its status; what goes wrong is told on standard error.
///
/// To be called on a thread that outlives the job, of a program that has no other child processes,
/// and that does nothing but call [`guard`] when it is itself started with the one argument
/// `guard`, and, where messages are logged, [`eventlog`](crate::eventlog::eventlog) when it is
/// started with `eventlog` and its arguments; and, where hosts are named, [`agent`] and
/// [`copies`](crate::eventlog::copies) in the same way. Only `taffrail` itself runs programs of Open MPI.
pub fn run(args: Args) -> ExitCode {
    let started = args
        .verbosity
        .apply()
        .map_err(|e| Failure { status: 2, why: e.to_string() })
        .and_then(|()| start(args));
    let status = started.unwrap_or_else(|failure| {
        say(&failure.why);
        failure.status
    });
    outlets::flush(LAST_WORDS);
    ExitCode::from(status)
}

fn start(args: Args) -> Result<u8, Failure> {
    let mut args = args.split()?;
    warn_of_unknown_variables();
    files::raise_limit();
    args.nodes.check()?;
    args.pmix |= args.apps.iter().any(crate::mpi::is_open_mpi);
    if args.pmix {
        taffrail_pmix::check()
            .map_err(|e| Failure::new(format!("Open MPI starts through PMIx: {e}")))?;
        args.environment.extend(pmix::settings(args.ranks()));
    }
    // Agents do it for their own ranks.
    if args.failures.log() && !args.nodes.is_over_nodes() {
        addresses::settle();
    }
    // The ranks of each node are a set, or several.
    let apart = args.failures.has_sets_apart() || args.logs() && args.nodes.names_several()?;
    // With PMIx every rank is on a node of its own, so that nothing else is quick.
    if args.failures.log() || args.pmix {
        if args.pmix || args.has_mpi() {
            crate::mpi::not_used(None).iter().for_each(|line| log::note(line));
        }
        match crate::mpi::through_provider(apart) {
            Ok(variables) => args.environment.extend(variables),
            Err(why) => args.say_without_provider(&why),
        }
    }
    if args.failures.log() || args.pmix || args.nodes.is_over_nodes() {
        args.meet_needs(apart);
    }
    for (name, value) in &args.environment {
        tracing::debug!("ranks are given {name}={}", value.to_string_lossy());
    }
    if args.nodes.is_over_nodes() {
        return nodes::job(&args);
    }
    crate::info::say_speed();
    event_loop::job(&args)
}

/// Says which variables of the environment look like ours, and nothing reads.
pub(crate) fn warn_of_unknown_variables() {
    let names = std::env::vars_os().map(|(name, _)| name);
    environment::unknown(names).iter().for_each(|line| log::note(line));
}

/// Why a job could not be started, and the status to end with.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: u8,
    pub(crate) why: String,
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

/// One line on standard error, for one event. When nobody listens there is nobody to tell, and whoever does not read
/// is not waited for.
pub(crate) fn say(what: &str) {
    outlets::say(format!("taffrail: {what}\n"));
}
