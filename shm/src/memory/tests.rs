use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::ProtFlags;
use taffrail_fabric::{Fault, MemoryError};

use super::*;
use crate::socket::tests::alone;

const PAGE: usize = 4096;

fn shared(len: usize, limit: usize, seal: Seal) -> Shared {
    Shared::create("taffrail-test", len, limit, seal).unwrap()
}

fn open(shared: &Shared, access: Access, expected: Expected) -> Result<Mapped, OpenError> {
    Mapped::open(shared.fd().try_clone_to_owned().unwrap(), access, expected)
}

/// The byte at `offset` of a mapping.
fn byte(at: *mut u8, offset: usize) -> u8 {
    // SAFETY: the tests only look at bytes that are mapped.
    unsafe { at.add(offset).read_volatile() }
}

fn set(at: *mut u8, offset: usize, value: u8) {
    // SAFETY: the tests only write bytes that are mapped.
    unsafe { at.add(offset).write_volatile(value) };
}

#[test]
fn both_sides_see_the_same_bytes() {
    let mine = shared(10_000, 0, Seal::Fixed);
    assert_eq!((mine.len(), mine.limit()), (3 * PAGE, 3 * PAGE));
    let theirs = open(&mine, Access::ReadWrite, Expected::Exactly(3 * PAGE)).unwrap();
    assert_ne!(mine.as_ptr(), theirs.as_ptr());
    set(mine.as_ptr(), 5, 7);
    set(theirs.as_ptr(), 3 * PAGE - 1, 9);
    assert_eq!((byte(theirs.as_ptr(), 5), byte(mine.as_ptr(), 3 * PAGE - 1)), (7, 9));
    assert!(theirs.covers(0, 3 * PAGE) && theirs.covers(3 * PAGE as u64, 0));
    assert!(!theirs.covers(1, 3 * PAGE) && !theirs.covers(u64::MAX, 2));
}

#[test]
fn what_is_left_is_looked_up_for_many_small_steps_at_once() {
    let mut mine = shared(PAGE, 64 << 20, Seal::Growing);
    let steps = (LOOKED_UP as usize / PAGE) * 3;
    let mut lookups = 0;
    for step in 2..=steps {
        let before = mine.left;
        mine.grow(step * PAGE).unwrap();
        lookups += usize::from(mine.left > before);
    }
    assert_eq!(lookups, 2, "and one when it was made");
    assert!(mine.look_for(1 << 60).is_err(), "however much was left");
}

#[test]
fn growing_moves_nothing_and_is_seen_after_a_look() {
    let mut mine = shared(PAGE, 64 * PAGE, Seal::Growing);
    let file = mine.read_only_fd().unwrap();
    let mut theirs = Mapped::open(file, Access::Read, Expected::AtMost(64 * PAGE)).unwrap();
    let (here, there) = (mine.as_ptr(), theirs.as_ptr());
    set(here, 0, 1);
    mine.grow(40 * PAGE).unwrap();
    mine.grow(PAGE).unwrap();
    assert_eq!(mine.len(), 40 * PAGE);
    set(here, 40 * PAGE - 1, 2);
    assert!(!theirs.covers(39 * PAGE as u64, PAGE));
    theirs.extend().unwrap();
    assert!(theirs.covers(39 * PAGE as u64, PAGE) && !theirs.covers(40 * PAGE as u64, 1));
    assert_eq!((mine.as_ptr(), theirs.as_ptr()), (here, there));
    assert_eq!((byte(there, 0), byte(there, 40 * PAGE - 1)), (1, 2));
}

#[test]
fn a_file_grows_to_its_limit_and_not_beyond() {
    let mut mine = shared(PAGE, 4 * PAGE, Seal::Growing);
    mine.grow(4 * PAGE).unwrap();
    let error = mine.grow(4 * PAGE + 1).unwrap_err();
    let MemoryError::Short { need, have, .. } = error else { panic!("{error}") };
    assert_eq!(need, 5 * PAGE as u64);
    assert_eq!(have, "its limit is 16384 bytes");
    assert_eq!(mine.len(), 4 * PAGE);
    let mut fixed = shared(PAGE, 4 * PAGE, Seal::Fixed);
    fixed.grow(2 * PAGE).unwrap_err();
}

#[test]
fn seals_hold_against_whoever_has_the_descriptor() {
    let fixed = shared(2 * PAGE, 0, Seal::Fixed);
    assert_eq!(rustix::fs::ftruncate(fixed.fd(), 0), Err(Errno::PERM));
    assert_eq!(rustix::fs::ftruncate(fixed.fd(), 1 << 20), Err(Errno::PERM));
    let against_others = rustix::fs::fcntl_add_seals(fixed.fd(), SealFlags::FUTURE_WRITE);
    assert_eq!(against_others, Err(Errno::PERM));

    let growing = shared(PAGE, 8 * PAGE, Seal::Growing);
    assert_eq!(rustix::fs::ftruncate(growing.fd(), 0), Err(Errno::PERM));
    assert!(growing.future_write, "this kernel has no F_SEAL_FUTURE_WRITE");
    let file = growing.read_only_fd().unwrap();
    let error = Mapped::open(file, Access::ReadWrite, Expected::AtMost(8 * PAGE)).unwrap_err();
    assert!(matches!(error, OpenError::Os { call: "mmap", .. }), "{error}");
    // Not even with the owner's own descriptor.
    open(&growing, Access::ReadWrite, Expected::AtMost(8 * PAGE)).unwrap_err();
    assert_eq!(rustix::io::pwrite(growing.fd(), b"x", 0), Err(Errno::PERM));
}

#[test]
fn the_read_only_descriptor_does_not_write() {
    let growing = shared(PAGE, PAGE, Seal::Growing);
    let file = growing.read_only_fd().unwrap();
    assert_eq!(rustix::io::pwrite(&file, b"x", 0), Err(Errno::BADF));
}

fn memfd(len: u64, seals: SealFlags) -> OwnedFd {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let file = rustix::fs::memfd_create("hostile", flags).unwrap();
    if len == PAGE as u64 {
        rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, len).unwrap();
    }
    rustix::fs::ftruncate(&file, len).unwrap();
    rustix::fs::fcntl_add_seals(&file, seals).unwrap();
    file
}

#[test]
fn files_whose_memory_others_would_have_to_pay_for_are_refused() {
    let len = 4 * PAGE as u64;
    let error = |expected| {
        let file = memfd(len, SealFlags::SHRINK);
        Mapped::open(file, Access::Read, expected).unwrap_err()
    };
    for expected in [Expected::Exactly(len as usize), Expected::AtMost(1 << 20)] {
        assert_eq!(error(expected), OpenError::Holes { len, have: 0 });
    }
}

#[test]
fn files_that_a_peer_could_shorten_are_refused() {
    let open = |file| Mapped::open(file, Access::Read, Expected::Exactly(PAGE)).unwrap_err();
    let error = open(memfd(PAGE as u64, SealFlags::GROW));
    assert!(matches!(&error, OpenError::NotSealed { got } if got == "seals 0x4"), "{error}");
    assert!(matches!(Fault::from(error), Fault::Protocol { place: "shared memory", .. }));
    let program = std::fs::File::open(std::env::current_exe().unwrap()).unwrap();
    assert!(matches!(open(program.into()), OpenError::NotSealed { .. } | OpenError::Os { .. }));
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    assert!(matches!(open(pipe), OpenError::NotSealed { .. }));
}

#[test]
fn files_of_another_length_are_refused() {
    for len in [0, PAGE as u64 - 1, PAGE as u64 + 1, 1 << 40] {
        let file = memfd(len, SealFlags::SHRINK);
        let error = Mapped::open(file, Access::Read, Expected::Exactly(PAGE)).unwrap_err();
        assert_eq!(error, OpenError::Size { expected: "exactly 4096".into(), got: len });
    }
    let file = memfd(PAGE as u64, SealFlags::SHRINK);
    let hostile = file.try_clone().unwrap();
    let mut mapped = Mapped::open(file, Access::Read, Expected::AtMost(2 * PAGE)).unwrap();
    rustix::fs::ftruncate(&hostile, 3 * PAGE as u64).unwrap();
    let error = mapped.extend().unwrap_err();
    assert_eq!(error, OpenError::Size { expected: "at most 8192".into(), got: 3 * PAGE as u64 });
    assert!(mapped.covers(0, PAGE) && !mapped.covers(0, PAGE + 1));
}

#[test]
fn a_limit_beyond_the_address_space_is_an_error() {
    let file = memfd(PAGE as u64, SealFlags::SHRINK);
    let error = Mapped::open(file, Access::Read, Expected::AtMost(usize::MAX / 2)).unwrap_err();
    assert!(matches!(error, OpenError::NoAddressSpace(_)), "{error}");
    let error = Shared::create("taffrail-test", PAGE, usize::MAX, Seal::Growing).unwrap_err();
    assert!(error.to_string().starts_with("address space: "), "{error}");
}

#[test]
fn too_much_memory_is_an_error_and_takes_nothing() {
    let mut mine = shared(PAGE, 1 << 45, Seal::Growing);
    let error = mine.grow(1 << 45).unwrap_err();
    let MemoryError::Short { what, need, .. } = &error else { panic!("{error}") };
    assert_eq!((*what, *need), ("shared memory", (1 << 45) - PAGE as u64));
    assert_eq!(rustix::fs::fstat(mine.fd()).unwrap().st_size, PAGE as i64);
    mine.grow(3 * PAGE).unwrap();
}

#[test]
fn the_whole_length_has_memory_behind_it() {
    let mut mine = shared(PAGE, 64 * PAGE, Seal::Growing);
    let blocks = |shared: &Shared| rustix::fs::fstat(shared.fd()).unwrap().st_blocks as usize * 512;
    assert_eq!(blocks(&mine), PAGE);
    mine.grow(64 * PAGE).unwrap();
    assert_eq!(blocks(&mine), 64 * PAGE);
    assert_eq!(blocks(&shared(5 * PAGE, 0, Seal::Fixed)), 5 * PAGE);
}

/// Bytes of a mapping that are in huge pages, as the page tables have them.
fn in_huge_pages(at: *mut u8) -> usize {
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
    let range = format!("{:x}-", at.addr());
    let of_this = maps.lines().skip_while(|line| !line.starts_with(&range));
    let kib = of_this.filter_map(|line| line.strip_prefix("ShmemPmdMapped:")).next().unwrap();
    kib.trim().strip_suffix(" kB").unwrap().parse::<usize>().unwrap() << 10
}

#[test]
fn long_files_are_in_huge_pages_as_far_as_the_kernel_gives_them() {
    let mut mine = shared(HUGE - PAGE, 9 * HUGE, Seal::Growing);
    let file = mine.read_only_fd().unwrap();
    let mut theirs = Mapped::open(file, Access::Read, Expected::AtMost(9 * HUGE)).unwrap();
    for len in [HUGE + PAGE, 2 * HUGE + PAGE, 4 * HUGE, 4 * HUGE + PAGE, 9 * HUGE] {
        let before = mine.len();
        mine.grow(len).unwrap();
        let blocks = rustix::fs::fstat(mine.fd()).unwrap().st_blocks as usize * 512;
        assert_eq!((mine.len(), blocks), (len, len));
        assert!((before..len).step_by(PAGE).all(|at| byte(mine.as_ptr(), at) == 0));
        (before..len).step_by(PAGE).for_each(|at| set(mine.as_ptr(), at, (at / PAGE) as u8));
        theirs.extend().unwrap();
        assert!(theirs.covers(0, len) && !theirs.covers(0, len + 1));
    }
    assert!(
        (0..9 * HUGE)
            .step_by(PAGE)
            .skip(HUGE / PAGE - 1)
            .all(|at| byte(theirs.as_ptr(), at) == (at / PAGE) as u8)
    );
    // The first three and the fifth have begun as ordinary ones.
    let huge = if mine.huge { 5 * HUGE } else { 0 };
    assert!(in_huge_pages(mine.as_ptr()) >= huge && in_huge_pages(theirs.as_ptr()) >= huge);
    println!("huge pages: {}", mine.huge);
}

#[test]
fn where_huge_pages_are_refused_there_are_ordinary_ones() {
    let mut mine = shared(PAGE, 9 * HUGE, Seal::Growing);
    mine.huge = false;
    assert_eq!(mine.worth_growing(PAGE), 2 * PAGE);
    mine.grow(4 * HUGE).unwrap();
    set(mine.as_ptr(), 4 * HUGE - 1, 3);
    assert_eq!(in_huge_pages(mine.as_ptr()), 0);
}

#[test]
fn huge_pages_that_are_refused_meanwhile_become_ordinary_ones() {
    if !alone(module_path!(), "huge_pages_that_are_refused_meanwhile_become_ordinary_ones", ":") {
        return;
    }
    let mut mine = shared(HUGE, 9 * HUGE, Seal::Growing);
    // SAFETY: from now on this process gets no huge pages; it runs nothing else.
    assert_eq!(unsafe { libc::prctl(libc::PR_SET_THP_DISABLE, 1, 0, 0, 0) }, 0);
    mine.huge = true;
    mine.grow(4 * HUGE + PAGE).unwrap();
    assert!(!mine.huge, "they are not asked for again");
    let stat = rustix::fs::fstat(mine.fd()).unwrap();
    let (len, blocks) = (stat.st_size as usize, stat.st_blocks as usize * 512);
    assert_eq!((mine.len(), len, blocks), (4 * HUGE + PAGE, 4 * HUGE + PAGE, 4 * HUGE + PAGE));
    assert!((0..len).step_by(PAGE).all(|at| byte(mine.as_ptr(), at) == 0));
    mine.grow(6 * HUGE).unwrap();
    set(mine.as_ptr(), 6 * HUGE - 1, 1);
}

#[test]
fn growing_is_to_the_end_of_a_huge_page_where_there_is_room() {
    let mut mine = shared(PAGE, 3 * HUGE + PAGE, Seal::Growing);
    mine.huge = true;
    let worth = |mine: &Shared, more| mine.worth_growing(more);
    assert_eq!(
        [PAGE, HUGE, 3 * HUGE].map(|more| worth(&mine, more)),
        [HUGE, 2 * HUGE, 3 * HUGE + PAGE]
    );
    mine.grow(3 * HUGE + PAGE).unwrap();
    assert_eq!(worth(&mine, PAGE), mine.len());
}

#[test]
fn what_an_owner_has_not_allocated_yet_is_not_taken_in() {
    let file = memfd(PAGE as u64, SealFlags::SHRINK);
    let owner = file.try_clone().unwrap();
    let mut mapped = Mapped::open(file, Access::Read, Expected::AtMost(9 * PAGE)).unwrap();
    // As an owner does for huge pages: a page of each, then the length, then the rest.
    let allocate = |at: usize, len: usize| {
        let keep = FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&owner, keep, at as u64, len as u64).unwrap();
    };
    allocate(PAGE, PAGE);
    rustix::fs::ftruncate(&owner, 4 * PAGE as u64).unwrap();
    mapped.extend().unwrap();
    assert!(mapped.covers(0, 2 * PAGE) && !mapped.covers(0, 2 * PAGE + 1));
    allocate(2 * PAGE, 2 * PAGE);
    mapped.extend().unwrap();
    assert!(mapped.covers(0, 4 * PAGE) && !mapped.covers(0, 4 * PAGE + 1));
}

#[test]
fn unmapping_leaves_no_mapping_and_no_descriptor() {
    let maps =
        |name: &str| std::fs::read_to_string("/proc/self/maps").unwrap().matches(name).count();
    let mine = Shared::create("taffrail-unmapped", PAGE, 0, Seal::Fixed).unwrap();
    assert_eq!(maps("taffrail-unmapped"), 1);
    let number = mine.fd().as_raw_fd();
    drop(mine);
    assert_eq!(maps("taffrail-unmapped"), 0);
    let link = std::fs::read_link(format!("/proc/self/fd/{number}"));
    assert!(link.is_err() || !link.unwrap().to_string_lossy().contains("taffrail-unmapped"));
}

#[test]
fn holes_that_a_peer_makes_read_as_zeros() {
    let mine = shared(4 * PAGE, 0, Seal::Fixed);
    let theirs = open(&mine, Access::ReadWrite, Expected::Exactly(4 * PAGE)).unwrap();
    set(mine.as_ptr(), PAGE, 1);
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(mine.fd(), punch, 0, 4 * PAGE as u64).unwrap();
    assert_eq!(byte(theirs.as_ptr(), PAGE), 0);
    set(mine.as_ptr(), PAGE, 2);
    assert_eq!(byte(theirs.as_ptr(), PAGE), 2);
}

#[test]
fn mapping_what_is_not_there_is_an_error() {
    let (pipe, _other_end) = rustix::pipe::pipe().unwrap();
    Space::map(pipe.as_fd(), PAGE, ProtFlags::READ, PAGE).unwrap_err();
}

#[test]
fn the_limit_of_file_sizes_is_an_error_and_not_a_signal() {
    if !alone(
        module_path!(),
        "the_limit_of_file_sizes_is_an_error_and_not_a_signal",
        "ulimit -f 1024",
    ) {
        return;
    }
    let limit = getrlimit(Resource::Fsize).current.expect("run under ulimit -f");
    shared(limit as usize, 0, Seal::Fixed);
    let error = Shared::create("taffrail-test", limit as usize + 1, 0, Seal::Fixed).unwrap_err();
    assert!(error.to_string().contains("ulimit -f"), "{error}");
    let mut growing = shared(PAGE, 4 * limit as usize, Seal::Growing);
    growing.grow(2 * limit as usize).unwrap_err();
    growing.grow(limit as usize).unwrap();
}

#[test]
#[cfg_attr(asan, ignore = "its own reservations are larger than the limit")]
fn the_limit_of_address_space_is_an_error() {
    if !alone(module_path!(), "the_limit_of_address_space_is_an_error", "ulimit -v 1048576") {
        return;
    }
    let error = Shared::create("taffrail-test", PAGE, 2 << 30, Seal::Growing).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("2147483648 bytes needed") && text.contains("ulimit -v"), "{text}");
    assert!(text.contains("the limit is 1073741824"), "{text}");
}

#[test]
fn the_limit_of_open_files_is_an_error() {
    if !alone(module_path!(), "the_limit_of_open_files_is_an_error", "ulimit -n 64") {
        return;
    }
    let files: Vec<_> =
        (0..64).map_while(|_| Shared::create("taffrail-test", PAGE, 0, Seal::Fixed).ok()).collect();
    let error = Shared::create("taffrail-test", PAGE, 0, Seal::Fixed).unwrap_err();
    let said = "descriptors for shared memory: all are in use, the limit is 64; raise";
    assert!(error.to_string().starts_with(said), "{error}");
    drop(files);
}

/// How the pages from `at` on may be accessed, as `/proc/self/maps` has it.
fn access_at(at: usize) -> String {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let holds = |line: &&str| {
        let (from, to) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
        let [from, to] = [from, to].map(|text| usize::from_str_radix(text, 16).unwrap());
        (from..to).contains(&at)
    };
    let line = maps.lines().find(holds).expect("it is mapped");
    line.split_whitespace().nth(1).unwrap().to_owned()
}

#[test]
fn what_is_only_reserved_cannot_be_touched_until_the_file_has_grown() {
    let limit = 16 << 20;
    let mut shared = Shared::create("taffrail-test", PAGE, limit, Seal::Growing).unwrap();
    let file = shared.read_only_fd().unwrap();
    let mut mapped = Mapped::open(file, Access::Read, Expected::AtMost(limit)).unwrap();
    for len in [PAGE, 3 * PAGE, 4 << 20, limit] {
        shared.grow(len).unwrap();
        mapped.extend().unwrap();
        let (owner, peer) = (shared.as_ptr().addr(), mapped.as_ptr().addr());
        for (at, access) in [(owner, "rw-s"), (peer, "r--s")] {
            assert_eq!(access_at(at), access);
            assert_eq!(access_at(at + len - 1), access, "{len}");
            if len < limit {
                assert_eq!(access_at(at + len), "---s", "{len}");
            }
        }
    }
    let error = shared.grow(limit + 1).unwrap_err();
    assert!(error.to_string().contains("limit"), "{error}");
}
