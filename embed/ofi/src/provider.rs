//! The entry point: libfabric loads the library and asks for the provider.

use crate::abi::fid::fi_context;
use crate::abi::provider::fi_provider;
use crate::{fabric, info, settings};
use std::ptr::null_mut;
use std::sync::{Mutex, PoisonError};

/// Our version, as libfabric writes versions.
pub const VERSION: u32 = version(0, 1);

/// The latest interface that is served. A provider that announces less than a program asks for is
/// passed over; what has been added to the interface since 1.17 is optional.
const API: u32 = version(2, 99);

/// A version, as libfabric writes them.
pub const fn version(major: u32, minor: u32) -> u32 {
    major << 16 | minor
}

/// libfabric keeps a note of its own in `context`, so this is written by others.
struct Provider(Mutex<fi_provider>);

// SAFETY: the pointers in it are to constants, or are libfabric's own.
unsafe impl Sync for Provider {}
// SAFETY: as above.
unsafe impl Send for Provider {}

static PROVIDER: Provider = Provider(Mutex::new(fi_provider {
    version: VERSION,
    fi_version: API,
    context: fi_context { internal: [null_mut(); 4] },
    name: c"taffrail".as_ptr(),
    getinfo: info::getinfo,
    fabric: fabric::open,
    cleanup,
}));

/// What libfabric calls after it has loaded the library.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    settings::start_log();
    let mut provider = PROVIDER.0.lock().unwrap_or_else(PoisonError::into_inner);
    settings::announce(&provider);
    &raw mut *provider
}

/// Nothing outlives its objects.
extern "C" fn cleanup() {}
