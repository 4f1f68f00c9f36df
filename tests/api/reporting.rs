//! Operations whose ends are told in their order, messages with data beside them, and messages that leave
//! nothing behind.

use crate::world::*;
use taffrail::{Completion, Data, Dest, Endpoint, Error, Pattern, Request, Settings, Status};

in_every_world!(
    data_travel_beside_every_kind_of_message,
    ends_are_told_in_their_order_and_once,
    errors_cancellations_and_what_was_over_before_are_told,
    messages_of_a_multi_receive_are_told_one_by_one,
    injected_messages_are_copied_when_there_is_no_room,
);

fn next(ep: &mut Endpoint<impl Transport>) -> (Request, Completion) {
    loop {
        if let Some(ended) = ep.next_ended().unwrap() {
            return ended;
        }
    }
}

fn ended(ep: &mut Endpoint<impl Transport>) -> (Request, Result<Status, Error>) {
    match next(ep) {
        (request, Completion::Ended(result)) => (request, result),
        other => panic!("{other:?}"),
    }
}

/// Each protocol that a message may travel by, with every size of data beside it, before and after its
/// receive is posted.
fn data_travel_beside_every_kind_of_message<W: World>() {
    const LENS: [usize; 8] = [0, 8, 40, 300, 5_000, 60_000, 70_000, 2_000_000];
    const DATA: [Option<u32>; 5] = [None, Some(0), Some(16_382), Some(16_383), Some(u32::MAX)];
    for eager_max in [0, 1000, 1 << 20] {
        let settings = Settings { eager_max, ..Settings::default() };
        on_ranks_with::<W, _>(2, &settings, |ep| {
            let peer = 1 - ep.rank();
            for (tag, (len, data)) in (0..).zip(LENS.iter().flat_map(|&l| DATA.map(|d| (l, d)))) {
                let bytes: Vec<u8> = (0..len).map(|k| (k + tag as usize) as u8).collect();
                let data = data.map_or(Data::NONE, Data::new);
                let to = Dest { data, ..Dest::new(peer, tag) };
                for sync in [false, true] {
                    let mut into = vec![0; len];
                    if ep.rank() == 0 {
                        // SAFETY: both vectors outlive the waits.
                        let send = unsafe {
                            match sync {
                                true => ep.isend_sync_raw(to, bytes.as_ptr(), len).unwrap(),
                                false => ep.isend_raw(to, bytes.as_ptr(), len).unwrap(),
                            }
                        };
                        assert_eq!(ep.wait(send).unwrap().data, data);
                        // So that the next is posted before it comes.
                        ep.recv((peer, u64::MAX), &mut []).unwrap();
                        // SAFETY: as above.
                        unsafe { ep.inject(&to, bytes.as_ptr(), len).unwrap() };
                    } else {
                        while ep.probe((peer, tag)).unwrap().is_none() {}
                        let status = ep.probe((peer, tag)).unwrap().unwrap();
                        assert_eq!((status.len, status.data), (len, data));
                        assert_eq!(ep.recv((peer, tag), &mut into).unwrap(), status);
                        assert!(into == bytes, "{len} bytes, {data:?}");
                        into.fill(0);
                        // SAFETY: the vector outlives the wait.
                        let receive = unsafe {
                            ep.irecv_raw(Pattern::new(peer, tag), into.as_mut_ptr(), len).unwrap()
                        };
                        ep.send((peer, u64::MAX), &[]).unwrap();
                        assert_eq!(ep.wait(receive).unwrap(), status);
                        assert!(into == bytes, "{len} bytes, {data:?}");
                    }
                }
            }
        });
    }
}

fn ends_are_told_in_their_order_and_once<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let mut places = [[0u8; 8]; 16];
        let mut open = Vec::new();
        for (tag, place) in (0..).zip(&mut places) {
            // SAFETY: the array outlives the loop in which all are told.
            let request =
                unsafe { ep.irecv_raw(Pattern::new(peer, tag), place.as_mut_ptr(), 8).unwrap() };
            ep.report(request).unwrap();
            open.push((request, tag));
        }
        taffrail::collectives::barrier(ep).unwrap();
        // Backwards: told as they come, not as they were posted.
        for tag in (0..16u64).rev() {
            // SAFETY: the bytes live until the call returns.
            unsafe { ep.inject(&Dest::new(peer, tag), tag.to_le_bytes().as_ptr(), 8).unwrap() };
        }
        for tag in (0..16).rev() {
            let (request, status) = ended(ep);
            assert_eq!(Some(&(request, tag)), open.last());
            assert_eq!(status.unwrap().tag, tag);
            open.pop();
            assert_eq!(ep.report(request), Err(Error::StaleRequest(request)));
        }
        assert_eq!(ep.next_ended().unwrap(), None);
        for (tag, place) in (0u64..).zip(&places) {
            assert_eq!(u64::from_le_bytes(*place), tag);
        }
    });
}

fn errors_cancellations_and_what_was_over_before_are_told<W: World>() {
    on_ranks::<W, _>(1, |ep| {
        let mut short = [0; 2];
        // SAFETY: the array outlives the requests.
        let (truncated, cancelled) = unsafe {
            (
                ep.irecv_raw(Pattern::new(0, 1), short.as_mut_ptr(), 1).unwrap(),
                ep.irecv_raw(Pattern::new(0, 2), short.as_mut_ptr().add(1), 1).unwrap(),
            )
        };
        ep.report(cancelled).unwrap();
        assert!(ep.cancel(cancelled).unwrap());
        ep.send((0, 1), b"long").unwrap();
        while ep.progress() == 0 {}
        ep.report(truncated).unwrap();
        // Its result is taken by a test, so that it is not told.
        ep.send((0, 3), b"!").unwrap();
        // SAFETY: as above.
        let taken = unsafe { ep.irecv_raw(Pattern::new(0, 3), short.as_mut_ptr(), 1).unwrap() };
        ep.report(taken).unwrap();
        ep.wait(taken).unwrap();
        assert_eq!(ended(ep), (cancelled, Err(Error::Cancelled)));
        let (request, result) = ended(ep);
        assert!(matches!(result, Err(Error::Truncated { len: 4, room: 1, .. })), "{result:?}");
        assert_eq!(request, truncated);
        assert_eq!(ep.next_ended().unwrap(), None);
    });
}

fn messages_of_a_multi_receive_are_told_one_by_one<W: World>() {
    on_ranks::<W, _>(2, |ep| {
        let peer = 1 - ep.rank();
        let mut into = vec![0u8; 1000];
        let (at, len) = (into.as_mut_ptr(), into.len());
        // SAFETY: the vector outlives the request, which is over below.
        let request = unsafe { ep.irecv_multi_raw(Pattern::any_source(7), at, len, 100).unwrap() };
        ep.report(request).unwrap();
        taffrail::collectives::barrier(ep).unwrap();
        for k in 0..10u8 {
            // SAFETY: the bytes live until the call returns.
            unsafe { ep.inject(&Dest::new(peer, 7).data(k.into()), [k; 96].as_ptr(), 96).unwrap() };
        }
        for k in 0..10u8 {
            let (told, Completion::Landed(landed)) = next(ep) else { panic!("message {k}") };
            let landed = landed.unwrap();
            assert_eq!((told, landed.status.data.get()), (request, Some(k.into())));
            assert_eq!(landed.last, k == 9);
            assert_eq!(
                (landed.offset, &into[landed.offset..][..96]),
                (96 * k as usize, &[k; 96][..])
            );
        }
        assert_eq!(ended(ep).0, request);
        assert_eq!(ep.next_ended().unwrap(), None);
    });
}

/// Far more than there is room for, to a receiver that looks at nothing, out of memory that is used
/// again at once.
fn injected_messages_are_copied_when_there_is_no_room<W: World>() {
    const COUNT: u32 = 20_000;
    on_ranks::<W, _>(2, |ep| {
        if ep.rank() == 0 {
            let mut bytes = [0; 1024];
            for k in 0..COUNT {
                bytes[..4].copy_from_slice(&k.to_le_bytes());
                // SAFETY: the array lives until the call returns.
                unsafe {
                    ep.inject(&Dest::new(1, 1).data(k), bytes.as_ptr(), bytes.len()).unwrap()
                };
                bytes.fill(0xff);
            }
            ep.send((1, 2), &[]).unwrap();
            ep.recv((1, 2), &mut []).unwrap();
        } else {
            std::thread::sleep(std::time::Duration::from_millis(200));
            let mut bytes = [0; 1024];
            for k in 0..COUNT {
                let status = ep.recv((0, 1), &mut bytes).unwrap();
                assert_eq!(
                    (status.len, status.data.get(), &bytes[..4]),
                    (1024, Some(k), &k.to_le_bytes()[..])
                );
            }
            ep.recv((0, 2), &mut []).unwrap();
            ep.send((0, 2), &[]).unwrap();
        }
    });
}
