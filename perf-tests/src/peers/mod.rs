//! Other transports on this machine: how to run their own benchmarks, and how to read them.

mod fabric;
mod mpi;
mod ring;
mod running;
mod ucx;

pub(crate) use fabric::{over_sockets as fi_pingpong, printed_us as fi_pingpong_us};
pub(crate) use mpi::{compile, open_mpi};
pub use ring::open_mpi_ring;
pub(crate) use running::{run, run_within};

/// A transport to compare with. Its functions return why a figure is missing in words that say
/// what to do about it.
#[derive(Clone, Copy)]
pub struct Peer {
    /// Its name in tables.
    pub name: &'static str,
    /// Microseconds of half a round trip of so many bytes.
    pub time_us: fn(usize) -> Result<f64, String>,
    /// Messages a second of so many bytes, where its benchmark measures that.
    pub rate: Option<fn(usize) -> Result<f64, String>>,
}

/// Open MPI, by NetPIPE.
pub const OPEN_MPI: Peer = Peer { name: "Open MPI", time_us: mpi::open_mpi_us, rate: None };
/// MPICH, by NetPIPE.
pub const MPICH: Peer = Peer { name: "MPICH", time_us: mpi::mpich_us, rate: None };
/// UCX, by its own benchmark's tag matching.
pub const UCX: Peer = Peer { name: "UCX", time_us: ucx::time_us, rate: Some(ucx::rate) };
/// libfabric's shared-memory provider, by its own ping-pong.
pub const LIBFABRIC: Peer = Peer { name: "libfabric", time_us: fabric::time_us, rate: None };

/// All that are looked for.
pub const ALL: [Peer; 4] = [OPEN_MPI, MPICH, UCX, LIBFABRIC];
