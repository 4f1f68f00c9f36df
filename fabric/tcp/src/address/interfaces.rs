//! The addresses of this host.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceAddress {
    /// The name of its interface.
    pub name: String,
    /// The address.
    pub address: IpAddr,
    /// Bits of it that all addresses of its network have in common.
    pub prefix: u8,
}

/// The addresses of all interfaces that are up, without those that need the name of an interface beside them.
pub(super) fn interfaces() -> io::Result<Vec<InterfaceAddress>> {
    let mut first = std::ptr::null_mut();
    // SAFETY: the call writes a list, which is freed below.
    if unsafe { libc::getifaddrs(&mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let mut found = Vec::new();
    let mut at: *const libc::ifaddrs = first;
    // SAFETY: entries and their names are valid until the list is freed.
    while let Some(entry) = unsafe { at.as_ref() } {
        at = entry.ifa_next;
        let is_up = entry.ifa_flags & libc::IFF_UP as libc::c_uint != 0;
        // SAFETY: null, or an address of the family that it names.
        if let Some(address) = unsafe { address(entry.ifa_addr) }
            && is_up
        {
            // SAFETY: as above.
            let name = unsafe { CStr::from_ptr(entry.ifa_name) }.to_string_lossy().into_owned();
            // SAFETY: as the address.
            let prefix = prefix(unsafe { self::address(entry.ifa_netmask) }, address);
            found.push(InterfaceAddress { name, address, prefix });
        }
    }
    // SAFETY: it is the list from above, and nothing of it is used any more.
    unsafe { libc::freeifaddrs(first) };
    Ok(found)
}

/// The bits that are set in the mask of an address. Without a mask the address is a network by itself.
fn prefix(mask: Option<IpAddr>, address: IpAddr) -> u8 {
    let bits = match mask {
        Some(IpAddr::V4(mask)) => mask.to_bits().leading_ones(),
        Some(IpAddr::V6(mask)) => mask.to_bits().leading_ones(),
        None if address.is_ipv4() => 32,
        None => 128,
    };
    bits as u8
}

/// # Safety
/// It is null, or points to an address as long as its family's are.
unsafe fn address(at: *const libc::sockaddr) -> Option<IpAddr> {
    if at.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    match i32::from(unsafe { (*at).sa_family }) {
        libc::AF_INET => {
            // SAFETY: it is of this family.
            let address = unsafe { at.cast::<libc::sockaddr_in>().read_unaligned() };
            Some(Ipv4Addr::from(u32::from_be(address.sin_addr.s_addr)).into())
        }
        libc::AF_INET6 => {
            // SAFETY: it is of this family.
            let address = unsafe { at.cast::<libc::sockaddr_in6>().read_unaligned() };
            let address = Ipv6Addr::from(address.sin6_addr.s6_addr);
            (!address.is_unicast_link_local()).then_some(address.into())
        }
        _ => None,
    }
}
