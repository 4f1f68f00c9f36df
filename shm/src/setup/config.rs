//! What shared memory is made from.

use crate::Costs;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

/// What a fabric is made from.
#[derive(Clone, Debug)]
pub struct Config {
    /// The job is an open one ([`Setup::open`](super::Setup::open)): it begins alone, and processes that are called or
    /// connect by themselves get its peer slots. Otherwise it is that of a job, with ranks that all connect at the
    /// beginning ([`Setup::connect`](super::Setup::connect)).
    pub open: bool,
    /// This process's rank; in an open job the number of its own peer slot.
    pub rank: u32,
    /// The name to listen under, so that others know the address before this process is there: 1 to
    /// 107 printable ASCII characters without spaces. Then all ranks of a job must have such names, and
    /// [`connect`](super::Setup::connect) waits for those that do not listen yet. A process that was started
    /// again takes the name of the one before. `None`: a random one.
    pub name: Option<String>,
    /// How many ranks there are; in an open job how many peer slots, the own among them. What a peer slot costs,
    /// whether somebody has it or not: its ring (8 KiB of up to 32 peer slots, of more together not more than
    /// 256 KiB, but 1 KiB at least) and 256 bytes.
    pub ranks: u32,
    /// The incarnation of this rank: 0 at first, one more at each restart.
    pub incarnation: u32,
    /// Of each rank, how many restarts the job had seen when it was started, so that of two ranks the
    /// later connects to the earlier. Empty when all are started together.
    pub generations: Vec<u32>,
    /// Ranks that die may be started again: the fabric then accepts their successors. The launcher must make sure
    /// that the process of the predecessor has ended before it starts the successor.
    pub restarts: bool,
    /// Digest of the job's identity; processes of another job are refused. Not used by open jobs, which
    /// refuse nobody of the same user.
    pub job: [u64; 2],
    /// The outbox grows up to this many bytes.
    pub outbox_max: usize,
    /// Bytes for segments that are kept, had from the beginning: they count in `outbox_max`.
    pub reserve: usize,
    /// The file to be the outbox, so that it can outlive the process: an empty memfd that may be sealed.
    /// Segment `k` ([`SegmentId`](taffrail_fabric::SegmentId)) is `max_message` bytes long and begins at so
    /// many times `k`. `None`: one that nobody else has.
    pub outbox: Option<Arc<OwnedFd>>,
    /// How long to wait for peers.
    pub patience: Duration,
    /// What bytes cost here.
    pub costs: Costs,
}

impl Config {
    /// Of one of `ranks` ranks that are started together and not restarted: an outbox of up to 64 MiB, 20 seconds to
    /// wait for peers.
    pub fn new(rank: u32, ranks: u32) -> Config {
        Config {
            open: false,
            rank,
            name: None,
            ranks,
            incarnation: 0,
            generations: Vec::new(),
            restarts: false,
            job: [0; 2],
            outbox_max: 64 << 20,
            reserve: 0,
            outbox: None,
            patience: Duration::from_secs(20),
            costs: Costs::default(),
        }
    }
}
