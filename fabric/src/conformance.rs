//! The suite that every [`Fabric`] passes unchanged.
//!
//! A backend's author implements [`Bench`] (and [`Processes`], if peers may be processes) and
//! writes, in a test file:
//!
//! ```ignore
//! taffrail_fabric::conformance!(MyBench);            // one #[test] for each property
//! taffrail_fabric::conformance!(@messages MyBench);  // or: those of messages and links only,
//! taffrail_fabric::conformance!(@reached MyBench);   // those of memory that peers reach only
//! taffrail_fabric::conformance!(@unordered MyBench); // instead of @messages, without order
//! taffrail_fabric::conformance!(@memory MyBench);    // those of an owner of log memory
//! taffrail_fabric::conformance_processes!(MyBench);  // those that kill a peer process
//! ```
//!
//! Tests with random choices print their seed when they fail; `TAFFRAIL_SEED=<seed>` repeats them.
//! What each property means is shown by the small fabric in [`loopback`](crate::loopback), and that
//! the suite notices when one does not hold by that fabric with a [`Defect`](crate::faulty::Defect).

pub mod bodies;
pub mod closing;
pub mod death;
pub mod deregister;
pub mod later;
pub mod links;
pub mod memory;
pub mod messages;
pub mod order;
pub mod pressure;
pub mod segments;
pub mod unordered;
pub mod views;
pub mod waiting;

mod exchange;
mod heap;
mod mesh;
mod pattern;
mod process;
mod ram;
mod roles;
mod seed;
mod seen;
mod stream;

pub use exchange::{Member, mesh_of_joined};
pub use heap::CountingHeap;
pub use process::run_child;

use crate::{Fabric, Fault, Wait};
use std::time::Duration;

/// What the suite needs to know of a backend.
pub trait Bench: Sync {
    /// The fabric under test. It may move to a thread of its own.
    type Fabric: Fabric + Wait + Send;

    /// `n` fabrics in this process, connected with each other; the one at index `i` is rank `i`.
    fn mesh(&self, n: usize) -> Vec<Self::Fabric>;

    /// Whether some messages of rank 1 are handed over to rank 0 in steps. Where peers have different routes, they need
    /// not be those of a fabric that does this.
    fn streams(&self) -> bool {
        Self::Fabric::STREAMS
    }

    /// Whether some messages of rank 2 come to rank 0 in buffers that can be kept.
    fn leases(&self) -> bool {
        Self::Fabric::LEASES
    }

    /// How long anything may take before the suite calls it stuck.
    fn patience(&self) -> Duration {
        Duration::from_secs(20)
    }
}

/// A backend with peers that may be processes of their own.
pub trait Processes: Bench {
    /// Connects this process (or thread) as rank [`Member::rank`] of [`Member::size`]. Every rank
    /// calls this at the same time; [`Member::exchange`] gives each what the others have to say.
    fn join(&self, member: &mut Member<'_>) -> Self::Fabric;

    /// Whether the link with a process that was killed may break with this fault. Over a network it is only lost.
    fn is_end_of_killed(&self, fault: &Fault) -> bool {
        *fault == Fault::Died
    }
}

/// One `#[test]` for each property of a fabric, given an expression that makes a
/// [`Bench`](crate::conformance::Bench).
#[macro_export]
macro_rules! conformance {
    (@messages $bench:expr) => {
        $crate::conformance!(@each $bench;
            messages { identity, heads, sizes, too_long, gather_every_split, gather_long, to_itself }
            order { interleaved_peers, threads }
            pressure { ends_in_busy, busy_with_itself, busy_is_between_two, busy_both_ways }
            waiting { idle_sleeps, wakes, descriptor, no_lost_wake_up, many_wakers }
            closing { after_all_messages, others_go_on, disconnected, in_threads }
            later { unchanged, each_ends_once, a_peer_goes }
            bodies { in_part, kept, disconnected }
            links { drained, flushed, abandoned_in_a_child }
        );
    };
    (@unordered $bench:expr) => {
        $crate::conformance!(@each $bench;
            messages { identity, heads, sizes, too_long, gather_every_split, gather_long }
            unordered { each_once, all_before_the_end }
            waiting { idle_sleeps, wakes, descriptor, no_lost_wake_up, many_wakers }
            later { unchanged, each_ends_once, a_peer_goes }
            bodies { in_part, kept, disconnected }
            links { drained, flushed, abandoned_in_a_child }
        );
    };
    (@reached $bench:expr) => {
        $crate::conformance!(@each $bench;
            memory {
                allocation, every_size, many_at_once, both_ways_in_threads, outside_of_a_region,
                unknown_regions, garbage_keys, of_a_device
            }
            deregister { stale_keys, get_under_way, put_under_way }
            views { shows_the_bytes, outlives_everyone }
        );
    };
    (@memory $bench:expr) => {
        $crate::conformance!(@each $bench;
            segments {
                sent_again_and_again, released_before_it_is_read, released_ones_are_waited_for,
                sent_before_they_are_written
            }
        );
    };
    ($bench:expr) => {
        $crate::conformance!(@messages $bench);
        $crate::conformance!(@reached $bench);
    };
    (@each $bench:expr; $($group:ident { $($name:ident),* })*) => {
        $(mod $group {
            #[allow(unused_imports)]
            use super::*;
            $(#[test] fn $name() { $crate::conformance::$group::$name(&$bench); })*
        })*
    };
}

/// As [`conformance!`](crate::conformance!), for the properties that take processes to check. To be
/// used once in a test file, beside `conformance!`; the expression makes a
/// [`Processes`](crate::conformance::Processes).
#[macro_export]
macro_rules! conformance_processes {
    ($bench:expr) => {
        mod death {
            #[allow(unused_imports)]
            use super::*;

            /// What a child process of the tests beside it runs.
            #[test]
            #[ignore = "run by the other tests here, as a peer process of theirs"]
            fn child() {
                $crate::conformance::run_child(&$bench);
            }

            $crate::conformance_processes!(@each $bench; while_sending, while_receiving,
                while_still, while_stopped, while_asleep, while_read, while_reading, in_good_order);
        }
    };
    (@each $bench:expr; $($name:ident),*) => {
        $(#[test] fn $name() {
            $crate::conformance::death::$name(&$bench, concat!(module_path!(), "::child"));
        })*
    };
}
