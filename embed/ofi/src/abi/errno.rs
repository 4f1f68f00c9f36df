//! Error numbers. Calls return them negated.

use super::c_constants;
use std::ffi::c_int;

c_constants! {
    FI_EIO: c_int = 5,
    FI_EAGAIN: c_int = 11,
    FI_ENOMEM: c_int = 12,
    FI_EACCES: c_int = 13,
    FI_EBUSY: c_int = 16,
    FI_EINVAL: c_int = 22,
    FI_ENOSYS: c_int = 38,
    FI_ENOMSG: c_int = 42,
    FI_ENODATA: c_int = 61,
    FI_EOPNOTSUPP: c_int = 95,
    FI_ECONNRESET: c_int = 104,
    FI_ECANCELED: c_int = 125,
    FI_EOTHER: c_int = 256,
    FI_ETOOSMALL: c_int = 257,
    FI_EOPBADSTATE: c_int = 258,
    FI_EAVAIL: c_int = 259,
    FI_EBADFLAGS: c_int = 260,
    FI_ENOEQ: c_int = 261,
    FI_ENOCQ: c_int = 263,
    FI_ETRUNC: c_int = 265,
    FI_ENOKEY: c_int = 266,
    FI_ENOAV: c_int = 267,
}
