//! The functions of libpmix that are used here.

use crate::Error;
use crate::abi::{
    pmix_info, pmix_op_cbfunc_t, pmix_proc, pmix_server_module_4_0_0_t, pmix_status_t, pmix_value,
};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

const LIBRARY: &CStr = c"libpmix.so.2";

macro_rules! functions {
    ($($name:ident($($type:ty),* $(,)?) -> $result:ty;)+) => {
        /// As the headers declare them.
        #[allow(non_snake_case)]
        pub struct Functions { $(pub $name: unsafe extern "C" fn($($type),*) -> $result),+ }

        impl Functions {
            fn find(library: *mut c_void) -> Result<Functions, Error> {
                Ok(Functions { $($name: {
                    let name = concat!(stringify!($name), "\0");
                    // SAFETY: a library that is open, and a string that ends with a zero.
                    let at = unsafe { libc::dlsym(library, name.as_ptr().cast()) };
                    if at.is_null() {
                        return Err(Error::NoFunction(stringify!($name)));
                    }
                    // SAFETY: the headers declare it like this, for all versions with this soname.
                    unsafe {
                        std::mem::transmute::<
                            *mut c_void,
                            unsafe extern "C" fn($($type),*) -> $result,
                        >(at)
                    }
                }),+ })
            }
        }
    };
}

functions! {
    PMIx_Error_string(pmix_status_t) -> *const c_char;
    PMIx_Info_load(*mut pmix_info, *const c_char, *const c_void, u16) -> pmix_status_t;
    PMIx_Init(*mut pmix_proc, *const pmix_info, usize) -> pmix_status_t;
    PMIx_Finalize(*const pmix_info, usize) -> pmix_status_t;
    PMIx_Put(u8, *const c_char, *mut pmix_value) -> pmix_status_t;
    PMIx_Commit() -> pmix_status_t;
    PMIx_Fence(*const pmix_proc, usize, *const pmix_info, usize) -> pmix_status_t;
    PMIx_Get(
        *const pmix_proc, *const c_char, *const pmix_info, usize, *mut *mut pmix_value,
    ) -> pmix_status_t;
    PMIx_generate_regex(*const c_char, *mut *mut c_char) -> pmix_status_t;
    PMIx_generate_ppn(*const c_char, *mut *mut c_char) -> pmix_status_t;
    PMIx_server_init(
        *mut pmix_server_module_4_0_0_t, *mut pmix_info, usize,
    ) -> pmix_status_t;
    PMIx_server_register_nspace(
        *const c_char, c_int, *mut pmix_info, usize, pmix_op_cbfunc_t, *mut c_void,
    ) -> pmix_status_t;
    PMIx_server_register_client(
        *const pmix_proc, libc::uid_t, libc::gid_t, *mut c_void, pmix_op_cbfunc_t, *mut c_void,
    ) -> pmix_status_t;
    PMIx_server_setup_fork(*const pmix_proc, *mut *mut *mut c_char) -> pmix_status_t;
}

/// The library, loaded once; it stays.
pub fn functions() -> Result<&'static Functions, Error> {
    static LOADED: OnceLock<Result<Functions, Error>> = OnceLock::new();
    LOADED.get_or_init(load).as_ref().map_err(Clone::clone)
}

fn load() -> Result<Functions, Error> {
    // Its own components look its symbols up by name: they are to be seen by all.
    // SAFETY: a string that ends with a zero; what the library does when it is loaded is its own matter.
    let library = unsafe { libc::dlopen(LIBRARY.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL) };
    if library.is_null() {
        // SAFETY: null, or a string that stays until the next call of this kind on this thread.
        let why = unsafe {
            let text = libc::dlerror();
            if text.is_null() { c"no reason given" } else { CStr::from_ptr(text) }
        };
        return Err(Error::NoLibrary(why.to_string_lossy().into_owned()));
    }
    Functions::find(library)
}

impl Functions {
    /// What a call returned, as a result.
    pub fn done(&self, call: &'static str, status: pmix_status_t) -> Result<(), Error> {
        if matches!(status, crate::abi::PMIX_SUCCESS | crate::abi::PMIX_OPERATION_SUCCEEDED) {
            return Ok(());
        }
        // SAFETY: takes any number, and returns a text that stays.
        let text = unsafe { CStr::from_ptr((self.PMIx_Error_string)(status)) };
        Err(Error::Failed { call, why: format!("{} ({status})", text.to_string_lossy()) })
    }
}

/// A text in a field of fixed size, ended by a zero.
pub fn field<const N: usize>(what: &str, text: &str) -> Result<[c_char; N], Error> {
    let bytes = text.as_bytes();
    if bytes.len() >= N || bytes.contains(&0) {
        return Err(Error::Unusable {
            what: what.to_owned(),
            expected: "a text without zeros that is short enough for PMIx",
            got: text.to_owned(),
        });
    }
    let mut field = [0; N];
    for (to, &from) in field.iter_mut().zip(bytes) {
        *to = from as c_char;
    }
    Ok(field)
}
