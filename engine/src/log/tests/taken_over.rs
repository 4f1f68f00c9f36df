//! What a process takes over of the log of the process before it.

use super::*;

/// The payload log of a process that has ended, as the next one sees it.
fn previous(log: &mut Logging<Vectors>, memory: &mut impl SendMemory, bytes: usize) -> PreviousVec {
    let mut left = vec![0; bytes];
    let size = memory.segment_len();
    for (k, part) in left.chunks_mut(size).enumerate() {
        let bytes = log.payload_log.read(memory, (k * size) as u64, part.len());
        part.copy_from_slice(&bytes.unwrap());
    }
    PreviousVec { bytes: left, given_up: None }
}

/// Takes over what was logged for rank 2.
fn take_over(
    log: &mut Logging<Vectors>,
    memory: &mut impl SendMemory,
    table: &[u8],
    left: &PreviousVec,
) -> Result<(), Error> {
    let mut entries = log.entries(2, table, left)?;
    log.take_over(memory, 2, &mut entries, left, (INLINE, PIECE)).map_err(|not_now| match not_now {
        NotNow::Failed(error) => error,
        NotNow::Waits => panic!("there is room for all"),
    })
}

#[test]
fn what_the_process_before_has_logged_is_taken_over() {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    let messages = log_messages(&mut log, &mut memory);
    let (last, _) = messages.last().unwrap();
    let end = last.payload.at as usize + last.payload.bytes();
    let (table, left) = (log.table(2), previous(&mut log, &mut memory, end));

    let mut memory = mesh(1).remove(0);
    let mut next = open(parts(), memory.segment_len());
    take_over(&mut next, &mut memory, &table, &left).unwrap();
    let table = next.table(2);
    let mut taken = log_index::messages(&table, PAGE_RUNS, |at, into| {
        into.copy_from_slice(&next.payload_log.read(&mut memory, at, into.len())?);
        Ok::<_, NotNow>(true)
    })
    .unwrap()
    .unwrap()
    .into_iter();
    for (entry, bytes) in &messages {
        let taken = taken.next().unwrap();
        assert_eq!((taken.context, taken.seq), (entry.context, entry.seq));
        assert_eq!(taken.payload.tag, entry.payload.tag);
        let mut here = vec![0; bytes.len()];
        let size = memory.segment_len() as u64;
        let (mut at, mut rest) = (taken.payload.at + taken.payload.prefix() as u64, &mut here[..]);
        while !rest.is_empty() {
            let (part, behind) = rest.split_at_mut(rest.len().min((size - at % size) as usize));
            part.copy_from_slice(&next.payload_log.read(&mut memory, at, part.len()).unwrap());
            (at, rest) = (at + part.len() as u64, behind);
        }
        assert!(here == *bytes, "message {}", entry.seq);
    }
    assert!(taken.next().is_none());
}

#[test]
fn a_torn_log_of_the_process_before_is_named() {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    let messages = log_messages(&mut log, &mut memory);
    let (last, _) = messages.last().unwrap();
    let end = last.payload.at as usize + last.payload.bytes();
    let table = log.table(2);
    for torn in [0, 1000, end / 2, end - 1] {
        let mut left = previous(&mut log, &mut memory, end);
        left.bytes.truncate(torn);
        let mut next_memory = mesh(1).remove(0);
        let mut next = open(parts(), memory.segment_len());
        let error = take_over(&mut next, &mut next_memory, &table, &left);
        let said = "the log of the process before this one cannot be read: unexpected end of file";
        assert!(error.unwrap_err().to_string().contains(said), "torn at {torn} of {end}");
    }
    // Of what was given up nobody will ask for anything.
    let left = PreviousVec { bytes: Vec::new(), given_up: Some(0) };
    let mut next_memory = mesh(1).remove(0);
    let mut next = open(parts(), memory.segment_len());
    take_over(&mut next, &mut next_memory, &table, &left).unwrap();
    assert_eq!(next.outbound.log(2).count(), 0);
}

#[test]
fn a_table_of_a_checkpoint_that_is_none_is_refused() {
    let mut memory = mesh(1).remove(0);
    let mut log = open(parts(), memory.segment_len());
    log_messages(&mut log, &mut memory);
    let table = log.table(2);
    let next = open(parts(), memory.segment_len());
    for len in [0, 7, 9, table.len() - 1] {
        let left = PreviousVec { bytes: vec![0; 1 << 20], given_up: None };
        let error = next.entries(2, &table[..len], &left);
        let said = "the checkpoint has no table for rank 2";
        assert!(error.unwrap_err().to_string().contains(said), "{len} bytes");
    }
}
