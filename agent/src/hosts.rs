//! The hosts of a job, as users name them: `--hosts` and the files of `--hostfile`. `docs/spec/agent.md`, section 7.

use crate::{NODES_MAX, NodeId, RANKS_MAX};
use std::str::FromStr;

/// A host, and how many ranks it has room for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// As the starter takes it: a name or an address, perhaps with a user in front.
    pub name: String,
    /// Ranks that it has room for.
    pub slots: u32,
}

impl std::fmt::Display for Host {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.name.contains(':') {
            true => write!(f, "[{}]:{}", self.name, self.slots),
            false => write!(f, "{}:{}", self.name, self.slots),
        }
    }
}

/// All hosts, in the order in which they were named first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hosts(pub Vec<Host>);

/// What is wrong with a list of hosts.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{problem}", .line.map_or(String::new(), |line| format!("line {line}: ")))]
pub struct HostsError {
    /// Where it is, in a file.
    pub line: Option<usize>,
    /// What it is.
    pub problem: HostsProblem,
}

/// Kinds of mistakes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say it")]
pub enum HostsProblem {
    #[error("expected the name of a host, got {0:?}")]
    Name(String),
    #[error("expected a number of slots from 1 to {RANKS_MAX}, got {0:?}")]
    Slots(String),
    #[error("expected max_slots of {slots} or more, got {max}")]
    MaxSlots { slots: u32, max: u32 },
    #[error("expected slots=N or max_slots=N behind the name of a host, got {0:?}")]
    Word(String),
    #[error("expected at most {NODES_MAX} hosts with {RANKS_MAX} slots, got more")]
    TooMany,
    #[error("expected a host, got none")]
    None,
}

impl HostsProblem {
    fn at(self, line: Option<usize>) -> HostsError {
        HostsError { line, problem: self }
    }
}

impl Hosts {
    /// Reads a file with one host a line, as Open MPI (`a slots=2 max_slots=4`) or MPICH (`a:2`) has it. `#` begins a
    /// comment.
    ///
    /// # Errors
    /// [`HostsError`], with the line.
    pub fn from_file(text: &str) -> Result<Hosts, HostsError> {
        let mut hosts = Hosts::default();
        for (number, line) in (1..).zip(text.lines()) {
            let at = |problem: HostsProblem| problem.at(Some(number));
            let mut words = line.split('#').next().unwrap_or_default().split_whitespace();
            let Some(first) = words.next() else { continue };
            let mut host: Host = first.parse().map_err(at)?;
            let mut max = None;
            // Open MPI allows spaces around the `=`.
            let settings =
                words.collect::<Vec<_>>().join(" ").replace(" =", "=").replace("= ", "=");
            for word in settings.split_whitespace() {
                match word.split_once('=') {
                    Some(("slots", number)) => host.slots = slots(number).map_err(at)?,
                    Some(("max_slots" | "max-slots", number)) => {
                        max = Some(slots(number).map_err(at)?);
                    }
                    _ => return Err(at(HostsProblem::Word(word.to_owned()))),
                }
            }
            if let Some(max) = max.filter(|max| *max < host.slots) {
                return Err(at(HostsProblem::MaxSlots { slots: host.slots, max }));
            }
            hosts.add(host).map_err(at)?;
        }
        match hosts.0.is_empty() {
            true => Err(HostsProblem::None.at(None)),
            false => Ok(hosts),
        }
    }

    /// With this host as the last one, wherever it was before.
    ///
    /// # Errors
    /// They are too many.
    pub fn with_last(mut self, last: Host) -> Result<Hosts, HostsError> {
        let known = self.0.iter().position(|host| host.name == last.name);
        let slots = known.map_or(0, |at| self.0.remove(at).slots);
        let last = Host { slots: last.slots.max(slots), ..last };
        self.add(last).map_err(|problem| problem.at(None))?;
        Ok(self)
    }

    /// Those on which ranks begin: all but the reliable one.
    pub fn of_ranks(&self, reliable: Option<NodeId>) -> Hosts {
        let others = (0..).zip(&self.0).filter(|(node, _)| Some(*node) != reliable);
        Hosts(others.map(|(_, host)| host.clone()).collect())
    }

    /// How many ranks all hosts have room for.
    pub fn slots(&self) -> u32 {
        self.0.iter().map(|host| host.slots).sum()
    }

    fn add(&mut self, host: Host) -> Result<(), HostsProblem> {
        let slots = u64::from(self.slots()) + u64::from(host.slots);
        match self.0.iter_mut().find(|known| known.name == host.name) {
            Some(known) => known.slots = known.slots.saturating_add(host.slots),
            None => self.0.push(host),
        }
        match self.0.len() > NODES_MAX || slots > RANKS_MAX as u64 {
            true => Err(HostsProblem::TooMany),
            false => Ok(()),
        }
    }
}

impl FromStr for Hosts {
    type Err = HostsError;

    /// `a:2,b:2`
    fn from_str(list: &str) -> Result<Hosts, HostsError> {
        let mut hosts = Hosts::default();
        for word in list.split(',') {
            let host: Host =
                word.trim().parse().map_err(|problem: HostsProblem| problem.at(None))?;
            hosts.add(host).map_err(|problem| problem.at(None))?;
        }
        Ok(hosts)
    }
}

impl std::fmt::Display for Hosts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let words: Vec<String> = self.0.iter().map(Host::to_string).collect();
        f.write_str(&words.join(", "))
    }
}

impl FromStr for Host {
    type Err = HostsProblem;

    /// `a`, `a:2`, `user@a:2`, `[fe80::1]:2`
    fn from_str(word: &str) -> Result<Host, HostsProblem> {
        let (name, number) = match bracketed(word) {
            Some((name, rest)) => {
                let number = rest.strip_prefix(':');
                if !rest.is_empty() && number.is_none() {
                    return Err(HostsProblem::Name(word.to_owned()));
                }
                (name, number)
            }
            None => match word.split_once(':') {
                // An address of IPv6 without brackets has several.
                Some((_, rest)) if rest.contains(':') => {
                    return Err(HostsProblem::Name(word.to_owned()));
                }
                Some((name, number)) => (name.to_owned(), Some(number)),
                None => (word.to_owned(), None),
            },
        };
        if !is_name(&name) {
            return Err(HostsProblem::Name(word.to_owned()));
        }
        Ok(Host { name, slots: number.map_or(Ok(1), slots)? })
    }
}

/// An address in brackets, with the user in front, and what stands behind it.
fn bracketed(word: &str) -> Option<(String, &str)> {
    let (user, rest) = word.split_once('[')?;
    let (address, rest) = rest.split_once(']')?;
    let right = address.contains(':') && (user.is_empty() || user.ends_with('@'));
    right.then(|| (format!("{user}{address}"), rest))
}

/// Whether a starter can be given this. One with `-` in front would be an option.
fn is_name(name: &str) -> bool {
    let (user, host) = name.split_once('@').unwrap_or(("", name));
    let allowed = |c: char| c.is_ascii_alphanumeric() || ".-_:%".contains(c);
    let right = |part: &str| part.chars().all(allowed) && !part.starts_with('-');
    (1..=255).contains(&host.len())
        && name.len() <= 255
        && right(host)
        && right(user)
        && user.is_empty() != name.contains('@')
}

fn slots(number: &str) -> Result<u32, HostsProblem> {
    let digits = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    let slots =
        number.parse().ok().filter(|slots| digits && (1..=RANKS_MAX as u32).contains(slots));
    slots.ok_or_else(|| HostsProblem::Slots(number.to_owned()))
}

#[cfg(all(test, not(loom)))]
mod tests;
