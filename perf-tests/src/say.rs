//! Results on standard output, whose reader may have left or whose disk may be full; lines for people on
//! standard error, where nothing is lost if nobody reads. Each in one write.

use crate::Error;
use std::fmt::Display;
use std::io::Write;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use taffrail::environment::LogFilterError;

/// How much is said besides results and errors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::Args)]
pub struct Verbosity {
    /// Neither progress nor warnings
    #[arg(short, long, global = true, conflicts_with = "verbose")]
    quiet: bool,
    /// Say also which tuning profile is in use; of an application, each tenth of its iterations
    #[arg(short, long, global = true)]
    verbose: bool,
}

static VERBOSITY: OnceLock<Verbosity> = OnceLock::new();

impl Verbosity {
    /// From now on, so much is said. Once. What the library and the launcher say goes by it, too, or else by
    /// `TAFFRAIL_LOG`.
    ///
    /// # Errors
    /// [`LogFilterError`] when it goes by `TAFFRAIL_LOG`, and that is no filter.
    pub fn apply(self) -> Result<(), LogFilterError> {
        let _ = VERBOSITY.set(self);
        let asked = match self {
            Verbosity { quiet: true, .. } => Some("error"),
            // Build and tuning profile are said by this command, whoever starts its ranks.
            Verbosity { verbose: true, .. } => {
                Some("warn,taffrail_launch=debug,taffrail_launch::info=warn")
            }
            _ => None,
        };
        taffrail_launch::log::start(asked, "warn,taffrail_launch=info")
    }
}

fn verbosity() -> Verbosity {
    VERBOSITY.get().copied().unwrap_or_default()
}

/// Whether neither progress nor warnings are wanted.
pub fn is_quiet() -> bool {
    verbosity().quiet
}

/// Whether more is wanted.
pub fn is_verbose() -> bool {
    verbosity().verbose
}

/// Says one line.
pub fn note(line: impl Display) {
    let _ = std::io::stderr().write_all(format!("{line}\n").as_bytes());
}

/// Says one line, as a warning, unless it is to be quiet.
pub fn warn(line: impl Display) {
    if !is_quiet() {
        note(format_args!("warning: {line}"));
    }
}

/// Prints one line of results to standard output.
///
/// # Errors
/// [`Error::Output`] when nobody reads it, or there is no room for it.
pub fn line(line: impl Display) -> Result<(), Error> {
    text(format_args!("{line}\n"))
}

/// Prints results to standard output, in one write.
///
/// # Errors
/// As [`line()`].
pub fn text(text: impl Display) -> Result<(), Error> {
    let text = text.to_string();
    match HAS_CONTENTS.load(Relaxed) {
        true => std::io::stderr().write_all(text.as_bytes()).map_err(Error::Output),
        false => contents(text.as_bytes()),
    }
}

/// Whether standard output is to have the contents of a file, and nothing besides.
static HAS_CONTENTS: AtomicBool = AtomicBool::new(false);

/// From now on, lines and tables go to standard error: standard output is what a user named for a file.
pub fn leave_stdout() {
    HAS_CONTENTS.store(true, Relaxed);
}

/// Writes the contents of a file to standard output.
///
/// # Errors
/// As [`line()`].
pub fn contents(bytes: &[u8]) -> Result<(), Error> {
    let mut out = std::io::stdout().lock();
    out.write_all(bytes).and_then(|()| out.flush()).map_err(Error::Output)
}

/// Prints each of these as a line, each behind `before`.
///
/// # Errors
/// As [`line()`].
pub fn lines<T: Display>(before: &str, all: impl IntoIterator<Item = T>) -> Result<(), Error> {
    all.into_iter().try_for_each(|one| line(format_args!("{before}{one}")))
}
