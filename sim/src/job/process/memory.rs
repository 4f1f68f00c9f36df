//! The calls of a program that have to do with memory: windows that others reach, loans, and views.

#![allow(unsafe_code)] // The engine's calls name memory: that of `Process`, which outlives the engine.

use super::calls::pattern;
use super::message::{check, decode, encode};
use super::{Process, Started, What};
use crate::call::{Body, Call as Asked, Outcome, Req};
use taffrail_engine::keyed_memory::KeyedMemory;
use taffrail_engine::loan::Buffer;
use taffrail_engine::memory::{Access, Way};
use taffrail_engine::one_sided::RemoteMemory;
use taffrail_engine::view::{View, ViewBuffer};
use taffrail_engine::{Atomic, AtomicOp, AtomicType, Data, Dest, Error, Exposed, Rank, Status};
use taffrail_fabric::{Fabric, Memory, RegionId, UserBuf};

/// What peers call the window of each rank, and its first byte.
const NAME: u64 = 77;
const START: u64 = 1 << 40;
const WORD: usize = size_of::<u64>();

/// Memory of a process that others reach.
pub(super) enum Window {
    /// Memory of the program, registered.
    Registered(RegionId, Box<[u8]>),
    /// A buffer of the engine.
    Buffer(Buffer),
}

impl Window {
    fn bytes(&mut self) -> (*mut u8, usize) {
        let bytes: &mut [u8] = match self {
            Window::Registered(_, bytes) => bytes,
            Window::Buffer(buffer) => buffer,
        };
        (bytes.as_mut_ptr(), bytes.len())
    }
}

impl<const S: bool, const L: bool> Process<S, L> {
    pub(super) fn reach(&mut self, call: &Asked) -> Result<Outcome, Error> {
        match call {
            Asked::PostView(posting) => {
                let request = self.engine.start_recv_view(pattern(posting))?;
                Ok(self.started(What::View, request, Box::default()))
            }
            Asked::Drop(req) => {
                self.started[*req].view.take().into_iter().for_each(drop_view);
                Ok(Outcome::Done)
            }
            Asked::Expose(words, registered) => self.expose(*words, *registered),
            Asked::Hide => {
                assert!(self.engine.forget_named(NAME), "the window has a name");
                Ok(Outcome::Done)
            }
            Asked::Get { from, at, count, named } => {
                let bytes = vec![0; count * WORD].into_boxed_slice();
                self.access(Way::Get, (*from, *at), bytes, *named)
            }
            Asked::Put { to, at, words, named } => {
                let bytes = words.iter().flat_map(|word| word.to_le_bytes()).collect();
                self.access(Way::Put, (*to, *at), bytes, *named)
            }
            Asked::Add { to, at, value, fetch } => self.add((*to, *at), *value, *fetch),
            Asked::Load(at, count) => {
                let (start, len) = self.window();
                assert!((at + count) * WORD <= len, "words of the window");
                let mut bytes = vec![0; count * WORD];
                // SAFETY: inside the window, to which others write in the steps of the network only.
                unsafe { start.add(at * WORD).copy_to(bytes.as_mut_ptr(), bytes.len()) };
                Ok(Outcome::Words(words(&bytes)))
            }
            Asked::Store(at, word) => {
                let (start, len) = self.window();
                assert!(at * WORD < len, "a word of the window");
                // SAFETY: inside the window.
                unsafe { start.add(at * WORD).copy_from(word.to_le_bytes().as_ptr(), WORD) };
                Ok(Outcome::Done)
            }
            other => unreachable!("{other:?}"),
        }
    }

    fn window(&mut self) -> (*mut u8, usize) {
        self.window.as_mut().expect("the program has exposed one").bytes()
    }

    pub(super) fn lend(
        &mut self,
        to: (Rank, u16, u64),
        body: &Body,
    ) -> Result<Option<Outcome>, Error> {
        let (rank, context, tag) = to;
        let seq = self.number(rank, context);
        let bytes = encode(body, (context, seq));
        let mut buffer = self.engine.take_buffer(bytes.len())?;
        buffer.copy_from_slice(&bytes);
        let to = Dest { rank, context, tag, data: Data::NONE };
        if self.engine.start_loan(to, buffer)?.is_some() {
            self.waits_for_disk(seq);
            return Ok(None);
        }
        Ok(Some(Outcome::Sent { seq }))
    }

    /// A receive in place is over.
    pub(super) fn viewed(&mut self, req: Req, buffer: ViewBuffer, status: Status) -> Outcome {
        let view = View::new(buffer, status);
        let (message, _) = decode(&view, status);
        self.outside.borrow_mut().oracle.frames.viewed(view.is_loan());
        self.started[req] =
            Started { what: What::View, request: None, bytes: Box::default(), view: Some(view) };
        Outcome::Message(message)
    }

    fn expose(&mut self, words: usize, registered: bool) -> Result<Outcome, Error> {
        let len = words * WORD;
        let mut window = match registered {
            true => {
                let mut bytes = vec![0; len].into_boxed_slice();
                let at = bytes.as_mut_ptr();
                // SAFETY: the window stays as long as the engine.
                let memory = Memory::host(unsafe { UserBuf::new(at, len) });
                let region = self.engine.fabric.register(memory)?;
                self.engine.rma.register(region, Exposed(at), len);
                Window::Registered(region, bytes)
            }
            false => {
                let mut buffer = self.engine.take_buffer(len)?;
                buffer.fill(0);
                Window::Buffer(buffer)
            }
        };
        let at = Exposed(window.bytes().0);
        let named = KeyedMemory { at, len, start: START, access: Access::Both };
        self.engine.rma.expose(NAME, named);
        self.window = Some(window);
        Ok(Outcome::Done)
    }

    /// What a rank needs to reach the window.
    pub(super) fn key(&mut self, to: Rank) -> Result<RemoteMemory, Error> {
        match self.window.as_mut().expect("the program has exposed one") {
            Window::Registered(region, bytes) => self.engine.remote(to, *region, 0, bytes.len()),
            Window::Buffer(buffer) => self.engine.remote_buffer(to, buffer),
        }
    }

    fn access(
        &mut self,
        way: Way,
        (rank, at): (Rank, usize),
        mut bytes: Box<[u8]>,
        named: bool,
    ) -> Result<Outcome, Error> {
        let (offset, memory, len) = ((at * WORD) as u64, bytes.as_mut_ptr(), bytes.len());
        // SAFETY: the bytes are kept as long as the engine.
        let request = unsafe {
            match named {
                true => self.engine.start_named(way, rank, (NAME, START + offset), memory, len)?,
                false => {
                    let key = self.keys[&rank];
                    self.engine.start_one_sided(way, rank, &key, offset, memory, len)?
                }
            }
        };
        let what = if way == Way::Get { What::Get } else { What::Put };
        Ok(self.started(what, request, bytes))
    }

    fn add(
        &mut self,
        (rank, at): (Rank, usize),
        value: u64,
        fetch: bool,
    ) -> Result<Outcome, Error> {
        let sum = Atomic::new(AtomicOp::Sum, AtomicType::U64, 1).expect("numbers can be added");
        let mut bytes = vec![0; if fetch { WORD } else { 0 }].into_boxed_slice();
        let fetched = if fetch { bytes.as_mut_ptr() } else { std::ptr::null_mut() };
        let place = (NAME, START + (at * WORD) as u64);
        // SAFETY: the bytes are kept as long as the engine.
        let request =
            unsafe { self.engine.start_atomic(rank, place, sum, &value.to_ne_bytes(), fetched)? };
        let what = if fetch { What::Get } else { What::Put };
        Ok(self.started(what, request, bytes))
    }
}

/// Drops a view, whose bytes are those of its message still.
pub(in crate::job) fn drop_view(view: View) {
    check(&view, view.status().source);
}

/// The words in these bytes.
pub(super) fn words(bytes: &[u8]) -> Vec<u64> {
    let words = bytes.chunks_exact(WORD);
    words.map(|word| u64::from_le_bytes(word.try_into().expect("8 bytes"))).collect()
}
