//! Address vectors: short numbers for addresses. Maps and tables are the same: the number is an index.

use crate::abi::av::{fi_av_attr, fi_ops_av, fid_av};
use crate::abi::constants::*;
use crate::abi::errno::{FI_EBUSY, FI_EINVAL, FI_ENOSYS};
use crate::abi::fi_addr_t;
use crate::abi::fid::{fi_ops, fid};
use crate::call::{Refusal, answer, unsupported};
use crate::domain::{Domain, bad_flags, given};
use crate::endpoint::Endpoint;
use crate::info::ADDRESS;
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};

/// The bytes of an address as programs pass them on.
pub type Address = [u8; ADDRESS];

/// `FI_SYMMETRIC`, a hint.
const SYMMETRIC: u64 = 1 << 59;

#[repr(C)]
pub struct Av {
    fid: fid_av,
    domain: *mut Domain,
    book: Book,
    /// Endpoints that use it.
    pub endpoints: Vec<*mut Endpoint>,
}

/// Which number stands for which address. An address that is inserted again gets the number it has:
/// Open MPI relies on it.
#[derive(Default)]
struct Book {
    entries: Vec<Entry>,
    by_address: HashMap<Address, fi_addr_t>,
    free: Vec<fi_addr_t>,
}

struct Entry {
    address: Address,
    /// How often it was inserted and not removed.
    uses: u32,
}

impl Book {
    fn insert(&mut self, address: Address) -> Option<fi_addr_t> {
        text(&address)?;
        if let Some(&number) = self.by_address.get(&address) {
            self.entries[number as usize].uses += 1;
            return Some(number);
        }
        let entry = Entry { address, uses: 1 };
        let number = match self.free.pop() {
            Some(number) => {
                self.entries[number as usize] = entry;
                number
            }
            None => {
                self.entries.push(entry);
                self.entries.len() as fi_addr_t - 1
            }
        };
        self.by_address.insert(address, number);
        Some(number)
    }

    /// `true` when that was the last use of the number.
    fn remove(&mut self, number: fi_addr_t) -> Option<bool> {
        let entry = self.entries.get_mut(number as usize).filter(|entry| entry.uses > 0)?;
        entry.uses -= 1;
        if entry.uses > 0 {
            return Some(false);
        }
        self.by_address.remove(&entry.address);
        self.free.push(number);
        Some(true)
    }

    fn look_up(&self, number: fi_addr_t) -> Option<&Address> {
        self.entries.get(number as usize).filter(|entry| entry.uses > 0).map(|entry| &entry.address)
    }
}

/// The text of an address: ASCII up to the first zero.
pub fn text(address: &Address) -> Option<&str> {
    let len = address.iter().position(|&byte| byte == 0)?;
    std::str::from_utf8(&address[..len]).ok().filter(|text| !text.is_empty() && text.is_ascii())
}

/// The address of an endpoint that calls itself so, if it is short enough.
pub fn padded(text: &str) -> Option<Address> {
    let mut address = [0; ADDRESS];
    let bytes = text.as_bytes();
    address[..ADDRESS - 1].get_mut(..bytes.len())?.copy_from_slice(bytes);
    Some(address)
}

impl Av {
    /// The address that a number stands for.
    pub fn address(&self, number: fi_addr_t) -> Option<&str> {
        self.book.look_up(number).and_then(text)
    }

    /// The number of an address, if it was inserted.
    pub fn number(&self, address: &str) -> Option<fi_addr_t> {
        self.book.by_address.get(&padded(address)?).copied()
    }

    pub fn domain(&self) -> *mut Domain {
        self.domain
    }
}

static FID: fi_ops = fi_ops { close, ..crate::unsupported::FID };

static OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert,
    insertsvc,
    insertsym,
    remove,
    lookup,
    straddr,
    av_set,
};

/// `fi_av_open`.
pub unsafe extern "C" fn open(
    domain: *mut crate::abi::domain::fid_domain,
    attr: *mut fi_av_attr,
    av: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    answer("fi_av_open", || {
        let domain: *mut Domain = domain.cast();
        // SAFETY: an open domain, attributes that the program may lack, a place for the answer.
        unsafe {
            if let Some(attr) = attr.as_mut() {
                if !attr.name.is_null() {
                    return Err(Refusal::new(FI_ENOSYS, "address vectors shared by name"));
                }
                if attr.flags & !SYMMETRIC != 0 {
                    return Err(bad_flags(attr.flags));
                }
                if attr.rx_ctx_bits != 0 {
                    return Err(Refusal::new(FI_EINVAL, "rx_ctx_bits: no scalable endpoints"));
                }
                if attr.r#type == FI_AV_UNSPEC {
                    attr.r#type = FI_AV_TABLE;
                }
            }
            let made = Av {
                fid: fid_av { fid: fid { fclass: FI_CLASS_AV, context, ops: &FID }, ops: &OPS },
                domain,
                book: Book::default(),
                endpoints: Vec::new(),
            };
            let _guard = (*domain).lock.take();
            (*domain).state.users += 1;
            av.write(Box::into_raw(Box::new(made)).cast());
        }
        Ok(0)
    })
}

unsafe extern "C" fn close(object: *mut fid) -> c_int {
    answer("fi_close(av)", || {
        let av: *mut Av = object.cast();
        // SAFETY: an open address vector, made by `open`.
        unsafe {
            let domain = (*av).domain;
            let _guard = (*domain).lock.take();
            if !(*av).endpoints.is_empty() {
                return Err(Refusal::new(FI_EBUSY, "an endpoint is bound to it"));
            }
            (*domain).state.users -= 1;
            drop(Box::from_raw(av));
        }
        Ok(0)
    })
}

/// Returns how many were inserted.
unsafe extern "C" fn insert(
    av: *mut fid_av,
    addr: *const c_void,
    count: usize,
    numbers: *mut fi_addr_t,
    flags: u64,
    _context: *mut c_void,
) -> c_int {
    answer("fi_av_insert", || {
        if flags & !FI_MORE != 0 {
            return Err(bad_flags(flags));
        }
        if count > 0 {
            given(addr, "addr")?;
        }
        let av: *mut Av = av.cast();
        // SAFETY: an open address vector; `count` addresses of ours, one behind the other.
        unsafe {
            let _guard = (*(*av).domain).lock.take();
            let mut inserted = 0;
            for index in 0..count {
                let address = addr.cast::<Address>().add(index).read();
                let number = (*av).book.insert(address);
                inserted += c_int::from(number.is_some());
                if !numbers.is_null() {
                    numbers.add(index).write(number.unwrap_or(FI_ADDR_NOTAVAIL));
                }
            }
            if (inserted as usize) < count {
                tracing::warn!("fi_av_insert: {inserted} of {count} are addresses of taffrail");
            }
            Ok(inserted)
        }
    })
}

unsafe extern "C" fn insertsvc(
    _: *mut fid_av,
    _: *const c_char,
    _: *const c_char,
    _: *mut fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    unsupported("addresses by host and service (fi_av_insertsvc): pass on those of fi_getname")
}

unsafe extern "C" fn insertsym(
    _: *mut fid_av,
    _: *const c_char,
    _: usize,
    _: *const c_char,
    _: usize,
    _: *mut fi_addr_t,
    _: u64,
    _: *mut c_void,
) -> c_int {
    unsupported("addresses by host and service (fi_av_insertsym): pass on those of fi_getname")
}

unsafe extern "C" fn av_set(
    _: *mut fid_av,
    _: *mut c_void,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> c_int {
    unsupported("sets of addresses (fi_av_set)")
}

unsafe extern "C" fn remove(
    av: *mut fid_av,
    numbers: *mut fi_addr_t,
    count: usize,
    _flags: u64,
) -> c_int {
    answer("fi_av_remove", || {
        let av: *mut Av = av.cast();
        // SAFETY: an open address vector, and `count` numbers.
        unsafe {
            let _guard = (*(*av).domain).lock.take();
            for index in 0..count {
                let number = numbers.add(index).read();
                let Some(last) = (*av).book.remove(number) else {
                    return Err(unknown(number));
                };
                if last {
                    for &endpoint in &(*av).endpoints {
                        (*endpoint).forget(number);
                    }
                }
            }
        }
        Ok(0)
    })
}

unsafe extern "C" fn lookup(
    av: *mut fid_av,
    number: fi_addr_t,
    addr: *mut c_void,
    len: *mut usize,
) -> c_int {
    answer("fi_av_lookup", || {
        let av: *mut Av = av.cast();
        given(len, "addrlen")?;
        // SAFETY: an open address vector, and `*len` bytes at `addr`.
        unsafe {
            let _guard = (*(*av).domain).lock.take();
            let address = (*av).book.look_up(number).ok_or_else(|| unknown(number))?;
            let room = len.read().min(ADDRESS);
            std::ptr::copy_nonoverlapping(address.as_ptr(), addr.cast(), room);
            len.write(ADDRESS);
        }
        Ok(0)
    })
}

unsafe extern "C" fn straddr(
    _av: *mut fid_av,
    addr: *const c_void,
    buf: *mut c_char,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: an address of ours, and `*len` bytes at `buf`.
    unsafe {
        let address = addr.cast::<Address>().read();
        let text = text(&address).unwrap_or("(no address of taffrail)");
        let room = len.read();
        if room > 0 {
            let part = text.len().min(room - 1);
            std::ptr::copy_nonoverlapping(text.as_ptr().cast(), buf, part);
            buf.add(part).write(0);
        }
        len.write(text.len() + 1);
    }
    buf
}

fn unknown(number: fi_addr_t) -> Refusal {
    Refusal::new(FI_EINVAL, format!("no address was inserted as {number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_address_has_the_same_number() {
        let mut book = Book::default();
        let (a, b) = (padded("a").unwrap(), padded("b").unwrap());
        assert_eq!((book.insert(a), book.insert(b), book.insert(a)), (Some(0), Some(1), Some(0)));
        assert_eq!(book.remove(0), Some(false));
        assert_eq!(book.look_up(0), Some(&a));
        assert_eq!(book.remove(0), Some(true));
        assert_eq!(book.look_up(0), None);
        assert_eq!(book.remove(0), None);
        assert_eq!(book.insert(padded("c").unwrap()), Some(0));
    }

    #[test]
    fn what_is_no_address_is_not_inserted() {
        let mut book = Book::default();
        assert_eq!(book.insert([0; ADDRESS]), None);
        assert_eq!(book.insert([b'x'; ADDRESS]), None);
        assert_eq!(book.insert([200; ADDRESS]), None);
        assert_eq!(padded(&"x".repeat(ADDRESS)), None);
        assert_eq!(padded(&"x".repeat(ADDRESS - 1)).as_ref().and_then(text).unwrap().len(), 63);
    }
}
