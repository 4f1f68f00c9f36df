//! The TCP sockets of a process, and the bytes that have come to its node, as its kernel counts them.

use super::Process;
use std::net::SocketAddr;

/// A connection over TCP.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    pub local: SocketAddr,
    pub remote: SocketAddr,
    /// Bytes that were written here, and that the other kernel has not acknowledged.
    pub unacknowledged: u64,
    /// Bytes that have come, and that the process has not read.
    pub unread: u64,
}

impl Connection {
    /// Both ends. A connection that is made anew has others.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        (self.local, self.remote)
    }
}

const ESTABLISHED: &str = "01";
const LISTENS: &str = "0A";

impl Process {
    /// Where it waits for connections over TCP.
    pub fn listening(&self) -> Vec<SocketAddr> {
        self.sockets(LISTENS).into_iter().map(|socket| socket.local).collect()
    }

    /// The connections that its kernel takes for good.
    pub fn connections(&self) -> Vec<Connection> {
        self.sockets(ESTABLISHED)
    }

    /// The bytes that have come to its node over an interface. Nothing if it has ended.
    pub fn received_over(&self, interface: &str) -> Option<u64> {
        let table = self.read("net/dev");
        table.lines().find_map(|line| {
            let counts = line.trim_start().strip_prefix(interface)?.strip_prefix(':')?;
            counts.split_whitespace().next()?.parse().ok()
        })
    }

    fn sockets(&self, of_state: &str) -> Vec<Connection> {
        let folder = std::fs::read_dir(format!("/proc/{}/fd", self.pid)).into_iter().flatten();
        let files = folder.flatten().filter_map(|entry| std::fs::read_link(entry.path()).ok());
        let own: Vec<String> = files.filter_map(|file| Some(file.to_str()?.to_owned())).collect();
        let table = self.read("net/tcp");
        let of_line = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let [_, local, remote, state, queues, .., inode] = fields.get(..10)? else {
                return None;
            };
            let (unacknowledged, unread) = queues.split_once(':')?;
            let socket = Connection {
                local: address(local)?,
                remote: address(remote)?,
                unacknowledged: u64::from_str_radix(unacknowledged, 16).ok()?,
                unread: u64::from_str_radix(unread, 16).ok()?,
            };
            let is_own = own.contains(&format!("socket:[{inode}]"));
            (is_own && *state == of_state).then_some(socket)
        };
        table.lines().filter_map(of_line).collect()
    }
}

/// As the kernel writes it: the address as a number of this machine, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (address, port) = text.split_once(':')?;
    let address = u32::from_str_radix(address, 16).ok()?.to_ne_bytes();
    Some(SocketAddr::from((address, u16::from_str_radix(port, 16).ok()?)))
}
