use super::*;
use std::io::Read;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

const MESSAGE: Room = Room::Message;

#[test]
fn a_queue_that_is_never_empty_keeps_no_more_than_what_waits() {
    const MAX: usize = 100_000;
    let (here, mut there) = UnixStream::pair().expect("a pair of sockets");
    let mut tx = Tx::new(MAX, false);
    let (mut sent, mut read, mut buffer) = (0, 0, vec![0; 5000]);
    while read < 20 * MAX {
        let payload = [7; 1000];
        while let Ok(Ok(_)) =
            tx.send(Some(here.as_fd()), [1; HEADER], Payload::Parts(&[&payload]), MESSAGE)
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
                Out::Lent(..) => 0,
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
        let _ = tx.send(None, [1; HEADER], Payload::Parts(&[&payload[..before]]), MESSAGE);
        let _ =
            tx.send(None, [1; HEADER], Payload::Parts(&[&payload[1..], &payload[..1]]), MESSAGE);
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

/// Sends a payload, and adds it to the log behind that, in pieces of 9000 bytes.
fn send_before_log(
    tx: &mut Tx,
    socket: Option<BorrowedFd<'_>>,
    header: [u8; HEADER],
    payload: &[u8],
    log: &mut Vec<Vec<u8>>,
) -> Result<Result<Sent, Refused>, Errno> {
    let mut memory: Vec<Vec<u8>> = payload.chunks(9000).map(|piece| vec![0; piece.len()]).collect();
    let lent = memory.iter_mut().enumerate().map(|(number, piece)| {
        // SAFETY: the caller keeps it for as long as the queue, and its length never changes.
        let bytes = unsafe { UserBytes::new(piece.as_mut_ptr(), piece.len()) };
        (bytes, Lender::Log(SegmentId(number as u32)))
    });
    let pieces: Vec<_> = lent.collect();
    let mut given = payload.to_vec();
    let (front, behind) = given.split_at(payload.len() / 3);
    let result = tx.send(
        socket,
        header,
        Payload::BeforeLog { parts: &[front, behind], pieces: &pieces },
        MESSAGE,
    );
    // From now on it is nowhere else.
    given.fill(0);
    for ((bytes, _), piece) in pieces.iter().zip(payload.chunks(9000)) {
        // SAFETY: of this length, and nobody has a reference to it.
        unsafe {
            std::ptr::copy_nonoverlapping(piece.as_ptr(), bytes.as_ptr().cast_mut(), piece.len());
        }
    }
    log.extend(memory);
    result
}

#[test]
fn what_is_sent_before_it_is_logged_is_not_copied() {
    let (here, there) = UnixStream::pair().expect("a pair of sockets");
    let payload: Vec<u8> = (0..MAX_KEPT_COPY * 4).map(|at| (at % 251) as u8).collect();
    let mut tx = Tx::new(100_000, true);
    let mut log = Vec::new();
    for _ in 0..3 {
        let socket = Some(here.as_fd());
        let result = send_before_log(&mut tx, socket, [1; HEADER], &payload, &mut log);
        assert_eq!(result, Ok(Ok(Sent::Now)));
    }
    assert_eq!((tx.copied, tx.lent), (3 * HEADER, log.len()));
    assert!(tx.uses(SegmentId(7)) && !tx.uses(SegmentId(8)));
    // Nothing of what the socket has taken arrives, and all of it leaves from the log.
    drop((here, there));
    let (here, mut there) = UnixStream::pair().expect("a pair of sockets");
    assert!(tx.resume(0, |_| {}));
    let mut read = vec![0; 3 * (HEADER + payload.len())];
    let mut got = 0;
    while got < read.len() {
        tx.flush(here.as_fd(), |_| {}).expect("a socket");
        got += there.read(&mut read[got..]).expect("bytes");
    }
    assert!(read == [&[1; HEADER][..], &payload].concat().repeat(3));
    assert!(tx.acknowledge(got as u64, |_| {}) && tx.is_done() && !tx.uses(SegmentId(7)));
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
        // What was sent before it was written, which is as long as the queue.
        let mut log: Vec<Vec<u8>> = Vec::new();
        let (mut here, mut there) = UnixStream::pair().expect("a pair of sockets");
        for _ in 0..random.usize(1..200) {
            let where_to = random.bool().then_some(here.as_fd());
            let header = [random.u8(..); HEADER];
            let len =
                if random.u8(..8) == 0 { random.usize(..long.len()) } else { random.usize(..300) };
            let payload = &long[long.len() - len..];
            // SAFETY: `long` outlives the queue.
            let lent = unsafe { UserBytes::new(payload.as_ptr(), len) };
            let way = random.u8(..3);
            let user = way == 0;
            let result = match way {
                0 => {
                    let lent = Payload::Lent(lent, Lender::User(Token(tokens)));
                    tx.send(where_to, header, lent, MESSAGE)
                }
                1 => tx.send(where_to, header, Payload::Parts(&[payload]), MESSAGE),
                _ => send_before_log(&mut tx, where_to, header, payload, &mut log),
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
