mod brings;
mod interfaces;
mod of_rank;

use super::*;
use crate::roster::{Change, RankState};
use crate::{NodeId, RankIncarnation, Secret};
use proptest::collection::vec;
use proptest::prelude::*;

fn life() -> impl Strategy<Value = RankIncarnation> {
    (0u32..4096, any::<u32>())
        .prop_map(|(rank, incarnation)| RankIncarnation::new(rank, incarnation))
}

fn string() -> impl Strategy<Value = Vec<u8>> {
    vec(1u8.., 1..20)
}

fn member() -> impl Strategy<Value = Member> {
    (prop::sample::select(MemberEvent::ALL.to_vec()), any::<u32>(), any::<i64>(), ".{0,30}")
        .prop_map(|(event, pid, value, text)| Member { event, pid, value, text })
}

fn hello() -> impl Strategy<Value = Frame> {
    (any::<u64>(), any::<u32>(), ".{0,30}", vec(interfaces::any_one(), 0..4)).prop_map(
        |(renewal, cpus, host, interfaces)| {
            Frame::Hello(Hello {
                renewal,
                pid: 7,
                cpus,
                program: format!("/bin/{host}"),
                host,
                interfaces,
            })
        },
    )
}

fn welcome() -> impl Strategy<Value = Frame> {
    let care = (
        any::<u32>(),
        proptest::sample::select(&[Binding::Auto, Binding::Core, Binding::None][..]),
    )
        .prop_map(|(heartbeat_ms, binding)| RankCare { heartbeat_ms, binding });
    (any::<u64>(), 0u16..1024, 1u32..4097, 2u32.., any::<[u8; 32]>(), "[a-z]{0,30}", care).prop_map(
        |(renewal, node, ranks, lease_ms, secret, job, care)| {
            Frame::Welcome(Box::new(Welcome {
                renewal,
                node,
                nodes: 1024,
                ranks,
                lease_ms,
                renew_ms: lease_ms / 2,
                output_window: 7,
                care,
                secret: Secret(secret),
                job,
            }))
        },
    )
}

fn roster() -> impl Strategy<Value = Frame> {
    let change = (life(), any::<NodeId>(), 0u8..4).prop_map(|(life, node, state)| Change {
        life,
        node,
        state: RankState::from_u8(state).unwrap(),
    });
    (any::<u64>(), vec(change, 0..20))
        .prop_map(|(epoch, changes)| Frame::Roster(RosterUpdate { epoch, changes }))
}

fn program() -> impl Strategy<Value = Frame> {
    (any::<u32>(), string(), vec(string(), 1..5), vec((string(), string()), 0..5)).prop_map(
        |(app, directory, arguments, environment)| {
            Frame::Program(Program { app, directory, arguments, environment })
        },
    )
}

fn end() -> impl Strategy<Value = End> {
    prop_oneof![
        any::<i32>().prop_map(End::Exited),
        (1i32..65).prop_map(End::Signal),
        (any::<i32>(), ".{0,40}").prop_map(|(status, why)| End::NotStarted(status, why)),
    ]
}

fn left() -> impl Strategy<Value = LeftBehind> {
    let last = (1_u64.., any::<u64>());
    let last = last.prop_map(|(number, events)| LastCheckpoint { number, events });
    (any::<u64>(), proptest::option::of(last))
        .prop_map(|(events, checkpoint)| LeftBehind { events, checkpoint })
}

fn logging() -> impl Strategy<Value = Frame> {
    let events = prop::sample::select(vec![EventKind::Nondeterministic, EventKind::All]);
    let durability = prop_oneof![
        Just(Durability::Process),
        vec(1..=255_u8, 1..50).prop_map(Durability::Disk),
        (1..9_u32).prop_map(Durability::Copies),
    ];
    let protocol =
        prop::sample::select(vec![LoggingProtocol::Pessimistic, LoggingProtocol::Causal]);
    (protocol, events, durability, any::<u64>(), vec(any::<u32>(), 0..10)).prop_map(
        |(protocol, events, durability, memory, sets)| {
            Frame::Logging(Logging { protocol, events, durability, memory, sets })
        },
    )
}

fn copies() -> impl Strategy<Value = Frame> {
    let epoch = || 1_u64..;
    prop_oneof![
        ".{0,60}".prop_map(|address| Frame::Store { address }),
        (epoch(), 1..8_u32, 0..1024_u16, ".{0,60}").prop_map(|(epoch, logger, node, address)| {
            Frame::Copy(CopyOrder { epoch, logger, node, address })
        }),
        any::<u64>().prop_map(|epoch| Frame::Copied { epoch }),
        (any::<u64>(), ".{0,60}").prop_map(|(epoch, why)| Frame::Uncopied { epoch, why }),
    ]
}

fn of_node() -> impl Strategy<Value = Frame> {
    let levels = prop::sample::select(vec![Level::Error, Level::Note, Level::Debug]);
    let reaches = prop::sample::select(vec![Reach::Groups, Reach::Everything]);
    prop_oneof![
        hello(),
        welcome(),
        any::<u64>().prop_map(|number| Frame::AskHeld { number }),
        (any::<u64>(), any::<bool>(), 0usize..9).prop_map(|(number, more, count)| Frame::Held {
            number,
            more,
            determinants: vec![7; 40 * count],
        }),
        logging(),
        copies(),
        roster(),
        program(),
        any::<u64>().prop_map(|renewal| Frame::Renew { renewal }),
        any::<u64>().prop_map(|renewal| Frame::Grant { renewal }),
        any::<u64>().prop_map(|epoch| Frame::RosterAck { epoch }),
        any::<u32>().prop_map(|bytes| Frame::OutputTaken { bytes }),
        (1i32..65, reaches).prop_map(|(signal, reach)| Frame::Signal { signal, reach }),
        Just(Frame::Release),
        any::<u64>().prop_map(|barriers| Frame::Complete { barriers }),
        (1i32..65, any::<u32>()).prop_map(|(signal, grace_ms)| Frame::End { signal, grace_ms }),
        Just(Frame::Farewell),
        ".{0,40}".prop_map(|why| Frame::Revoke { why }),
        any::<[u64; 5]>().prop_map(|refused| Frame::Goodbye { refused }),
        (any::<u32>(), ".{0,40}").prop_map(|(status, why)| Frame::Failed { status, why }),
        (levels, ".{0,40}").prop_map(|(level, text)| Frame::Note { level, text }),
    ]
}

/// Any frame.
fn frame() -> impl Strategy<Value = Frame> {
    prop_oneof![of_rank::frames(), of_node()]
}

/// Who may send it; the launcher, if both may.
fn direction(bytes: &[u8]) -> Direction {
    match shape::SHAPES[usize::from(bytes[2]) - 1].down {
        true => Direction::Down,
        false => Direction::Up,
    }
}

fn all_items(decoder: &mut Decoder) -> Vec<Item> {
    std::iter::from_fn(|| decoder.next_item().unwrap()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn frames_are_read_as_written(frame in frame()) {
        let bytes = frame.encode().unwrap();
        prop_assert_eq!(decode(&bytes, direction(&bytes)), Ok(frame.clone()));
        prop_assert_eq!(shape::SHAPES[usize::from(bytes[2]) - 1].name, frame.name());
        for len in 0..bytes.len() {
            prop_assert!(decode(&bytes[..len], direction(&bytes)).is_err());
        }
        // None of the launcher is one of an agent, but for those that go both ways.
        let is_both = matches!(frame, Frame::Put { .. } | Frame::Address { .. } | Frame::Held { .. });
        let other = if direction(&bytes) == Direction::Up { Direction::Down } else { Direction::Up };
        prop_assert_eq!(decode(&bytes, other).is_ok(), is_both);
    }

    /// A damaged frame is refused, or is a frame with exactly these bytes.
    #[test]
    fn a_damaged_frame_is_refused_or_another_one(frame in frame(), at: prop::sample::Index, bits in 1u8..) {
        let mut bytes = frame.encode().unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        for from in [Direction::Up, Direction::Down] {
            if let Ok(read) = decode(&bytes, from) {
                prop_assert_eq!(read.encode().unwrap(), bytes.clone());
            }
        }
    }

    /// However a channel is cut into pieces, the frames are the same.
    #[test]
    fn a_channel_is_read_in_any_pieces(
        frames in vec(of_rank::frames(), 0..12),
        greeting in vec(any::<u8>(), 0..60),
        pieces in vec(1usize..50, 1..20),
    ) {
        let frames: Vec<Frame> = frames
            .into_iter()
            .filter(|frame| frame.encode().is_ok_and(|bytes| direction(&bytes) == Direction::Up))
            .collect();
        let mut bytes = greeting.clone();
        bytes.extend(preamble());
        bytes.extend(frames.iter().flat_map(|frame| frame.encode().unwrap()));
        let mut decoder = Decoder::new(Direction::Up);
        let mut items = Vec::new();
        let (mut rest, mut pieces) = (&bytes[..], pieces.into_iter().cycle());
        while !rest.is_empty() {
            let (piece, behind) = rest.split_at(pieces.next().unwrap().min(rest.len()));
            decoder.push(piece);
            items.extend(all_items(&mut decoder));
            rest = behind;
        }
        let mut expected = vec![Item::Preamble(greeting)];
        expected.extend(frames.into_iter().map(Item::Frame));
        prop_assert_eq!(items, expected);
        prop_assert!(decoder.is_between_frames());
    }
}

#[test]
fn a_channel_that_is_none_is_refused() {
    let refused = |from, bytes: &[u8]| {
        let mut decoder = Decoder::new(from);
        decoder.push(bytes);
        while decoder.next_item()?.is_some() {}
        Ok::<_, Malformed>(decoder.is_between_frames())
    };
    assert_eq!(refused(Direction::Up, b"Last login: today\n"), Ok(false));
    assert_eq!(refused(Direction::Up, &preamble()), Ok(true));
    let error = refused(Direction::Down, b"Last login: today\n").unwrap_err();
    assert_eq!((error.field, &error.got[..14]), ("preamble", "\"Last login: t"));
    assert_eq!(
        refused(Direction::Up, &vec![b'x'; GREETING_MAX + 1]).unwrap_err().field,
        "preamble"
    );
    let mut other = preamble();
    other[16] = VERSION as u8 + 1;
    assert_eq!(refused(Direction::Up, &other).unwrap_err().field, "preamble");
    other[20] = !(VERSION as u8 + 1);
    assert_eq!(
        refused(Direction::Up, &other).unwrap_err().to_string(),
        format!("version: expected {VERSION}, got {}", VERSION + 1)
    );

    let behind = |bytes: &[u8]| {
        let mut all = preamble().to_vec();
        all.extend(bytes);
        refused(Direction::Up, &all)
    };
    let renew = Frame::Renew { renewal: 3 }.encode().unwrap();
    assert_eq!((behind(&renew), behind(&renew[..20])), (Ok(true), Ok(false)));
    let with = |at: usize, byte: u8| {
        let mut bytes = renew.clone();
        bytes[at] = byte;
        behind(&bytes).unwrap_err().field
    };
    assert_eq!((with(0, 0), with(2, 0), with(2, 30), with(2, 4)), ("mark", "type", "type", "type"));
    assert_eq!((with(3, 1), with(6, 1), with(8, 1)), ("byte 3", "length", "rank and incarnation"));
    assert_eq!((with(4, 7), with(4, 0)), ("renewal", "renewal"));

    // Nothing behind a wrong byte is read.
    let mut decoder = Decoder::new(Direction::Down);
    decoder.push(b"garbage");
    assert!(decoder.next_item().is_err());
    decoder.push(&preamble());
    assert!(decoder.next_item().is_err() && !decoder.is_between_frames());
}

#[test]
fn lengths_are_refused_before_memory_is_taken() {
    // A list of four thousand million elements in a body of a few bytes.
    let mut bytes = Frame::Roster(RosterUpdate::default()).encode().unwrap();
    bytes[24..28].fill(0xff);
    let error = decode(&bytes, Direction::Down).unwrap_err();
    assert_eq!((error.field, &error.expected[..]), ("changes", "at most 0 elements"));
    // A body that is longer than any of its type, of which only the header has come.
    let mut decoder = Decoder::new(Direction::Up);
    decoder.push(&preamble());
    assert!(decoder.next_item().is_ok());
    let mut header = Frame::Release.encode().unwrap();
    header[2] = 12;
    header[4..8].copy_from_slice(&65_538u32.to_le_bytes());
    decoder.push(&header);
    assert_eq!(decoder.next_item().unwrap_err().field, "length");
}

#[test]
fn the_sender_keeps_the_limits() {
    let life = RankIncarnation::new(1, 0);
    let output = Frame::Output { life, stream: Stream::Output, bytes: vec![0; 65_537] };
    let error = output.encode().unwrap_err();
    assert_eq!(error.to_string(), "OUTPUT of 65538 bytes; it may have 65537");
    // Words for people are cut off.
    let note = Frame::Note { level: Level::Note, text: "ä".repeat(5000) };
    let bytes = note.encode().unwrap();
    assert!(bytes.len() <= HEADER + 4096 && decode(&bytes, Direction::Up).is_ok());
    let text = format!(
        "{:?}",
        Frame::Welcome(Box::new(Welcome { secret: Secret([200; 32]), ..a_welcome() }))
    );
    assert!(!text.contains("200"), "{text}");
}

fn a_welcome() -> Welcome {
    Welcome {
        renewal: 0,
        node: 0,
        nodes: 1,
        ranks: 1,
        lease_ms: 10,
        renew_ms: 2,
        output_window: 1,
        care: RankCare::default(),
        secret: Secret([0; 32]),
        job: String::new(),
    }
}

/// The bytes of the specification.
#[test]
fn a_frame_is_what_the_diagram_says() {
    let frame = Frame::Enter { life: RankIncarnation::new(0x0102, 0x0304), barrier: 0x0506 };
    let expected = b"TA\x14\0\x08\0\0\0\x02\x01\0\0\x04\x03\0\0\x06\x05\0\0\0\0\0\0";
    assert_eq!(frame.encode().unwrap(), expected);
    let change =
        Change { life: RankIncarnation::new(1, 2), node: 0x0304, state: RankState::Finished };
    let update = Frame::Roster(RosterUpdate { epoch: 5, changes: vec![change] });
    let expected = [5, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 3, 3, 0];
    assert_eq!(update.encode().unwrap()[HEADER..], expected);
    let order = CopyOrder { epoch: 5, logger: 2, node: 0x0304, address: "b".into() };
    let expected = [5, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 4, 3, 0, 0, 1, 0, b'b'];
    let mut bytes = Frame::Copy(order).encode().unwrap();
    assert_eq!(bytes[HEADER..], expected);
    bytes[24] = 8;
    assert_eq!(decode(&bytes, Direction::Down).unwrap_err().field, "logger");
    let welcome = Frame::Welcome(Box::new(Welcome {
        secret: Secret([7; 32]),
        job: "j".into(),
        care: RankCare { heartbeat_ms: 3, binding: Binding::None },
        ..a_welcome()
    }));
    let bytes = welcome.encode().unwrap();
    assert_eq!((bytes[36], bytes[40], bytes[48], bytes[52]), (10, 2, 3, 2));
    assert_eq!(bytes[56..88], [7; 32]);
    assert_eq!(bytes[88..], *b"\x01\0j");
}
