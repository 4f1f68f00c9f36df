//! What the launcher tells a rank whose messages are logged (`docs/logging.md`, `taffrail run`).

use super::previous::LogFiles;
use crate::engine::log::host::{LoggingConfig, PAGE_RUNS};
use crate::words::counted;
use crate::{Error, Rank, environment, units};
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bytes of the payload log that are kept in memory, unless it is said otherwise.
const MEMORY: usize = 1 << 30;
/// Bytes of it that are there from the beginning then, unless others wait for this rank to be there again. What
/// was asked for is there from the beginning.
const RESERVE: usize = 16 << 20;

/// How the messages of this rank are logged, and what the launcher has given it for that.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) config: LoggingConfig,
    /// Of each rank, how many restarts the job had seen when it was started.
    pub(crate) generations: Vec<u32>,
    /// The event rings of our set.
    pub(crate) rings: Vec<(Rank, OwnedFd)>,
    /// The events of earlier incarnations.
    pub(crate) replay: Option<OwnedFd>,
    /// In causal logging over nodes, memory for what this rank holds of others.
    pub(crate) held: Option<OwnedFd>,
    /// Bytes of the payload log's memory that are there from the beginning: new memory is several times slower.
    pub(crate) reserve: usize,
    /// What outlives the processes of this rank, so that it can take checkpoints.
    pub(crate) estate: Option<Estate>,
}

/// Files of a rank that its launcher holds.
#[derive(Debug)]
pub(crate) struct Estate {
    /// Its checkpoints.
    pub(crate) checkpoints: OwnedFd,
    /// Where this process is to log.
    pub(crate) own: LogFiles,
    /// Where the process has logged that has taken the last checkpoint.
    pub(crate) former: Option<LogFiles>,
}

impl Setting {
    /// The file for the memory that messages leave from, if its launcher holds it.
    pub(crate) fn log_memory(&self) -> Option<Arc<OwnedFd>> {
        self.estate.as_ref().map(|estate| estate.own.memory.clone())
    }

    /// From the environment; `None` when nothing is logged. The descriptors are taken once in a
    /// process.
    ///
    /// # Errors
    /// [`Error::Setting`] when what the launcher says makes no sense.
    pub(crate) fn from_env(rank: Rank, ranks: u32) -> Result<Option<Setting>, Error> {
        static TAKEN: AtomicBool = AtomicBool::new(false);
        if !environment::is_logged() {
            return Ok(None);
        }
        let open = |fd: RawFd| take(fd);
        if TAKEN.swap(true, Ordering::Relaxed) {
            return Err(Error::NotLogged {
                what: "a second endpoint of a process",
                remedy: "use one endpoint, or start the job without --logging (an MPI that is initialised again, \
                         as by a second session, opens one each time; MPICH 5 does not with \
                         MPIR_CVAR_FINALIZE_ATEXIT=1)",
            });
        }
        Setting::from_lookup(environment::value, open, rank, ranks).map(Some)
    }

    fn from_lookup(
        look: impl Fn(&str) -> Option<String>,
        open: impl Fn(RawFd) -> Result<OwnedFd, String>,
        rank: Rank,
        ranks: u32,
    ) -> Result<Setting, Error> {
        let wrong = |name, expected: &str| {
            let got = look(name).unwrap_or_else(|| "nothing".into());
            Error::Setting { name, expected: expected.into(), got }
        };
        let choice = |name: &'static str, first: &str, second: &str| match look(name).as_deref() {
            Some(text) if text == first => Ok(false),
            Some(text) if text == second => Ok(true),
            None => Ok(false),
            _ => Err(wrong(name, &format!("{first} or {second}"))),
        };
        let causal = match look("TAFFRAIL_LOGGING").as_deref() {
            Some("pessimistic") => false,
            Some("causal") => true,
            _ => return Err(wrong("TAFFRAIL_LOGGING", "none, pessimistic or causal")),
        };
        let for_each = |name: &'static str| -> Result<Vec<u32>, Error> {
            let list = look(name).and_then(|text| numbers(&text, ','));
            let right = list.filter(|list| list.len() == ranks as usize);
            right.ok_or_else(|| {
                wrong(name, &format!("{}, one for each rank", counted(ranks, "number")))
            })
        };
        let sets = for_each("TAFFRAIL_SETS")?;
        let generations = for_each("TAFFRAIL_GENERATIONS")?;
        let number = |name: &'static str| -> Result<Option<u64>, Error> {
            look(name).map(|t| t.parse().map_err(|_| wrong(name, "a number"))).transpose()
        };
        let incarnation = number("TAFFRAIL_INCARNATION")?.unwrap_or(0) as u32;
        let wanted = look("TAFFRAIL_LOG_MEMORY").map(|text| {
            let bytes = units::parse_size(&text);
            bytes.map_err(|e| wrong("TAFFRAIL_LOG_MEMORY", &e.expected)).map(|bytes| bytes as usize)
        });
        let wanted = wanted.transpose()?;
        let fellows = (0..ranks).filter(|&other| sets[other as usize] == sets[rank as usize]);
        let pairs = look("TAFFRAIL_RINGS").unwrap_or_default();
        let mut rings = Vec::new();
        for fellow in fellows {
            let of_it = pairs.split(',').find_map(|pair| {
                let pair: Vec<u32> = numbers(pair, ':')?;
                (pair.len() == 2 && pair[0] == fellow).then(|| pair[1] as RawFd)
            });
            let fd = of_it.ok_or_else(|| {
                wrong("TAFFRAIL_RINGS", &format!("RANK:DESCRIPTOR for rank {fellow} too"))
            })?;
            let fd = open(fd).map_err(|why| wrong("TAFFRAIL_RINGS", &why))?;
            rings.push((fellow, fd));
        }
        let replay = match look("TAFFRAIL_REPLAY").as_deref() {
            Some("none") => None,
            _ => number("TAFFRAIL_REPLAY")?,
        };
        let replay =
            replay.map(|fd| open(fd as RawFd).map_err(|why| wrong("TAFFRAIL_REPLAY", &why)));
        let fd = |name: &'static str, fd: RawFd| open(fd).map_err(|why| wrong(name, &why));
        let held = number("TAFFRAIL_HELD")?.map(|held| fd("TAFFRAIL_HELD", held as RawFd));
        let log_files = |name: &'static str| -> Result<Option<LogFiles>, Error> {
            let Some(text) = look(name) else { return Ok(None) };
            match numbers(&text, ',').as_deref() {
                Some(&[memory, places, spill]) => Ok(Some(LogFiles {
                    memory: Arc::new(fd(name, memory)?),
                    places: fd(name, places)?,
                    spill: fd(name, spill)?,
                })),
                _ => Err(wrong(name, "three descriptors: memory, places, file")),
            }
        };
        let checkpoints =
            number("TAFFRAIL_VAULT")?.map(|checkpoints| fd("TAFFRAIL_VAULT", checkpoints as RawFd));
        let estate = match (checkpoints.transpose()?, log_files("TAFFRAIL_LOG_FILES")?) {
            (Some(checkpoints), Some(own)) => {
                Some(Estate { checkpoints, own, former: log_files("TAFFRAIL_FORMER_FILES")? })
            }
            (None, None) => None,
            (Some(_), None) => return Err(wrong("TAFFRAIL_LOG_FILES", "it, with TAFFRAIL_VAULT")),
            (None, Some(_)) => return Err(wrong("TAFFRAIL_VAULT", "it, with TAFFRAIL_LOG_FILES")),
        };
        Ok(Setting {
            estate,
            config: LoggingConfig {
                causal,
                all_events: choice("TAFFRAIL_EVENTS", "nondeterministic", "all")?,
                sets,
                incarnation,
                memory: wanted.unwrap_or(MEMORY),
                page_runs: PAGE_RUNS,
            },
            generations,
            rings,
            replay: replay.transpose()?,
            held: held.transpose()?,
            reserve: wanted.unwrap_or(if incarnation == 0 { RESERVE } else { 0 }),
        })
    }
}

fn numbers<T: FromStr>(text: &str, between: char) -> Option<Vec<T>> {
    text.split(between).map(|number| number.trim().parse().ok()).collect()
}

/// A descriptor that the launcher left open for this process.
pub(crate) fn take(fd: RawFd) -> Result<OwnedFd, String> {
    if fd <= 2 {
        return Err("a descriptor above 2".into());
    }
    // SAFETY: the launcher has opened it for this library, and it is taken once only. If it is not
    // open at all it is given up unclosed below.
    let owned = unsafe { OwnedFd::from_raw_fd(fd) };
    match rustix::io::fcntl_setfd(&owned, rustix::io::FdFlags::CLOEXEC) {
        Ok(()) => Ok(owned),
        Err(errno) => {
            std::mem::forget(owned);
            Err(format!(
                "an open descriptor, {fd} is not ({errno}); did a shell or wrapper between close it?"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    fn read(env: &[(&str, &str)]) -> Result<Setting, Error> {
        let mut all = HashMap::from([
            ("TAFFRAIL_LOGGING", "pessimistic"),
            ("TAFFRAIL_SETS", "0,0,1"),
            ("TAFFRAIL_GENERATIONS", "0,0,2"),
            ("TAFFRAIL_RINGS", "0:11,1:12"),
        ]);
        all.extend(env.iter().copied());
        let open = |fd| match fd {
            11..=18 => Ok(std::fs::File::open("/dev/null").unwrap().into()),
            _ => Err("an open one".to_owned()),
        };
        Setting::from_lookup(|name| all.get(name).map(|s| s.to_string()), open, 1, 3)
    }

    #[test]
    fn what_the_launcher_says_is_read() {
        let setting = read(&[("TAFFRAIL_EVENTS", "all"), ("TAFFRAIL_LOG_MEMORY", "4096")]).unwrap();
        let LoggingConfig { causal, all_events, sets, incarnation, memory, .. } = setting.config;
        assert_eq!((sets, setting.generations), (vec![0, 0, 1], vec![0, 0, 2]));
        assert_eq!(setting.rings.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), [0, 1]);
        assert!(all_events && setting.replay.is_none());
        assert_eq!((incarnation, memory, causal), (0, 4096, false));
        assert!(read(&[("TAFFRAIL_LOGGING", "causal")]).unwrap().config.causal);
        let again = read(&[("TAFFRAIL_INCARNATION", "3"), ("TAFFRAIL_REPLAY", "12")]).unwrap();
        assert!(again.replay.is_some() && again.config.incarnation == 3);
        assert!(!again.config.all_events);
        assert!(again.estate.is_none());
        assert!(again.held.is_none() && read(&[("TAFFRAIL_HELD", "13")]).unwrap().held.is_some());
        assert!(read(&[("TAFFRAIL_REPLAY", "none")]).unwrap().replay.is_none());
        assert!(read(&[("TAFFRAIL_REPLAY", "0012")]).unwrap().replay.is_some());
        let files = [("TAFFRAIL_VAULT", "13"), ("TAFFRAIL_LOG_FILES", "14,15,16")];
        assert!(read(&files).unwrap().estate.unwrap().former.is_none());
        let former = [&files[..], &[("TAFFRAIL_FORMER_FILES", "16,17,18")]].concat();
        assert!(read(&former).unwrap().estate.unwrap().former.is_some());
    }

    #[test]
    fn nonsense_is_named() {
        for (name, value) in [
            ("TAFFRAIL_LOGGING", "thorough"),
            ("TAFFRAIL_SETS", "0,0"),
            ("TAFFRAIL_SETS", "0,0,x"),
            ("TAFFRAIL_GENERATIONS", ""),
            ("TAFFRAIL_RINGS", "1:12"),
            ("TAFFRAIL_RINGS", "0:11,1:19"),
            ("TAFFRAIL_REPLAY", "9"),
            ("TAFFRAIL_EVENTS", "some"),
            ("TAFFRAIL_LOG_MEMORY", "much"),
            ("TAFFRAIL_INCARNATION", "-1"),
            ("TAFFRAIL_VAULT", "x"),
            ("TAFFRAIL_HELD", "9"),
            ("TAFFRAIL_LOG_FILES", "14,15"),
            ("TAFFRAIL_LOG_FILES", "14,15,9"),
        ] {
            match read(&[(name, value)]).unwrap_err() {
                Error::Setting { name: said, got, .. } => assert_eq!((said, &*got), (name, value)),
                other => panic!("{other}"),
            }
        }
    }
}
