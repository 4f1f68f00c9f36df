//! A peer that breaks the protocol: a process of the job that joins as every other one and then
//! writes nonsense, a field at a time. Its victim loses this peer, with an error that says why, or
//! does not care; it goes on with the third rank, and nothing is left behind.
//!
//! One family of three processes does a whole table of cases, each with endpoints of its own.

mod attacker;
mod case;
mod control;
mod flood;
mod hello;
mod packets;
mod raw;
mod slots;
mod victim;
mod words;

use super::LONG;
use super::family::{Family, orders, say};
use super::limits::impose;
use case::{Case, Seen};
use std::rc::Rc;
use std::sync::mpsc::Receiver;
use taffrail::{Job, Settings};

/// Tags of what is under way between the victim and the hostile rank.
const R_TAG: u64 = 1;
const L_TAG: u64 = 2;
const S_TAG: u64 = 3;
const Y_TAG: u64 = 4;
const HELLO_TAG: u64 = 6;
const KEY_TAG: u64 = 7;
const Z_TAG: u64 = 9;
/// Bytes of the victim's registered memory.
const OWN: usize = 4096;

/// Who is who.
#[derive(Clone, Copy)]
struct Roles {
    victim: u32,
    hostile: u32,
    bystander: u32,
}

const FIRST_HOSTILE: Roles = Roles { victim: 1, hostile: 0, bystander: 2 };
const FIRST_VICTIM: Roles = Roles { victim: 0, hostile: 1, bystander: 2 };

#[test]
fn every_field_of_a_slot() {
    run("slots", FIRST_VICTIM, "None");
}

#[test]
fn every_word_beside_the_rings() {
    run("words", FIRST_VICTIM, "None");
}

#[test]
fn every_word_beside_the_rings_of_a_higher_rank() {
    run("words", FIRST_HOSTILE, "None");
}

#[test]
fn every_packet() {
    run("packets", FIRST_VICTIM, "None");
}

#[test]
fn every_control_message() {
    run("control", FIRST_VICTIM, "None");
}

#[test]
fn every_control_message_when_the_kernel_moves_nothing() {
    run("control", FIRST_VICTIM, "Cma");
}

#[test]
fn floods() {
    run("floods", FIRST_VICTIM, "None");
}

#[test]
fn every_field_of_hello() {
    hello::run();
}

fn table(name: &str) -> Vec<Case> {
    match name {
        "slots" => slots::cases(),
        "words" => words::cases(),
        "packets" => packets::cases(),
        "control" => control::cases(),
        "floods" => flood::cases(),
        other => panic!("no table {other}"),
    }
}

/// Does a whole table, and says of all cases that went wrong.
fn run(name: &str, roles: Roles, limit: &str) {
    let settings = [
        ("FAULTS_TABLE", name.to_owned()),
        ("FAULTS_VICTIM", roles.victim.to_string()),
        ("FAULTS_LIMIT", limit.to_owned()),
        ("TAFFRAIL_UNEXPECTED", "1M".to_owned()),
        ("TAFFRAIL_UNEXPECTED_MAX", "4M".to_owned()),
    ];
    let mut family = Family::start(3, "hostile", &settings);
    let mut wrong = Vec::new();
    for (number, case) in table(name).iter().enumerate() {
        if !case.applies(limit) || !is_chosen(case) {
            continue;
        }
        match one(&mut family, roles, number, case) {
            Ok(None) => {}
            Ok(Some(why)) => wrong.push(format!("{}: {why}", case.name)),
            Err(why) => panic!("{}: {why}\n{}", case.name, wrong.join("\n")),
        }
    }
    for rank in 0..3 {
        family.tell(rank, "end");
        family.end(rank, LONG).unwrap_or_else(|why| panic!("{why}"));
    }
    let report = if wrong.is_empty() { String::new() } else { family.report() };
    family.look_for_remains().unwrap();
    assert!(wrong.is_empty(), "{}{report}", wrong.join("\n"));
}

/// Whether a case is done: all are, unless the environment names one.
fn is_chosen(case: &Case) -> bool {
    std::env::var("TAFFRAIL_CASE").map_or(true, |name| case.name.contains(&name))
}

/// One case. What is wrong with it, if anything; an error if nothing more can be done.
fn one(
    family: &mut Family,
    roles: Roles,
    number: usize,
    case: &Case,
) -> Result<Option<String>, String> {
    let Roles { victim, hostile, bystander } = roles;
    for rank in 0..3 {
        family.tell(rank, &number.to_string());
    }
    let (_, seen) = family.hear(victim as usize, LONG * 4)?;
    family.tell(hostile as usize, "leave");
    let mut end = |rank: u32, word: &str| {
        let (_, said) = family.hear(rank as usize, LONG * 4)?;
        if said == word { Ok(()) } else { Err(format!("rank {rank} said {said:?}, not {word:?}")) }
    };
    end(victim, "clean")?;
    end(bystander, "done")?;
    end(hostile, "left")?;
    Ok((!case.is_right(&seen)).then(|| format!("{seen:?}, should be {:?}", case.seen)))
}

/// A worker.
pub fn work() {
    let variable = |name: &str| std::env::var(name).expect("set by the parent");
    if variable("FAULTS_TABLE") == "hello" {
        return hello::work();
    }
    let cases = table(&variable("FAULTS_TABLE"));
    let roles = match variable("FAULTS_VICTIM").as_str() {
        "0" => FIRST_VICTIM,
        _ => FIRST_HOSTILE,
    };
    let orders = Rc::new(orders());
    let mut job = Job::from_env().expect("a job");
    if job.rank() == roles.victim {
        impose::impose(&variable("FAULTS_LIMIT"));
    }
    let settings = Settings::from_env().expect("settings");
    while let Ok(order) = orders.recv() {
        if order == "end" {
            return;
        }
        let case = &cases[order.parse::<usize>().expect("a number")];
        match job.rank() {
            rank if rank == roles.victim => {
                victim::victim(&mut job, roles, &settings, case);
            }
            rank if rank == roles.bystander => victim::bystander(&mut job, roles, &settings),
            _ => attack(&mut job, roles, &settings, case, &orders),
        }
    }
}

fn attack(
    job: &mut Job,
    roles: Roles,
    settings: &Settings,
    case: &Case,
    orders: &Rc<Receiver<String>>,
) {
    let line = job.bare_line(settings).expect("a line");
    let mut hostile = attacker::Hostile::new(line, roles, orders);
    hostile.learn();
    (case.act)(&mut hostile);
    if let Seen::Fine(_) = case.seen {
        hostile.as_if_nothing();
    }
    // Those who have done nothing wrong go on reading.
    while !hostile.is_dismissed() {
        if matches!(case.seen, Seen::Fine(_)) {
            hostile.look();
        }
        std::thread::yield_now();
    }
    drop(hostile);
    say(format_args!("left"));
}
