//! Which network ranks use between nodes where the user names none. `docs/spec/agent.md`, section 10.

use std::collections::BTreeSet;
use std::net::IpAddr;

#[cfg(all(test, not(loom)))]
mod tests;

/// Addresses that HELLO may have.
pub const INTERFACES_MAX: usize = 256;

/// Bytes of the name of an interface, as the kernel limits it.
pub const INTERFACE_NAME_MAX: usize = 15;

/// An address of a host.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostAddress {
    /// The name of its interface.
    pub interface: String,
    /// The address.
    pub address: IpAddr,
    /// Bits of it that all addresses of its network have in common.
    pub prefix: u8,
}

/// A network: its first address, and the length of its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Network(IpAddr, u8);

impl Network {
    /// The network that an address is in.
    pub fn of(address: IpAddr, prefix: u8) -> Network {
        let kept = |bits: u8| u128::MAX.checked_shl((bits - prefix.min(bits)).into()).unwrap_or(0);
        let first = match address {
            IpAddr::V4(v4) => IpAddr::V4((u32::from(v4) & kept(32) as u32).into()),
            IpAddr::V6(v6) => IpAddr::V6((u128::from(v6) & kept(128)).into()),
        };
        Network(first, prefix)
    }

    /// The addresses of a host that are in it, whatever network the host takes them to be of.
    fn among(self, host: &[HostAddress]) -> impl Iterator<Item = IpAddr> {
        let addresses = host.iter().map(|one| one.address);
        addresses.filter(move |address| {
            address.is_ipv4() == self.0.is_ipv4() && Network::of(*address, self.1) == self
        })
    }

    /// Whether a host has an address in it.
    pub fn has(self, host: &[HostAddress]) -> bool {
        self.among(host).next().is_some()
    }
}

impl std::fmt::Display for Network {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.0, self.1)
    }
}

/// The network in which each of these hosts has an address, and no two of them the same one: the first of these by the order of
/// the first host's addresses. Hosts with the same list are one machine. None if there is no such network, or one
/// machine alone.
pub fn choose(hosts: &[&[HostAddress]]) -> Option<Network> {
    let machines: BTreeSet<&[HostAddress]> = hosts.iter().copied().collect();
    if machines.len() < 2 {
        return None;
    }
    let networks = hosts[0].iter().map(|one| Network::of(one.address, one.prefix));
    networks.into_iter().find(|network| is_common(*network, &machines))
}

fn is_common(network: Network, machines: &BTreeSet<&[HostAddress]>) -> bool {
    let mut taken = BTreeSet::new();
    machines.iter().all(|machine| {
        let is_in_it = |one: &HostAddress| Network::of(one.address, one.prefix) == network;
        let own: BTreeSet<IpAddr> = network.among(machine).collect();
        machine.iter().any(is_in_it) && own.into_iter().all(|address| taken.insert(address))
    })
}
