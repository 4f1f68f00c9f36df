//! Taffrail over connected stream sockets: TCP between nodes, `AF_UNIX` pairs in tests.
//!
//! One connection for each peer carries frames (`docs/spec/tcp.md`). Nothing here blocks: a frame that the socket
//! does not take stays in a bounded queue, and a poll reads from each readable connection once. A long body is read
//! into the memory that the sink names, and a logged or user body is written from where it lies.

#![warn(missing_docs)]

mod acceptor;
mod address;
pub mod admission;
mod call;
mod error;
mod fabric;
mod frame;
pub mod handshake;
mod link;
mod lively;
mod log;
mod mesh;
mod outage;
mod own;
mod rx;
mod secret;
mod socket;
mod timer;
mod tx;
mod wait;

pub use acceptor::{Dropped, Tally};
pub use address::{Interface, InterfaceAddress, ListenError, Listener};
pub use error::SetupError;
pub use fabric::{Config, Connection, Contact, TcpFabric};
pub use mesh::{over_tcp, over_unix};
pub use secret::Secret;
