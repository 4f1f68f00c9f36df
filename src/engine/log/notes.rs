//! What is known of receives while they are under way: their number, and the message they have got.

use super::Log;
use taffrail_logging::Name;

/// What is known of a receive.
#[derive(Clone, Copy)]
pub(super) struct Note {
    /// That of the request: the note of an older one says nothing.
    pub(super) generation: u32,
    /// The number of the receive, unless it is [`CLAIM`].
    pub(super) post: u32,
    /// What of the following is so.
    pub(super) flags: u32,
    /// The message that it has got, or is to get, if it is [`NAMED`].
    name: Name,
}

/// In the place of the number of a receive: the message was claimed.
pub(super) const CLAIM: u32 = u32::MAX;

/// Chance decides what it gets, so that this is an event.
pub(super) const BY_CHANCE: u32 = 1;
/// What it got is an event already.
pub(super) const LOGGED: u32 = 2;
/// Its message is known.
const NAMED: u32 = 4;
/// By the replay, it was cancelled.
pub(super) const CANCELLED: u32 = 8;

impl Note {
    /// The message that it has got, or is to get.
    pub(super) fn name(&self) -> Option<Name> {
        (self.flags & NAMED != 0).then_some(self.name)
    }

    #[inline]
    pub(super) fn set_name(&mut self, name: Name) {
        self.name = name;
        self.flags |= NAMED;
    }

    pub(super) fn has(&self, flag: u32) -> bool {
        self.flags & flag != 0
    }

    /// Whether what it has got is still to become an event.
    #[inline]
    pub(super) fn is_to_be_logged(&self) -> bool {
        self.flags & (BY_CHANCE | LOGGED) == BY_CHANCE
    }
}

impl Log {
    /// Begins the note of a receive.
    #[inline]
    pub(super) fn take_note(&mut self, request: u32, generation: u32, post: u32, flags: u32) {
        match self.notes.get_mut(request as usize) {
            Some(note) => {
                note.generation = generation;
                note.post = post;
                note.flags = flags;
            }
            None => self.take_first_note(request, generation, post, flags),
        }
    }

    #[cold]
    fn take_first_note(&mut self, request: u32, generation: u32, post: u32, flags: u32) {
        let name = Name { source: 0, context: 0, seq: 0 };
        let nothing = Note { generation: u32::MAX, post: CLAIM, flags: 0, name };
        self.notes.resize(request as usize, nothing);
        self.notes.push(Note { generation, post, flags, name });
    }
}
