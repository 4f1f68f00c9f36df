//! Axes: where a figure lies on them, what is marked, and how a mark is labelled.

use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use std::ops::Range;

/// One direction of a panel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// How it runs, and in which unit.
    pub scale: Scale,
}

/// How an axis runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Bytes, logarithmic; marked at powers of two.
    Bytes,
    /// Figures of a unit, logarithmic; marked at powers of ten.
    Log(Unit),
    /// From 0 on: linear as far as 1, and more and more logarithmic beyond. Marked where points are.
    FromZero,
}

/// What a figure counts; labels have the prefix that fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Bits a second.
    BitsPerSecond,
    /// Anything else.
    Number,
}

impl Axis {
    /// An axis with its label.
    pub fn new(label: impl Into<String>, scale: Scale) -> Axis {
        Axis { label: label.into(), scale }
    }
}

impl Unit {
    /// A figure in the largest prefix in which it is not below 1: `1 ms`, `200 ns`, `10 Gbit/s`, `2 M`.
    fn label(self, figure: f64) -> String {
        let (figure, name) = match self {
            Unit::Ns => (figure * 1e-9, "s"),
            Unit::Us => (figure * 1e-6, "s"),
            Unit::Ms => (figure * 1e-3, "s"),
            Unit::BitsPerSecond => (figure, "bit/s"),
            Unit::Number => (figure, ""),
        };
        let prefixes = [
            (1e12, "T"),
            (1e9, "G"),
            (1e6, "M"),
            (1e3, "k"),
            (1.0, ""),
            (1e-3, "m"),
            (1e-6, "µ"),
            (1e-9, "n"),
        ];
        // Numbers and fractions of them have no prefixes below 10 000; times have none above 1.
        let fits = |&(factor, _): &(f64, &str)| match name {
            "s" => factor <= 1.0,
            "" => factor == 1.0 || factor > 1.0 && figure >= 9999.0,
            _ => factor >= 1.0,
        };
        let fitting = || prefixes.into_iter().filter(fits);
        let found = fitting().find(|(factor, _)| figure >= factor * 0.9999);
        let (factor, prefix) = found.or_else(|| fitting().next_back()).unwrap_or((1.0, ""));
        format!("{} {prefix}{name}", trimmed(figure / factor)).trim_end().to_owned()
    }
}

impl Scale {
    /// Whether a figure has a place on the axis.
    pub(super) fn shows(self, x: f64) -> bool {
        x > 0.0 || (self == Scale::FromZero && x == 0.0)
    }

    /// What a mark says.
    pub(super) fn label(self, mark: f64) -> String {
        match self {
            Scale::Bytes => bytes(mark),
            Scale::Log(unit) => unit.label(mark),
            Scale::FromZero => Unit::Number.label(mark),
        }
    }

    /// Where on the axis `x` is.
    fn place(self, x: f64) -> f64 {
        match self {
            Scale::Bytes | Scale::Log(_) => x.ln(),
            Scale::FromZero => x.ln_1p(),
        }
    }

    /// The part of the axis that shows these figures, and what is marked on it.
    pub(super) fn span(self, figures: &[f64]) -> Span {
        if figures.is_empty() {
            return self.span(&[1.0, 16.0]);
        }
        let least = figures.iter().copied().fold(f64::INFINITY, f64::min);
        let most = figures.iter().copied().fold(0.0, f64::max);
        let (range, mut marks) = match self {
            Scale::Bytes => (least / 1.3..most * 1.3, powers_of_two(least, most)),
            Scale::Log(_) => (least / 1.3..most * 1.3, powers_of_ten(least, most)),
            Scale::FromZero => (0.0..most * 1.1 + 0.1, figures.to_vec()),
        };
        marks.retain(|mark| range.contains(mark));
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        Span { scale: self, range, marks }
    }
}

/// Powers of two from `least` to `most` and a little beyond: at most some ten, equally far apart.
fn powers_of_two(least: f64, most: f64) -> Vec<f64> {
    let (first, last) = (least.log2().floor() as i32, most.log2().ceil() as i32);
    let apart = match last - first {
        ..=9 => 1,
        10..=18 => 2,
        _ => 4,
    };
    (first..=last).filter(|power| power % apart == 0).map(|power| 2_f64.powi(power)).collect()
}

/// Powers of ten from `least` to `most`; with figures between them where there are few.
fn powers_of_ten(least: f64, most: f64) -> Vec<f64> {
    let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
    let steps = if most > least * 100.0 { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
    decades.flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d))).collect()
}

/// Bytes on an axis that says so: `16`, `4 KiB`, `1 MiB`.
fn bytes(figure: f64) -> String {
    let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
    let found = units.into_iter().find(|(power, _)| figure >= 2_f64.powi(*power));
    match found {
        Some((power, unit)) => format!("{} {unit}", trimmed(figure / 2_f64.powi(power))),
        None => trimmed(figure),
    }
}

/// A figure with at most three digits behind the point.
fn trimmed(figure: f64) -> String {
    let text = format!("{figure:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// The part of an axis that is drawn.
pub(super) struct Span {
    scale: Scale,
    range: Range<f64>,
    marks: Vec<f64>,
}

impl Ranged for Span {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, x: &f64, limit: (i32, i32)) -> i32 {
        let [start, end, x] = [self.range.start, self.range.end, *x].map(|x| self.scale.place(x));
        let part = (x - start) / (end - start);
        limit.0 + (part * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<H: KeyPointHint>(&self, _: H) -> Vec<f64> {
        self.marks.clone()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_is_marked_where_points_are_or_at_decades() {
        let axis = Scale::FromZero.span(&[10.0, 0.0, 62.0, 10.0]);
        assert_eq!(axis.marks, [0.0, 10.0, 62.0]);
        assert_eq!(axis.map(&0.0, (100, 1100)), 100);
        assert!((900..1100).contains(&axis.map(&62.0, (100, 1100))));
        let axis = Scale::Log(Unit::Us).span(&[8.0, 4096.0]);
        assert_eq!(axis.marks, [10.0, 100.0, 1000.0]);
        assert_eq!(axis.map(&axis.range.end, (0, 1000)), 1000);
        assert_eq!(Scale::Log(Unit::Us).span(&[140.0, 230.0]).marks, [200.0]);
        assert!(!Scale::FromZero.span(&[0.0]).range.is_empty());
    }

    #[test]
    fn bytes_are_marked_at_powers_of_two() {
        let marks = |least, most| -> Vec<String> {
            let span = Scale::Bytes.span(&[least, most]);
            span.marks.iter().map(|&mark| Scale::Bytes.label(mark)).collect()
        };
        let netpipe = ["1", "16", "256", "4 KiB", "64 KiB", "1 MiB"];
        assert_eq!(marks(1.0, 10e6), netpipe);
        assert_eq!(marks(8.0, 4e6), netpipe[1..]);
        assert_eq!(marks(1.0, 19.0), ["1", "2", "4", "8", "16"]);
        assert_eq!(marks(65536.0, 65536.0), ["64 KiB"]);
        assert_eq!(marks(1024.0, 2e6), ["1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB"]);
        assert!(marks(1.0, 1e12).len() <= 11);
    }

    #[test]
    fn figures_have_the_prefix_that_fits() {
        for (unit, figure, label) in [
            (Unit::Us, 0.1, "100 ns"),
            (Unit::Us, 1.0, "1 µs"),
            (Unit::Us, 10_000.0, "10 ms"),
            (Unit::Us, 2e7, "20 s"),
            (Unit::Ns, 1000.0, "1 µs"),
            (Unit::Ns, 0.5, "0.5 ns"),
            (Unit::Ms, 0.5, "500 µs"),
            (Unit::Ms, 5000.0, "5 s"),
            (Unit::BitsPerSecond, 1e10, "10 Gbit/s"),
            (Unit::BitsPerSecond, 1e12, "1 Tbit/s"),
            (Unit::BitsPerSecond, 1e6, "1 Mbit/s"),
            (Unit::Number, 0.05, "0.05"),
            (Unit::Number, 1000.0, "1000"),
            (Unit::Number, 2e6, "2 M"),
        ] {
            assert_eq!(unit.label(figure), label);
        }
    }
}
