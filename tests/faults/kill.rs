//! `kill -9` at any point: of whoever sends, receives, reads, writes, starts or leaves.
//!
//! Survivors learn of it in time, get an error for everything that needs the dead, deliver whole
//! messages only, go on with each other, end in good order, and nothing is left behind.

use super::LONG;
use super::family::Family;
use std::time::{Duration, Instant};

/// Kills in an ordinary run.
const KILLS: u32 = 60;
/// Within this time after the death every operation with the dead must have failed: 2 s, and
/// something for a machine that does much else.
const NEWS: Duration = Duration::from_secs(5);

/// When a process is killed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    Starting,
    Talking,
    Leaving,
}

/// What a test has seen.
#[derive(Default)]
struct Seen {
    kills: u32,
    slowest: Duration,
    all: Duration,
    news: u32,
}

#[test]
fn a_killed_process_harms_nobody() {
    let start = Instant::now();
    let number = |name: &str| std::env::var(name).ok().map(|n| n.parse().expect("a number"));
    let mut seen = Seen::default();
    if let Some(seed) = number("TAFFRAIL_SEED") {
        round(seed, &mut seen).unwrap_or_else(|why| fail(seed, &why));
        return;
    }
    let kills = number("TAFFRAIL_KILLS").map_or(KILLS, |n| u32::try_from(n).expect("a count"));
    while seen.kills < kills {
        let seed = fastrand::u64(..1 << 48);
        round(seed, &mut seen).unwrap_or_else(|why| fail(seed, &why));
    }
    println!(
        "{kills} kills in {:.1} s; news of a death took {:.1} ms, at most {:.1} ms",
        start.elapsed().as_secs_f64(),
        seen.all.as_secs_f64() * 1e3 / f64::from(seen.news.max(1)),
        seen.slowest.as_secs_f64() * 1e3
    );
}

fn fail(seed: u64, why: &str) -> ! {
    panic!(
        "{why}\nRepeat with: TAFFRAIL_SEED={seed} cargo test --test faults \
         kill::a_killed_process_harms_nobody"
    )
}

/// One family, of which one or more are killed.
fn round(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut random = fastrand::Rng::with_seed(seed);
    let ranks = random.u32(2..=4);
    let lanes = match random.u32(..4) {
        0 => (1 << 13) - 1,
        1 => 1 << random.u32(..13),
        _ => random.u64(1..1 << 13),
    };
    let when = [When::Starting, When::Talking, When::Talking, When::Talking, When::Leaving];
    let when = when[random.usize(..when.len())];
    let settings = [
        ("FAULTS_SEED", seed.to_string()),
        ("FAULTS_LANES", lanes.to_string()),
        ("TAFFRAIL_CONNECT_TIMEOUT", "3".to_owned()),
    ];
    let mut family = Family::start(ranks, "traffic", &settings);
    let mut alive: Vec<usize> = (0..ranks as usize).collect();
    let told = match when {
        When::Starting => starting(&mut family, &mut random, &mut alive, seen),
        When::Talking => talking(&mut family, &mut random, &mut alive, seen),
        When::Leaving => leaving(&mut family, &mut random, &mut alive, seen),
    };
    told.map_err(|why| {
        let others = if why.contains("---") { String::new() } else { family.report() };
        format!("{when:?}, {ranks} ranks, lanes {lanes:#x}: {why}{others}")
    })?;
    family.look_for_remains()
}

/// Kills one of those that live, after some time.
fn kill(
    family: &mut Family,
    random: &mut fastrand::Rng,
    alive: &mut Vec<usize>,
    seen: &mut Seen,
    within: Duration,
) -> (usize, Instant) {
    let victim = alive.swap_remove(random.usize(..alive.len()));
    std::thread::sleep(Duration::from_micros(random.u64(..within.as_micros() as u64)));
    seen.kills += 1;
    (victim, family.kill(victim))
}

fn starting(
    family: &mut Family,
    random: &mut fastrand::Rng,
    alive: &mut Vec<usize>,
    seen: &mut Seen,
) -> Result<(), String> {
    let (victim, _) = kill(family, random, alive, seen, Duration::from_millis(80));
    for rank in alive.clone() {
        // Those that meet all but the dead say so, or find out afterwards.
        let (_, word) = family.hear(rank, LONG)?;
        match word.split(' ').next() {
            Some("setup") => family.end(rank, LONG)?,
            Some("up") => family.tell(rank, "stop"),
            _ => return Err(format!("rank {rank} said {word:?} when rank {victim} was killed")),
        }
    }
    alive.iter().try_for_each(|&rank| family.end(rank, LONG))
}

fn all_up(family: &mut Family, alive: &[usize]) -> Result<(), String> {
    for &rank in alive {
        let (_, word) = family.hear(rank, LONG)?;
        if word != "up" {
            return Err(format!("rank {rank} said {word:?}, it should be up"));
        }
    }
    Ok(())
}

fn talking(
    family: &mut Family,
    random: &mut fastrand::Rng,
    alive: &mut Vec<usize>,
    seen: &mut Seen,
) -> Result<(), String> {
    all_up(family, alive)?;
    let kills = if alive.len() > 2 { random.usize(1..alive.len()) } else { 1 };
    for _ in 0..kills {
        let (victim, at) = kill(family, random, alive, seen, Duration::from_millis(60));
        for &rank in &*alive {
            let (heard, word) = family.hear(rank, LONG)?;
            if word != format!("lost {victim}") {
                return Err(format!("rank {rank} said {word:?}, rank {victim} was killed"));
            }
            let took = heard.saturating_duration_since(at);
            if took > NEWS {
                return Err(format!("rank {rank} needed {took:?} to lose rank {victim}"));
            }
            seen.news += 1;
            seen.all += took;
            seen.slowest = seen.slowest.max(took);
        }
        for &rank in &*alive {
            let (_, word) = family.hear(rank, LONG)?;
            if word != format!("on {victim}") {
                return Err(format!("rank {rank} said {word:?}, it should go on"));
            }
        }
    }
    stop(family, alive);
    part(family, alive)
}

fn leaving(
    family: &mut Family,
    random: &mut fastrand::Rng,
    alive: &mut Vec<usize>,
    seen: &mut Seen,
) -> Result<(), String> {
    all_up(family, alive)?;
    std::thread::sleep(Duration::from_millis(random.u64(..20)));
    stop(family, alive);
    kill(family, random, alive, seen, Duration::from_millis(15));
    part(family, alive)
}

fn stop(family: &mut Family, alive: &[usize]) {
    for &rank in alive {
        family.tell(rank, "stop");
    }
}

/// The living end by themselves.
fn part(family: &mut Family, alive: &[usize]) -> Result<(), String> {
    for &rank in alive {
        while family.hear(rank, LONG)?.1 != "bye" {}
        family.end(rank, LONG)?;
    }
    Ok(())
}
