//! The addresses of this host, for ranks that listen.

use taffrail_agent::network::{HostAddress, INTERFACES_MAX};
use taffrail_tcp::{Interface, InterfaceAddress};

/// Those by which other hosts may reach this one. Without them the launcher chooses no network.
pub fn reachable() -> Vec<HostAddress> {
    let all = InterfaceAddress::all().unwrap_or_default().into_iter();
    let reachable = all.filter(|one| !one.address.is_loopback()).take(INTERFACES_MAX);
    let reported = reachable.map(|one| HostAddress {
        interface: one.name,
        address: one.address,
        prefix: one.prefix,
    });
    reported.collect()
}

/// Why ranks of this node cannot listen in a network; in any, if it is empty.
pub fn fault(network: &str) -> Option<String> {
    if network.is_empty() {
        return None;
    }
    let address = network.parse::<Interface>().and_then(|interface| interface.address());
    address.err().map(|e| e.to_string())
}
