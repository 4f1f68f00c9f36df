//! The `tune` command.

use super::choice::{self, Choice};
use super::measure::{self, Candidate, Figures, SIZES};
use crate::limits::Handover;
use crate::machine::{self, Machine};
use crate::session::{Member, Placement, Session};
use crate::table::bytes;
use crate::{Error, progress};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use taffrail::{Settings, Tuning};
use taffrail_shm::Costs;

/// Measures what the ways of long messages cost on this host, for every endpoint to start from
#[derive(Clone, Debug, clap::Args)]
pub struct Tune {
    /// Write here; by default to taffrail/HOST.toml in $XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show the file and measure nothing
    #[arg(long)]
    pub show: bool,
}

impl Tune {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        let file = self.file()?;
        if self.show {
            return show(&file);
        }
        // Nothing of what is in the file or the environment may bear on the figures.
        match Session::start_with(2, Placement::Pinned, Settings::default())? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => be_a_rank(*member, &file).map(|()| ExitCode::SUCCESS),
        }
    }

    fn file(&self) -> Result<PathBuf, Error> {
        let nowhere = "no home folder to keep the file in; say where with --output FILE";
        let file = self.output.clone().or_else(Tuning::default_file);
        file.ok_or_else(|| Error::Usage(nowhere.into()))
    }
}

fn show(file: &Path) -> Result<ExitCode, Error> {
    if !file.exists() {
        println!("{}: not there; `taffrail-perf tune` writes it", file.display());
        return Ok(ExitCode::SUCCESS);
    }
    Tuning::read(file)?;
    println!("{}:", file.display());
    print!("{}", std::fs::read_to_string(file).map_err(Error::file(file))?);
    Ok(ExitCode::SUCCESS)
}

fn be_a_rank(mut member: Member, file: &Path) -> Result<(), Error> {
    let handover = member.handover()?;
    let reports = member.reports();
    if reports {
        println!("{}", Machine::here());
        machine::announce(handover.as_ref());
    }
    let bar = progress::bar(reports, measure::ROUNDS_IN_ALL);
    let pieces = choice::PIECES.map(Candidate::Pieces);
    let figures = measure::measure(&mut member.job, &pieces, &choice::PIECES_AT, &bar)?;
    let piece = member.agree(choice::best_piece(&figures).unwrap_or_default())?;
    let usual = Costs::default().piece;
    let candidates = [
        Candidate::Pieces(piece),
        Candidate::Streaming(piece),
        Candidate::Read,
        Candidate::Mapped,
        Candidate::Eager(piece),
        Candidate::Pieces(usual),
    ];
    // The usual piece is there to compare with, once.
    let candidates = &candidates[..if piece == usual { 5 } else { 6 }];
    let figures = measure::measure(&mut member.job, candidates, &SIZES, &bar)?;
    bar.finish_and_clear();
    if reports {
        let denied = member.endpoint.reads_memory_of(1).err();
        if let Some(denied) = &denied {
            println!("{denied}");
        }
        let choice = choice::choose(&figures, piece, denied.is_none())
            .ok_or_else(|| Error::Usage("a measurement is missing; run it again".into()))?;
        report(&choice, &figures, denied.is_none());
        let before = if file.exists() { Some(Tuning::read(file)) } else { None };
        if let Some(Err(error)) = &before {
            println!("replaced: {error}");
        }
        write(file, &choice.tuning, handover)?;
        say_what_changed(file, before.and_then(Result::ok), &choice);
    }
    Ok(member.job.barrier()?)
}

/// The figures, the best way of each size and what the usual choice would take.
fn report(choice: &Choice, figures: &Figures, kernel_reads: bool) {
    let piece = choice.tuning.piece;
    let us = |candidate, size| match figures.ns(candidate, size) {
        Some(ns) => format!("{:9.1}", ns / 1e3),
        None => format!("{:>9}", "-"),
    };
    println!("\nHalf a round trip in us; pieces of {}:", bytes(piece));
    println!("    size    eager   pieces streaming     read   mapped   best announced, gain");
    for size in SIZES {
        let read = if kernel_reads { us(Candidate::Read, size) } else { format!("{:>9}", "-") };
        let Some((best, best_ns)) = choice::best_way(figures, piece, kernel_reads, size) else {
            continue;
        };
        let first = choice::usual_way(figures, kernel_reads, size);
        let gain = first.map_or(0.0, |(_, ns)| (1.0 - best_ns / ns) * 100.0);
        println!(
            "{:>8}{}{} {}{read}{}   {}, {gain:.0}%",
            bytes(size),
            us(Candidate::Eager(piece), size),
            us(Candidate::Pieces(piece), size),
            us(Candidate::Streaming(piece), size),
            us(Candidate::Mapped, size),
            name(best),
        );
    }
    println!(
        "Gain: over what an endpoint without this file begins with; in time it finds the best way \
         itself,\nbut not the best piece."
    );
    if choice.eager_best < choice.tuning.eager_max {
        println!(
            "Announcing is faster from {} on already; since programs may count on sends of up to \
             {}\nthat wait for nobody, the file does not say so. If yours do not: \
             TAFFRAIL_EAGER_MAX={}",
            bytes(choice.eager_best * 2),
            bytes(choice.tuning.eager_max),
            choice.eager_best
        );
    }
}

fn name(candidate: Candidate) -> &'static str {
    match candidate {
        Candidate::Pieces(_) => "pieces",
        Candidate::Streaming(_) => "streaming",
        Candidate::Read => "read",
        Candidate::Mapped => "mapped",
        Candidate::Eager(_) => "eager",
    }
}

fn say_what_changed(file: &Path, before: Option<Tuning>, choice: &Choice) {
    let (was, piece, eager_max) = match &before {
        Some(tuning) => ("the file before", tuning.piece, tuning.eager_max),
        None => ("none", Costs::default().piece, Settings::default().eager_max),
    };
    let now = &choice.tuning;
    println!("\n{} written; compared with {was}:", file.display());
    println!("  piece      {:>8} -> {}", bytes(piece), bytes(now.piece));
    println!("  eager_max  {:>8} -> {}", bytes(eager_max), bytes(now.eager_max));
    let usual = Costs::default();
    let was = before.and_then(|tuning| tuning.costs().ok()).unwrap_or(usual);
    let Ok(costs) = now.costs() else { return };
    let ways = [
        ("pieces", was.outbox, costs.outbox),
        ("streaming", was.streaming, costs.streaming),
        ("read", was.kernel, costs.kernel),
        ("mapped", was.mapped, costs.mapped),
    ];
    for (name, was, now) in ways {
        let at = |size| format!("{:.1} -> {:.1} us", was.of(size) / 1e3, now.of(size) / 1e3);
        println!("  {name:9}  1 MiB: {}, 8 MiB: {}", at(1 << 20), at(8 << 20));
    }
}

/// Writes the file so that whoever reads it meanwhile gets the old or the new one.
fn write(file: &Path, tuning: &Tuning, handover: Option<Handover>) -> Result<(), Error> {
    let date = humantime::format_rfc3339_seconds(SystemTime::now());
    let handover = handover.map_or("unknown handover".into(), |handover| handover.to_string());
    let comment = format!(
        "What long messages cost on this host, measured by `taffrail-perf tune`.\n\
         It may be deleted: it makes messages faster, and changes nothing else.\n\
         \n\
         {}\n{handover}\n{date}\n\
         \n\
         eager_max: bytes up to which messages are sent without asking the receiver\n\
         piece: bytes of a piece of a long message\n\
         announced: nanoseconds of announced messages of so many bytes: in pieces, in pieces copied\n\
         past the caches (streaming), read by the kernel out of the sender's memory (read), copied\n\
         out of memory that both share (mapped)",
        Machine::here()
    );
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    let new = file.with_extension("toml.new");
    std::fs::write(&new, tuning.to_text(&comment)).map_err(Error::file(&new))?;
    std::fs::rename(&new, file).map_err(Error::file(file))
}
