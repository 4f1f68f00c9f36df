//! One run: who does the next step is chance, and so is when something fails.

mod checkpoint;
mod faults;
mod recovery;
mod steps;

use crate::call::{Call, Next, Outcome, Program};
use crate::case::Case;
use crate::logger::{Durability, Logger};
use crate::network::Network;
use crate::oracle::{Checked, Oracle, Violation, violation};
use crate::wiring::{Frame, Identity, Trouble, Wiring};
use crate::workload::Place;
use checkpoint::Saved;
use steps::Step;
use taffrail_logging::Rank;

/// What a run came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// The result of each rank.
    pub results: Vec<u64>,
    /// Steps it took.
    pub steps: usize,
    /// Faults that found something to break.
    pub faults: usize,
    /// Checkpoints that were taken.
    pub checkpoints: usize,
    /// Ranks that went on from one.
    pub restored: usize,
    /// Messages that have left logs since a checkpoint covers them.
    pub collected: usize,
}

struct Live {
    wiring: Wiring,
    program: Program,
    /// The call that is to be made; none: it has ended.
    call: Option<Call>,
    /// It was made and waits for something to arrive.
    waits: bool,
    result: Option<u64>,
    /// What the program was told, which is its state.
    told: Vec<Outcome>,
    /// It has called since its last checkpoint.
    has_called: bool,
}

/// Steps after the last fault, after which a run is taken not to end.
const PATIENCE: usize = 30_000;

/// A run.
pub struct World<'a> {
    case: &'a Case,
    random: fastrand::Rng,
    ranks: Vec<Option<Live>>,
    incarnations: Vec<u32>,
    set_of: Vec<usize>,
    network: Network,
    logger: Logger,
    oracle: Oracle,
    /// What survivors hold of the events of the dead, where these are lost; none of who was not asked
    /// since the last has died.
    answers: Vec<Option<Vec<u8>>>,
    /// The last checkpoint of each rank: what is there, and what is being stored.
    saved: Vec<Option<Saved>>,
    storing: Vec<Option<Saved>>,
    faults: usize,
    checkpoints: usize,
    restored: usize,
    collected: usize,
    /// How unlikely each kind of step is, so that runs differ.
    reluctance: [u8; 13],
    trace: Option<Vec<String>>,
}

/// Runs a case. The trace is kept if it is asked for.
pub fn run(case: &Case, traced: bool) -> (Result<Ended, Violation>, Vec<String>) {
    let mut world = World::new(case, traced);
    let ended = world.run();
    (ended, world.trace.unwrap_or_default())
}

impl<'a> World<'a> {
    fn new(case: &'a Case, traced: bool) -> Self {
        let mut random = fastrand::Rng::with_seed(case.seed ^ 0x5eed);
        let mut reluctance = [0; 13];
        for kind in &mut reluctance[..12] {
            *kind = [0, 0, 0, 128, 200, 235][random.usize(0..6)];
        }
        // Checkpoints take no chance from what is as it was without them.
        reluctance[12] = [128, 200, 235, 250][(case.seed % 4) as usize];
        World {
            case,
            ranks: (0..case.ranks).map(|_| None).collect(),
            incarnations: vec![0; case.ranks as usize],
            set_of: (0..case.ranks).map(|rank| case.set_of(rank)).collect(),
            network: Network::new(case.ranks),
            logger: Logger::new(case),
            oracle: Oracle::new(case),
            answers: vec![None; case.ranks as usize],
            saved: (0..case.ranks).map(|_| None).collect(),
            storing: (0..case.ranks).map(|_| None).collect(),
            faults: 0,
            checkpoints: 0,
            restored: 0,
            collected: 0,
            reluctance,
            random,
            trace: traced.then(Vec::new),
        }
    }

    fn say(&mut self, text: impl FnOnce() -> String) {
        if let Some(trace) = &mut self.trace {
            trace.push(text());
        }
    }

    fn run(&mut self) -> Result<Ended, Violation> {
        for rank in 0..self.case.ranks {
            self.start(rank)?;
        }
        let mut faults = self.case.faults.clone();
        faults.sort_by_key(|(step, number, _)| (*step, *number));
        let mut faults = faults.into_iter().peekable();
        let mut steps = Vec::new();
        let (mut step, mut last) = (0, 0);
        while !self.is_over() {
            while let Some((_, number, fault)) = faults.next_if(|(at, ..)| *at <= step) {
                self.say(|| format!("--- step {step}: fault {number}: {fault:?}"));
                self.fail(&fault);
                last = step;
            }
            self.possible(&mut steps);
            let Some(chosen) = self.choose(&steps) else {
                return Err(self.stuck("no step is possible"));
            };
            self.say(|| format!("{step:5} {chosen:?}"));
            self.step(chosen)?;
            step += 1;
            if step > last + PATIENCE {
                return Err(self.stuck("it goes on and on"));
            }
        }
        let results = self.ranks.iter().flatten().filter_map(|live| live.result).collect();
        Ok(Ended {
            results,
            steps: step,
            faults: self.faults,
            checkpoints: self.checkpoints,
            restored: self.restored,
            collected: self.collected,
        })
    }

    fn is_over(&self) -> bool {
        self.ranks.iter().all(|live| live.as_ref().is_some_and(|live| live.result.is_some()))
    }

    fn stuck(&self, why: &str) -> Violation {
        let mut text = format!("{why}\n  event logger runs: {}", self.logger.runs);
        for (rank, live) in self.ranks.iter().enumerate() {
            text += &match live {
                None => format!("\n  rank {rank} is dead"),
                Some(Live { wiring, call, result, .. }) => format!(
                    "\n  rank {rank}.{} calls {call:?}, result {result:?}: {}",
                    self.incarnations[rank],
                    wiring.report()
                ),
            };
        }
        Violation { invariant: "every run ends", text }
    }

    fn step(&mut self, step: Step) -> Checked {
        match step {
            Step::Run(rank) => self.make_call(rank),
            Step::Leave(rank, peer) => self.leave(rank, peer),
            Step::Arrive(rank, peer) => {
                let end = self.network.end(rank, peer);
                let incarnation = end.incarnation;
                match end.inbox.pop_front() {
                    Some(frame) => self.arrive(peer, incarnation, rank, &frame).map(|_| ()),
                    None => Ok(()),
                }
            }
            Step::GiveUp(rank, peer) => {
                // Mostly it looks first at what has come.
                if !self.network.see(rank, peer).inbox.is_empty() && self.random.u8(0..4) != 0 {
                    return self.step(Step::Arrive(rank, peer));
                }
                let lives = self.incarnations[peer as usize]
                    == self.network.see(rank, peer).incarnation
                    && self.ranks[peer as usize].is_some();
                let stray = !lives && self.random.bool();
                self.network.give_up(rank, peer, stray);
                self.live(rank).wiring.disconnected(peer);
                Ok(())
            }
            Step::Connect(a, b) => {
                let of = |rank: Rank| self.incarnations[rank as usize];
                let (of_a, of_b) = (of(a), of(b));
                self.network.connect([(a, of_a), (b, of_b)]);
                for (rank, peer, incarnation) in [(a, b, of_b), (b, a, of_a)] {
                    if !self.live(rank).wiring.connected(peer, incarnation) {
                        let text = format!(
                            "rank {rank} does not talk to {peer}.{incarnation}, which lives"
                        );
                        return violation("old-incarnations-die", text);
                    }
                }
                Ok(())
            }
            Step::Checkpoint(rank) => self.checkpoint(rank),
            Step::Commit(rank) => self.commit(rank),
            Step::Ask(rank) => {
                self.ask(rank);
                Ok(())
            }
            Step::Start(rank) => {
                self.incarnations[rank as usize] += 1;
                self.start(rank)
            }
            Step::BeginCut(set) => {
                let chance = self.random.usize(0..8);
                self.logger.cut(set, chance);
                self.hear_if_immediate();
                Ok(())
            }
            Step::EndCut(set) => {
                self.logger.sync(set);
                self.hear();
                self.oracle.fits_together(set, &self.logger)
            }
            Step::StartLogger => {
                let ranks = &self.ranks;
                let restarted = self.logger.restart(|rank| ranks[rank as usize].is_some());
                self.hear();
                restarted.or_else(|text| violation("what is stable stays", text))?;
                let mut sets = 0..self.case.groups().len();
                sets.try_for_each(|set| self.oracle.fits_together(set, &self.logger))
            }
            Step::WriteAgain(rank) => {
                self.logger.comes_back(rank);
                let stable = self.logger.stable(rank);
                let again: Vec<_> = self.live(rank).wiring.write_again(stable).collect();
                again.into_iter().try_for_each(|event| self.write(rank, event))
            }
            Step::Stray => {
                let stray = self.random.usize(0..self.network.strays.len());
                let stray = self.network.strays.swap_remove(stray);
                if self.ranks[stray.to as usize].is_none() {
                    return Ok(());
                }
                if self.arrive(stray.from, stray.incarnation, stray.to, &stray.frame)? {
                    let text = format!("rank {} has believed {stray:?}", stray.to);
                    return violation("old-incarnations-die", text);
                }
                Ok(())
            }
        }
    }

    fn live(&mut self, rank: Rank) -> &mut Live {
        self.ranks[rank as usize].as_mut().expect("steps are of ranks that live")
    }

    /// A rank starts, for the first time or again.
    fn start(&mut self, rank: Rank) -> Checked {
        let case = self.case;
        let who = Identity {
            me: rank,
            ranks: case.ranks,
            incarnation: self.incarnations[rank as usize],
            set: case.sets[self.set_of[rank as usize]].clone(),
            all_events: case.all_events,
            causal: case.causal,
            broken: case.broken,
        };
        if case.loses_rings() {
            let ranks = &self.ranks;
            self.oracle.forgets(rank, |rank| ranks[rank as usize].is_some());
        }
        let (events, held) = (self.logger.download(rank), self.held());
        self.say(|| format!("      rank {rank} starts with {events:?}"));
        let saved = self.saved[rank as usize].as_ref();
        let checkpoint = saved.map(|saved| &saved.wiring);
        let wiring = Wiring::start(who, events, self.logger.stable(rank), &held, checkpoint)
            .or_else(|trouble| self.trouble(rank, trouble))?;
        self.oracle.starts(rank, wiring.clock(), &wiring, &self.logger)?;
        let place = Place {
            me: rank,
            ranks: case.ranks,
            rounds: case.rounds,
            variant: case.variant,
            reached: 0,
        };
        let mut program = case.workload.start(place);
        let told = self.went_on(rank);
        let (call, result) = match program.go_on_from(&told) {
            Next::Call(call) => (Some(call), None),
            Next::End(result) => (None, Some(result)),
        };
        let (waits, has_called) = (false, true);
        let live = Live { wiring, program, call, waits, result, told, has_called };
        self.ranks[rank as usize] = Some(live);
        self.is_back(rank)
    }

    fn make_call(&mut self, rank: Rank) -> Checked {
        self.look(rank);
        let chance = self.random.usize(0..8);
        let live = self.live(rank);
        let Some(call) = live.call.take() else { return Ok(()) };
        let outcome =
            live.wiring.call(&call, chance).or_else(|trouble| self.trouble(rank, trouble))?;
        self.write_events(rank)?;
        self.hear_if_immediate();
        let live = self.live(rank);
        let Some(outcome) = outcome else {
            live.call = Some(call);
            live.waits = true;
            self.note_answers(rank);
            return Ok(());
        };
        self.say(|| format!("      {call:x?} -> {outcome:x?}"));
        self.oracle.called(rank, &call, &outcome)?;
        self.note_answers(rank);
        let live = self.live(rank);
        live.has_called = true;
        live.told.push(outcome.clone());
        match live.program.go_on(Some(outcome)) {
            Next::Call(next) => live.call = Some(next),
            Next::End(result) => live.result = Some(result),
        }
        if let (Call::Send { .. }, Some(live)) = (&call, &self.ranks[rank as usize]) {
            self.oracle.keeps_all(rank, &live.wiring)?;
        }
        Ok(())
    }

    /// What a rank reads of the other members of its set and of the logger, before it sends.
    fn look(&mut self, rank: Rank) {
        let case = self.case;
        for (place, &member) in case.sets[self.set_of[rank as usize]].iter().enumerate() {
            let written = self.ranks[member as usize].as_ref().map(|live| live.wiring.clock());
            let stable = self.logger.announced(member);
            let wiring = &mut self.live(rank).wiring;
            wiring.written(place, written.unwrap_or(0));
            wiring.stable(place, stable);
        }
    }

    /// What ranks hear of the logger while they do nothing.
    fn hear(&mut self) {
        for live in self.ranks.iter_mut().flatten() {
            for (place, &member) in live.wiring.set().to_vec().iter().enumerate() {
                live.wiring.stable(place, self.logger.announced(member));
            }
        }
    }

    /// Where what is written is stable at once, everybody knows it.
    fn hear_if_immediate(&mut self) {
        if self.case.durability == Durability::Process || self.case.broken.is_some() {
            self.hear();
        }
    }

    fn write_events(&mut self, rank: Rank) -> Checked {
        let events: Vec<_> = self.live(rank).wiring.take_events().collect();
        events.into_iter().try_for_each(|event| {
            self.oracle.wrote(rank, event.clock);
            self.write(rank, event)
        })
    }

    fn write(&mut self, rank: Rank, event: taffrail_logging::LoggedEvent) -> Checked {
        self.say(|| format!("      rank {rank} writes {event:x?}"));
        let written = self.logger.write(rank, event);
        written.or_else(|text| violation("a log has no gaps", text))
    }

    fn leave(&mut self, rank: Rank, peer: Rank) -> Checked {
        let Some(frame) = self.live(rank).wiring.next_frame(peer) else { return Ok(()) };
        self.say(|| format!("      {rank} to {peer}: {frame:x?}"));
        if let (Frame::Piece(piece), Some(live)) = (&frame, &self.ranks[rank as usize]) {
            let name = (piece.context, piece.seq);
            self.oracle.leaves(rank, peer, name, &live.wiring, &self.logger)?;
        }
        if let Frame::Answer(answer) = &frame {
            self.oracle.answer_leaves(rank, peer, answer, &self.logger)?;
        }
        self.network.write(rank, peer, frame);
        let live = self.live(rank);
        if let Some(Call::Matched { .. }) = live.call {
            // The rest of its message may have left.
            live.waits = false;
        }
        Ok(())
    }

    /// Tells the oracle of the answers that a rank has made.
    fn note_answers(&mut self, rank: Rank) {
        for (to, answer) in self.live(rank).wiring.take_answers() {
            self.oracle.answers((rank, self.incarnations[rank as usize]), to, &answer);
        }
    }

    fn arrive(
        &mut self,
        from: Rank,
        incarnation: u32,
        to: Rank,
        frame: &Frame,
    ) -> Result<bool, Violation> {
        self.look(to);
        let arrived = self.live(to).wiring.arrived(from, incarnation, frame);
        let believed = arrived.or_else(|trouble| self.trouble(to, trouble))?;
        self.say(|| format!("      believed: {believed}, {frame:x?}"));
        if let (true, Frame::Piece(piece)) = (believed, frame)
            && let Some(Live { wiring, .. }) = &self.ranks[to as usize]
        {
            let name = (piece.context, piece.seq);
            self.oracle.arrives(from, to, name, wiring, &self.logger)?;
        }
        if let (true, Frame::Answer(answer), Some(Live { wiring, .. })) =
            (believed, frame, &self.ranks[to as usize])
        {
            self.oracle.answer_arrives(from, to, answer, wiring, &self.logger)?;
        }
        self.write_events(to)?;
        self.note_answers(to);
        self.hear_if_immediate();
        let live = self.live(to);
        live.waits = false;
        let collected = live.wiring.take_collected();
        self.collected += collected;
        if let Some(live) = &self.ranks[to as usize] {
            self.oracle.keeps_all(to, &live.wiring)?;
        }
        Ok(believed)
    }

    fn trouble<T>(&self, rank: Rank, trouble: Trouble) -> Result<T, Violation> {
        let text = format!("rank {rank}.{}: {trouble}", self.incarnations[rank as usize]);
        Err(Violation { invariant: "the protocol is kept", text })
    }
}
