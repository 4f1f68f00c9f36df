use super::*;
use std::os::fd::OwnedFd;

fn all() -> Vec<Disk> {
    let mut all = vec![Disk::Memory, Disk::Plain];
    match Disk::synced() {
        (ring @ Disk::Uring(_), _) => all.push(ring),
        (_, refused) => println!("skipped: no io_uring here: {refused:?}"),
    }
    all
}

#[test]
fn many_files_are_written_at_once() {
    for mut disk in all() {
        // More than are under way at once.
        let files: Vec<File> = (0..AT_ONCE + 9).map(|_| tempfile::tempfile().unwrap()).collect();
        let bytes: Vec<Vec<u8>> = (0..files.len()).map(|n| vec![n as u8; 1 + 100 * n]).collect();
        let writes = files.iter().zip(&bytes).map(|(file, bytes)| Write { file, at: 3, bytes });
        let writes: Vec<_> = writes.collect();
        assert!(disk.commit(&writes).iter().all(Result::is_ok), "{disk:?}");
        for (file, bytes) in files.iter().zip(&bytes) {
            let mut got = vec![0; bytes.len()];
            file.read_exact_at(&mut got, 3).unwrap();
            assert_eq!(&got, bytes);
        }
    }
}

#[test]
fn who_fails_does_not_hurt_the_others() {
    for mut disk in all() {
        let good = tempfile::tempfile().unwrap();
        let full = File::options().write(true).open("/dev/full").unwrap();
        let closed = File::open("/dev/null").unwrap();
        let bytes = [7; 64];
        let write = |file| Write { file, at: 0, bytes: &bytes };
        let results = disk.commit(&[write(&full), write(&good), write(&closed)]);
        assert!(
            matches!(results[0], Err(CommitError::Os { errno: Errno::NOSPC, .. })),
            "{results:?}"
        );
        assert_eq!(results[1], Ok(()));
        assert!(
            matches!(results[2], Err(CommitError::Os { errno: Errno::BADF, .. })),
            "{results:?}"
        );
        assert_eq!(good.metadata().unwrap().len(), 64);
    }
}

/// A pipe cannot be synced: what was written is not announced.
#[test]
fn a_sync_that_fails_is_an_error() {
    let (read, write) = rustix::pipe::pipe().unwrap();
    let [_read, pipe] = [read, write].map(|end: OwnedFd| File::from(end));
    let mut disk = Disk::synced().0;
    let Disk::Uring(ring) = &mut disk else {
        println!("skipped: no io_uring here");
        return;
    };
    // No place is asked for: a pipe has none.
    let write = Write { file: &pipe, at: u64::MAX, bytes: &[1; 8] };
    let results = at_once(ring, &[write]);
    let expected = CommitError::Os { call: "fdatasync", errno: Errno::INVAL };
    assert_eq!(results, [Err(expected)]);
}

#[test]
fn a_short_write_is_an_error() {
    assert_eq!(
        judge(Some(10), Some(-libc_canceled()), 64),
        Err(CommitError::Short { expected: 64, got: 10 })
    );
    assert_eq!(judge(Some(64), Some(0), 64), Ok(()));
}

fn libc_canceled() -> i32 {
    Errno::CANCELED.raw_os_error()
}
