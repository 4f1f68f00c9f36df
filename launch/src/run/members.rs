//! The members of ranks: processes that have joined the job. What they say of themselves on a connection of
//! their own (`TAFFRAIL_OVER`, `docs/spec/rank-life.md`), and when those end that the launcher has not started.

use super::life::{By, Event, Process};
use super::ranks::RankEnv;
use super::{Failure, family, in_words};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendFlags, SocketFlags,
    SocketType,
};
use rustix::process::{Pid, PidfdFlags};
use std::collections::BTreeMap;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use taffrail_agent::RankIncarnation;
use taffrail_agent::client::variable::AGENT;
use taffrail_agent::client::{ADDRESS, FINALIZING, LINK, read_finalizing, read_link};

/// Bytes of the longest message; what is longer is cut.
const MESSAGE_MAX: usize = 4096;

/// Of all ranks.
pub struct Members {
    /// Of the present life of each rank, until all its processes have closed it.
    connections: Vec<Option<OwnedFd>>,
    /// Members that are no direct children.
    watched: Vec<Member>,
    /// The last address that each rank has said, until it is taken.
    addresses: BTreeMap<usize, Vec<u8>>,
    /// What each rank has reported last of its link with each other one, until it is taken.
    links: BTreeMap<(usize, u32), LinkReport>,
    /// Ranks whose programs have completed, and the sum of incarnations that each has reported last with that, until they are taken.
    finalizing: BTreeMap<usize, u64>,
}

/// The incarnation at the other end of a link, and why the link is down, if it is.
pub type LinkReport = (RankIncarnation, Option<String>);

struct Member {
    rank: usize,
    pid: i32,
    pidfd: OwnedFd,
}

impl Members {
    /// No connection yet for any of this number of ranks.
    pub fn new(ranks: u32) -> Members {
        let connections = (0..ranks).map(|_| None).collect();
        let (watched, addresses, links) = (Vec::new(), BTreeMap::new(), BTreeMap::new());
        Members { connections, watched, addresses, links, finalizing: BTreeMap::new() }
    }

    /// Gives the next life of a rank a connection. Those of the life before are no members any more, and what they said that was not
    /// taken yet says nothing of this one.
    pub fn env(&mut self, rank: usize, env: &mut RankEnv) -> Result<(), Failure> {
        let failed = |e: Errno| {
            Failure::new(format!("no connection for rank {rank}: {}", in_words(&e.into())))
        };
        let flags = SocketFlags::CLOEXEC;
        let pair = rustix::net::socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
        let (ours, theirs) = pair.map_err(failed)?;
        names_senders(&ours).map_err(failed)?;
        rustix::io::ioctl_fionbio(&ours, true).map_err(failed)?;
        env.tell(AGENT, &[theirs.as_raw_fd()]);
        env.inherited.push(theirs);
        self.connections[rank] = Some(ours);
        self.forget(rank);
        self.addresses.remove(&rank);
        self.links.retain(|&(of, _), _| of != rank);
        self.finalizing.remove(&rank);
        Ok(())
    }

    /// The connections.
    pub fn connections(&self) -> impl Iterator<Item = (usize, BorrowedFd<'_>)> {
        let all = self.connections.iter().enumerate();
        all.filter_map(|(rank, connection)| Some((rank, connection.as_ref()?.as_fd())))
    }

    /// Members that are no direct children: readable when they have ended.
    pub fn watched(&self) -> impl Iterator<Item = (usize, i32, BorrowedFd<'_>)> {
        self.watched.iter().map(|member| (member.rank, member.pid, member.pidfd.as_fd()))
    }

    /// Those of them that are about to end, or gone.
    pub fn exiting(&self) -> impl Iterator<Item = Process> {
        let exiting =
            self.watched.iter().filter(|member| family::is_exiting(member.pid) != Some(false));
        exiting.map(|member| Process { rank: member.rank, pid: member.pid })
    }

    /// What the processes of a rank have said.
    fn listen(&mut self, rank: usize) -> Vec<Event> {
        let mut events = Vec::new();
        let mut buffer = [0; MESSAGE_MAX];
        while let Some(connection) = &self.connections[rank] {
            match receive(connection.as_fd(), &mut buffer) {
                Ok((0, _)) => self.connections[rank] = None,
                Ok((len, _)) if buffer[..len].starts_with(&[ADDRESS]) => {
                    self.addresses.insert(rank, buffer[1..len].to_vec());
                }
                Ok((len, _)) if buffer[..len].starts_with(&[FINALIZING]) => {
                    let known = read_finalizing(&buffer[..len]);
                    self.finalizing.extend(known.map(|known| (rank, known)));
                }
                Ok((len, _)) if buffer[..len].starts_with(&[LINK]) => {
                    let report = read_link(&buffer[..len]);
                    let of_others = report.filter(|(peer, _)| self.is_other(rank, peer.rank));
                    self.links.extend(of_others.map(|link| ((rank, link.0.rank), link)));
                }
                Ok((len, pid)) => events.extend(event(rank, pid, &buffer[..len])),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.connections[rank] = None,
            }
        }
        events
    }

    /// Where ranks can be reached, as they have said since this was asked last.
    pub fn take_addresses(&mut self) -> BTreeMap<usize, Vec<u8>> {
        std::mem::take(&mut self.addresses)
    }

    /// Ranks whose programs are over, as they have said since this was asked last, and what the incarnations of all ranks added up to
    /// when each of them said it last.
    pub fn take_finalizing(&mut self) -> BTreeMap<usize, u64> {
        std::mem::take(&mut self.finalizing)
    }

    fn is_other(&self, rank: usize, peer: u32) -> bool {
        (peer as usize) < self.connections.len() && peer as usize != rank
    }

    /// What ranks have reported of their links since this was asked last.
    pub fn take_links(&mut self) -> impl Iterator<Item = (usize, LinkReport)> {
        let links = std::mem::take(&mut self.links).into_iter();
        links.map(|((rank, _), report)| (rank, report))
    }

    /// The same, and those that have joined are watched but for the direct child, whose end is seen in any case.
    pub fn hear(&mut self, rank: usize, child: i32) -> Vec<Event> {
        let mut events = self.listen(rank);
        let joined = events.iter().filter_map(|event| match event {
            Event::Joined { pid, .. } if *pid != child => Some(*pid),
            _ => None,
        });
        for pid in joined.collect::<Vec<_>>() {
            events.extend(self.watch(rank, pid));
        }
        events
    }

    /// A process has joined, and is not the direct child. What there is to say if it has ended already.
    pub fn watch(&mut self, rank: usize, pid: i32) -> Option<Event> {
        if self.watched.iter().any(|member| (member.rank, member.pid) == (rank, pid)) {
            return None;
        }
        match rustix::process::pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()) {
            Ok(pidfd) => self.watched.push(Member { rank, pid, pidfd }),
            Err(Errno::SRCH) => return Some(Event::MemberGone { rank, pid }),
            // Without such descriptors only the end of the direct child is seen.
            Err(_) => {}
        }
        None
    }

    /// A member has ended.
    pub fn gone(&mut self, rank: usize, pid: i32) -> Event {
        self.watched.retain(|member| (member.rank, member.pid) != (rank, pid));
        Event::MemberGone { rank, pid }
    }

    /// A rank has ended.
    pub fn forget(&mut self, rank: usize) {
        self.watched.retain(|member| member.rank != rank);
    }

    /// All programs are over: their processes may end.
    pub fn release(&self) {
        for connection in self.connections.iter().flatten() {
            // One that does not listen does not wait.
            let _ = rustix::net::send(connection, b".", SendFlags::NOSIGNAL);
        }
    }
}

/// What is received on this connection comes with the process that has sent it.
pub fn names_senders(connection: &impl AsFd) -> rustix::io::Result<()> {
    rustix::net::sockopt::set_socket_passcred(connection, true)
}

/// Receives bytes, and the id of the process that sent them; 0 if the kernel does not say it.
pub fn receive(from: BorrowedFd<'_>, buffer: &mut [u8]) -> rustix::io::Result<(usize, i32)> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmCredentials(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut parts = [IoSliceMut::new(buffer)];
    let received = rustix::net::recvmsg(from, &mut parts, &mut control, RecvFlags::CMSG_CLOEXEC)?;
    let pid = control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmCredentials(sender) => Some(sender.pid.as_raw_pid()),
        _ => None,
    });
    Ok((received.bytes, pid.unwrap_or(0)))
}

/// The other end of a connection, in a process that the launcher has given it. It is not taken: the program
/// that this process becomes, or is the server of, has it, too.
pub fn from_env() -> std::io::Result<OwnedFd> {
    let text = taffrail::environment::value(AGENT).unwrap_or_default();
    let number = text.parse().ok().filter(|&number: &i32| number > 2).ok_or_else(|| {
        std::io::Error::other(format!("{AGENT} should be a descriptor above 2, it is {text:?}"))
    })?;
    // SAFETY: the launcher has opened it for this process, which does not close it.
    let connection = unsafe { BorrowedFd::borrow_raw(number) };
    connection.try_clone_to_owned()
}

/// Says something to the launcher. One that is gone hears nothing.
pub fn say(launcher: BorrowedFd<'_>, what: &str) {
    let mut end = what.len().min(MESSAGE_MAX);
    while !what.is_char_boundary(end) {
        end -= 1;
    }
    let _ = rustix::net::send(launcher, &what.as_bytes()[..end], SendFlags::NOSIGNAL);
}

/// What a message means. One that means nothing is no reason to end a job.
fn event(rank: usize, pid: i32, message: &[u8]) -> Option<Event> {
    let text = String::from_utf8_lossy(message.get(1..)?);
    let by = By::Endpoint;
    Some(match message[0] {
        b'o' => Event::Joined { rank, pid, by },
        b'c' => Event::Finalised { rank, pid, by },
        b'x' => Event::Exits { rank, pid, status: text.parse().ok()? },
        b'.' => Event::ProgramOver { rank, pid },
        // Its PMIx server speaks for the direct child.
        b'i' => Event::Joined { rank, pid: 0, by: By::Pmix },
        b'f' => Event::Finalised { rank, pid: 0, by: By::Pmix },
        b'a' => {
            let (code, text) = text.split_once(' ').unwrap_or((&text, ""));
            let text = Some(text.trim().to_owned()).filter(|text| !text.is_empty());
            Event::Aborted { rank, code: code.parse().ok()?, text }
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_earlier_life_said_says_nothing_of_the_next() {
        let mut members = Members::new(2);
        let mut env = RankEnv::default();
        let mut speak = |members: &mut Members, rank: usize| {
            members.env(rank, &mut env).unwrap();
            let theirs = env.inherited.last().unwrap();
            let finalizing = |known: u8| [FINALIZING, known, 0, 0, 0, 0, 0, 0, 0];
            // The last one counts; what is too short or too long says nothing.
            let (first, last) = (finalizing(2), finalizing(3));
            let too_long = [&finalizing(4)[..], &[0]].concat();
            for packet in [&first[..], &[ADDRESS, 7], &last, &[FINALIZING], &too_long] {
                rustix::net::send(theirs, packet, SendFlags::NOSIGNAL).unwrap();
            }
            assert!(members.hear(rank, 0).is_empty());
        };
        speak(&mut members, 0);
        speak(&mut members, 1);
        members.env(0, &mut RankEnv::default()).unwrap();
        assert_eq!(members.take_finalizing(), [(1, 3)].into());
        assert_eq!(members.take_addresses(), [(1, vec![7])].into());
        assert!(members.take_finalizing().is_empty());
    }
}
