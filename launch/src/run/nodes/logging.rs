//! How the messages of a job over nodes are logged, in the words of the command line and in those of the wire.

use super::options;
use crate::eventlog::{Keeping, Kept};
use crate::run::failures::{Events, Logged, Plan};
use crate::run::sets::Sets;
use crate::run::{Args, Failure};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use taffrail::words::spans;
use taffrail_agent::wire::{Durability, EventKind, Logging, LoggingProtocol};
use taffrail_agent::{NodeId, place, sets};

/// What follows from the options for failures, and what agents learn of it.
///
/// # Errors
/// Options contradict each other, or do not go with the hosts.
pub fn plan(args: &Args, nodes: &options::Plan) -> Result<(Plan, Option<Logging>), Failure> {
    let ranks = args.ranks() as usize;
    let of_ranks = nodes.hosts.of_ranks(nodes.reliable);
    let placed = place::initial(&of_ranks, ranks, nodes.oversubscribe);
    let placed = placed.map_err(|e| Failure { status: 2, why: e.to_string() })?;
    let names: Vec<String> = nodes.hosts.0.iter().map(|host| host.name.clone()).collect();
    let has_others = names.len() > 1;
    let causal = args.failures.is_causal();
    let usual = if has_others { Kept::Node } else { Kept::Process };
    let failures = args.failures.plan(&placed, usual)?;
    let logged = failures.logging.as_ref();
    let logging = logged.map(|logged| to_wire(logged, &placed, &names)).transpose()?;
    if let Some(logging) = &logging {
        let lost = copies_elsewhere(logging).min(names.len() as u32 - 1);
        let reliable = nodes.reliable.map(|node| names[usize::from(node)].as_str());
        if reliable.is_some() && lost == 0 {
            let why = "--reliable keeps copies of events: expected --durability node with --copies 2 or more";
            return Err(Failure { status: 2, why: why.to_owned() });
        }
        if reliable.is_some() && causal {
            let why = "--reliable: expected --logging pessimistic; with --logging causal one node may be lost at a time, and what \
                       its events depend on is with the others";
            return Err(Failure { status: 2, why: why.to_owned() });
        }
        crate::log::note(&promise(causal, lost, has_others, reliable));
    }
    Ok((failures, logging))
}

/// What is survived (*defaults-cover-the-promise*): so many nodes may be `lost` at once.
fn promise(causal: bool, lost: u32, has_others: bool, reliable: Option<&str>) -> String {
    if let Some(host) = reliable {
        return format!(
            "killed ranks are restarted, and those of all lost nodes with the copy of their events that {host} has"
        );
    }
    let said = match (lost, has_others) {
        (1.., true) if causal => {
            "killed ranks are restarted, and those of a lost node on another one, which has a copy of their events, but for those \
             that the others hold; one node may be lost at a time, and none that has got ranks of another beside its own"
        }
        (1, true) => {
            "killed ranks are restarted, and those of a lost node on another one, which has a copy of their events; one node may be \
             lost at a time, several with more --copies and nodes, or with --reliable HOST"
        }
        (2.., true) => {
            return format!(
                "killed ranks are restarted, and those of lost nodes on others, which have copies of their events; {lost} nodes \
                 may be lost at once, more with more --copies and nodes, or with --reliable HOST"
            );
        }
        (0, true) => {
            "killed ranks are restarted; the loss of a node is not survived: the events of its ranks are there alone \
             (--durability node --copies 2 copies them to another node)"
        }
        (_, false) => {
            "killed ranks are restarted; the loss of the node is not survived: there is no other one"
        }
    };
    said.to_owned()
}

/// What agents learn of it.
///
/// # Errors
/// A set lies on several of these nodes.
fn to_wire(logged: &Logged, nodes: &[NodeId], names: &[String]) -> Result<Logging, Failure> {
    sets::check(logged.sets.all(), nodes).map_err(|apart| {
        let of_set: Vec<&str> =
            apart.nodes.iter().map(|node| names[usize::from(*node)].as_str()).collect();
        let (set, ranks) = (apart.set, spans(apart.ranks.iter().copied()));
        let why = format!(
            "set {set} (ranks {ranks}) lies on nodes {}: with events a set must be on one node; use --sets node",
            of_set.join(", ")
        );
        Failure { status: 2, why }
    })?;
    let events = match logged.events {
        Events::Nondeterministic => EventKind::Nondeterministic,
        Events::All => EventKind::All,
    };
    let durability = match &logged.keeping {
        Keeping::Process => Durability::Process,
        Keeping::Disk(folder) => Durability::Disk(folder.as_os_str().as_bytes().to_vec()),
        Keeping::Node { copies } => Durability::Copies(*copies),
    };
    let sets = logged.sets.all().iter().map(|set| *set as u32).collect();
    let protocol = match logged.causal {
        true => LoggingProtocol::Causal,
        false => LoggingProtocol::Pessimistic,
    };
    Ok(Logging { protocol, events, durability, memory: logged.memory.unwrap_or(0), sets })
}

/// How many event loggers of a node copy to another one: all but the first.
pub fn copies_elsewhere(logging: &Logging) -> u32 {
    match logging.durability {
        Durability::Copies(copies) => copies - 1,
        Durability::Process | Durability::Disk(_) => 0,
    }
}

/// What an agent makes of it. How often sets are restarted is the business of the launcher.
pub fn of_wire(logging: &Logging) -> Logged {
    let keeping = match &logging.durability {
        Durability::Process => Keeping::Process,
        Durability::Disk(folder) => Keeping::Disk(OsString::from_vec(folder.clone()).into()),
        Durability::Copies(copies) => Keeping::Node { copies: *copies },
    };
    Logged {
        causal: logging.is_causal(),
        sets: Sets::of_numbers(logging.sets.iter().map(|set| *set as usize)),
        events: match logging.events {
            EventKind::Nondeterministic => Events::Nondeterministic,
            EventKind::All => Events::All,
        },
        keeping,
        memory: (logging.memory > 0).then_some(logging.memory),
        max_restarts: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promise_is_for_as_many_nodes_as_have_copies() {
        for (lost, has_others, said) in [
            (0, true, "the loss of a node is not survived"),
            (0, false, "there is no other one"),
            (1, true, "one node may be lost at a time, several with more --copies"),
            (2, true, "2 nodes may be lost at once"),
            (7, true, "7 nodes may be lost at once"),
        ] {
            let promise = |causal, reliable| promise(causal, lost, has_others, reliable);
            assert!(promise(false, None).contains(said), "{}", promise(false, None));
            let causal = promise(true, None);
            assert_eq!(causal.contains("one node may be lost at a time, and none"), lost > 0);
            let reliable = promise(false, Some("c"));
            let said = "those of all lost nodes with the copy of their events that c has";
            assert!(reliable.contains(said), "{reliable}");
        }
    }

    #[test]
    fn what_is_logged_comes_through_the_wire() {
        let names = ["a".to_owned(), "b".to_owned()];
        for (causal, keeping) in [
            (true, Keeping::Process),
            (false, Keeping::Disk("/x".into())),
            (false, Keeping::Node { copies: 3 }),
        ] {
            let logged = Logged {
                causal,
                sets: Sets::of_numbers([0, 0, 1].into_iter()),
                events: Events::All,
                keeping: keeping.clone(),
                memory: Some(1 << 20),
                max_restarts: 7,
            };
            let there = of_wire(&to_wire(&logged, &[0, 0, 1], &names).unwrap());
            assert!(there.events == Events::All && there.keeping == keeping);
            assert_eq!(there.causal, causal);
            assert_eq!((there.sets.all(), there.memory), (&[0, 0, 1][..], Some(1 << 20)));
            let apart = to_wire(&logged, &[0, 1, 1], &names).unwrap_err().why;
            assert!(apart.starts_with("set 0 (ranks 0-1) lies on nodes a, b"), "{apart}");
        }
    }
}
