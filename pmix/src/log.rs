//! What clients want printed (PMIx_Log), as Open MPI 5 does with all of its error texts.

use crate::abi::*;
use std::ffi::{CStr, c_void};
use std::io::Write;

/// Prints each text on standard error, which is the rank's, in one write. The server has no other output of
/// the rank.
pub unsafe extern "C" fn log(
    _: *const pmix_proc,
    data: *const pmix_info,
    count: usize,
    _: *const pmix_info,
    _: usize,
    answer: pmix_op_cbfunc_t,
    word: *mut c_void,
) {
    let infos = match data.is_null() {
        true => &[],
        // SAFETY: `data` points to `count` structures, which stay until the answer.
        false => unsafe { std::slice::from_raw_parts(data, count) },
    };
    let mut status = PMIX_ERR_NOT_SUPPORTED;
    // SAFETY: what the library gives.
    for text in infos.iter().filter_map(|info| unsafe { text(info) }) {
        // When nobody listens there is nobody to tell.
        let _ = std::io::stderr().write_all(text);
        status = PMIX_SUCCESS;
    }
    let Some(answer) = answer else { return };
    let later = Answer { answer, word, status };
    // The library holds a lock until this returns, which its function takes.
    let thread = std::thread::Builder::new().spawn(move || later.give());
    if let Err(error) = thread {
        let line =
            format!("taffrail: the PMIx server of a rank has no thread to answer with: {error}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
}

/// What a client is answered.
struct Answer {
    answer: unsafe extern "C" fn(pmix_status_t, *mut c_void),
    word: *mut c_void,
    status: pmix_status_t,
}

// SAFETY: the word is the library's, and is only handed back; the answer may come from any thread.
unsafe impl Send for Answer {}

impl Answer {
    fn give(self) {
        // SAFETY: the library's function with the library's word, once.
        unsafe { (self.answer)(self.status, self.word) };
    }
}

/// The text that is to be printed, if this says one.
///
/// # Safety
/// A structure as the headers describe it, with a key that ends with a zero.
unsafe fn text(info: &pmix_info) -> Option<&[u8]> {
    // SAFETY: the caller's promise.
    let key = unsafe { CStr::from_ptr(info.key.as_ptr()) };
    if ![PMIX_LOG_STDERR, PMIX_LOG_STDOUT, PMIX_LOG_MSG].contains(&key) {
        return None;
    }
    // SAFETY: the type says which of the values is there.
    unsafe {
        match info.value.r#type {
            PMIX_STRING if !info.value.data.string.is_null() => {
                Some(CStr::from_ptr(info.value.data.string).to_bytes())
            }
            PMIX_BYTE_OBJECT if !info.value.data.bytes.bytes.is_null() => {
                let pmix_byte_object { bytes, size } = info.value.data.bytes;
                Some(std::slice::from_raw_parts(bytes.cast(), size))
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(key: &CStr, value: pmix_value) -> pmix_info {
        // SAFETY: zeros are a value of this structure of numbers and pointers.
        let mut info: pmix_info = unsafe { std::mem::zeroed() };
        for (to, &from) in info.key.iter_mut().zip(key.to_bytes_with_nul()) {
            *to = from as _;
        }
        info.value = value;
        info
    }

    fn string(text: &CStr) -> pmix_value {
        let data = pmix_value_data { string: text.as_ptr().cast_mut() };
        pmix_value { r#type: PMIX_STRING, data }
    }

    #[test]
    fn texts_and_bytes_are_printed_and_nothing_else() {
        let bytes = pmix_byte_object { bytes: c"oops\n".as_ptr().cast_mut(), size: 5 };
        let bytes = pmix_value { r#type: PMIX_BYTE_OBJECT, data: pmix_value_data { bytes } };
        let number = pmix_value { r#type: PMIX_UINT32, data: pmix_value_data { uint32: 1 } };
        let nothing = pmix_value_data { string: std::ptr::null_mut() };
        let nothing = pmix_value { r#type: PMIX_STRING, data: nothing };
        // SAFETY: structures that are made above.
        unsafe {
            assert_eq!(text(&info(PMIX_LOG_STDERR, string(c"a\n"))), Some(&b"a\n"[..]));
            assert_eq!(text(&info(PMIX_LOG_MSG, bytes)), Some(&b"oops\n"[..]));
            assert_eq!(text(&info(PMIX_LOG_STDERR, number)), None);
            assert_eq!(text(&info(PMIX_LOG_STDERR, nothing)), None);
            assert_eq!(text(&info(PMIX_HOSTNAME, string(c"node"))), None);
        }
    }
}
