//! What the fuzz targets need beside the public interface: only there with `--cfg fuzzing`.

use crate::{Claimed, Endpoint, Error, Pattern, Rank, Request, Settings, Tuning, View};
use std::path::Path;
use taffrail_fabric::{Fabric, Head, PeerId, Sink, Source};

pub use crate::job::fuzzing::Launcher;

/// Reads the text of a tuning file.
pub fn read_tuning(text: &str) -> Result<Tuning, Error> {
    Tuning::parse(Path::new("fuzz.toml"), text)
}

/// Reads settings from an environment.
pub fn read_settings(look: impl Fn(&str) -> Option<String>) -> Result<Settings, Error> {
    Settings::from_lookup(look)
}

impl Endpoint {
    /// Sends a message of the engine's, whatever it says, to the engine of a peer. Whether it left.
    pub fn send_anything(&mut self, to: Rank, head: Head, body: &[u8]) -> bool {
        self.engine.fabric.send(PeerId(to), head, Source::Bytes(body)).is_ok()
    }

    /// Closes the endpoint at once, whatever waits for room.
    pub fn hang_up(mut self) {
        self.engine.forget_pending();
    }

    /// Hands what has come for this rank to somebody else than its engine.
    pub fn overhear(&mut self, sink: &mut impl Sink) {
        self.engine.fabric.poll(sink);
    }

    /// How an operation is named to peers.
    pub fn name(&self, request: Request) -> u64 {
        let (index, generation) = request.to_raw();
        u64::from(index) | u64::from(generation) << 32
    }

    /// Starts a receive that finds its own memory.
    pub fn irecv_view(&mut self, from: Pattern) -> Result<Request, Error> {
        let request = self.engine.start_recv_view(from)?;
        Ok(self.engine.handle(request))
    }

    /// What such a receive has got, if it is over.
    pub fn test_view(&mut self, request: Request) -> Result<Option<View>, Error> {
        match self.engine.core.requests.look(request)?.stage.is_over() {
            true => self.wait_view(request.to_raw().0).map(Some),
            false => Ok(None),
        }
    }

    /// Starts to receive a claimed message.
    ///
    /// # Safety
    /// As [`irecv_raw`](Self::irecv_raw).
    pub unsafe fn irecv_claimed(
        &mut self,
        claimed: Claimed,
        into: *mut u8,
        len: usize,
    ) -> Result<Request, Error> {
        // SAFETY: the caller's promise.
        let request = unsafe { self.engine.receive_claimed(claimed, into, len)? };
        Ok(self.engine.handle(request))
    }
}
