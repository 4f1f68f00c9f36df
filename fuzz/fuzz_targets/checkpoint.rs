//! What a killed process has left, and anything that has happened to it: its last checkpoint is refused, or
//! is exactly what was committed; where its log is, is refused or read.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use std::fs::File;
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use taffrail_logging::store::{CheckpointFiles, Left, Owner, empty_memory};
use taffrail_logging::{PeerPosition, Position, Received};

const OWNER: Owner = Owner { rank: 1, job: 2 };
const PLACE: u64 = 1 << 40;

#[derive(Arbitrary, Debug)]
struct Input {
    sides: Vec<Part>,
    clock: u64,
    numbers: [u32; 3],
    state: Vec<u8>,
    commits: u8,
    damage: (u16, Vec<u8>),
    position: Vec<u8>,
    places: Vec<u8>,
}

#[derive(Arbitrary, Debug)]
struct Part {
    channels: Vec<(u16, u32)>,
    missing: Vec<(u16, u32)>,
    next: Vec<(u16, u32)>,
    log: Vec<u8>,
}

fuzz_target!(|input: Input| {
    let [posts, serial, incarnation] = input.numbers;
    let ranks = input.sides.len() as u32;
    let side = |Part { channels, missing, next, log }: Part| PeerPosition {
        received: Received { channels, missing },
        next,
        log,
    };
    let sides = input.sides.into_iter().map(side).collect();
    let position = Position { clock: input.clock, posts, serial, sides };
    let bytes = position.encode();
    assert_eq!(Position::decode(&bytes, ranks).as_ref(), Ok(&position));
    if let Ok(other) = Position::decode(&input.position, ranks.min(9)) {
        assert_eq!(other.encode().len(), input.position.len());
    }

    let file = memory();
    let mut checkpoints = open(&file).expect("an empty file is a checkpoints");
    let commits = u64::from(input.commits % 4) + 1;
    for number in 1..=commits {
        let state = [IoSlice::new(&input.state)];
        assert_eq!(checkpoints.commit(incarnation, &bytes, &state).expect("there is room"), number);
    }
    let committed = checkpoints.last().expect("it is whole").expect("it is there");
    assert_eq!((&committed.position, &committed.state), (&bytes, &input.state));
    let (at, damage) = input.damage;
    let other = PLACE << ((commits + 1) & 1);
    file.write_all_at(&damage, other + u64::from(at)).expect("there is room");
    assert_eq!(
        open(&file).and_then(|checkpoints| checkpoints.last()).expect("it is whole"),
        Some(committed)
    );
    file.write_all_at(&damage, (PLACE << (commits & 1)) + u64::from(at)).expect("there is room");
    if let Ok(last) = open(&file).and_then(|checkpoints| checkpoints.last()) {
        let last = last.expect("it says that one is committed");
        // Behind its end there may be anything.
        assert_eq!((last.number, &last.position, &last.state), (commits, &bytes, &input.state));
    }
    file.write_all_at(&damage, 0).expect("there is room");
    let _ = open(&file).and_then(|checkpoints| checkpoints.last());
    let _ = open(&file).and_then(|checkpoints| checkpoints.summary());

    let places = memory();
    places.write_all_at(b"TAFFPLAC\x02\0\0\0\0\0\0\0", 0).expect("there is room");
    places.write_all_at(&input.places, 16).expect("there is room");
    if let Ok(left) = Left::read(&places) {
        (0..100).for_each(|number| _ = left.place(number));
        assert!(left.numbers().iter().all(|number| left.place(*number).is_some()));
    }
});

fn memory() -> File {
    empty_memory("checkpoints").expect("a memfd").into()
}

fn open(file: &File) -> Result<CheckpointFiles, taffrail_logging::store::CheckpointError> {
    CheckpointFiles::open(file.try_clone().expect("a descriptor"), OWNER)
}
