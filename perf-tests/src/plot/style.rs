//! How curves are distinguished: by colour, by marker and by dash, so that neither a colour-blind reader nor
//! a printer without colours loses one.

use plotters::element::DashedPathElement;
use plotters::prelude::*;

/// The colours of Okabe and Ito, without yellow, which is hardly visible on white.
const COLOURS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
/// Corners of the markers, in pixels.
const MARKERS: [&[(i32, i32)]; 5] = [
    &[(-4, -2), (-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2)],
    &[(-4, -4), (4, -4), (4, 4), (-4, 4)],
    &[(0, -5), (5, 4), (-5, 4)],
    &[(0, -6), (5, 0), (0, 6), (-5, 0)],
    &[(0, 5), (5, -4), (-5, -4)],
];
/// Pixels of a dash and of the gap after it. The first is longer than any line.
const DASHES: [(i32, i32); 3] = [(i32::MAX, 0), (9, 5), (3, 4)];
/// Pixels of the piece of a line in the legend.
const LEGEND: i32 = 36;
/// Opacity of a point that the line passes by.
const FAINT: f64 = 0.35;

/// The style of a curve.
#[derive(Clone, Copy)]
pub(super) struct Style {
    colour: RGBColor,
    corners: &'static [(i32, i32)],
    dash: (i32, i32),
}

impl Style {
    /// The style of the curve at a place of a panel. The first 105 differ.
    pub(super) fn of(index: usize) -> Style {
        Style {
            colour: COLOURS[index % COLOURS.len()],
            corners: MARKERS[index % MARKERS.len()],
            dash: DASHES[index % DASHES.len()],
        }
    }

    /// The line through points.
    pub(super) fn line<C: Clone>(
        self,
        points: Vec<C>,
    ) -> DashedPathElement<std::vec::IntoIter<C>, i32> {
        DashedPathElement::new(points, self.dash.0, self.dash.1, self.colour.stroke_width(2))
    }

    /// The marker of a point, seen from the point.
    pub(super) fn marker(self) -> Polygon<(i32, i32)> {
        Polygon::new(self.corners, self.colour.filled())
    }

    /// The mark of a point that the line passes by.
    pub(super) fn faint<C>(self, at: C) -> Circle<C, i32> {
        Circle::new(at, 2, self.colour.mix(FAINT).filled())
    }

    /// A piece of the line, before the curve's name in the legend.
    pub(super) fn legend_line(self) -> DashedPathElement<std::vec::IntoIter<(i32, i32)>, i32> {
        self.line(vec![(0, 0), (LEGEND, 0)])
    }

    /// The marker on it.
    pub(super) fn legend_marker(self) -> Polygon<(i32, i32)> {
        let middle: Vec<_> = self.corners.iter().map(|&(x, y)| (x + LEGEND / 2, y)).collect();
        Polygon::new(middle, self.colour.filled())
    }

    /// Pixels that the legend needs for it.
    pub(super) fn legend_width() -> i32 {
        LEGEND + 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn curves_of_a_panel_differ_without_colours_too() {
        let of = |index| {
            let Style { colour, corners, dash } = Style::of(index);
            ((colour.0, colour.1, colour.2), corners, dash)
        };
        let all: BTreeSet<_> = (0..105).map(of).collect();
        assert_eq!(all.len(), 105);
        let grey: BTreeSet<_> = (0..15).map(of).map(|(_, corners, dash)| (corners, dash)).collect();
        assert_eq!(grey.len(), 15);
    }
}
