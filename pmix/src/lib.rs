//! PMIx: how processes that an Open MPI `mpirun` or Slurm has started meet ([`Client`]), and how a
//! launcher serves programs that know nothing else ([`Server`]).
//!
//! Both are libpmix, loaded at run time: nothing of it is needed to build, and a process that has no use
//! for it never loads it.

mod abi;
mod client;
mod library;
mod log;
mod server;

pub use client::Client;
pub use server::{ClientEvent, Fence, Server, node_name};

/// Looks whether libpmix is here, and loads it.
///
/// # Errors
/// [`Error::NoLibrary`] and [`Error::NoFunction`].
pub fn check() -> Result<(), Error> {
    library::functions().map(drop)
}

/// What went wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// libpmix is not here.
    #[error("libpmix.so.2 cannot be loaded ({0}); install it (Debian: libpmix2)")]
    NoLibrary(String),
    /// It is here, and is another one than it should be.
    #[error("libpmix.so.2 has no {0}; it should be of PMIx 4.2 or later (Debian: libpmix2)")]
    NoFunction(&'static str),
    /// It was used in this process before, for which there is one connection.
    #[error("this process uses PMIx already")]
    Taken,
    /// A call failed.
    #[error("{call}: {why}")]
    Failed {
        /// Which.
        call: &'static str,
        /// As libpmix says it.
        why: String,
    },
    /// What was to be told to libpmix, or was told by it, is not what it can be.
    #[error("{what}: expected {expected}, got {got:?}")]
    Unusable {
        /// What it is.
        what: String,
        /// What it should be.
        expected: &'static str,
        /// What it is.
        got: String,
    },
}
