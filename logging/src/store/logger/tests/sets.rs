//! Sets of several members: stable together, or not at all.

use super::*;
use std::time::Duration;

fn writers(held: &Held) -> Vec<RingWriter<Memory>> {
    (0..held.ranks()).map(|rank| held.writer(rank)).collect()
}

fn stable(held: &Held) -> Vec<u64> {
    (0..held.ranks()).map(|rank| held.stable(rank)).collect()
}

#[test]
fn nothing_of_a_set_is_kept_before_all_members_are_served() {
    let held = Held::on_disk(3);
    let mut logger = Logger::new(Disk::Plain);
    let mut writers = writers(&held);
    writers.iter_mut().for_each(|writer| push(writer, 2));
    for rank in 0..3 {
        assert_eq!((logger.turn().busy, stable(&held)), (false, vec![0; 3]));
        held.serve(&mut logger, rank).unwrap();
    }
    assert_eq!((logger.turn().busy, stable(&held)), (true, vec![2; 3]));
    push(&mut writers[1], 1);
    logger.turn();
    assert_eq!(stable(&held), [2, 3, 2]);
    assert_eq!((0..3).map(|rank| copied(&logger, rank)).collect::<Vec<_>>(), [2, 3, 2]);
}

#[test]
fn who_does_not_belong_to_the_set_is_refused() {
    let held = Held::on_disk(2);
    let mut logger = Logger::new(Disk::Plain);
    let folder = held.folder.path();
    held.serve(&mut logger, 0).unwrap();
    let mut refused = |set, rank| {
        let ring = Held::on_disk(4).reader(rank);
        let error = logger.serve_in(folder, set, ring).unwrap_err();
        assert!(matches!(error, ServeError::Order { .. }), "{error}");
        error.to_string()
    };
    let set = held.set();
    assert!(refused(set, 0).ends_with("it is served already"));
    assert!(refused(Set { members: 3, ..set }, 1).contains("of set 4 (members: 2,"));
    assert!(refused(Set { job: 7, ..set }, 1).contains(", job 0000000000000006)"));
    held.serve(&mut logger, 1).unwrap();
    let error = logger.serve_in(folder, set, Held::on_disk(4).reader(2)).unwrap_err();
    assert!(error.to_string().ends_with("has all of its members"), "{error}");
    // And of what the folder knows.
    drop(logger);
    let serve = |set: Set, rank| {
        let ring = Held::on_disk(4).reader(rank);
        Logger::new(Disk::Plain).serve_in(folder, set, ring).unwrap_err().to_string()
    };
    assert!(serve(set, 2).contains("set-4.cuts: rank 2 is no member of cut 0"));
    assert!(serve(Set { members: 3, ..set }, 0).contains("set-4.cuts: checksum"));
    assert!(serve(Set { job: 7, ..set }, 0).contains("set-4.cuts: job"));
}

#[test]
fn records_without_a_cut_file_are_refused() {
    let held = Held::on_disk(2);
    let mut logger = held.logger().unwrap();
    push(&mut held.writer(1), 2);
    logger.turn();
    std::fs::remove_file(held.folder.path().join("set-4.cuts")).unwrap();
    let error = held.logger().unwrap_err().to_string();
    assert!(
        error.contains("set-4.cuts is not there, but rank 1 of its set has 2 records"),
        "{error}"
    );
}

#[test]
fn a_cut_that_names_records_which_are_not_there_is_refused() {
    let mut held = Held::on_disk(2);
    let mut logger = held.logger().unwrap();
    let mut writers = writers(&held);
    push(&mut writers[0], 3);
    push(&mut writers[1], 2);
    logger.turn();
    held.new_rings(2);
    let file = held.file("rank-0.events");
    file.set_len(32 + 2 * 32).unwrap();
    let error = held.logger().unwrap_err().to_string();
    assert!(error.contains("rank-0.events, record 3"), "{error}");
    assert!(error.contains("cut 1 of its set has this record"), "{error}");
    assert_eq!(file.metadata().unwrap().len(), 32 + 2 * 32, "it is left as it is");
}

/// The first member's ring is good, and yet nothing more of it is stable: the others may depend on
/// what is damaged, and it on them.
#[test]
fn of_a_set_with_a_damaged_ring_there_are_no_more_cuts() {
    let held = Held::on_disk(2);
    let mut logger = held.logger().unwrap();
    let mut writers = writers(&held);
    writers.iter_mut().for_each(|writer| push(writer, 1));
    logger.turn();
    writers.iter_mut().for_each(|writer| push(writer, 2));
    let ring = File::from(held.rings[1].try_clone().unwrap());
    // The code of the third event.
    ring.write_all_at(&[0xff], 384 + 4).unwrap();
    let turn = logger.turn();
    assert!(
        matches!(
            turn.reports[..],
            [Report::Damaged { rank: 1, error: RingError::Code { clock: 3, .. } }]
        ),
        "{turn:?}"
    );
    push(&mut writers[0], 1);
    assert_eq!((logger.turn().busy, stable(&held)), (false, vec![1, 1]));
    assert_eq!(copied(&logger, 0), 4, "what was written is handed out");
    assert!(logger.copy(1, &tempfile::tempfile().unwrap()).unwrap().is_err());
}

/// Of the records or of what makes the cut valid: announced is all of it, or nothing.
#[test]
fn what_cannot_be_written_makes_the_whole_set_wait() {
    let held = Held::on_disk(2);
    let mut logger = held.logger().unwrap();
    let mut writers = writers(&held);
    let full = || [Err(CommitError::Short { expected: 32, got: 5 })];
    let group = &mut logger.groups[0];
    let now = Instant::now();
    let later = now + Duration::from_secs(1);

    writers.iter_mut().for_each(|writer| push(writer, 1));
    assert_eq!(group.look(), Ok(true));
    let mut results = [Ok(())].into_iter().chain(full());
    let (whole, report) = group.written(&mut results, now);
    let Some(Report::Waiting { rank: 1, file, .. }) = report else { panic!("{report:?}") };
    assert!(!whole && file.ends_with("rank-1.events"), "{file}");
    assert!(!group.is_due(now) && group.is_due(later));

    // What comes meanwhile is in the same cut.
    push(&mut writers[0], 2);
    assert_eq!(group.look(), Ok(true));
    assert_eq!(group.writes().map(|write| write.bytes.len()).collect::<Vec<_>>(), [96, 32]);
    let (whole, report) = group.written(&mut [Ok(()), Ok(())].into_iter(), later);
    assert_eq!((whole, report), (true, None));
    assert_eq!(group.sealed(full()[0], later), None, "it is reported once");
    assert_eq!(stable(&held), [0, 0]);

    let (whole, _) = group.written(&mut [Ok(()), Ok(())].into_iter(), later);
    assert!(whole && group.seal().is_some());
    assert_eq!(group.sealed(Ok(()), later), Some(Report::Resumed { rank: 0 }));
    assert_eq!((stable(&held), group.cuts().unwrap().last().number), (vec![3, 1], 1));
    assert!(!group.is_due(later) && group.seal().is_none());
}

/// Sets do not wait for each other, and ranks that are a set by themselves have no cut file.
#[test]
fn a_set_that_cannot_be_written_does_not_hold_the_others() {
    let [pair, single] = [Held::on_disk(2), Held::on_disk(1)];
    let mut logger = Logger::new(Disk::Plain);
    (0..2).for_each(|rank| assert!(pair.serve(&mut logger, rank).is_ok()));
    let set = Set { number: 9, members: 1, job: JOB };
    let shape = RingShape { rank: 7, ..single.shape(0) };
    let map = || Memory::map(single.rings[0].as_fd(), shape.bytes()).unwrap();
    shape.lay_out(&map());
    let ring = RingReader::attach(map(), shape, 0).unwrap();
    logger.serve_in(pair.folder.path(), set, ring).unwrap();
    let mut alone = RingWriter::attach(map(), shape).unwrap();
    push(&mut alone, 1);
    writers(&pair).iter_mut().for_each(|writer| push(writer, 1));
    logger.groups[0].look().unwrap();
    let _ = logger.groups[0].written(
        &mut [(); 2].map(|()| Err(CommitError::Short { expected: 32, got: 0 })).into_iter(),
        Instant::now() + Duration::from_secs(60),
    );
    assert_eq!(logger.turn().reports, []);
    assert_eq!((stable(&pair), alone.stable()), (vec![0, 0], Ok(1)));
    let mut files: Vec<_> = std::fs::read_dir(pair.folder.path())
        .unwrap()
        .map(|file| file.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort_unstable();
    assert_eq!(files, ["rank-0.events", "rank-1.events", "rank-7.events", "set-4.cuts"]);
}
