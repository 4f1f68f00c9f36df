//! What a rank that waits for long waits for, in plain words.

use super::processes;
use crate::engine::policy::Policy;
use crate::engine::request::{ANY, Slot, Stage};
use crate::job::rank_in_address;
use crate::words::{NAMED_MAX, counted, listed_of};
use crate::{Endpoint, Rank, Transport};
use std::collections::{BTreeMap, BTreeSet};
use taffrail_fabric::{Fault, PeerId};
use taffrail_matching::Posting;

/// What the operations and queues of an endpoint wait for, without anything that changes while they wait.
fn waiting(endpoint: &Endpoint<impl Transport>) -> String {
    let mut parts: Vec<String> = receives(endpoint).into_iter().collect();
    parts.extend(operations(endpoint));
    if parts.is_empty() {
        parts.push("for any message: no operation is under way".into());
    }
    parts.extend(unexpected(endpoint));
    parts.extend(peers(endpoint));
    parts.extend(endpoint.engine.core.policy.waiting());
    parts.join("; ")
}

/// One line for an endpoint to which nothing happens. The same until something changes.
pub(crate) fn stalled(endpoint: &Endpoint<impl Transport>) -> String {
    format!("{} waits {}", own_name(endpoint), waiting(endpoint))
}

/// Receives that no message has matched.
fn receives(endpoint: &Endpoint<impl Transport>) -> Option<String> {
    let mut posted = endpoint.engine.core.matcher.posted();
    // One that takes many messages is posted in case any come, and not because some are due.
    let under_way = endpoint.engine.core.requests.under_way();
    let is_multi = |slot: &Slot| slot.extra.as_ref().is_some_and(|extra| extra.multi.is_some());
    let multi: BTreeSet<u32> =
        under_way.filter(|(_, s)| is_multi(s)).map(|(index, _)| index).collect();
    posted.retain(|receive| !multi.contains(&receive.token));
    let count = (!posted.is_empty()).then(|| counted(posted.len() as u64, "posted receive"))?;
    let words = posted.iter().map(|receive| posting_in_words(endpoint, &receive.posting));
    Some(format!("for the messages of {count} ({})", listed_of(posted.len(), words)))
}

fn posting_in_words(endpoint: &Endpoint<impl Transport>, posting: &Posting) -> String {
    let from = posting.source.map_or_else(|| "any rank".into(), |rank| name(endpoint, rank));
    format!("from {from}, tag {}", tag(posting.tag, posting.ignore))
}

/// Long tags are made of fields of bits, as those of an MPI are.
fn tag(tag: u64, ignore: u64) -> String {
    let short = u64::from(u16::MAX);
    match (tag, ignore) {
        (_, u64::MAX) => "any".into(),
        (tag, 0) if tag <= short => tag.to_string(),
        (tag, 0) => format!("{tag:#x}"),
        (tag, ignore) => format!("{tag:#x} (any bits in {ignore:#x})"),
    }
}

/// Operations that a peer has to do something for, by what that is.
fn operations(endpoint: &Endpoint<impl Transport>) -> Vec<String> {
    let mut all: BTreeMap<(&str, Rank), u64> = BTreeMap::new();
    for (_, slot) in endpoint.engine.core.requests.under_way() {
        if let Some(what) = stage_in_words(slot) {
            *all.entry((what, slot.peer)).or_default() += 1;
        }
    }
    let in_words = |((what, peer), count): (&(&str, Rank), &u64)| {
        let (kind, does) = what.split_once(": ").unwrap_or((what, ""));
        let who = if *peer == ANY { "any rank".into() } else { name(endpoint, *peer) };
        format!("for {who} to {does} ({})", counted(*count, kind))
    };
    all.iter().map(in_words).collect()
}

/// The kind of an operation, and what its peer has to do. Posted receives are listed one by one.
fn stage_in_words(slot: &Slot) -> Option<&'static str> {
    match slot.stage {
        Stage::Free
        | Stage::Done
        | Stage::Failed
        | Stage::Reporting
        | Stage::Posted
        | Stage::Watching => None,
        Stage::Arriving | Stage::CtsSent => Some("receive: send the rest of a message"),
        Stage::Reading => Some("receive: let a message be read"),
        Stage::Queued => Some("send: make room for a message"),
        Stage::RtsSent => Some("send: receive a message"),
        Stage::Streaming => Some("send: take the rest of a message"),
        Stage::OneSided => Some("one-sided operation: let it be done"),
        Stage::AskedGet => Some("get: answer it"),
        Stage::AskedPut => Some("put: answer it"),
    }
}

/// Messages that no receive takes: with the wrong tag, perhaps. There may be millions, while the program waits for this report.
fn unexpected(endpoint: &Endpoint<impl Transport>) -> Option<String> {
    let matcher = &endpoint.engine.core.matcher;
    let arrived = matcher.counts().unexpected;
    let count = (arrived > 0).then(|| counted(arrived as u64, "message"))?;
    let words = matcher.unexpected().map(|(_, envelope, _)| {
        let from = name(endpoint, envelope.source);
        format!("from {from}, tag {}, {}", tag(envelope.tag, 0), counted(envelope.len, "byte"))
    });
    let what = listed_of(arrived, words);
    let (has, it) = if arrived == 1 { ("has", "it") } else { ("have", "them") };
    Some(format!("{count} {has} arrived, and no receive takes {it} ({what})"))
}

/// What is the matter with peers.
fn peers(endpoint: &Endpoint<impl Transport>) -> Vec<String> {
    let others = (0..endpoint.size()).filter(|&rank| rank != endpoint.rank());
    let mut all: Vec<String> = others.filter_map(|rank| peer(endpoint, rank)).collect();
    let more = all.len().saturating_sub(NAMED_MAX);
    all.truncate(NAMED_MAX);
    all.extend((more > 0).then(|| format!("likewise {}", counted(more as u64, "more rank"))));
    all
}

fn peer(endpoint: &Endpoint<impl Transport>, rank: Rank) -> Option<String> {
    let peer = &endpoint.engine.core.peers[rank as usize];
    match peer.fault() {
        Some(Fault::Vacant) => return None,
        Some(fault) => return Some(format!("{} is gone: {fault}", name(endpoint, rank))),
        None => {}
    }
    if peer.is_finished {
        return Some(format!("{} has finalised", name(endpoint, rank)));
    }
    if peer.is_away() {
        return Some(format!("rank {rank} was killed, and has not connected again yet"));
    }
    if endpoint.engine.fabric.process_id(PeerId(rank)).is_some_and(processes::is_stopped) {
        let name = name(endpoint, rank);
        return Some(format!("{name} is stopped, by a signal or a debugger"));
    }
    if let Some(memory) = peer.stopped_at() {
        return Some(format!(
            "{} has been stopped, since its messages that no receive takes have {} of memory (TAFFRAIL_UNEXPECTED_MAX \
             allows {} in all)",
            name(endpoint, rank),
            counted(memory as u64, "byte"),
            endpoint.engine.sizes.unexpected_max,
        ));
    }
    let queued = peer.waiting();
    let count = counted(queued as u64, "message");
    let why = match peer.waits_at_gate() {
        true => "before the event logger has what the message depends on",
        false if peer.has_withheld() => "before it has received others",
        false => "yet",
    };
    (queued > 0).then(|| format!("{count} to {} cannot leave {why}", name(endpoint, rank)))
}

/// A peer, as the user knows it. In an open job its number here says nothing to anybody: its launcher has
/// given it a rank, perhaps, in its environment, which is gone when its process has ended, and in its address.
pub(crate) fn name(endpoint: &Endpoint<impl Transport>, number: Rank) -> String {
    let pid = endpoint.engine.fabric.process_id(PeerId(number));
    let rank = match endpoint.is_open {
        false => Some(number),
        true => pid
            .and_then(processes::rank_of)
            .or_else(|| rank_in_address(endpoint.engine.fabric.address_of(PeerId(number))?)),
    };
    match (rank, pid) {
        (Some(rank), Some(pid)) => format!("rank {rank} (pid {pid})"),
        (Some(rank), None) => format!("rank {rank}"),
        (None, Some(pid)) => format!("process {pid}"),
        (None, None) => format!("peer {number}"),
    }
}

/// This rank, as the user knows it.
fn own_name(endpoint: &Endpoint<impl Transport>) -> String {
    match endpoint.is_open.then(processes::own_rank) {
        None => format!("rank {}", endpoint.rank()),
        Some(Some(rank)) => format!("rank {rank}"),
        Some(None) => format!("process {}", std::process::id()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Dest, Job, Pattern, Settings};

    fn two(settings: &Settings) -> Vec<Endpoint> {
        let mut jobs = Job::local(2);
        std::thread::scope(|scope| {
            let open = |job: &mut Job| job.endpoint_with(settings.clone()).unwrap();
            let all: Vec<_> = jobs.iter_mut().map(|job| scope.spawn(move || open(job))).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        })
    }

    #[test]
    fn a_report_says_who_was_stopped_and_why() {
        let mut ends = two(&Settings { unexpected_max: Some(16 << 10), ..Settings::default() });
        let byte = [7];
        // SAFETY: the byte stays until the endpoint is dropped.
        let start = |end: &mut Endpoint| unsafe {
            end.isend_raw(Dest::new(0, 8), byte.as_ptr(), 1).unwrap()
        };
        let sends: Vec<_> = (0..200).map(|_| start(&mut ends[1])).collect();
        while !ends[1].engine.core.peers[0].has_withheld() {
            ends.iter_mut().for_each(|end| _ = end.progress_once());
        }
        let receiver = waiting(&ends[0]);
        assert!(receiver.contains("has been stopped, since its messages that no"), "{receiver}");
        assert!(receiver.contains("TAFFRAIL_UNEXPECTED_MAX allows 16384 in all"), "{receiver}");
        let sender = waiting(&ends[1]);
        assert!(sender.contains("cannot leave before it has received others"), "{sender}");
        for _ in &sends {
            while ends[0].engine.core.matcher.counts().unexpected == 0 {
                ends.iter_mut().for_each(|end| _ = end.progress_once());
            }
            ends[0].recv(Pattern::new(1, 8), &mut [0]).unwrap();
        }
        ends[1].wait_all(&sends).unwrap();
    }

    #[test]
    fn a_report_names_ranks_tags_and_numbers() {
        let mut ends = two(&Settings::default());
        assert_eq!(waiting(&ends[0]), "for any message: no operation is under way");
        let mut into = [0u8; 8];
        // SAFETY: `into` stays until the endpoint is dropped.
        unsafe {
            let _first = ends[0].irecv_raw(Pattern::new(1, 7), into.as_mut_ptr(), 4).unwrap();
            let _second =
                ends[0].irecv_raw(Pattern::any_source(9), into.as_mut_ptr().add(4), 4).unwrap();
        }
        ends[1].send(Dest::new(0, 8), b"a").unwrap();
        while ends[0].engine.core.matcher.counts().unexpected == 0 {
            ends[0].progress_once();
        }
        assert_eq!(
            waiting(&ends[0]),
            "for the messages of 2 posted receives (from rank 1, tag 7, from any rank, tag 9); \
             1 message has arrived, and no receive takes it (from rank 1, tag 8, 1 byte)"
                .replace("rank 1,", &format!("rank 1 (pid {}),", std::process::id()))
        );
    }

    #[test]
    fn long_tags_are_fields_of_bits() {
        assert_eq!(tag(7, 0), "7");
        assert_eq!(tag(1 << 32, 0), "0x100000000");
        assert_eq!(tag(1 << 32, 0xff), "0x100000000 (any bits in 0xff)");
        assert_eq!(tag(0, u64::MAX), "any");
    }
}
