use super::*;
use proptest::prelude::*;
use taffrail_fabric::LinkEvent;

const LENGTHS: Lengths = Lengths { max_message: 600, whole: 50, acknowledged: false };

/// Puts messages together again. Of a long one it wants the rest, some of it, or nothing, as `wants` says in turn.
#[derive(Default)]
struct Joiner {
    wants: Vec<Option<usize>>,
    /// Head, bytes, and how many bytes were to come.
    messages: Vec<(Head, Vec<u8>, usize)>,
    rest: Option<(Box<[u8]>, Token)>,
    calls: usize,
}

impl Sink for Joiner {
    fn message(&mut self, from: PeerId, head: Head, body: Body<'_>) -> Take {
        assert!(self.rest.is_none(), "a message before the rest of another");
        self.calls += 1;
        let left = body.len() - body.here().len();
        let wanted = self.wants.get(self.messages.len() % self.wants.len().max(1)).copied();
        self.messages.push((head, body.here().to_vec(), left));
        assert_eq!(from, PeerId(3));
        assert!(left == 0 || body.len() > LENGTHS.whole, "a short message in parts");
        match wanted.flatten() {
            Some(room) if left > 0 => {
                let token = Token(self.messages.len() as u64);
                let (rest, _) = self.rest.insert((vec![0; room].into(), token));
                // SAFETY: boxed, and kept until `moved`.
                Take::Rest(unsafe { UserBuf::new(rest.as_mut_ptr(), room) }, token)
            }
            _ => Take::Done,
        }
    }

    fn sent(&mut self, token: Token, _: Result<(), Fault>) {
        panic!("{token:?} was sent");
    }

    fn moved(&mut self, token: Token, result: Result<(), Fault>) {
        self.calls += 1;
        let (rest, expected) = self.rest.take().expect("a rest that was asked for");
        assert_eq!((token, result), (expected, Ok(())));
        let (_, bytes, left) = self.messages.last_mut().expect("a message");
        bytes.extend_from_slice(&rest[..rest.len().min(*left)]);
    }

    fn link(&mut self, _: PeerId, event: LinkEvent) {
        panic!("{event:?}");
    }
}

/// Feeds a stream in chunks of these lengths, in turn, as a socket would.
fn feed(stream: &[u8], chunks: &[usize], sink: &mut Joiner) -> Option<End> {
    let mut rx = Rx::new(PeerId(3), LENGTHS);
    let mut buffer = vec![0; HEADER + LENGTHS.whole + stream.len()];
    let (mut at, mut turn) = (0, 0);
    while at < stream.len() {
        let len = chunks[turn % chunks.len()].clamp(1, stream.len() - at);
        let mut chunk = &stream[at..at + len];
        at += len;
        turn += 1;
        // Every other time as bytes behind a frame would come: through the buffer.
        if turn % 2 == 0
            && let Some(user) = rx.destination()
        {
            let now = user.len().min(chunk.len());
            user[..now].copy_from_slice(&chunk[..now]);
            chunk = &chunk[now..];
            let before = sink.calls;
            assert_eq!(rx.filled(now, sink), sink.calls - before);
        }
        let before = rx.unstash(&mut buffer);
        assert!(before < HEADER + LENGTHS.whole, "{before} bytes are kept");
        buffer[before..before + chunk.len()].copy_from_slice(chunk);
        let calls = sink.calls;
        let turn = rx.take(&buffer[..before + chunk.len()], sink);
        assert_eq!(turn.calls, sink.calls - calls);
        if turn.end.is_some() {
            return turn.end;
        }
    }
    None
}

/// Messages with payloads of these lengths, one behind the other.
fn stream(lens: &[usize]) -> (Vec<u8>, Vec<(Head, Vec<u8>)>) {
    let mut bytes = Vec::new();
    let mut messages = Vec::new();
    for (number, &len) in lens.iter().enumerate() {
        let head = Head { kind: (number % 64) as u8, seq: number as u32, ..Head::default() };
        let payload: Vec<u8> = (0..len).map(|at| (number * 7 + at) as u8).collect();
        bytes.extend(Frame::Message { head, len, ack: false }.encode());
        bytes.extend(&payload);
        messages.push((head, payload));
    }
    (bytes, messages)
}

/// What was put together is what was sent, but for what was not wanted.
fn check(joined: &Joiner, sent: &[(Head, Vec<u8>)]) {
    assert_eq!(joined.messages.len(), sent.len());
    for (number, ((head, bytes, left), (expected, payload))) in
        joined.messages.iter().zip(sent).enumerate()
    {
        assert_eq!(head, expected);
        let wanted = joined.wants.get(number % joined.wants.len().max(1)).copied().flatten();
        let here = payload.len() - left;
        let len = here + wanted.unwrap_or(0).min(*left);
        assert_eq!(bytes[..], payload[..len], "message {number}");
    }
}

#[test]
fn a_stream_cut_anywhere_brings_the_same_messages() {
    let (bytes, sent) = stream(&[0, 1, 49, 50, 51, 200, 0, 600, 3]);
    for wants in [vec![], vec![Some(600)], vec![Some(10), None, Some(0), Some(100)]] {
        for cut in 1..bytes.len() {
            let mut joined = Joiner { wants: wants.clone(), ..Joiner::default() };
            assert_eq!(feed(&bytes, &[cut, bytes.len()], &mut joined), None);
            check(&joined, &sent);
        }
        let mut joined = Joiner { wants, ..Joiner::default() };
        assert_eq!(feed(&bytes, &[1], &mut joined), None);
        check(&joined, &sent);
    }
}

proptest! {
    #[test]
    fn any_stream_in_any_chunks(
        lens in prop::collection::vec(0..=LENGTHS.max_message, 0..20),
        chunks in prop::collection::vec(1..700usize, 1..20),
        wants in prop::collection::vec(prop::option::of(0..700usize), 0..5),
    ) {
        let (bytes, sent) = stream(&lens);
        let mut joined = Joiner { wants, ..Joiner::default() };
        prop_assert_eq!(feed(&bytes, &chunks, &mut joined), None);
        check(&joined, &sent);
    }

    #[test]
    fn garbage_behind_messages_ends_the_stream_and_nothing_else(
        lens in prop::collection::vec(0..100usize, 0..5),
        garbage in prop::collection::vec(any::<u8>(), HEADER..200),
        chunks in prop::collection::vec(1..300usize, 1..9),
    ) {
        prop_assume!(garbage[..2] != *b"TF");
        let (mut bytes, sent) = stream(&lens);
        bytes.extend(&garbage);
        let mut joined = Joiner { wants: vec![Some(100)], ..Joiner::default() };
        let end = feed(&bytes, &chunks, &mut joined);
        prop_assert!(matches!(end, Some(End::Broken(Fault::Protocol { .. }))), "{:?}", end);
        check(&joined, &sent);
    }

    #[test]
    fn any_bytes_lead_to_messages_or_to_an_end(
        mut bytes in prop::collection::vec(any::<u8>(), 0..3000),
        marks in prop::collection::vec(0..3000usize, 0..40),
        chunks in prop::collection::vec(1..900usize, 1..9),
    ) {
        for at in marks {
            if let Some(header) = bytes.get_mut(at..at + HEADER) {
                let head = Head::default();
                header.copy_from_slice(&Frame::Message { head, len: at % 700, ack: false }.encode());
            }
        }
        let mut joined = Joiner { wants: vec![Some(100), None], ..Joiner::default() };
        feed(&bytes, &chunks, &mut joined);
        prop_assert!(joined.messages.len() <= bytes.len() / HEADER);
    }
}
