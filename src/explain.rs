//! Which protocol is used for each peer and size, and why each other is not.

mod joining;
mod processes;
mod waiting;

use crate::engine::policy::{Policy, Route};
pub(crate) use crate::words::{say, warn};
pub(crate) use joining::waits as joining_waits;
pub(crate) use processes::own_rank;
pub(crate) use waiting::{name as peer_name, stalled};

use crate::engine::rendezvous_path::{RNDV_PATHS, RndvPath};
use crate::engine::{EAGER_LOGGED, LONG_LOGGED};
use crate::{Endpoint, Transport};
use std::fmt::Write;
use taffrail_fabric::{PeerId, Reach};

/// The sizes at which protocols are looked at.
const SIZES: std::ops::RangeInclusive<u32> = 0..=32;

pub(crate) fn explain(endpoint: &Endpoint<impl Transport>) -> String {
    let mut text = String::new();
    let limits = endpoint.engine.fabric.limits(endpoint.engine.fabric.me());
    let _ = writeln!(
        text,
        "rank {} of {}: {}, {} KiB of shared memory",
        endpoint.rank(),
        endpoint.size(),
        limits.fabric,
        endpoint.footprint() / 1024
    );
    let _ = match &endpoint.settings.tuning {
        Some(tuning) => writeln!(text, "costs measured on this host: {}", tuning.provenance()),
        None => writeln!(text, "costs as usual; `taffrail-perf tune` measures those of this host"),
    };
    if let Some(way) = endpoint.settings.way {
        let _ = writeln!(
            text,
            "long messages come {}, where that can be: TAFFRAIL_WAY says so",
            name(way)
        );
    }
    for rank in 0..endpoint.size() {
        let me = if rank == endpoint.rank() { " (this rank)" } else { "" };
        let limits = endpoint.engine.fabric.limits(PeerId(rank));
        let place = elsewhere(endpoint, rank);
        let _ = writeln!(text, "to rank {rank}{me}, over {}{place}:", limits.fabric);
        if let Some(fault) = endpoint.engine.core.peers[rank as usize].fault() {
            let _ = writeln!(text, "  nothing: {fault}");
            continue;
        }
        let _ = writeln!(text, "  {}", logged(endpoint, rank));
        if endpoint.engine.core.policy.route(rank) == Route::Kept {
            let _ = writeln!(
                text,
                "  0 B - {} B: eager, inline; longer: out of the log, in pieces of {} B, \
                 from {} B on of {} B; announced from {} B on, and when the receiver has asked for that",
                limits.inline,
                endpoint.engine.core.peers[rank as usize].fragment(),
                LONG_LOGGED + 1,
                endpoint.engine.sizes.logged_fragment,
                EAGER_LOGGED + 1
            );
            continue;
        }
        let fragment = endpoint.engine.core.peers[rank as usize].fragment();
        let eager = endpoint.settings.eager_max;
        let (inline, whole) = (limits.inline, fragment.min(eager));
        let _ = writeln!(text, "  0 B - {inline} B: eager, inline");
        let _ = writeln!(text, "  {} B - {whole} B: eager, whole", inline + 1);
        if eager > fragment {
            let from = fragment + 1;
            let _ = writeln!(text, "  {from} B - {eager} B: eager, in pieces of {fragment} B");
        }
        announced(endpoint, &mut text, rank, eager, Reach::Kernel, "plain memory");
        announced(endpoint, &mut text, rank, eager, Reach::Mapped, "memory of `alloc`");
    }
    text
}

/// Where a rank of another node is found.
fn elsewhere(endpoint: &Endpoint<impl Transport>, rank: u32) -> String {
    let fabric = |peer| endpoint.engine.fabric.limits(peer).fabric;
    match endpoint.peer_address(rank) {
        Some(address) if fabric(PeerId(rank)) != fabric(endpoint.engine.fabric.me()) => {
            format!(" at {address}")
        }
        _ => String::new(),
    }
}

/// Whether what is sent to a rank is logged, and why.
fn logged(endpoint: &Endpoint<impl Transport>, rank: u32) -> String {
    let mut text = payload_logged(endpoint, rank);
    if endpoint.engine.core.policy.piggybacks() {
        text += "; causal: what is sent is preceded by the events that it may depend on, until the event \
                 logger has them";
    }
    text
}

fn payload_logged(endpoint: &Endpoint<impl Transport>, rank: u32) -> String {
    let policy = &endpoint.engine.core.policy;
    let (Some(set), Some(own)) = (policy.set(rank), policy.set(endpoint.rank())) else {
        return "not logged: the job was started without --logging".into();
    };
    match policy.route(rank) {
        Route::Direct => format!(
            "events are logged, payload is not copied: it is of the same set ({set}), and both fall back \
             together"
        ),
        Route::Kept => format!(
            "payload is logged, one copy, and sent from the log: it is of another set ({set}, this rank \
             of {own})"
        ),
    }
}

/// What becomes of announced messages whose memory is reached so: the way that the first takes, and
/// why it takes no other.
fn announced(
    endpoint: &Endpoint<impl Transport>,
    text: &mut String,
    rank: u32,
    eager: usize,
    reach: Reach,
    memory: &str,
) {
    let mut said: Option<RndvPath> = None;
    for len in SIZES.map(|bits| 1usize << bits).filter(|&len| len > eager) {
        let (way, costs) = endpoint.engine.first_path(rank, reach, len);
        if said.replace(way) == Some(way) {
            continue;
        }
        let others = RNDV_PATHS.iter().zip(&costs).filter(|(other, _)| **other != way);
        let reasons = others.map(|(&other, cost)| match cost {
            Ok(ns) => format!("{} would take {ns:.0} ns", name(other)),
            Err(denied) => denied.to_string(),
        });
        let own = costs[way as usize]
            .as_ref()
            .map_or_else(|_| String::new(), |ns| format!("{ns:.0} ns; "));
        let reasons = reasons.collect::<Vec<_>>().join("; ");
        let _ = writeln!(
            text,
            "  from {len} B on, {memory}: announced, {} (the first {len} B: {own}{reasons})",
            name(way)
        );
    }
}

fn name(way: RndvPath) -> &'static str {
    match way {
        RndvPath::Get => "read out of the sender's memory",
        RndvPath::Fragments => "in pieces",
        RndvPath::FragmentsNonTemporal => "in pieces past the caches",
    }
}
