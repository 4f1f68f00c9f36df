//! The process's side of PMIx.

use crate::Error;
use crate::abi::*;
use crate::library::{self, Functions};
use std::ffi::{CStr, CString, c_char};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicBool, Ordering};

/// The connection of this process to the launcher that started it.
pub struct Client {
    api: &'static Functions,
    me: pmix_proc,
    size: u32,
    job: String,
    /// The process that joined: a forked child of it has no say.
    process: u32,
}

impl Client {
    /// Joins the job that the environment describes. A process can do so once.
    ///
    /// # Errors
    /// When libpmix is not here, or the launcher says no, or this process has joined already.
    pub fn join() -> Result<Client, Error> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        let api = library::functions()?;
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(Error::Taken);
        }
        let mut me = pmix_proc { nspace: [0; PMIX_MAX_NSLEN + 1], rank: 0 };
        // SAFETY: a structure to be filled in.
        let status = unsafe { (api.PMIx_Init)(&mut me, null(), 0) };
        api.done("PMIx_Init", status)?;
        // SAFETY: the library ends it with a zero.
        let job = unsafe { CStr::from_ptr(me.nspace.as_ptr()) }.to_string_lossy().into_owned();
        let mut client = Client { api, me, size: 0, job, process: std::process::id() };
        client.size = client.number(PMIX_JOB_SIZE)?;
        if me.rank >= client.size {
            return Err(Error::Unusable {
                what: format!("the rank of this process in a job of {}", client.size),
                expected: "one below the size of the job",
                got: me.rank.to_string(),
            });
        }
        Ok(client)
    }

    /// This process's rank.
    pub fn rank(&self) -> u32 {
        self.me.rank
    }

    /// How many ranks there are.
    pub fn size(&self) -> u32 {
        self.size
    }

    /// What the launcher calls the job.
    pub fn job(&self) -> &str {
        &self.job
    }

    /// Waits until every rank is here.
    ///
    /// # Errors
    /// The launcher's, when a rank or itself is gone.
    pub fn barrier(&mut self) -> Result<(), Error> {
        self.fence(false)
    }

    /// Gives every rank's `mine` to every rank, in the order of the ranks. Collective: all use the same
    /// `key`, which none has used before.
    ///
    /// # Errors
    /// The launcher's, when a rank or itself is gone.
    pub fn exchange(&mut self, key: &str, mine: &str) -> Result<Vec<String>, Error> {
        let key = library::field::<{ PMIX_MAX_KEYLEN + 1 }>("a key", key)?;
        let text = CString::new(mine).map_err(|_| Error::Unusable {
            what: "what is exchanged".to_owned(),
            expected: "a text without zeros",
            got: mine.to_owned(),
        })?;
        let data = pmix_value_data { string: text.as_ptr().cast_mut() };
        let mut value = pmix_value { r#type: PMIX_STRING, data };
        // SAFETY: a key and a text, which are copied.
        let status = unsafe { (self.api.PMIx_Put)(PMIX_GLOBAL, key.as_ptr(), &mut value) };
        self.api.done("PMIx_Put", status)?;
        // SAFETY: needs nothing but the connection, which is open.
        let status = unsafe { (self.api.PMIx_Commit)() };
        self.api.done("PMIx_Commit", status)?;
        self.fence(true)?;
        (0..self.size).map(|rank| self.text(rank, &key)).collect()
    }

    fn fence(&mut self, collect: bool) -> Result<(), Error> {
        let all = pmix_proc { rank: PMIX_RANK_WILDCARD, ..self.me };
        // SAFETY: zeros are a value of this structure of numbers and pointers.
        let mut info: pmix_info = unsafe { std::mem::zeroed() };
        // SAFETY: a key, and data of the kind that is named.
        let status = unsafe {
            let data = (&raw const collect).cast();
            (self.api.PMIx_Info_load)(&mut info, PMIX_COLLECT_DATA.as_ptr(), data, PMIX_BOOL)
        };
        self.api.done("PMIx_Info_load", status)?;
        // SAFETY: one process and one fact, which stay until it returns.
        let status = unsafe { (self.api.PMIx_Fence)(&all, 1, &info, 1) };
        self.api.done("PMIx_Fence", status)
    }

    fn text(&self, rank: u32, key: &[c_char]) -> Result<String, Error> {
        self.get(rank, key.as_ptr(), PMIX_STRING, |data| {
            // SAFETY: a value of the kind string: a text, allocated with malloc, that is ours.
            unsafe {
                let text = CStr::from_ptr(data.string).to_string_lossy().into_owned();
                libc::free(data.string.cast());
                text
            }
        })
    }

    /// A number that the launcher knows of the job.
    fn number(&self, key: &CStr) -> Result<u32, Error> {
        // SAFETY: a value of this kind is such a number.
        self.get(PMIX_RANK_WILDCARD, key.as_ptr(), PMIX_UINT32, |data| unsafe { data.uint32 })
    }

    /// What a rank has put, or the launcher, if it is of the kind that is expected.
    fn get<T>(
        &self,
        rank: u32,
        key: *const c_char,
        kind: u16,
        read: impl FnOnce(&pmix_value_data) -> T,
    ) -> Result<T, Error> {
        let of = pmix_proc { rank, ..self.me };
        let mut value = null_mut();
        // SAFETY: a process, a key, and where to put the pointer to the value.
        let status = unsafe { (self.api.PMIx_Get)(&of, key, null(), 0, &mut value) };
        self.api.done("PMIx_Get", status)?;
        // SAFETY: after success it is a value, allocated with malloc, that is ours.
        unsafe {
            let pmix_value { r#type, data } = *value;
            libc::free(value.cast());
            match r#type == kind && !(kind == PMIX_STRING && data.string.is_null()) {
                true => Ok(read(&data)),
                false => Err(Error::Unusable {
                    what: CStr::from_ptr(key).to_string_lossy().into_owned(),
                    expected: "a text or a number, as it was put",
                    got: format!("something of PMIx's type {type}", type = r#type),
                }),
            }
        }
    }
}

impl Drop for Client {
    /// A launcher that is gone cannot be helped any more.
    fn drop(&mut self) {
        if self.process == std::process::id() {
            // SAFETY: the connection is open, and nobody else in this process uses it.
            unsafe { (self.api.PMIx_Finalize)(null(), 0) };
        }
    }
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({} of {} in {})", self.rank(), self.size, self.job)
    }
}
