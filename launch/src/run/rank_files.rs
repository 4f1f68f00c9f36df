//! What outlives the processes of a rank, so that the next can go on from a checkpoint: files that the
//! launcher holds. Only the ranks read and write them, but for whose the last checkpoint is.

use super::ranks::RankEnv;
use super::{Args, Failure, in_words, say};
use std::ffi::OsString;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use taffrail_logging::store::{CheckpointFiles, Owner, Spill, Summary, empty_memory};

/// The variable that names the folder for what has no room in memory.
pub const SPILL: &str = "TAFFRAIL_SPILL";

/// Of one rank, which is a set by itself.
pub struct RankFiles {
    owner: Owner,
    /// Its checkpoints.
    checkpoints: File,
    /// Where its messages are logged.
    own: Log,
    /// The log of the process that took the last checkpoint, if that is not the present one.
    former: Option<Log>,
    spill: PathBuf,
}

/// The files of the log of one process.
struct Log {
    incarnation: u32,
    memory: OwnedFd,
    places: OwnedFd,
    spill: OwnedFd,
}

impl Log {
    fn new(incarnation: u32, spill: &Path) -> Result<Log, Failure> {
        let memory = |name| empty_memory(name).map_err(|e| Failure::new(e.to_string()));
        let file = Spill::file_in(spill).map_err(|e| {
            let folder = spill.display();
            Failure::new(format!(
                "no file can be made in {folder} (TAFFRAIL_SPILL): {}",
                in_words(&e)
            ))
        })?;
        Ok(Log {
            incarnation,
            memory: memory("taffrail-outbox")?,
            places: memory("taffrail-places")?,
            spill: file.into(),
        })
    }

    fn hand_over(&self, variable: &'static str, env: &mut RankEnv) -> Result<(), Failure> {
        let mut numbers = Vec::new();
        for file in [&self.memory, &self.places, &self.spill] {
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
    /// Of a rank that is about to be started here for the first time, as this incarnation. None if it has to do without: a
    /// line says why it cannot take checkpoints then.
    pub fn of(spill: &Path, owner: Owner, incarnation: u32) -> Option<RankFiles> {
        let spill = spill.to_owned();
        let made = Log::new(incarnation, &spill).and_then(|own| {
            let checkpoints = empty_memory("taffrail-checkpoints");
            Ok((own, checkpoints.map_err(|e| Failure::new(e.to_string()))?))
        });
        match made {
            Ok((own, checkpoints)) => {
                Some(RankFiles { owner, checkpoints: checkpoints.into(), own, former: None, spill })
            }
            Err(Failure { why, .. }) => {
                say(&format!("rank {} can take no checkpoints: {why}", owner.rank));
                None
            }
        }
    }

    /// The number of the last checkpoint, if there is one.
    pub fn last_checkpoint(&self) -> Option<u64> {
        let checkpoints =
            CheckpointFiles::open(self.checkpoints.try_clone().ok()?, self.owner).ok()?;
        Some(checkpoints.summary().ok()??.number)
    }

    /// The present process has ended, and another one will be started. What that goes on from.
    pub fn begin_again(&mut self) -> Result<Option<Summary>, Failure> {
        let last = self.checkpoints.try_clone().map_err(|e| Failure::new(in_words(&e))).and_then(
            |file| {
                let checkpoints = CheckpointFiles::open(file, self.owner)
                    .and_then(|checkpoints| checkpoints.summary());
                checkpoints.map_err(|e| Failure::new(e.to_string()))
            },
        )?;
        let next = Log::new(self.own.incarnation + 1, &self.spill)?;
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
        let (owner, spill) = (Owner { rank: 2, job: 9 }, std::env::temp_dir());
        let checkpoints = empty_memory("test").unwrap().into();
        RankFiles { owner, checkpoints, own: Log::new(0, &spill).unwrap(), former: None, spill }
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
