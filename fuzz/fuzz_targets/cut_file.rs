//! A cut file that anything has happened to: refused, or read as exactly what the bytes of a block say.
//! One byte is not enough to lose the last cut.

#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use taffrail_logging::{Cut, Set};

#[derive(Arbitrary, Debug)]
struct Input {
    members: Vec<(u32, [u64; 3])>,
    number: u32,
    damage: (u16, u8),
    raw: Vec<u8>,
}

fuzz_target!(|input: Input| {
    let mut members = input.members;
    members.sort_unstable();
    members.dedup_by_key(|(rank, _)| *rank);
    let set = Set { number: 1, members: members.len() as u32, job: 2 };
    let cuts = [0, 1, 2].map(|n| Cut {
        number: u64::from(input.number) + n,
        clocks: members.iter().map(|(rank, clocks)| (*rank, clocks[n as usize])).collect(),
    });
    let mut file = vec![0; set.file()];
    for cut in &cuts {
        write(&set, &mut file, cut);
    }
    assert_eq!(Cut::last(&set, &file).as_ref(), Ok(&cuts[2]));
    let len = file.len();
    file[input.damage.0 as usize % len] = input.damage.1;
    assert_eq!(Cut::last(&set, &file).as_ref(), Ok(&cuts[2]));
    file.iter_mut().zip(input.raw).for_each(|(byte, raw)| *byte = raw);
    if let Ok(last) = Cut::last(&set, &file) {
        let mut again = vec![0; set.file()];
        write(&set, &mut again, &last);
        let used = 40 + 16 * members.len();
        let blocks = || file.chunks(len / 4).zip(again.chunks(len / 4));
        assert!(blocks().any(|(read, written)| read[..used] == written[..used]), "{last:?}");
    }
    let _ = Cut::last(&Set { members: u32::MAX, ..set }, &file);
});

fn write(set: &Set, file: &mut [u8], cut: &Cut) {
    let (at, bytes) = cut.encode(set);
    file[at as usize..][..bytes.len()].copy_from_slice(&bytes);
}
