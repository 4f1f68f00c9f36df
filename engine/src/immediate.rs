//! Immediate data: a number that travels beside the payload of a message.
//!
//! In an open job the two highest bits of a context distinguish contexts, and the rest of the word on the
//! wire is free for a small number: it costs no byte. A number that has no room there, or a job that
//! uses all of its contexts, puts it in front of the payload ([`EAGER_DATA`](super::frame::kind::EAGER_DATA)).

use crate::Data;

/// What the low bits of a context mean here.
#[derive(Clone, Copy, Default)]
pub(crate) struct Immediate {
    /// The bits of a context that are the code of [`Data`].
    bits: u16,
}

impl Immediate {
    /// With room for numbers of up to 14 bits.
    pub(crate) const OPEN: Immediate = Immediate { bits: 0x3fff };

    /// The context, of the word on the wire.
    #[inline]
    pub(crate) fn context(self, word: u16) -> u16 {
        word & !self.bits
    }

    /// The data, of the word on the wire.
    #[inline]
    pub(crate) fn data(self, word: u16) -> Data {
        Data::from_code(word & self.bits)
    }

    /// The word on the wire; `None` when it has no room for the data.
    #[inline]
    pub(crate) fn word(self, context: u16, data: Data) -> Option<u16> {
        (data.code() <= u64::from(self.bits)).then_some(context | data.code() as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_room_comes_back() {
        let open = Immediate::OPEN;
        for context in [0, 0x4000, 0x8000, 0xc000] {
            for data in [None, Some(0), Some(1), Some(16_381), Some(16_382)] {
                let data = data.map_or(Data::NONE, Data::new);
                let word = open.word(context, data).unwrap();
                assert_eq!((open.context(word), open.data(word)), (context, data));
            }
            assert_eq!(open.word(context, Data::new(16_383)), None);
            assert_eq!(open.word(context, Data::new(u32::MAX)), None);
        }
    }

    #[test]
    fn a_job_that_uses_all_contexts_has_no_room() {
        let closed = Immediate::default();
        for context in [0, 1, 0x3fff, 0xfeff, 0xffff] {
            assert_eq!(closed.word(context, Data::NONE), Some(context));
            assert_eq!((closed.context(context), closed.data(context)), (context, Data::NONE));
            assert_eq!(closed.word(context, Data::new(0)), None);
        }
    }
}
