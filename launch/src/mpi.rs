//! `taffrail mpi`: starts an MPI program over Taffrail, with the launcher of its MPI or with ours.

mod excluded;
mod installed;
mod left_behind;
mod linked;
mod needs;
mod provider;

pub(crate) use excluded::not_used;
pub use installed::{Launcher, beside};
pub(crate) use left_behind::remove as remove_left_behind;
pub(crate) use needs::Needs;
pub(crate) use provider::{found as found_provider, through_provider};

use crate::log::note;
use crate::run::App;
use crate::{print, run};
use linked::{Abi, Program};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use taffrail::environment::CHECKED;

/// How to start an MPI program.
#[derive(clap::Args)]
#[group(skip)]
pub struct Args {
    /// Which MPI [default: the one that the program is linked with, else the first in PATH]
    #[arg(long, value_enum, default_value_t)]
    mpi: Which,
    /// Print the command line instead, as one could type it
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    run: run::Args,
}

/// Which MPI is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Which {
    /// The one that the program is linked with, else the first in PATH
    #[default]
    Auto,
    /// MPICH
    Mpich,
    /// Open MPI
    Openmpi,
    /// Intel MPI
    Intel,
}

/// Implementations of MPI.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mpi {
    /// MPICH.
    Mpich,
    /// Open MPI.
    Open,
    /// Intel MPI.
    Intel,
}

impl Mpi {
    /// As it is called.
    pub fn name(self) -> &'static str {
        match self {
            Mpi::Mpich => "MPICH",
            Mpi::Open => "Open MPI",
            Mpi::Intel => "Intel MPI",
        }
    }

    /// The variable that names the provider it is to use.
    pub fn provider_variable(self) -> &'static str {
        match self {
            Mpi::Mpich | Mpi::Intel => "FI_PROVIDER",
            Mpi::Open => "OMPI_MCA_mtl_ofi_provider_include",
        }
    }

    /// Whether programs of this binary interface can run over it.
    fn runs(self, abi: Abi) -> bool {
        match abi {
            Abi::Mpich => self != Mpi::Open,
            Abi::OpenMpi => self == Mpi::Open,
            Abi::Standard => true,
        }
    }
}

impl Which {
    fn is(self, mpi: Mpi) -> bool {
        match self {
            Which::Auto => true,
            Which::Mpich => mpi == Mpi::Mpich,
            Which::Openmpi => mpi == Mpi::Open,
            Which::Intel => mpi == Mpi::Intel,
        }
    }
}

/// Why an MPI program is not started.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    Usage(String),
    #[error("there is no program {0:?} here, nor in PATH")]
    NoProgram(OsString),
    #[error("cannot read {path}: {why}")]
    Unreadable { path: PathBuf, why: String },
    #[error(
        "no launcher of {wanted} was found, neither beside the library that the program is linked with, nor beside the program, nor in PATH; install it, or put the folder of its mpiexec into PATH"
    )]
    NoMpi { wanted: &'static str },
    #[error(
        "{program} is linked with {linked}, so it cannot run over {wanted}; leave out --mpi, or compile it with the mpicc of {wanted}"
    )]
    OtherMpi { program: PathBuf, linked: &'static str, wanted: &'static str },
    #[error(
        "{version} ({launcher}) is built without libfabric, so it cannot use a provider; use another MPICH, or start the program over what it has with `taffrail run`"
    )]
    NoLibfabric { version: String, launcher: PathBuf },
    #[error(
        "there is no {library}; install it with `cargo xtask install --prefix DIR` and use DIR/bin/taffrail, or set FI_PROVIDER_PATH to the folder that has it"
    )]
    NoProvider { library: PathBuf },
    #[error(
        "{library} beside this command cannot be found without /proc ({why}); mount /proc, or set FI_PROVIDER_PATH to the folder that has it"
    )]
    NoProc { library: &'static str, why: std::io::Error },
    #[error("cannot start {program}: {why}")]
    NotStarted { program: PathBuf, why: std::io::Error },
}

/// Starts the program and ends with its status; what goes wrong is told on standard error.
pub fn mpi(args: Args) -> ExitCode {
    let verbosity = args.run.verbosity().apply().map_err(|e| Error::Usage(e.to_string()));
    match verbosity.and_then(|()| start(args)) {
        Ok(status) => status,
        Err(e) => {
            run::say(&e.to_string());
            ExitCode::from(match e {
                Error::NoProgram(_) => 127,
                Error::Usage(_) => 2,
                _ => 1,
            })
        }
    }
}

fn start(args: Args) -> Result<ExitCode, Error> {
    let run = args.run.split().map_err(|failure| Error::Usage(failure.why))?;
    let args = Args { run, ..args };
    let mut programs = Vec::new();
    for app in args.run.apps() {
        programs.push(linked::look_at_command(app.command())?);
    }
    // The first that is linked with an MPI has it for all; the others may be scripts.
    let program = programs.iter().find(|program| program.abi.is_some()).unwrap_or(&programs[0]);
    let launcher = installed::find(program, args.mpi)?;
    launcher.can_use_providers()?;
    let environment = provider::environment(&launcher)?;
    for program in &programs {
        let linked = program.abi.map_or("no MPI that is to be seen from outside", |abi| abi.name());
        tracing::debug!("{} is linked with {linked}", program.path.display());
    }
    tracing::debug!("of {} there is {}", launcher.version, launcher.path.display());
    not_used(Some(launcher.mpi)).iter().for_each(|line| note(line));
    if launcher.mpi == Mpi::Mpich && !args.run.logs() {
        let needs = programs.iter().fold(Needs::default(), |all, program| all.or(program.needs));
        say_of_shared_windows(needs, &environment);
    }
    if args.run.asks_for_our_launcher() {
        return ours(args, &launcher, environment);
    }
    theirs(args, &launcher, environment)
}

/// Says what becomes of windows in shared memory under MPICH.
fn say_of_shared_windows(needs: Needs, environment: &[(&'static str, OsString)]) {
    if needs.shared_windows && environment.iter().any(|(name, _)| *name == "MPIR_CVAR_NOLOCAL") {
        run::say(
            "the program makes windows in shared memory (MPI_Win_allocate_shared): each is of one rank, since \
             with MPIR_CVAR_NOLOCAL=1, by which all messages pass Taffrail, each rank is alone on its node for \
             MPICH; with MPIR_CVAR_NOLOCAL=0 they are shared, and messages pass MPICH's own shared memory",
        );
    }
}

/// What a program needs of its MPI, as far as its file shows.
pub(crate) fn needs(app: &App) -> Needs {
    linked::look_at_command(app.command())
        .map_or_else(|_| Needs::default(), |program| program.needs)
}

/// Whether a program is linked with Open MPI, as far as can be told from outside.
pub(crate) fn is_open_mpi(app: &App) -> bool {
    // What is wrong with it is said when it is started.
    matches!(linked::look_at_command(app.command()), Ok(Program { abi: Some(Abi::OpenMpi), .. }))
}

/// Whether a program is linked with an MPI, as far as its file shows.
pub(crate) fn is_mpi(app: &App) -> bool {
    matches!(linked::look_at_command(app.command()), Ok(Program { abi: Some(_), .. }))
}

/// Our own launcher, for what the MPI's own cannot do.
fn ours(
    args: Args,
    launcher: &Launcher,
    environment: Vec<(&'static str, OsString)>,
) -> Result<ExitCode, Error> {
    let open_mpi = launcher.mpi == Mpi::Open;
    if args.dry_run {
        let words = std::env::args_os().collect();
        return Ok(show(&environment, as_run(words, args.run.words_of_program(), open_mpi)));
    }
    note(&format!("{}, started by taffrail run; {}", launcher.version, over(&environment)));
    let run = if open_mpi { args.run.with_pmix() } else { args.run };
    Ok(run::run(run.with_environment(environment)))
}

/// The launcher that the MPI brings.
fn theirs(
    args: Args,
    launcher: &Launcher,
    environment: Vec<(&'static str, OsString)>,
) -> Result<ExitCode, Error> {
    let mut words: Vec<OsString> = Vec::new();
    let cpus = run::allowed_cpus().map_or(usize::MAX, |cpus| cpus.len());
    if launcher.mpi == Mpi::Open && args.run.ranks() as usize > cpus {
        // Else it refuses to start more ranks than there are cores.
        words.push("--oversubscribe".into());
    }
    for (number, app) in args.run.apps().iter().enumerate() {
        words.extend((number > 0).then(|| ":".into()));
        words.extend(["-n".into(), app.ranks.to_string().into()]);
        words.extend(app.command().map(OsStr::to_owned));
    }
    if args.dry_run {
        words.insert(0, launcher.path.clone().into());
        return Ok(show(&environment, words));
    }
    let (version, path) = (&launcher.version, launcher.path.display());
    note(&format!("{version}, started by {path}; {}", over(&environment)));
    run::warn_of_unknown_variables();
    let mut command = Command::new(&launcher.path);
    let why = command.args(words).envs(environment).env(CHECKED, "1").exec();
    Err(Error::NotStarted { program: launcher.path.clone(), why })
}

/// The command line of `taffrail mpi` as one of `taffrail run`: so many words at its end are of the
/// program. Whether it is one of Open MPI cannot always be told by looking at it.
fn as_run(mut words: Vec<OsString>, of_program: usize, open_mpi: bool) -> Vec<OsString> {
    let program = words.split_off(words.len() - of_program);
    let mut options = words.into_iter();
    let mut line: Vec<OsString> = options.next().into_iter().chain(["run".into()]).collect();
    // `mpi`.
    options.next();
    line.extend(open_mpi.then(|| "--pmix".into()));
    while let Some(word) = options.next() {
        if word == "--mpi" {
            options.next();
        } else if word != "--dry-run" && !word.as_encoded_bytes().starts_with(b"--mpi=") {
            line.push(word);
        }
    }
    line.extend(program);
    line
}

/// Prints a command line with the environment that it needs.
fn show(environment: &[(&'static str, OsString)], words: Vec<OsString>) -> ExitCode {
    let mut line = b"env".to_vec();
    for (name, value) in environment {
        line.extend(format!(" {name}=").as_bytes());
        line.extend(quoted(value));
    }
    for word in &words {
        line.push(b' ');
        line.extend(quoted(word));
    }
    line.push(b'\n');
    print(line)
}

/// As a shell reads it, whatever bytes it has.
fn quoted(word: &OsStr) -> Vec<u8> {
    // Only a zero byte cannot be quoted, and no argument has one.
    shlex::bytes::try_quote(word.as_bytes()).unwrap_or_default().into_owned()
}

/// What carries its messages, in words.
fn over(environment: &[(&'static str, OsString)]) -> String {
    let set = environment
        .iter()
        .map(|(name, value)| format!("{name}={}", String::from_utf8_lossy(&quoted(value))));
    match set.collect::<Vec<_>>().join(" ") {
        set if set.is_empty() => "everything is set in your environment".into(),
        set => format!("with {set}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_becomes_one_of_run() {
        let line = |words: &str, of_program| {
            let words = words.split(' ').map(OsString::from).collect();
            let line = as_run(words, of_program, false);
            line.iter().map(|word| word.to_str().unwrap()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            line("t mpi -n 2 --dry-run --mpi mpich --logging pessimistic ./a --mpi b", 3),
            "t run -n 2 --logging pessimistic ./a --mpi b"
        );
        assert_eq!(line("t mpi --mpi=intel -n 3 --label -- a", 1), "t run -n 3 --label -- a");
    }
}
