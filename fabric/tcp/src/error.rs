//! Why a fabric could not be set up.

use rustix::io::Errno;

/// Why connections do not make a fabric.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SetupError {
    /// A rank outside of the job, or the fabric's own.
    #[error(
        "a connection with rank {rank}, but peers of rank {me} are the other ranks below {ranks}"
    )]
    Rank {
        /// The rank at the other end.
        rank: u32,
        /// The fabric's own rank.
        me: u32,
        /// How many ranks there are.
        ranks: u32,
    },
    /// Two connections with one rank.
    #[error("two connections with rank {rank}; one carries everything")]
    Twice {
        /// The rank at the other end.
        rank: u32,
    },
    /// A descriptor that is no stream socket.
    #[error("the connection with rank {rank} is {got}; a connected stream socket is needed")]
    NotAStream {
        /// The rank at the other end.
        rank: u32,
        /// What it is.
        got: String,
    },
    /// The operating system refused something.
    #[error("{call} failed: {errno}")]
    Os {
        /// The system call.
        call: &'static str,
        /// Its error.
        errno: Errno,
    },
}

impl SetupError {
    pub(crate) fn os(call: &'static str) -> impl Fn(Errno) -> SetupError {
        move |errno| SetupError::Os { call, errno }
    }
}
