use super::*;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

#[test]
fn a_queue_that_is_never_empty_keeps_no_more_than_what_waits() {
    const MAX: usize = 100_000;
    let (here, mut there) = UnixStream::pair().expect("a pair of sockets");
    let mut tx = Tx::new(MAX, false);
    let (mut sent, mut read, mut buffer) = (0, 0, vec![0; 5000]);
    while read < 20 * MAX {
        let payload = [7; 1000];
        while let Ok(Ok(_)) = tx.send(Some(here.as_fd()), [1; HEADER], Payload::Parts(&[&payload]))
        {
            sent += HEADER + payload.len();
        }
        read += there.read(&mut buffer).expect("bytes");
        tx.flush(here.as_fd(), |_| {}).expect("a socket");
        assert!(!tx.is_written() && tx.copied <= MAX + CHUNK);
        let kept: usize = tx
            .queue
            .iter()
            .map(|out| match out {
                Out::Copied(bytes) => bytes.len(),
                Out::Lent { .. } => 0,
            })
            .sum();
        assert!(kept <= 2 * MAX, "{kept} bytes are kept, and {} wait", tx.copied);
    }
    assert!(sent >= read);
}

#[test]
fn of_a_long_copy_no_more_is_kept_than_its_end_when_that_is_all_that_was_not_acknowledged() {
    let payload = vec![7; 256 << 10];
    let mut tx = Tx::new(600_000, true);
    // Nothing, and enough for a piece of its own, in front of it.
    for before in [0, CHUNK] {
        let _ = tx.send(None, [1; HEADER], Payload::Parts(&[&payload[..before]]));
        let _ = tx.send(None, [1; HEADER], Payload::Parts(&[&payload[1..], &payload[..1]]));
        tx.wrote((tx.end - tx.written) as usize, &mut |_| {});
        assert_eq!(tx.copied, 2 * HEADER + before + payload.len());
        let unread = 16 << 10;
        assert!(tx.acknowledge(tx.end - unread, |_| {}));
        let kept: usize = tx.queue.iter().map(Out::len).sum();
        assert!(kept == tx.copied && kept < 64 << 10, "{kept} bytes");
        assert!(tx.acknowledge(tx.end, |_| {}));
        assert!(tx.is_done() && tx.copied == 0 && tx.queue.is_empty());
    }
}

#[test]
fn what_is_kept_is_written_again_from_any_byte_that_was_not_acknowledged() {
    let random = fastrand::Rng::new();
    let seed = random.get_seed();
    let mut random = random;
    for round in 0..300 {
        let mut tx = Tx::new(400_000, true);
        let long: Vec<u8> = (0..100_000).map(|_| random.u8(..)).collect();
        let mut stream = Vec::new();
        let mut read = Vec::new();
        let mut ended = Vec::new();
        let mut tokens = 0;
        let (mut here, mut there) = UnixStream::pair().expect("a pair of sockets");
        for _ in 0..random.usize(1..200) {
            let where_to = random.bool().then_some(here.as_fd());
            let header = [random.u8(..); HEADER];
            let len =
                if random.u8(..8) == 0 { random.usize(..long.len()) } else { random.usize(..300) };
            let payload = &long[long.len() - len..];
            // SAFETY: `long` outlives the queue.
            let lent = unsafe { UserBytes::new(payload.as_ptr(), len) };
            let user = random.bool();
            let result = match user {
                true => tx.send(where_to, header, Payload::Lent(lent, Lender::User(Token(tokens)))),
                false => tx.send(where_to, header, Payload::Parts(&[payload])),
            };
            if let Ok(Ok(sent)) = result {
                stream.extend(header);
                stream.extend(payload);
                tokens += u64::from(user && sent == Sent::Later);
            }
            there.set_nonblocking(true).expect("a socket");
            let mut buffer = vec![0; random.usize(1..30_000)];
            let len = there.read(&mut buffer).unwrap_or(0);
            read.extend_from_slice(&buffer[..len]);
            match random.u8(..10) {
                0 => {
                    // What is in the socket is lost.
                    (here, there) = UnixStream::pair().expect("a pair of sockets");
                    assert!(tx.resume(read.len() as u64, |token| ended.push(token)));
                }
                1 => assert!(tx.acknowledge(read.len() as u64, |token| ended.push(token))),
                _ => {
                    tx.flush(here.as_fd(), |token| ended.push(token)).expect("a socket");
                }
            }
        }
        while read.len() < stream.len() {
            tx.flush(here.as_fd(), |token| ended.push(token)).expect("a socket");
            let mut buffer = vec![0; 50_000];
            let len = there.read(&mut buffer).unwrap_or(0);
            read.extend_from_slice(&buffer[..len]);
        }
        assert!(read == stream, "seed {seed}, round {round}");
        assert!(tx.is_written());
        assert!(!tx.acknowledge(stream.len() as u64 + 1, |_| {}), "more than there is");
        assert!(tx.acknowledge(stream.len() as u64, |token| ended.push(token)));
        assert!(tx.is_done() && (tx.copied, tx.lent, tx.queue.len()) == (0, 0, 0));
        assert_eq!(ended, (0..tokens).map(Token).collect::<Vec<_>>(), "seed {seed}, round {round}");
        let all = stream.len() as u64;
        assert_eq!(tx.resume(all.saturating_sub(1), |_| {}), all == 0, "it was acknowledged");
    }
}
