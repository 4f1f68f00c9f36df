//! What can go wrong while measuring.

use std::path::PathBuf;
use taffrail::words::counted;

/// An error of `taffrail-perf`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The transport failed.
    #[error(transparent)]
    Transport(#[from] taffrail::Error),
    /// A measurement run as a process of its own failed.
    #[error("`taffrail-perf {arguments}` ended with {status}: {said}")]
    Measurement {
        /// What was run.
        arguments: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        said: String,
    },
    /// The job has the wrong size.
    #[error(
        "this measurement needs {needs} ranks but the job has {got}; start it without a launcher, \
         or with -n {needs}"
    )]
    JobSize {
        /// Ranks needed.
        needs: String,
        /// Ranks there are.
        got: u32,
    },
    /// Two CPUs are needed and fewer are allowed.
    #[error(
        "two CPUs are needed to measure between them but this process may run on {got}; allow two \
         (taskset, cgroup cpuset)"
    )]
    TooFewCpus {
        /// CPUs allowed.
        got: usize,
    },
    /// A message arrived changed.
    #[error(
        "a message of {} arrived changed: byte {at} should be {expected:#04x} and is {got:#04x}; please report this \
         with the output of `taffrail info`",
        counted(*.size, "byte")
    )]
    Changed {
        /// Bytes of the message.
        size: usize,
        /// The first wrong byte.
        at: usize,
        /// What was sent.
        expected: u8,
        /// What arrived.
        got: u8,
    },
    /// An application's answer is wrong.
    #[error(
        "{what}: expected {expected}, got {got}; please report this with the output of `taffrail \
         info`"
    )]
    Invalid {
        /// What of it.
        what: &'static str,
        /// What would have been right.
        expected: String,
        /// What there was.
        got: String,
    },
    /// Options that contradict each other.
    #[error("{0}")]
    Usage(String),
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that was to be written is there already.
    #[error(
        "{} is there already; give another name, or replace it with --force",
        path.display()
    )]
    Exists {
        /// Which.
        path: PathBuf,
    },
    /// Others used the machine while it was measured for all programs to come.
    #[error(
        "the machine is busy, so {} is not written: {reason}; end that or wait for it, and measure \
         again; --force writes it all the same",
        path.display()
    )]
    Busy {
        /// What would have been written.
        path: PathBuf,
        /// Who was busy.
        reason: String,
    },
    /// Results could not be printed.
    #[error("cannot write to standard output: {0}")]
    Output(std::io::Error),
    /// A plot could not be drawn.
    #[error("{}: could not draw the plot: {reason}", path.display())]
    Plot {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
    /// The operating system refused something.
    #[error("{what}: {source}")]
    System {
        /// What was wanted.
        what: &'static str,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// Whether who reads the results has left, which needs no line.
    pub fn is_reader_gone(&self) -> bool {
        matches!(self, Error::Output(e) if e.kind() == std::io::ErrorKind::BrokenPipe)
    }

    /// Wraps an I/O error with the file it concerns.
    pub fn file(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source }
    }
}
