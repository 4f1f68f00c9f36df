//! Where a process listens: one address of one interface.

mod interfaces;

pub use interfaces::InterfaceAddress;
use interfaces::interfaces;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, listen, socket_with, sockopt,
};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::str::FromStr;

/// Connections that the kernel holds until they are accepted; it may permit fewer.
const BACKLOG: i32 = 4096;

/// Which address of this host to listen at: `eth0`, `10.0.0.0/8`, `10.1.2.3` or `any`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Interface {
    /// The first address of an interface of this name, IPv4 before IPv6.
    Named(String),
    /// The first address within a network, given by one address of it and the length of its prefix in bits.
    Network(IpAddr, u8),
    /// This address.
    Address(IpAddr),
    /// All addresses. Never chosen by default: the other hosts need one address to connect to.
    Any,
}

/// Why there is nowhere to listen.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// A text that names no interface, network or address.
    #[error(
        "{got:?} is no network; write an interface (eth0), a network (10.0.0.0/8), an address, or any"
    )]
    Text {
        /// The text.
        got: String,
    },
    /// No interface that is up fits.
    #[error("no address of this host fits {wanted}; there are {there}")]
    None {
        /// What was asked for.
        wanted: String,
        /// The addresses that there are.
        there: String,
    },
    /// The operating system refused it.
    #[error("cannot listen at {address}: {errno}")]
    Os {
        /// The address.
        address: SocketAddr,
        /// Its error.
        errno: Errno,
    },
    /// The interfaces could not be listed.
    #[error("the interfaces of this host cannot be listed: {0}")]
    Interfaces(String),
}

impl FromStr for Interface {
    type Err = ListenError;

    fn from_str(text: &str) -> Result<Interface, ListenError> {
        let wrong = || ListenError::Text { got: text.to_owned() };
        if text == "any" {
            return Ok(Interface::Any);
        }
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| wrong())?;
            let bits = bits.parse().map_err(|_| wrong())?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            return if bits <= most { Ok(Interface::Network(address, bits)) } else { Err(wrong()) };
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            // What `any` means must be asked for by that word.
            return if address.is_unspecified() {
                Err(wrong())
            } else {
                Ok(Interface::Address(address))
            };
        }
        let is_name = |byte: u8| byte.is_ascii_graphic() && byte != b':';
        match (1..16).contains(&text.len()) && text.bytes().all(is_name) {
            true => Ok(Interface::Named(text.to_owned())),
            false => Err(wrong()),
        }
    }
}

impl std::fmt::Display for Interface {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Interface::Named(name) => f.write_str(name),
            Interface::Network(address, bits) => write!(f, "{address}/{bits}"),
            Interface::Address(address) => write!(f, "{address}"),
            Interface::Any => f.write_str("any"),
        }
    }
}

impl Interface {
    /// The default: the first address that other hosts may reach, or that of the loopback interface where there is no
    /// other.
    ///
    /// # Errors
    /// [`ListenError`]: the host has no address at all.
    pub fn outward() -> Result<Interface, ListenError> {
        let all = InterfaceAddress::all()?;
        let best = all.iter().map(|one| one.address).min_by_key(IpAddr::is_loopback);
        let best = best.map(Interface::Address);
        best.ok_or_else(|| ListenError::None { wanted: "any".to_owned(), there: "none".to_owned() })
    }

    /// The address of this host that is meant.
    ///
    /// # Errors
    /// [`ListenError::None`], with the addresses that there are.
    pub fn address(&self) -> Result<IpAddr, ListenError> {
        if let Interface::Any = self {
            return Ok(IpAddr::V4(Ipv4Addr::UNSPECIFIED));
        }
        let all = InterfaceAddress::all()?;
        let fits = |name: &str, address: IpAddr| match self {
            Interface::Named(wanted) => wanted == name,
            Interface::Network(network, bits) => is_within(address, *network, *bits),
            Interface::Address(wanted) => *wanted == address,
            Interface::Any => true,
        };
        let found = all.iter().find(|one| fits(&one.name, one.address));
        let there = || all.iter().map(|one| format!("{} ({})", one.address, one.name));
        found.map(|one| one.address).ok_or_else(|| ListenError::None {
            wanted: self.to_string(),
            there: there().collect::<Vec<_>>().join(", "),
        })
    }
}

impl InterfaceAddress {
    /// All of this host whose interfaces are up, IPv4 before IPv6, without those of a link.
    ///
    /// # Errors
    /// [`ListenError::Interfaces`].
    pub fn all() -> Result<Vec<InterfaceAddress>, ListenError> {
        let mut all = interfaces().map_err(|error| ListenError::Interfaces(error.to_string()))?;
        all.sort_by_key(|one| one.address.is_ipv6());
        Ok(all)
    }
}

fn is_within(address: IpAddr, network: IpAddr, bits: u8) -> bool {
    let (address, network, width) = match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => (u32::from(a).into(), u32::from(b).into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => (u128::from(a), u128::from(b), 128),
        _ => return false,
    };
    (address ^ network).checked_shr(width - u32::from(bits)).unwrap_or(0) == 0
}

/// A socket at which a process of the job waits for the others.
#[derive(Debug)]
pub struct Listener {
    socket: OwnedFd,
    address: SocketAddr,
}

impl Listener {
    /// Listens at an address of this interface. Port 0 is any that is free.
    ///
    /// # Errors
    /// [`ListenError`]: there is no such address, or the port is taken.
    pub fn bind(interface: &Interface, port: u16) -> Result<Listener, ListenError> {
        let wanted = SocketAddr::new(interface.address()?, port);
        let os = |errno| ListenError::Os { address: wanted, errno };
        let family = if wanted.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(family, SocketType::STREAM, flags, None).map_err(os)?;
        // A port that was given is free again at once when its process has ended.
        sockopt::set_socket_reuseaddr(&socket, true).map_err(os)?;
        bind(&socket, &wanted).map_err(os)?;
        listen(&socket, BACKLOG).map_err(os)?;
        let address = getsockname(&socket).and_then(SocketAddr::try_from).map_err(os)?;
        Ok(Listener { socket, address })
    }

    /// Where it listens. For [`Interface::Any`] the port alone means something.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub(crate) fn socket(&self) -> &OwnedFd {
        &self.socket
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_mean_what_they_say() {
        let network = Interface::Network([10, 0, 0, 0].into(), 8);
        for (text, interface) in [
            ("any", Interface::Any),
            ("eth0", Interface::Named("eth0".to_owned())),
            ("10.0.0.0/8", network),
            ("10.1.2.3", Interface::Address([10, 1, 2, 3].into())),
            ("fd00::/16", Interface::Network("fd00::".parse().unwrap(), 16)),
        ] {
            assert_eq!(text.parse(), Ok(interface.clone()));
            assert_eq!(interface.to_string(), text);
        }
        for wrong in [
            "",
            "0.0.0.0",
            "::",
            "10.0.0.0/33",
            "10.0.0.0/x",
            "10.0.0/8",
            "fd00::/129",
            "a b",
            "a_name_that_is_too_long",
        ] {
            let error = wrong.parse::<Interface>();
            assert_eq!(error, Err(ListenError::Text { got: wrong.to_owned() }));
        }
    }

    #[test]
    fn networks_hold_what_shares_their_prefix() {
        let within = |address: &str, network: &str, bits| {
            is_within(address.parse().unwrap(), network.parse().unwrap(), bits)
        };
        assert!(within("10.1.2.3", "10.0.0.0", 8) && !within("11.1.2.3", "10.0.0.0", 8));
        assert!(within("10.1.2.3", "10.1.2.3", 32) && !within("10.1.2.2", "10.1.2.3", 32));
        assert!(within("10.1.2.3", "0.0.0.0", 0) && within("::1", "fe80::", 0));
        assert!(within("fd00::1", "fd00::", 16) && !within("fe00::1", "fd00::", 16));
        assert!(!within("10.1.2.3", "::", 0) && !within("::1", "0.0.0.0", 0));
    }

    #[test]
    fn it_listens_at_the_chosen_interface_alone() {
        for text in ["lo", "127.0.0.0/8", "127.0.0.1"] {
            let listener = Listener::bind(&text.parse().unwrap(), 0).unwrap();
            assert_eq!(listener.address().ip(), IpAddr::from([127, 0, 0, 1]), "{text}");
            assert_ne!(listener.address().port(), 0);
            let again = Listener::bind(
                &Interface::Address([127, 0, 0, 1].into()),
                listener.address().port(),
            );
            assert!(matches!(again, Err(ListenError::Os { errno: Errno::ADDRINUSE, .. })));
        }
        let error = Listener::bind(&"240.0.0.0/8".parse().unwrap(), 0).unwrap_err().to_string();
        assert!(error.contains("240.0.0.0/8") && error.contains("127.0.0.1 (lo)"), "{error}");
        let outward = Listener::bind(&Interface::outward().unwrap(), 0).unwrap().address().ip();
        let all = InterfaceAddress::all().unwrap();
        assert_eq!(outward.is_loopback(), all.iter().all(|one| one.address.is_loopback()));
        let own = all.iter().find(|one| one.address == IpAddr::from([127, 0, 0, 1]));
        assert_eq!(own.map(|one| (one.name.as_str(), one.prefix)), Some(("lo", 8)));
        let any = Listener::bind(&Interface::Any, 0).unwrap();
        assert!(any.address().ip().is_unspecified());
    }
}
