use super::*;

const JOB: u64 = 0x1234;

fn words(ranks: usize) -> Vec<AtomicU64> {
    (0..words_of(ranks)).map(|_| AtomicU64::new(0)).collect()
}

fn live(rank: u32, incarnation: u32) -> Change {
    let life = RankIncarnation::new(rank, incarnation);
    Change { life, node: 1, state: RankState::Live }
}

#[cfg(not(loom))]
mod plain {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranks_read_what_the_agent_wrote() {
        let words = words(3);
        let mut writer = Writer::create(&words, 3, JOB, (1, 2)).unwrap();
        let reader = Reader::open(&words, JOB).unwrap();
        assert_eq!((reader.ranks(), reader.node(), reader.notice()), (3, 1, 0));
        assert_eq!(reader.life(2).unwrap().state, RankState::Absent);

        writer.publish(7, &[live(2, 0), live(0, 4)]);
        assert_eq!((reader.epoch(), reader.notice()), (7, 1));
        assert_eq!(reader.life(0), Ok(live(0, 4)));
        assert_eq!(reader.address(0), Ok(None));

        for address in [&[9u8][..], &[7; ADDRESS_MAX], b"10.0.0.1:7"] {
            writer.publish_address(RankIncarnation::new(0, 4), address);
            assert_eq!(reader.address(0).unwrap().as_deref(), Some(address));
        }
        // The address of a dead incarnation is none.
        writer.publish(8, &[live(0, 5)]);
        assert_eq!(reader.address(0), Ok(None));

        let wave = WaveWords { wave: 1, target: 2, committed: 3, schedule: 4 };
        writer.publish_wave(1, &wave);
        assert_eq!(reader.wave(1), Ok(wave));
        writer.publish_job(JobState::Released);
        assert_eq!(reader.job(), Ok(JobState::Released));
        assert_eq!(reader.life(3).unwrap_err().field, "rank");
    }

    #[test]
    fn memory_that_is_no_roster_is_refused() {
        let field = |words: &[AtomicU64]| Reader::open(words, JOB).unwrap_err().field;
        assert_eq!(field(&words(0)[..HEAD - 1]), "words");
        let good = words(2);
        assert_eq!(field(&good), "mark");
        Writer::create(&good, 2, JOB, (1, 2)).unwrap();
        assert_eq!(Reader::open(&good, JOB + 1).unwrap_err().field, "job");
        assert_eq!(field(&good[..words_of(2) - 1]), "words");
        good[3].store(pair(1, 1), Ordering::Relaxed);
        assert_eq!(field(&good), "nodes");
        good[1].store(pair(VERSION + 1, 2), Ordering::Relaxed);
        assert_eq!(field(&good), "version");
    }

    proptest! {
        /// Words with any content are read as entries or refused, never with a panic.
        #[test]
        fn any_words_are_read_or_refused(content in prop::collection::vec(any::<u64>(), words_of(2))) {
            let words = words(2);
            for (word, value) in words.iter().zip(&content) {
                word.store(*value, Ordering::Relaxed);
            }
            Writer::create(&words, 2, JOB, (0, 1)).unwrap();
            let reader = Reader::open(&words, JOB).unwrap();
            for rank in 0..2 {
                if let Ok(life) = reader.life(rank) {
                    prop_assert_eq!(life_word(&life), content[HEAD + ENTRY * rank as usize]);
                }
                if let Ok(Some(address)) = reader.address(rank) {
                    prop_assert!((1..=ADDRESS_MAX).contains(&address.len()));
                }
            }
        }
    }
}

#[cfg(loom)]
mod loom_models {
    use super::*;
    use std::sync::Arc;

    /// An address belongs to its incarnation, and is whole.
    #[test]
    fn loom_an_address_is_whole_or_none() {
        loom::model(|| {
            let words = Arc::new(words(1));
            let mut writer = Writer::create(&words, 1, JOB, (0, 1)).unwrap();
            writer.publish(1, &[live(0, 0)]);
            writer.publish_address(RankIncarnation::new(0, 0), &[1; 16]);
            let theirs = words.clone();
            let rank = loom::thread::spawn(move || {
                let reader = Reader::open(&theirs, JOB).unwrap();
                let address = reader.address(0).unwrap();
                let life = reader.life(0).unwrap().life;
                if let Some(address) = address {
                    assert!(address == [1; 16] || address == [2; 16], "{address:?}");
                    assert!(address == [1; 16] || life.incarnation.0 == 1);
                }
            });
            writer.publish(2, &[live(0, 1)]);
            writer.publish_address(RankIncarnation::new(0, 1), &[2; 16]);
            rank.join().unwrap();
        });
    }

    /// A rank that sees a notice sees the change.
    #[test]
    fn loom_a_notice_comes_with_its_change() {
        loom::model(|| {
            let words = Arc::new(words(1));
            let mut writer = Writer::create(&words, 1, JOB, (0, 1)).unwrap();
            let theirs = words.clone();
            let rank = loom::thread::spawn(move || {
                let reader = Reader::open(&theirs, JOB).unwrap();
                let wave = reader.wave(0).unwrap();
                assert!(wave.wave == 0 || wave.target == 5);
                if reader.notice() > 1 {
                    assert_eq!((reader.epoch(), reader.life(0)), (3, Ok(live(0, 2))));
                }
            });
            writer.publish_wave(0, &WaveWords { wave: 1, target: 5, committed: 0, schedule: 0 });
            writer.publish(3, &[live(0, 2)]);
            rank.join().unwrap();
        });
    }
}
