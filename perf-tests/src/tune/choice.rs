//! What follows from the figures.

use super::measure::{Candidate, Figures, SIZES};
use taffrail::{Announced, Tuning};
use taffrail_shm::Costs;

/// Sizes in the file: those that are announced.
const WRITTEN: std::ops::Range<usize> = 2..SIZES.len();
/// Eager messages have to be better by this factor, since an unexpected one is copied once more.
const WORTH: f64 = 0.97;

/// The pieces tried.
pub const PIECES: [usize; 4] = [4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// The sizes at which they are compared.
pub const PIECES_AT: [usize; 4] = [128 << 10, 512 << 10, 2 << 20, 8 << 20];

/// What is best here.
#[derive(Clone, Debug)]
pub struct Choice {
    /// What goes into the file.
    pub tuning: Tuning,
    /// Up to so many bytes eager messages are the faster ones, whatever the file may say.
    pub eager_best: usize,
}

/// The best of the [`PIECES`]: whose times at [`PIECES_AT`], each relative to the best, have the
/// least sum.
pub fn best_piece(figures: &Figures) -> Option<usize> {
    let time = |piece, size| figures.ns(Candidate::Pieces(piece), size);
    let mut best: Option<(usize, f64)> = None;
    for piece in PIECES {
        let mut sum = 0.0;
        for size in PIECES_AT {
            let least = PIECES.iter().filter_map(|&p| time(p, size)).fold(f64::INFINITY, f64::min);
            sum += time(piece, size)? / least;
        }
        if best.is_none_or(|(_, least)| sum < least) {
            best = Some((piece, sum));
        }
    }
    best.map(|(piece, _)| piece)
}

/// What to write; `None` if a figure is missing.
pub fn choose(figures: &Figures, piece: usize, kernel_reads: bool) -> Option<Choice> {
    let sizes = &SIZES[WRITTEN];
    let times = |candidate| -> Option<Vec<f64>> {
        let mut times: Vec<f64> =
            sizes.iter().map(|&size| figures.ns(candidate, size)).collect::<Option<_>>()?;
        // That fewer bytes took longer was a disturbance.
        let mut least = f64::INFINITY;
        for ns in times.iter_mut().rev() {
            least = least.min(ns.round());
            *ns = least;
        }
        Some(times)
    };
    let announced = Announced {
        bytes: sizes.to_vec(),
        pieces: times(Candidate::Pieces(piece))?,
        streaming: times(Candidate::Streaming(piece))?,
        read: if kernel_reads { Some(times(Candidate::Read)?) } else { None },
        mapped: times(Candidate::Mapped)?,
    };
    let eager_best = SIZES
        .into_iter()
        .map_while(|size| {
            let eager = figures.ns(Candidate::Eager(piece), size)?;
            let (_, announced) = best_way(figures, piece, kernel_reads, size)?;
            (eager < announced * WORTH).then_some(size)
        })
        .last()
        .unwrap_or(SIZES[0] / 2);
    Some(Choice { tuning: Tuning::new(eager_best, piece, announced), eager_best })
}

/// The fastest way for an announced message in plain memory.
pub fn best_way(
    figures: &Figures,
    piece: usize,
    kernel_reads: bool,
    size: usize,
) -> Option<(Candidate, f64)> {
    let ways = [Candidate::Pieces(piece), Candidate::Streaming(piece), Candidate::Read];
    let open = ways.into_iter().filter(|&way| kernel_reads || way != Candidate::Read);
    let timed = open.filter_map(|way| figures.ns(way, size).map(|ns| (way, ns)));
    timed.min_by(|a, b| a.1.total_cmp(&b.1))
}

/// The way that an endpoint begins with that knows nothing of this host, with its usual pieces.
pub fn usual_way(figures: &Figures, kernel_reads: bool, size: usize) -> Option<(Candidate, f64)> {
    let costs = Costs::default();
    let reads = kernel_reads && costs.kernel.of(size) < costs.outbox.of(size);
    let way = if reads { Candidate::Read } else { Candidate::Pieces(costs.piece) };
    figures.ns(way, size).map(|ns| (way, ns))
}

#[cfg(test)]
mod tests {
    use super::super::measure::EAGER_MOST;
    use super::*;

    const PIECE: usize = 8 << 10;

    /// Pieces 1 ns a byte, streaming 2, reading 10 us and half, mapped 0.25; eager as said.
    fn figures(eager: impl Fn(usize) -> f64) -> Figures {
        Figures::of(SIZES.into_iter().flat_map(|size| {
            let len = size as f64;
            let announced = [
                ((Candidate::Pieces(PIECE), size), len),
                ((Candidate::Streaming(PIECE), size), 2.0 * len),
                ((Candidate::Read, size), 10_000.0 + len / 2.0),
                ((Candidate::Mapped, size), len / 4.0),
            ];
            let eager = ((Candidate::Eager(PIECE), size), eager(size));
            announced.into_iter().chain((size <= EAGER_MOST).then_some(eager))
        }))
    }

    #[test]
    fn the_file_has_what_was_measured_of_sizes_that_are_announced() {
        let choice = choose(&figures(|size| size as f64 * 0.9), PIECE, true).unwrap();
        let announced = &choice.tuning.announced;
        assert_eq!((announced.bytes[0], announced.bytes.len()), (64 << 10, 8));
        assert_eq!(announced.pieces[1], (128 << 10) as f64);
        assert_eq!(announced.read.as_ref().unwrap()[7], 10_000.0 + (4 << 20) as f64);
        assert_eq!(choice.tuning.piece, PIECE);
        assert!(choose(&figures(|_| 1.0), PIECE, false).unwrap().tuning.announced.read.is_none());
        assert!(choose(&figures(|_| 1.0), 4096, true).is_none(), "not measured");
        let disturbed = ((Candidate::Pieces(PIECE), 128 << 10), 1.0e9);
        let Figures(mut all) = figures(|_| 1.0);
        all.extend([disturbed]);
        let choice = choose(&Figures(all), PIECE, true).unwrap();
        assert_eq!(choice.tuning.announced.pieces[1], (256 << 10) as f64);
    }

    #[test]
    fn eager_ends_where_announcing_wins_but_never_below_what_programs_count_on() {
        for (eager, best, written) in [(0.9, 16 << 10, 64 << 10), (0.2, 1 << 20, 1 << 20)] {
            // Reading costs 0.5 ns a byte from 20 KB on, so 0.9 wins only below.
            let choice = choose(&figures(|size| size as f64 * eager), PIECE, true).unwrap();
            assert_eq!((choice.eager_best, choice.tuning.eager_max), (best, written));
        }
        let choice = choose(&figures(|_| f64::MAX), PIECE, true).unwrap();
        assert_eq!((choice.eager_best, choice.tuning.eager_max), (8 << 10, 64 << 10));
    }

    #[test]
    fn the_best_piece_is_good_at_all_sizes() {
        let pieces = |size: usize| PIECES.map(|piece| ((Candidate::Pieces(piece), size), 100.0));
        let mut all: Vec<_> = PIECES_AT.into_iter().flat_map(pieces).collect();
        // 32 KiB wins one size by far less than it loses another; 8 KiB is a little better at all.
        for ((candidate, size), ns) in &mut all {
            match candidate {
                Candidate::Pieces(8192) => *ns = 95.0,
                Candidate::Pieces(32768) if *size == PIECES_AT[0] => *ns = 200.0,
                Candidate::Pieces(32768) if *size == PIECES_AT[3] => *ns = 80.0,
                _ => {}
            }
        }
        assert_eq!(best_piece(&Figures::of(all)), Some(8192));
        assert_eq!(best_piece(&Figures::default()), None);
    }
}
