//! The `tune` command.

use super::choice::{self, Choice};
use super::measure::{self, Candidate, Figures, SIZES};
use crate::files::{Existing, OutFile};
use crate::limits::Handover;
use crate::machine::{self, Machine};
use crate::others::{self, Own, Usage};
use crate::pair::Pair;
use crate::session::{Member, Placement, Session};
use crate::table::bytes;
use crate::{Error, cpus, launching, progress, say};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::SystemTime;
use taffrail::{Settings, Tuning};
use taffrail_shm::Costs;

/// Measures what the ways of long messages cost on this host, for every endpoint to start from
#[derive(Clone, Debug, clap::Args)]
pub struct Tune {
    /// Write here, `-` is standard output; by default to taffrail/HOST.toml in $XDG_CONFIG_HOME or ~/.config
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show the file and measure nothing
    #[arg(long)]
    pub show: bool,
    /// Write the file also when others use the machine meanwhile; it will say so
    #[arg(long)]
    pub force: bool,
}

impl Tune {
    /// Runs the command.
    pub fn run(&self) -> Result<ExitCode, Error> {
        let file = self.file()?;
        if self.show {
            return show(&file);
        }
        if out(&file).is_stdout() {
            say::leave_stdout();
        }
        self.check(&file)?;
        // Nothing of what is in the file or the environment may bear on the figures.
        match Session::start_with(2, Placement::Pinned, Settings::default())? {
            Session::Done(code) => Ok(code),
            Session::Rank(member) => self.be_a_rank(*member, &file).map(|()| ExitCode::SUCCESS),
        }
    }

    fn file(&self) -> Result<PathBuf, Error> {
        let nowhere = "no home folder to keep the file in; say where with --output FILE";
        let file = self.output.clone().or_else(Tuning::default_file);
        file.ok_or_else(|| Error::Usage(nowhere.into()))
    }
}

impl Tune {
    /// Whether the file can be written, and the machine be measured.
    fn check(&self, file: &Path) -> Result<(), Error> {
        if launching::rank().is_some_and(|rank| rank != 0) {
            return Ok(());
        }
        out(first_made(file)).check()?;
        // The other ranks of a job are there already, and wait.
        if self.force || launching::in_a_job() {
            return Ok(());
        }
        let (first, second) = cpus::pair()?;
        match others::busy_now(&[first, second]) {
            Some(reason) => Err(Error::Busy { path: file.to_owned(), reason }),
            None => Ok(()),
        }
    }

    fn be_a_rank(&self, mut member: Member, file: &Path) -> Result<(), Error> {
        let handover = member.handover()?;
        let reports = member.reports();
        if reports {
            say::line(Machine::here())?;
            machine::announce(handover.as_ref())?;
        }
        let meanwhile = Meanwhile::begin(&member);
        let measured = measured(&mut member, reports)?;
        let busy = meanwhile.end(&mut member)?;
        if reports {
            self.finish(&member, file, measured, (handover, busy))?;
        }
        member.barrier()
    }

    /// Shows what was measured, and writes it if it is worth it.
    fn finish(
        &self,
        member: &Member,
        file: &Path,
        (piece, figures): (usize, Figures),
        (handover, busy): (Option<Handover>, Option<String>),
    ) -> Result<(), Error> {
        let denied = member.endpoint.reads_memory_of(1).err();
        if let Some(denied) = &denied {
            say::line(format_args!("{denied}"))?;
        }
        let choice = choice::choose(&figures, piece, denied.is_none())
            .ok_or_else(|| Error::Usage("a measurement is missing; run it again".into()))?;
        report(&choice, &figures, denied.is_none())?;
        if let Some(reason) = busy.clone().filter(|_| !self.force) {
            return Err(Error::Busy { path: file.to_owned(), reason });
        }
        let is_there = !out(file).is_stdout() && file.exists();
        let before = is_there.then(|| Tuning::read(file));
        if let Some(Err(error)) = &before {
            say::line(format_args!("replaced: {error}"))?;
        }
        let date = humantime::format_rfc3339_seconds(SystemTime::now()).to_string();
        let mut tuning = choice.tuning.clone();
        (tuning.measured, tuning.busy) = (Some(date), busy);
        write(file, &tuning, handover)?;
        say_what_changed(file, before.and_then(Result::ok), &choice)?;
        Ok(())
    }
}

/// What others do on the two processors while they are measured.
struct Meanwhile {
    before: Option<Usage>,
    own: f64,
    cpu: Option<usize>,
}

impl Meanwhile {
    fn begin(member: &Member) -> Meanwhile {
        let before = member.reports().then(Usage::now);
        Meanwhile { before, own: others::own_seconds(), cpu: member.cpu }
    }

    /// Why the figures are worth nothing, if so. Collective of ranks 0 and 1; known to rank 0.
    fn end(self, member: &mut Member) -> Result<Option<String>, Error> {
        let seconds = others::own_seconds() - self.own;
        let own = self.cpu.map(|cpu| Own { pid: std::process::id(), cpu, seconds });
        let Some(mut pair) = Pair::of(&mut member.endpoint, 0, 1) else { return Ok(None) };
        let (Some(before), Some(own)) = (self.before, own) else {
            pair.tell(&own.map_or([-1.0; 3], |own| [own.pid as f64, own.cpu as f64, own.seconds]))?;
            return Ok(None);
        };
        let now = Usage::now();
        let theirs = pair.hear(3)?;
        let other = Own { pid: theirs[0] as u32, cpu: theirs[1] as usize, seconds: theirs[2] };
        Ok(now.busy_since(&before, &[own, other]))
    }
}

/// The file as it is written: what it says of this host before is replaced, and that is said.
fn out(path: &Path) -> OutFile<'_> {
    OutFile { path, existing: Existing::Replace }
}

/// What is made first for a file: the uppermost of its folders that is not there, else the file.
fn first_made(file: &Path) -> &Path {
    let is_missing =
        |path: &&Path| !path.as_os_str().is_empty() && path.symlink_metadata().is_err();
    file.ancestors().take_while(is_missing).last().unwrap_or(file)
}

fn show(file: &Path) -> Result<ExitCode, Error> {
    if !file.exists() {
        say::line(format_args!("{}: not there; `taffrail-perf tune` writes it", file.display()))?;
        return Ok(ExitCode::SUCCESS);
    }
    Tuning::read(file)?;
    say::line(format_args!("{}:", file.display()))?;
    say::text(std::fs::read_to_string(file).map_err(Error::file(file))?)?;
    Ok(ExitCode::SUCCESS)
}

/// The best piece, and the figures of all ways with it. Collective; figures on rank 0 only.
fn measured(member: &mut Member, reports: bool) -> Result<(usize, Figures), Error> {
    let bar = progress::over(reports, measure::ROUNDS_IN_ALL);
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
    Ok((piece, measure::measure(&mut member.job, candidates, &SIZES, &bar)?))
}

/// The figures, the best way of each size and what the usual choice would take.
fn report(choice: &Choice, figures: &Figures, kernel_reads: bool) -> Result<(), Error> {
    let piece = choice.tuning.piece;
    let us = |candidate, size| match figures.ns(candidate, size) {
        Some(ns) => format!("{:9.1}", ns / 1e3),
        None => format!("{:>9}", "-"),
    };
    say::line(format_args!("\nHalf a round trip in us; pieces of {}:", bytes(piece)))?;
    say::line("    size    eager   pieces streaming     read   mapped   best announced, gain")?;
    for size in SIZES {
        let read = if kernel_reads { us(Candidate::Read, size) } else { format!("{:>9}", "-") };
        let Some((best, best_ns)) = choice::best_way(figures, piece, kernel_reads, size) else {
            continue;
        };
        let first = choice::usual_way(figures, kernel_reads, size);
        let gain = first.map_or(0.0, |(_, ns)| (1.0 - best_ns / ns) * 100.0);
        say::line(format_args!(
            "{:>8}{}{} {}{read}{}   {}, {gain:.0}%",
            bytes(size),
            us(Candidate::Eager(piece), size),
            us(Candidate::Pieces(piece), size),
            us(Candidate::Streaming(piece), size),
            us(Candidate::Mapped, size),
            name(best)
        ))?;
    }
    say::line(
        "Gain: over what an endpoint without this file begins with; in time it finds the best way \
         itself,\nbut not the best piece.",
    )?;
    if choice.eager_best < choice.tuning.eager_max {
        say::line(format_args!(
            "Announcing is faster from {} on already; since programs may count on sends of up to \
             {}\nthat wait for nobody, the file does not say so. If yours do not: \
             TAFFRAIL_EAGER_MAX={}",
            bytes(choice.eager_best * 2),
            bytes(choice.tuning.eager_max),
            choice.eager_best
        ))?;
    }
    Ok(())
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

fn say_what_changed(file: &Path, before: Option<Tuning>, choice: &Choice) -> Result<(), Error> {
    let (was, piece, eager_max) = match &before {
        Some(tuning) => ("the file before", tuning.piece, tuning.eager_max),
        None => ("none", Costs::default().piece, Settings::default().eager_max),
    };
    let now = &choice.tuning;
    say::line(format_args!("\n{} written; compared with {was}:", file.display()))?;
    say::line(format_args!("  piece      {:>8} -> {}", bytes(piece), bytes(now.piece)))?;
    say::line(format_args!("  eager_max  {:>8} -> {}", bytes(eager_max), bytes(now.eager_max)))?;
    let usual = Costs::default();
    let was = before.and_then(|tuning| tuning.costs().ok()).unwrap_or(usual);
    let Ok(costs) = now.costs() else { return Ok(()) };
    let ways = [
        ("pieces", was.outbox, costs.outbox),
        ("streaming", was.streaming, costs.streaming),
        ("read", was.kernel, costs.kernel),
        ("mapped", was.mapped, costs.mapped),
    ];
    for (name, was, now) in ways {
        let at = |size| format!("{:.1} -> {:.1} us", was.of(size) / 1e3, now.of(size) / 1e3);
        say::line(format_args!("  {name:9}  1 MiB: {}, 8 MiB: {}", at(1 << 20), at(8 << 20)))?;
    }
    Ok(())
}

/// Writes the file; whoever reads it meanwhile gets the old or the new one.
fn write(file: &Path, tuning: &Tuning, handover: Option<Handover>) -> Result<(), Error> {
    let handover = handover.map_or("unknown handover".into(), |handover| handover.to_string());
    let comment = format!(
        "What long messages cost on this host, measured by `taffrail-perf tune`.\n\
         It may be deleted: it makes messages faster, and changes nothing else.\n\
         \n\
         {}\n{handover}\n\
         \n\
         measured: when\n\
         busy: only if it was written by --force: who used the machine meanwhile\n\
         eager_max: bytes up to which messages are sent without asking the receiver\n\
         piece: bytes of a piece of a long message\n\
         announced: nanoseconds of announced messages of so many bytes: in pieces, in pieces copied\n\
         past the caches (streaming), read by the kernel out of the sender's memory (read), copied\n\
         out of memory that both share (mapped)",
        Machine::here()
    );
    if let Some(folder) = file.parent().filter(|_| !out(file).is_stdout()) {
        std::fs::create_dir_all(folder).map_err(Error::file(folder))?;
    }
    out(file).write(tuning.to_text(&comment).as_bytes())
}
