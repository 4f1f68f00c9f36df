//! What outlives the processes of a rank, so that the next can go on from a checkpoint: files that the
//! launcher holds. Only the ranks read and write them, but for whose the last checkpoint is.

use super::ranks::RankEnv;
use super::{Args, Failure, in_words, say};
use crate::eventlog::{CheckpointSource, CopiedCheckpoint, RankLog};
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use taffrail_logging::store::{CheckpointFiles, LiveLog, Owner, Spill, Summary, empty_memory};

/// The variable that names the folder for what has no room in memory.
pub const SPILL: &str = "TAFFRAIL_SPILL";

/// Of one rank, which is a set by itself.
pub struct RankFiles {
    owner: Owner,
    /// Its checkpoints.
    checkpoints: File,
    /// Where its messages are logged.
    own: Arc<RankLog>,
    /// The log of the process that took the last checkpoint, if that is not the present one.
    former: Option<Arc<RankLog>>,
    spill: PathBuf,
}

/// What a rank finds in its files when it is started here for the first time.
#[derive(Default)]
pub struct FirstFiles {
    /// Its incarnation.
    pub incarnation: u32,
    /// Checkpoints are announced when they are on another node.
    pub copied_elsewhere: bool,
    /// The last one, if it was started elsewhere before.
    pub checkpoint: Option<CopiedCheckpoint>,
}

fn memory(name: &str) -> Result<File, Failure> {
    empty_memory(name).map(File::from).map_err(|e| Failure::new(e.to_string()))
}

impl RankLog {
    fn begin(incarnation: u32, spill: &Path) -> Result<Arc<RankLog>, Failure> {
        let file = Spill::file_in(spill).map_err(|e| {
            let folder = spill.display();
            Failure::new(format!(
                "no file can be made in {folder} (TAFFRAIL_SPILL): {}",
                in_words(&e)
            ))
        })?;
        let (memory, places) = (memory("taffrail-outbox")?, memory("taffrail-places")?);
        let files = LiveLog { memory, places, spill: file };
        Ok(Arc::new(RankLog { incarnation, files }))
    }

    fn hand_over(&self, variable: &'static str, env: &mut RankEnv) -> Result<(), Failure> {
        let mut numbers = Vec::new();
        for file in [&self.files.memory, &self.files.places, &self.files.spill] {
            numbers.push(env.inherit(file)?);
        }
        env.tell(variable, &numbers);
        Ok(())
    }
}

/// Where files are made that nobody else sees, for what has no room in memory.
pub fn spill_folder(args: &Args) -> PathBuf {
    let given = args.environment.iter().rev().find(|(name, _)| *name == SPILL);
    let given = given.map(|(_, folder)| folder.into());
    spill_folder_of(given.or_else(|| std::env::var_os(SPILL)))
}

/// The same, where the variable has this value.
pub fn spill_folder_of(given: Option<OsString>) -> PathBuf {
    given.map_or_else(std::env::temp_dir, PathBuf::from)
}

impl RankFiles {
    /// Of a rank that is about to be started here for the first time. None if it has to do without: a line says why it cannot
    /// take checkpoints then.
    ///
    /// # Errors
    /// It has a checkpoint, others have dropped what that covers, and it cannot go on from it.
    pub fn of(spill: &Path, owner: Owner, first: FirstFiles) -> Result<Option<RankFiles>, Failure> {
        let has_checkpoint = first.checkpoint.is_some();
        match RankFiles::make(spill, owner, first) {
            Ok(files) => Ok(Some(files)),
            Err(failure) if has_checkpoint => Err(failure),
            Err(Failure { why, .. }) => {
                say(&format!("rank {} can take no checkpoints: {why}", owner.rank));
                Ok(None)
            }
        }
    }

    fn make(spill: &Path, owner: Owner, first: FirstFiles) -> Result<RankFiles, Failure> {
        let FirstFiles { incarnation, copied_elsewhere, checkpoint } = first;
        let last = checkpoint.as_ref().map_or(0, |checkpoint| checkpoint.number);
        let (checkpoints, former) = match checkpoint {
            Some(CopiedCheckpoint { incarnation, checkpoint, places, spill, .. }) => {
                let files = LiveLog { memory: memory("taffrail-outbox")?, places, spill };
                (checkpoint, Some(Arc::new(RankLog { incarnation, files })))
            }
            None => (memory("taffrail-checkpoints")?, None),
        };
        let own = RankLog::begin(incarnation, spill)?;
        let files = RankFiles { owner, checkpoints, own, former, spill: spill.to_owned() };
        if copied_elsewhere {
            // The one that it has brought was announced.
            let held = files.open()?.let_announce(Some(last));
            held.map_err(|e| Failure::new(in_words(&e)))?;
        }
        Ok(files)
    }

    fn open(&self) -> Result<CheckpointFiles, Failure> {
        let file = self.checkpoints.try_clone().map_err(|e| Failure::new(in_words(&e)))?;
        CheckpointFiles::open(file, self.owner).map_err(|e| Failure::new(e.to_string()))
    }

    /// What is copied to another node.
    pub fn source(&self) -> Result<CheckpointSource, Failure> {
        let logs = [Some(&self.own), self.former.as_ref()];
        let logs = logs.into_iter().flatten().cloned().collect();
        Ok(CheckpointSource { rank: self.owner.rank, checkpoints: self.open()?, logs })
    }

    /// The present process has ended, and another one will be started. What that goes on from.
    pub fn begin_again(&mut self) -> Result<Option<Summary>, Failure> {
        let last = self.open()?.summary().map_err(|e| Failure::new(e.to_string()))?;
        let next = RankLog::begin(self.own.incarnation + 1, &self.spill)?;
        let before = std::mem::replace(&mut self.own, next);
        let whose = last.map(|last| last.incarnation);
        let logs = self.former.take().into_iter().chain([before]);
        self.former = logs.into_iter().find(|log| Some(log.incarnation) == whose);
        Ok(last)
    }

    /// Hands all of it to the process that is about to be started.
    pub fn hand_over(&self, env: &mut RankEnv) -> Result<(), Failure> {
        let checkpoints = env.inherit(&self.checkpoints)?;
        env.tell("TAFFRAIL_VAULT", &[checkpoints]);
        self.own.hand_over("TAFFRAIL_LOG_FILES", env)?;
        match &self.former {
            Some(former) => former.hand_over("TAFFRAIL_FORMER_FILES", env),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::IoSlice;

    fn files() -> RankFiles {
        let owner = Owner { rank: 2, job: 9 };
        RankFiles::make(&std::env::temp_dir(), owner, FirstFiles::default()).unwrap()
    }

    fn take(files: &RankFiles, clock: u64) {
        let mut checkpoints =
            CheckpointFiles::open(files.checkpoints.try_clone().unwrap(), files.owner).unwrap();
        let state = [IoSlice::new(b"state")];
        checkpoints.commit(files.own.incarnation, &clock.to_le_bytes(), &state).unwrap();
    }

    fn kept(files: &RankFiles) -> (u32, Option<u32>) {
        (files.own.incarnation, files.former.as_ref().map(|log| log.incarnation))
    }

    #[test]
    fn the_log_stays_that_the_last_checkpoint_refers_to() {
        let mut files = files();
        assert_eq!(files.begin_again().unwrap(), None);
        assert_eq!(kept(&files), (1, None));
        take(&files, 17);
        let first = Summary { number: 1, incarnation: 1, clock: 17 };
        assert_eq!(files.begin_again().unwrap(), Some(first));
        assert_eq!(kept(&files), (2, Some(1)));
        // Killed before it had one of its own.
        assert_eq!(files.begin_again().unwrap(), Some(first));
        assert_eq!(kept(&files), (3, Some(1)));
        take(&files, 20);
        let second = Summary { number: 2, incarnation: 3, clock: 20 };
        assert_eq!(files.begin_again().unwrap(), Some(second));
        assert_eq!(kept(&files), (4, Some(3)));
    }

    /// As it was copied: it is continued with the next number, and may be announced as it was.
    #[test]
    fn what_was_started_elsewhere_brings_its_checkpoint() {
        let files = files();
        take(&files, 40);
        let [checkpoint, places, spill] =
            [&files.checkpoints, &files.own.files.places, &files.own.files.spill]
                .map(|file| file.try_clone().unwrap());
        let checkpoint = CopiedCheckpoint { number: 1, incarnation: 0, checkpoint, places, spill };
        let first =
            FirstFiles { incarnation: 5, copied_elsewhere: true, checkpoint: Some(checkpoint) };
        let mut there = RankFiles::make(&std::env::temp_dir(), files.owner, first).unwrap();
        assert_eq!(kept(&there), (5, Some(0)));
        let rank = there.open().unwrap().announcements().unwrap();
        assert!(rank.may_announce(1) && !rank.may_announce(2));
        let logs: Vec<u32> =
            there.source().unwrap().logs.iter().map(|log| log.incarnation).collect();
        assert_eq!(logs, [5, 0]);
        let before = Summary { number: 1, incarnation: 0, clock: 40 };
        assert_eq!(there.begin_again().unwrap(), Some(before));
        assert_eq!(kept(&there), (6, Some(0)));
    }

    #[test]
    fn a_process_is_told_of_its_files() {
        let mut files = files();
        let names = |files: &RankFiles| {
            let mut env = RankEnv::default();
            files.hand_over(&mut env).unwrap();
            let names: Vec<_> = env.names().collect();
            (names, env.inherited.len())
        };
        assert_eq!(names(&files), (vec!["TAFFRAIL_VAULT", "TAFFRAIL_LOG_FILES"], 4));
        take(&files, 1);
        files.begin_again().unwrap();
        let all = vec!["TAFFRAIL_VAULT", "TAFFRAIL_LOG_FILES", "TAFFRAIL_FORMER_FILES"];
        assert_eq!(names(&files), (all, 7));
    }
}
