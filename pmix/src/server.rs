//! A PMIx server for one process: to libpmix, the only one of its job on its node.
//!
//! A server of libpmix cannot have one of its clients replaced: a fence that others are in ends when a
//! client dies, and those that its successor repeats are new fences. A server that has one client is
//! replaced together with it, and what is between the servers is the launcher's.

use crate::Error;
use crate::abi::*;
use crate::library::{self, Functions};
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStringExt;
use std::ptr::{null, null_mut};
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, Sender, channel};

/// The server of this process, which can have one.
#[derive(Debug)]
pub struct Server {
    fences: Receiver<Fence>,
    environment: Vec<OsString>,
}

/// The client waits until all ranks are here, and wants what they have brought.
#[derive(Debug)]
pub struct Fence {
    /// What this rank has brought; nothing, if nothing is to be exchanged.
    pub data: Vec<u8>,
    answer: pmix_modex_cbfunc_t,
    word: *mut c_void,
}

/// What the client says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// It takes part from now on.
    Connected,
    /// It takes part no longer.
    Finalised,
    /// It wants the job to end. It ends by itself now.
    Aborted {
        /// The status that it wants. What its process exits with is only the low byte.
        code: i32,
        /// The reason, if it gives one.
        text: Option<String>,
    },
}

/// Receives the events of clients; called on a thread of libpmix.
type OnClient = Box<dyn Fn(ClientEvent) + Send + Sync>;

// SAFETY: the word is the library's, and is only handed back; the answer may come from any thread.
unsafe impl Send for Fence {}

/// The name of the node that a rank is on, as its MPI sees it: MPIs name files after it.
pub fn node_name(job: &str, rank: u32) -> String {
    format!("{job}-node{rank}")
}

/// Where fences go, which come on a thread of the library, and of how many ranks they are.
static FENCES: OnceLock<(Sender<Fence>, u32)> = OnceLock::new();

/// See [`OnClient`].
static ON_CLIENT: OnceLock<OnClient> = OnceLock::new();

impl Server {
    /// Starts the server for rank `rank` of `size` ranks of a job. It listens on the loopback interface. What
    /// the client says of itself goes to `on_client`, on a thread of libpmix, before the client is answered.
    ///
    /// # Errors
    /// When libpmix is not here or says no, or this process has a server already.
    pub fn start(
        job: &str,
        rank: u32,
        size: u32,
        on_client: impl Fn(ClientEvent) + Send + Sync + 'static,
    ) -> Result<Server, Error> {
        let api = library::functions()?;
        let (sender, fences) = channel();
        ON_CLIENT.set(Box::new(on_client)).map_err(|_| Error::Taken)?;
        FENCES.set((sender, size)).map_err(|_| Error::Taken)?;
        let node = |rank| node_name(job, rank);
        let nodes = (0..size).map(node).collect::<Vec<_>>().join(",");
        let ranks = (0..size).map(|rank| rank.to_string()).collect::<Vec<_>>().join(";");
        let client = pmix_proc { nspace: library::field("the name of the job", job)?, rank };

        let mut about = Infos::new(api);
        about.text(PMIX_HOSTNAME, &node(rank))?;
        let module = Box::leak(Box::new(Module { used: MODULE, more: [None; 32] }));
        // SAFETY: structures as declared; the module stays, and is longer than that of any version.
        let status = unsafe {
            (api.PMIx_server_init)(&mut module.used, about.0.as_mut_ptr(), about.0.len())
        };
        api.done("PMIx_server_init", status)?;

        let mut about = Infos::new(api);
        about.map(PMIX_NODE_MAP, "PMIx_generate_regex", api.PMIx_generate_regex, &nodes)?;
        about.map(PMIX_PROC_MAP, "PMIx_generate_ppn", api.PMIx_generate_ppn, &ranks)?;
        about.text(PMIX_LOCAL_PEERS, &rank.to_string())?;
        for key in [PMIX_UNIV_SIZE, PMIX_JOB_SIZE, PMIX_MAX_PROCS, PMIX_NUM_NODES] {
            about.number(key, size)?;
        }
        about.number(PMIX_LOCAL_SIZE, 1)?;
        about.number(PMIX_APPNUM, 0)?;
        // SAFETY: structures as declared. Without a function to call back, it returns when it is done.
        let status = unsafe {
            let (infos, count) = (about.0.as_mut_ptr(), about.0.len());
            let nspace = client.nspace.as_ptr();
            (api.PMIx_server_register_nspace)(nspace, 1, infos, count, None, null_mut())
        };
        api.done("PMIx_server_register_nspace", status)?;
        // SAFETY: as before.
        let status = unsafe {
            let (user, group) = (libc::getuid(), libc::getgid());
            (api.PMIx_server_register_client)(&client, user, group, null_mut(), None, null_mut())
        };
        api.done("PMIx_server_register_client", status)?;
        Ok(Server { fences, environment: environment(api, &client)? })
    }

    /// What the client is to find in its environment, each as `NAME=VALUE`.
    pub fn environment(&self) -> &[OsString] {
        &self.environment
    }

    /// Waits for the next fence.
    #[expect(clippy::expect_used, reason = "the sender is in a static, and is never dropped")]
    pub fn fence(&self) -> Fence {
        self.fences.recv().expect("the sender is never dropped")
    }
}

impl Fence {
    /// Ends the fence with what all ranks have brought, in their order, or, without it, with an error.
    pub fn answer(self, all: Option<Vec<u8>>) {
        let Some(answer) = self.answer else { return };
        let Some(all) = all else {
            // SAFETY: the library's function with the library's word, once.
            return unsafe { answer(PMIX_ERROR, null(), 0, self.word, None, null_mut()) };
        };
        let all = Box::new(all);
        let (data, len) = (all.as_ptr().cast(), all.len());
        let word = Box::into_raw(all).cast();
        // SAFETY: as above; the data stay until the library gives them back.
        unsafe { answer(PMIX_SUCCESS, data, len, self.word, Some(given_back), word) }
    }
}

/// The data of an answer is not needed any more.
unsafe extern "C" fn given_back(word: *mut c_void) {
    // SAFETY: made by `answer`, and given back once.
    drop(unsafe { Box::from_raw(word.cast::<Vec<u8>>()) });
}

/// What the client needs in its environment.
fn environment(api: &Functions, client: &pmix_proc) -> Result<Vec<OsString>, Error> {
    let mut list: *mut *mut c_char = null_mut();
    // SAFETY: an empty list, which the library makes longer.
    let status = unsafe { (api.PMIx_server_setup_fork)(client, &mut list) };
    api.done("PMIx_server_setup_fork", status)?;
    let mut all = Vec::new();
    // SAFETY: a list of strings that ends with null. It is small, and stays.
    unsafe {
        while !list.is_null() && !(*list).is_null() {
            all.push(OsString::from_vec(CStr::from_ptr(*list).to_bytes().to_vec()));
            list = list.add(1);
        }
    }
    Ok(all)
}

/// Facts that are told to the library, which copies them. What it allocates for them stays.
struct Infos<'a>(Vec<pmix_info>, &'a Functions);

impl<'a> Infos<'a> {
    fn new(api: &'a Functions) -> Infos<'a> {
        Infos(Vec::new(), api)
    }

    fn text(&mut self, key: &CStr, text: &str) -> Result<(), Error> {
        self.load(key, PMIX_STRING, c_text(text)?.as_ptr().cast())
    }

    fn number(&mut self, key: &CStr, number: u32) -> Result<(), Error> {
        self.load(key, PMIX_UINT32, (&raw const number).cast())
    }

    /// A list in the compressed form that the library makes of it.
    fn map(
        &mut self,
        key: &CStr,
        call: &'static str,
        generate: unsafe extern "C" fn(*const c_char, *mut *mut c_char) -> pmix_status_t,
        list: &str,
    ) -> Result<(), Error> {
        let mut map = null_mut();
        // SAFETY: a text, and where to put the pointer to another one.
        let status = unsafe { generate(c_text(list)?.as_ptr(), &mut map) };
        self.1.done(call, status)?;
        self.load(key, PMIX_REGEX, map.cast())
    }

    fn load(&mut self, key: &CStr, kind: u16, data: *const c_void) -> Result<(), Error> {
        // SAFETY: zeros are a value of this structure of numbers and pointers.
        let mut info = unsafe { std::mem::zeroed() };
        // SAFETY: a key, and data of the kind that is named.
        let status = unsafe { (self.1.PMIx_Info_load)(&mut info, key.as_ptr(), data, kind) };
        self.0.push(info);
        self.1.done("PMIx_Info_load", status)
    }
}

fn c_text(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Unusable {
        what: "a text for PMIx".to_owned(),
        expected: "no zeros",
        got: text.to_owned(),
    })
}

/// Later versions have more functions; those are left out.
#[repr(C)]
struct Module {
    used: pmix_server_module_4_0_0_t,
    more: [Option<unsafe extern "C" fn()>; 32],
}

const MODULE: pmix_server_module_4_0_0_t = pmix_server_module_4_0_0_t {
    client_connected: None,
    client_finalized: Some(client_finalized),
    abort: Some(abort),
    fence_nb: Some(fence_nb),
    direct_modex: Some(direct_modex),
    publish: None,
    lookup: None,
    unpublish: None,
    spawn: None,
    connect: None,
    disconnect: None,
    register_events: Some(register_events),
    deregister_events: Some(deregister_events),
    listener: None,
    notify_event: None,
    query: None,
    tool_connected: None,
    log: Some(crate::log::log),
    allocate: None,
    job_control: None,
    monitor: None,
    get_credential: None,
    validate_credential: None,
    iof_pull: None,
    push_stdin: None,
    group: None,
    fabric: None,
    client_connected2: Some(client_connected2),
};

/// # Safety
/// The library's function with the library's word.
unsafe fn accept(answer: pmix_op_cbfunc_t, word: *mut c_void) -> pmix_status_t {
    if let Some(answer) = answer {
        // SAFETY: the caller's promise.
        unsafe { answer(PMIX_SUCCESS, word) };
    }
    PMIX_SUCCESS
}

fn client_says(event: ClientEvent) {
    if let Some(on_client) = ON_CLIENT.get() {
        on_client(event);
    }
}

unsafe extern "C" fn client_connected2(
    _: *const pmix_proc,
    _: *mut c_void,
    _: *mut pmix_info,
    _: usize,
    answer: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    client_says(ClientEvent::Connected);
    // SAFETY: both are what the library gave.
    unsafe { accept(answer, word) }
}

unsafe extern "C" fn client_finalized(
    _: *const pmix_proc,
    _: *mut c_void,
    answer: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    client_says(ClientEvent::Finalised);
    // SAFETY: both are what the library gave.
    unsafe { accept(answer, word) }
}

/// The client wants the job to end, and ends by itself when it is answered.
unsafe extern "C" fn abort(
    _: *const pmix_proc,
    _: *mut c_void,
    code: c_int,
    text: *const c_char,
    _: *mut pmix_proc,
    _: usize,
    answer: pmix_op_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    // SAFETY: null, or a string of the library's.
    let text = (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) });
    let text = text.map(|text| text.to_string_lossy().trim().to_owned());
    // What Open MPI says where there is no reason.
    client_says(ClientEvent::Aborted {
        code,
        text: text.filter(|text| !text.is_empty() && text != "N/A"),
    });
    // SAFETY: both are what the library gave.
    unsafe { accept(answer, word) }
}

unsafe extern "C" fn fence_nb(
    ranks: *const pmix_proc,
    count: usize,
    _: *const pmix_info,
    _: usize,
    data: *mut c_char,
    len: usize,
    answer: pmix_modex_cbfunc_t,
    word: *mut c_void,
) -> pmix_status_t {
    let Some((fences, size)) = FENCES.get() else { return PMIX_ERROR };
    // SAFETY: so many processes, of which there is one at least.
    let all =
        unsafe { count == *size as usize || count == 1 && (*ranks).rank == PMIX_RANK_WILDCARD };
    let mut brought = Vec::new();
    if !data.is_null() {
        // SAFETY: so many bytes, allocated with malloc, and ours now.
        unsafe {
            brought.extend_from_slice(std::slice::from_raw_parts(data.cast(), len));
            libc::free(data.cast());
        }
    }
    if !all {
        return PMIX_ERR_NOT_SUPPORTED;
    }
    match fences.send(Fence { data: brought, answer, word }) {
        Ok(()) => PMIX_SUCCESS,
        Err(_) => PMIX_ERROR,
    }
}

/// What a rank has put comes with fences. What did not is not there.
unsafe extern "C" fn direct_modex(
    _: *const pmix_proc,
    _: *const pmix_info,
    _: usize,
    _: pmix_modex_cbfunc_t,
    _: *mut c_void,
) -> pmix_status_t {
    PMIX_ERR_NOT_FOUND
}

unsafe extern "C" fn register_events(
    _: *mut pmix_status_t,
    _: usize,
    _: *const pmix_info,
    _: usize,
    _: pmix_op_cbfunc_t,
    _: *mut c_void,
) -> pmix_status_t {
    PMIX_OPERATION_SUCCEEDED
}

unsafe extern "C" fn deregister_events(
    _: *mut pmix_status_t,
    _: usize,
    _: pmix_op_cbfunc_t,
    _: *mut c_void,
) -> pmix_status_t {
    PMIX_OPERATION_SUCCEEDED
}
