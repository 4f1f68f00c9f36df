//! Ways to other machines.

use super::Finding;

/// RDMA adapters.
pub fn infiniband() -> Finding {
    const WHAT: &str = "/dev/infiniband";
    let entries = std::fs::read_dir(WHAT).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut adapters: Vec<_> = names.filter(|name| name.starts_with("uverbs")).collect();
    adapters.sort();
    if adapters.is_empty() {
        return Finding::missing(
            WHAT,
            "no RDMA adapter is seen here",
            "load the adapter's driver and ib_uverbs; in a container, add --device=/dev/infiniband",
        );
    }
    Finding::there(WHAT, adapters.join(", "))
}

/// The libfabric that would be loaded.
pub fn libfabric() -> Finding {
    const WHAT: &str = "libfabric";
    // SAFETY: loads a library by a constant name; its constructors are those every user of
    // libfabric runs. It stays loaded, so the function found in it stays valid.
    let version = unsafe {
        let library = libc::dlopen(c"libfabric.so.1".as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        if library.is_null() {
            return Finding::missing(
                WHAT,
                "libfabric.so.1 is not found or cannot be loaded",
                "install libfabric (Debian: libfabric1), or name its folder in LD_LIBRARY_PATH",
            );
        }
        libc::dlsym(library, c"fi_version".as_ptr())
    };
    if version.is_null() {
        return Finding::missing(
            WHAT,
            "libfabric.so.1 has no fi_version",
            "install a libfabric that is complete",
        );
    }
    // SAFETY: `uint32_t fi_version(void)` of libfabric.
    let version = unsafe {
        std::mem::transmute::<*mut libc::c_void, unsafe extern "C" fn() -> u32>(version)()
    };
    Finding::there(WHAT, format!("version {}.{}", version >> 16, version & 0xffff))
}
