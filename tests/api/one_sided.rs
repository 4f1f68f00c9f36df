//! Registered memory, gets and puts.

use crate::common::*;
use crate::world::*;
use taffrail::{Access, Endpoint, Error, Fault, Rank, RegionId, RemoteMemory};

in_every_world!(
    gets_and_puts_of_every_size_and_place,
    memory_of_the_endpoint_is_reached_as_well,
    what_lies_outside_is_refused,
    ones_own_memory_is_reached_within_its_bounds_only,
    a_forged_key_fails_its_own_access_only,
    many_accesses_at_once,
    memory_with_a_name_is_reached_by_it,
    memory_with_a_name_allows_what_its_owner_says,
    memory_with_two_names_is_read_by_one_when_the_other_has_ended,
);

/// Tells the other rank of a region of ours, and learns of its.
fn swap(ep: &mut Endpoint<impl Transport>, region: RegionId) -> RemoteMemory {
    let peer = 1 - ep.rank();
    let mine = ep.remote_memory(peer, region).unwrap();
    swap_keys(ep, peer, mine)
}

fn swap_keys(ep: &mut Endpoint<impl Transport>, peer: Rank, mine: RemoteMemory) -> RemoteMemory {
    let mut theirs = [0; RemoteMemory::ENCODED];
    ep.sendrecv((peer, 1000), &mine.to_bytes(), (peer, 1000), &mut theirs).unwrap();
    RemoteMemory::from_bytes(&theirs)
}

fn meet(ep: &mut Endpoint<impl Transport>) {
    let peer = 1 - ep.rank();
    ep.sendrecv((peer, 1001), &[], (peer, 1001), &mut []).unwrap();
}

fn register(ep: &mut Endpoint<impl Transport>, memory: &mut [u8]) -> RegionId {
    // SAFETY: the callers keep the memory until it is deregistered or the endpoint is gone.
    unsafe { ep.register(memory.as_mut_ptr(), memory.len()).unwrap() }
}

fn gets_and_puts_of_every_size_and_place<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let longest = 5 << 20;
        let mut memory = pattern(longest + 64, ep.rank().into());
        let region = register(ep, &mut memory);
        let remote = swap(ep, region);
        assert_eq!(remote.len(), memory.len() as u64);
        for len in sizes() {
            for offset in [0, 3, 64] {
                let mut got = vec![0; len];
                ep.get(peer, &remote, offset, &mut got).unwrap();
                let all = pattern(longest + 64, peer.into());
                assert!(got == all[offset as usize..][..len], "{len} bytes at {offset}");
            }
        }
        meet(ep);
        for (k, len) in sizes().into_iter().enumerate() {
            let data = pattern(len, 50 + k as u64);
            ep.put(peer, &remote, 5, &data).unwrap();
            // A message that comes later finds the bytes.
            meet(ep);
            // SAFETY: the peer writes here only between the meetings.
            let seen = unsafe { std::slice::from_raw_parts(memory.as_ptr().add(5), len) };
            check(seen, 50 + k as u64);
            meet(ep);
        }
        ep.deregister(region).unwrap();
    });
}

fn memory_of_the_endpoint_is_reached_as_well<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        for len in [1, 5000, 1 << 20] {
            let mut buffer = ep.alloc(len).unwrap();
            buffer.copy_from_slice(&pattern(len, ep.rank().into()));
            // SAFETY: the buffer is kept, and looked at between the meetings only.
            let mine = unsafe { ep.remote_buffer(peer, &buffer).unwrap() };
            let remote = swap_keys(ep, peer, mine);
            let mut got = vec![0; len];
            ep.get(peer, &remote, 0, &mut got).unwrap();
            check(&got, peer.into());
            meet(ep);
            ep.put(peer, &remote, 0, &pattern(len, 10 + u64::from(ep.rank()))).unwrap();
            meet(ep);
            check(&buffer, 10 + u64::from(peer));
            meet(ep);
        }
    });
}

fn what_lies_outside_is_refused<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let mut memory = vec![0; 100];
        let region = register(ep, &mut memory);
        let remote = swap(ep, region);
        let mut into = [0; 50];
        for offset in [51, 100, 101, u64::MAX, u64::MAX - 49] {
            let get = ep.get(peer, &remote, offset, &mut into).unwrap_err();
            assert!(matches!(get, Error::Memory(_)), "{get}");
            let put = ep.put(peer, &remote, offset, &into).unwrap_err();
            assert!(matches!(put, Error::Memory(_)), "{put}");
        }
        ep.get(peer, &remote, 50, &mut into).unwrap();
        ep.get(peer, &remote, 100, &mut []).unwrap();
        let rank = ep.get(2, &remote, 0, &mut into).unwrap_err();
        assert_eq!(rank, Error::NoSuchRank { rank: 2, size: 2 });
        meet(ep);
        ep.deregister(region).unwrap();
        let unknown = ep.remote_memory(peer, region).unwrap_err();
        assert!(matches!(unknown, Error::Memory(_)), "{unknown}");
        let again = ep.deregister(region).unwrap_err();
        assert!(matches!(again, Error::Memory(_)), "{again}");
    });
}

fn ones_own_memory_is_reached_within_its_bounds_only<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let mut memory = pattern(1000, 3);
        let region = register(ep, &mut memory);
        let remote = ep.remote_memory(0, region).unwrap();
        let mut got = vec![0; 500];
        ep.get(0, &remote, 500, &mut got).unwrap();
        assert!(got == pattern(1000, 3)[500..]);
        ep.put(0, &remote, 0, &pattern(10, 4)).unwrap();
        ep.deregister(region).unwrap();
        check(&memory[..10], 4);
        // Plain bytes can say anything: that must not reach memory that was never registered.
        let mut forged = remote.to_bytes();
        forged[2..10].copy_from_slice(&16u64.to_le_bytes());
        let forged = RemoteMemory::from_bytes(&forged);
        assert!(ep.get(0, &forged, 0, &mut got).is_err());
        assert!(ep.put(0, &forged, 0, &got).is_err());
    });
}

fn a_forged_key_fails_its_own_access_only<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let mut memory = pattern(100, 1);
        let region = register(ep, &mut memory);
        let remote = swap(ep, region);
        let mut into = [0; 100];
        for at in [0usize, 2, 10, 18, 68, 72] {
            let mut bytes = remote.to_bytes();
            bytes[at] ^= 0x40;
            bytes[at + 1] ^= 0x55;
            bytes[at + 2] ^= 0x7f;
            bytes[at + 3] ^= 0x7f;
            // Where the change means nothing, the access may go well.
            let _ = ep.get(peer, &RemoteMemory::from_bytes(&bytes), 0, &mut into);
        }
        ep.get(peer, &remote, 0, &mut into).unwrap();
        check(&into, 1);
        meet(ep);
        ep.deregister(region).unwrap();
    });
}

fn many_accesses_at_once<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        const N: usize = 64;
        const LEN: usize = 300_000;
        let peer = 1 - ep.rank();
        let mut memory = pattern(N * LEN, ep.rank().into());
        let region = register(ep, &mut memory);
        let remote = swap(ep, region);
        let mut into = vec![0; N * LEN];
        let mut requests = Vec::new();
        for k in 0..N {
            // SAFETY: `into` lives until all requests are finished.
            let request = unsafe {
                let at = into.as_mut_ptr().add(k * LEN);
                ep.iget_raw(peer, &remote, (k * LEN) as u64, at, LEN)
            };
            requests.push(request.unwrap());
        }
        ep.wait_all(&requests).unwrap();
        check(&into, peer.into());
        meet(ep);
        let data = pattern(N * LEN, 7);
        requests.clear();
        for k in (0..N).rev() {
            // SAFETY: `data` lives until all requests are finished.
            let request = unsafe {
                let at = data.as_ptr().add(k * LEN);
                ep.iput_raw(peer, &remote, (k * LEN) as u64, at, LEN)
            };
            requests.push(request.unwrap());
        }
        ep.wait_all(&requests).unwrap();
        meet(ep);
        ep.deregister(region).unwrap();
        check(&memory, 7);
    });
}

fn memory_with_a_name_is_reached_by_it<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let (len, start) = (300_000, 1 << 40);
        let mut memory = pattern(len, ep.rank().into());
        let name = u64::MAX - 7;
        // SAFETY: the memory is kept until it is concealed, and looked at between the meetings.
        unsafe { ep.expose(name, memory.as_mut_ptr(), len, start, Access::Both).unwrap() };
        meet(ep);
        let mut got = vec![0; len];
        // SAFETY: waited for below.
        let get = unsafe { ep.iget_named_raw(peer, name, start, got.as_mut_ptr(), len) };
        ep.wait(get.unwrap()).unwrap();
        check(&got, peer.into());
        meet(ep);
        let data = pattern(100_000, 9);
        // SAFETY: waited for below.
        let put = unsafe { ep.iput_named_raw(peer, name, start + 7, data.as_ptr(), data.len()) };
        // A message that is sent behind it finds the bytes.
        meet(ep);
        check(&memory[7..][..100_000], 9);
        ep.wait(put.unwrap()).unwrap();
        meet(ep);
        // Outside, before and behind, and of another name: these fail alone.
        for (name, address, len) in
            [(name, start - 1, 4), (name, start + len as u64 - 3, 4), (name, 0, 4), (5, start, 4)]
        {
            // SAFETY: waited for below; `got` has more bytes.
            let request = unsafe { ep.iget_named_raw(peer, name, address, got.as_mut_ptr(), len) };
            assert!(ep.wait(request.unwrap()).is_err(), "{name} at {address}");
        }
        meet(ep);
        assert!(ep.conceal(name).unwrap());
        assert!(!ep.conceal(name).unwrap());
        meet(ep);
        // SAFETY: waited for below.
        let request = unsafe { ep.iget_named_raw(peer, name, start, got.as_mut_ptr(), 8) };
        assert!(ep.wait(request.unwrap()).is_err());
        meet(ep);
    });
}

fn memory_with_a_name_allows_what_its_owner_says<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let mut memory = [*b"01234567"; 4];
        let allowed = [Access::None, Access::Read, Access::Write, Access::Both];
        for (name, access) in allowed.into_iter().enumerate() {
            // SAFETY: the memory is kept until the meeting at the end, when all have ended.
            unsafe { ep.expose(name as u64, memory[name].as_mut_ptr(), 8, 0, access).unwrap() };
        }
        meet(ep);
        let (new, mut got) = (*b"abcdefgh", [0; 8]);
        for (name, access) in allowed.into_iter().enumerate() {
            let name = name as u64;
            // SAFETY: waited for at once.
            let put = unsafe { ep.iput_named_raw(peer, name, 0, new.as_ptr(), 8).unwrap() };
            let put = ep.wait(put);
            // SAFETY: as above.
            let get = unsafe { ep.iget_named_raw(peer, name, 0, got.as_mut_ptr(), 8).unwrap() };
            let get = ep.wait(get);
            assert_eq!(put.is_ok(), matches!(access, Access::Write | Access::Both), "{put:?}");
            assert_eq!(get.is_ok(), matches!(access, Access::Read | Access::Both), "{get:?}");
            for error in [put.err(), get.err()].into_iter().flatten() {
                let fault = match &error {
                    Error::PeerFailed { fault, .. } => fault,
                    error => panic!("{error}"),
                };
                assert!(matches!(fault, Fault::NoAccess(_)), "{error}");
            }
        }
        meet(ep);
        assert_eq!(memory, [*b"01234567", *b"01234567", new, new]);
        for name in 0..4 {
            assert!(ep.conceal(name).unwrap());
        }
    });
}

fn memory_with_two_names_is_read_by_one_when_the_other_has_ended<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        // So long that answers are under way when the first one is over.
        let len = 8 << 20;
        let mut memory = pattern(len, ep.rank().into());
        for name in 0..4 {
            // SAFETY: the memory is kept until it is concealed, and only read.
            unsafe { ep.expose(name, memory.as_mut_ptr(), len, 0, Access::Read).unwrap() };
        }
        meet(ep);
        let mut got: Vec<_> = (0..4).map(|_| vec![0; len]).collect();
        let mut start = |ep: &mut End<W>, name: u64| {
            let into = &mut got[name as usize];
            // SAFETY: waited for below.
            unsafe { ep.iget_named_raw(peer, name, 0, into.as_mut_ptr(), len).unwrap() }
        };
        let requests: Vec<_> = (0..4).map(|name| start(ep, name)).collect();
        if ep.rank() == 0 {
            ep.wait(requests[0]).unwrap();
            ep.send((peer, 3), &[]).unwrap();
            assert_eq!(ep.wait_all(&requests[1..]), Ok(()));
        } else {
            // Its answers to the others have not gone.
            ep.recv((peer, 3), &mut []).unwrap();
            assert!(ep.conceal(0).unwrap());
            assert_eq!(ep.wait_all(&requests), Ok(()));
        }
        got.iter().for_each(|got| check(got, peer.into()));
        meet(ep);
    });
}

/// From now on the kernel refuses this thread the memory of other processes, as a profile or a policy that
/// has changed does.
fn refuse_memory_of_others(errno: i32) {
    let call = |nr: i64, next: u8| libc::sock_filter {
        code: (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16,
        jt: next,
        jf: 0,
        k: nr as u32,
    };
    let simple = |code: u32, k: u32| libc::sock_filter { code: code as u16, jt: 0, jf: 0, k };
    let mut filter = [
        simple(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0),
        call(libc::SYS_process_vm_readv, 2),
        call(libc::SYS_process_vm_writev, 1),
        simple(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ALLOW),
        simple(libc::BPF_RET | libc::BPF_K, libc::SECCOMP_RET_ERRNO | errno as u32),
    ];
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    // SAFETY: a filter of five instructions, which the kernel copies.
    let refused = unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
    };
    assert!(refused, "{}", std::io::Error::last_os_error());
}

#[test]
fn no_error_of_the_kernel_is_taken_for_the_death_of_a_peer() {
    let errors = [libc::ESRCH, libc::EPERM, libc::ENOSYS, libc::ENOMEM, libc::EMFILE, libc::EIO];
    for errno in errors {
        on_ranks::<Shm, _>(2, |ep| {
            let peer = 1 - ep.rank();
            let len = 1 << 20;
            let mut memory = pattern(len, ep.rank().into());
            let region = register(ep, &mut memory);
            let theirs = swap(ep, region);
            let mut got = vec![0; len];
            ep.get(peer, &theirs, 0, &mut got).unwrap();
            check(&got, peer.into());
            meet(ep);
            if ep.rank() == 0 {
                refuse_memory_of_others(errno);
            }
            got.fill(0);
            ep.get(peer, &theirs, 0, &mut got).unwrap();
            check(&got, peer.into());
            meet(ep);
            ep.put(peer, &theirs, 0, &pattern(len, 7)).unwrap();
            meet(ep);
            check(&memory, 7);
            // Long messages either way, which are read where that is possible.
            let sent = pattern(4 << 20, 8);
            let mut received = vec![0; sent.len()];
            ep.sendrecv((peer, 1), &sent, (peer, 1), &mut received).unwrap();
            check(&received, 8);
            meet(ep);
            ep.deregister(region).unwrap();
        });
    }
}
