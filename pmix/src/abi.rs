//! PMIx's binary interface, written by hand: what its public headers say, as far as it is used here.
//! Names are those of the headers; `tests.rs` compares all of it with the headers that are installed.

#![allow(non_camel_case_types)]

#[cfg(test)]
mod tests;

use std::ffi::{CStr, c_char, c_int, c_void};

pub type pmix_status_t = c_int;

/// A structure of the headers, field by field.
macro_rules! c_struct {
    ($(#[$meta:meta])* $name:ident { $($field:ident : $type:ty),+ $(,)? }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name { $(pub $field: $type),+ }

        #[cfg(test)]
        impl tests::Described for $name {
            const NAME: &'static str = stringify!($name);
            fn fields() -> Vec<(&'static str, usize)> {
                vec![$((stringify!($field), std::mem::offset_of!($name, $field))),+]
            }
        }
    };
}

/// Constants of the headers, with a list of them for the comparison.
macro_rules! c_constants {
    ($($name:ident : $type:ty = $value:expr),+ $(,)?) => {
        $(pub const $name: $type = $value;)+

        #[cfg(test)]
        const NUMBERS: &[(&str, i64)] = &[$((stringify!($name), $name as i64)),+];
    };
}

/// Keys of the headers, with a list of them for the comparison.
macro_rules! c_keys {
    ($($name:ident = $value:expr),+ $(,)?) => {
        $(pub const $name: &CStr = $value;)+

        #[cfg(test)]
        const KEYS: &[(&str, &CStr)] = &[$((stringify!($name), $name)),+];
    };
}

c_constants! {
    PMIX_SUCCESS: pmix_status_t = 0,
    PMIX_ERROR: pmix_status_t = -1,
    PMIX_ERR_NOT_FOUND: pmix_status_t = -46,
    PMIX_ERR_NOT_SUPPORTED: pmix_status_t = -47,
    PMIX_OPERATION_SUCCEEDED: pmix_status_t = -157,
    PMIX_MAX_NSLEN: usize = 255,
    PMIX_MAX_KEYLEN: usize = 511,
    PMIX_RANK_WILDCARD: u32 = u32::MAX - 1,
    PMIX_BOOL: u16 = 1,
    PMIX_STRING: u16 = 3,
    PMIX_UINT32: u16 = 14,
    PMIX_BYTE_OBJECT: u16 = 27,
    PMIX_REGEX: u16 = 49,
    PMIX_GLOBAL: u8 = 3,
}

c_keys! {
    PMIX_APPNUM = c"pmix.appnum",
    PMIX_COLLECT_DATA = c"pmix.collect",
    PMIX_HOSTNAME = c"pmix.hname",
    PMIX_JOB_SIZE = c"pmix.job.size",
    PMIX_LOCAL_PEERS = c"pmix.lpeers",
    PMIX_LOCAL_SIZE = c"pmix.local.size",
    PMIX_LOG_MSG = c"pmix.log.msg",
    PMIX_LOG_STDERR = c"pmix.log.stderr",
    PMIX_LOG_STDOUT = c"pmix.log.stdout",
    PMIX_MAX_PROCS = c"pmix.max.size",
    PMIX_NODE_MAP = c"pmix.nmap",
    PMIX_NUM_NODES = c"pmix.num.nodes",
    PMIX_PROC_MAP = c"pmix.pmap",
    PMIX_UNIV_SIZE = c"pmix.univ.size",
}

c_struct! {
    /// A process: the name of its job, ended by a zero, and its rank.
    pmix_proc { nspace: [c_char; PMIX_MAX_NSLEN + 1], rank: u32 }
}

c_struct! {
    pmix_byte_object { bytes: *mut c_char, size: usize }
}

c_struct! {
    pmix_value { r#type: u16, data: pmix_value_data }
}

/// What a value may be. The longest of them is one of three words.
#[repr(C)]
#[derive(Clone, Copy)]
pub union pmix_value_data {
    pub string: *mut c_char,
    pub uint32: u32,
    pub bytes: pmix_byte_object,
    pub words: [u64; 3],
}

c_struct! {
    pmix_info { key: [c_char; PMIX_MAX_KEYLEN + 1], flags: u32, value: pmix_value }
}

pub type pmix_op_cbfunc_t = Option<unsafe extern "C" fn(pmix_status_t, *mut c_void)>;
pub type pmix_release_cbfunc_t = Option<unsafe extern "C" fn(*mut c_void)>;
/// Status, data and its length, the caller's word, and how to give the data back.
pub type pmix_modex_cbfunc_t = Option<
    unsafe extern "C" fn(
        pmix_status_t,
        *const c_char,
        usize,
        *mut c_void,
        pmix_release_cbfunc_t,
        *mut c_void,
    ),
>;

/// A function that is left out.
type None_t = Option<unsafe extern "C" fn()>;

c_struct! {
    /// What a launcher is asked. What is null is answered with PMIX_ERR_NOT_SUPPORTED by the library.
    pmix_server_module_4_0_0_t {
        client_connected: None_t,
        client_finalized: Option<
            unsafe extern "C" fn(
                *const pmix_proc, *mut c_void, pmix_op_cbfunc_t, *mut c_void,
            ) -> pmix_status_t,
        >,
        abort: Option<
            unsafe extern "C" fn(
                *const pmix_proc, *mut c_void, c_int, *const c_char, *mut pmix_proc, usize,
                pmix_op_cbfunc_t, *mut c_void,
            ) -> pmix_status_t,
        >,
        fence_nb: Option<
            unsafe extern "C" fn(
                *const pmix_proc, usize, *const pmix_info, usize, *mut c_char, usize,
                pmix_modex_cbfunc_t, *mut c_void,
            ) -> pmix_status_t,
        >,
        direct_modex: Option<
            unsafe extern "C" fn(
                *const pmix_proc, *const pmix_info, usize, pmix_modex_cbfunc_t, *mut c_void,
            ) -> pmix_status_t,
        >,
        publish: None_t,
        lookup: None_t,
        unpublish: None_t,
        spawn: None_t,
        connect: None_t,
        disconnect: None_t,
        register_events: Option<
            unsafe extern "C" fn(
                *mut pmix_status_t, usize, *const pmix_info, usize, pmix_op_cbfunc_t, *mut c_void,
            ) -> pmix_status_t,
        >,
        deregister_events: Option<
            unsafe extern "C" fn(
                *mut pmix_status_t, usize, pmix_op_cbfunc_t, *mut c_void,
            ) -> pmix_status_t,
        >,
        listener: None_t,
        notify_event: None_t,
        query: None_t,
        tool_connected: None_t,
        log: Option<
            unsafe extern "C" fn(
                *const pmix_proc, *const pmix_info, usize, *const pmix_info, usize,
                pmix_op_cbfunc_t, *mut c_void,
            ),
        >,
        allocate: None_t,
        job_control: None_t,
        monitor: None_t,
        get_credential: None_t,
        validate_credential: None_t,
        iof_pull: None_t,
        push_stdin: None_t,
        group: None_t,
        fabric: None_t,
        client_connected2: Option<
            unsafe extern "C" fn(
                *const pmix_proc, *mut c_void, *mut pmix_info, usize, pmix_op_cbfunc_t, *mut c_void,
            ) -> pmix_status_t,
        >,
    }
}
