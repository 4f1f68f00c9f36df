//! Curves over message sizes (or depths, or peers), as SVG or PNG.

use crate::Error;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::path::Path;
use std::sync::Once;

const FAMILY: &str = "sans-serif";
const WIDTH: u32 = 1000;
const PANEL_HEIGHT: u32 = 560;

/// Told apart on white, also next to each other.
const COLOURS: [RGBColor; 10] = [
    RGBColor(31, 119, 180),
    RGBColor(214, 39, 40),
    RGBColor(44, 160, 44),
    RGBColor(255, 127, 14),
    RGBColor(148, 103, 189),
    RGBColor(140, 86, 75),
    RGBColor(23, 190, 207),
    RGBColor(227, 119, 194),
    RGBColor(127, 127, 127),
    RGBColor(188, 189, 34),
];

/// One coordinate system with its curves; upwards it is logarithmic.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What is above it.
    pub title: String,
    /// What runs to the right.
    pub x: String,
    /// How it does.
    pub x_scale: Scale,
    /// What runs upwards.
    pub y: String,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// How a coordinate runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Logarithmic; for what is never 0.
    Log,
    /// From 0 on: linear as far as 1, and more and more logarithmic beyond. Marked where points are.
    FromZero,
}

impl Scale {
    fn shows(self, x: f64) -> bool {
        x > 0.0 || (self == Scale::FromZero && x == 0.0)
    }

    /// Where on the axis `x` is.
    fn place(self, x: f64) -> f64 {
        match self {
            Scale::Log => x.ln(),
            Scale::FromZero => x.ln_1p(),
        }
    }

    /// The part of the axis that shows these, and what is marked on it.
    fn axis(self, xs: &[f64]) -> Axis {
        let least = xs.iter().copied().fold(f64::INFINITY, f64::min);
        let most = xs.iter().copied().fold(0.0, f64::max);
        let (range, mut marks) = match self {
            _ if xs.is_empty() => return self.axis(&[1.0, 10.0]),
            Scale::Log => {
                let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
                // Within few decades there have to be marks in between.
                let steps = if most > least * 100.0 { &[1.0][..] } else { &[1.0, 2.0, 5.0] };
                let marks = decades.flat_map(|d| steps.iter().map(move |s| s * 10_f64.powi(d)));
                (least / 1.3..most * 1.3, marks.collect())
            }
            Scale::FromZero => (0.0..most * 1.1 + 0.1, xs.to_vec()),
        };
        marks.retain(|mark| range.contains(mark));
        marks.sort_by(f64::total_cmp);
        marks.dedup();
        Axis { scale: self, range, marks }
    }
}

/// One direction of a panel.
struct Axis {
    scale: Scale,
    range: std::ops::Range<f64>,
    marks: Vec<f64>,
}

impl Ranged for Axis {
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

    fn range(&self) -> std::ops::Range<f64> {
        self.range.clone()
    }
}

/// A named curve.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// Its points; those that are not positive (to the right: not on the scale) are left out.
    pub points: Vec<(f64, f64)>,
}

/// Draws panels below each other as SVG.
pub fn draw_svg(path: &Path, panels: &[Panel]) -> Result<(), Error> {
    draw_on(SVGBackend::new(path, size(panels)).into_drawing_area(), panels)
        .map_err(|reason| Error::Plot { path: path.to_path_buf(), reason })
}

/// Draws panels below each other as PNG, whatever the file's name ends with.
pub fn draw_png(path: &Path, panels: &[Panel]) -> Result<(), Error> {
    let (width, height) = size(panels);
    let mut pixels = vec![0; (width * height * 3) as usize];
    let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
    draw_on(area, panels)
        .and_then(|()| {
            let (colour, format) = (image::ColorType::Rgb8, image::ImageFormat::Png);
            image::save_buffer_with_format(path, &pixels, width, height, colour, format)
                .map_err(|e| e.to_string())
        })
        .map_err(|reason| Error::Plot { path: path.to_path_buf(), reason })
}

fn size(panels: &[Panel]) -> (u32, u32) {
    (WIDTH, PANEL_HEIGHT * panels.len().max(1) as u32)
}

fn draw_on<B: DrawingBackend>(area: DrawingArea<B, Shift>, panels: &[Panel]) -> Result<(), String> {
    bring_the_font();
    area.fill(&WHITE).map_err(|e| e.to_string())?;
    for (part, panel) in area.split_evenly((panels.len().max(1), 1)).iter().zip(panels) {
        draw_panel(part, panel).map_err(|e| e.to_string())?;
    }
    area.present().map_err(|e| e.to_string())
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    panel: &Panel,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let scale = panel.x_scale;
    let shown: Vec<(&str, Vec<(f64, f64)>)> = panel
        .curves
        .iter()
        .map(|curve| {
            let points = curve.points.iter().copied();
            (curve.name.as_str(), points.filter(|&(x, y)| scale.shows(x) && y > 0.0).collect())
        })
        .collect();
    let xs: Vec<f64> = shown.iter().flat_map(|(_, points)| points).map(|point| point.0).collect();
    let ys: Vec<f64> = shown.iter().flat_map(|(_, points)| points).map(|point| point.1).collect();
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FAMILY, 24))
        .margin(20)
        .x_label_area_size(55)
        .y_label_area_size(90)
        .build_cartesian_2d(scale.axis(&xs), Scale::Log.axis(&ys))?;
    chart
        .configure_mesh()
        .x_desc(&panel.x)
        .y_desc(&panel.y)
        .axis_desc_style((FAMILY, 18))
        .label_style((FAMILY, 15))
        .x_label_formatter(&|x| short(*x))
        .y_label_formatter(&|y| short(*y))
        .light_line_style(BLACK.mix(0.05))
        .draw()?;
    for (index, (name, points)) in shown.iter().enumerate() {
        let colour = COLOURS[index % COLOURS.len()];
        chart
            .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
            .label(*name)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 22, y)], colour.stroke_width(3)));
        chart.draw_series(points.iter().map(|&at| Circle::new(at, 3, colour.filled())))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FAMILY, 16))
        .draw()
}

/// A figure in few characters: `0.05`, `64`, `4k`, `1M`.
fn short(figure: f64) -> String {
    let (scaled, unit) = match figure {
        f if f >= 1e9 => (f / 1e9, "G"),
        f if f >= 1e6 => (f / 1e6, "M"),
        f if f >= 1e4 => (f / 1e3, "k"),
        f => (f, ""),
    };
    let digits = if scaled >= 10.0 { 0 } else { 3 };
    let text = format!("{scaled:.digits$}");
    let text = if digits > 0 { text.trim_end_matches('0').trim_end_matches('.') } else { &text };
    format!("{text}{unit}")
}

/// Labels need a font, and a machine may have none: DejaVu Sans comes along.
fn bring_the_font() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if register_font(FAMILY, FontStyle::Normal, dejavu::sans::regular()).is_err() {
            unreachable!("DejaVu Sans is a valid font");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panels() -> Vec<Panel> {
        let points = (0..20).map(|n| (f64::from(1 << n), 0.1 + f64::from(1 << n) / 1e4));
        let curve = Curve { name: "Taffrail".into(), points: points.collect() };
        let nothing = Curve { name: "not run".into(), points: vec![(8.0, 0.0)] };
        let panel = Panel {
            title: "Time".into(),
            x: "bytes".into(),
            x_scale: Scale::Log,
            y: "µs".into(),
            curves: vec![curve, nothing],
        };
        vec![panel.clone(), Panel { title: "Empty".into(), curves: vec![], ..panel }]
    }

    #[test]
    fn a_png_is_an_image_with_something_on_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot");
        draw_png(&path, &panels()).unwrap();
        let image = image::load_from_memory(&std::fs::read(&path).unwrap()).unwrap().to_rgb8();
        assert_eq!(image.dimensions(), (WIDTH, 2 * PANEL_HEIGHT));
        let coloured = image.pixels().filter(|p| p.0[0] != p.0[1] || p.0[1] != p.0[2]).count();
        let dark = image.pixels().filter(|p| p.0.iter().all(|&c| c < 90)).count();
        assert!(coloured > 1000, "{coloured} pixels of curves");
        assert!(dark > 1000, "{dark} pixels of letters");
    }

    #[test]
    fn an_svg_has_its_curves_and_labels() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        draw_svg(&path, &panels()).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        for label in ["Taffrail", "bytes", "µs", "Empty"] {
            assert!(text.contains(label), "{label} is missing");
        }
        assert!(text.contains("<polyline"));
    }

    #[test]
    fn what_is_at_zero_is_shown_if_the_scale_has_a_zero() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        let points = vec![(0.0, 1.0), (1.0, 1.0), (100.0, 2.0)];
        let curve = Curve { name: "depth".into(), points };
        let mut panel = Panel { curves: vec![curve], ..panels().remove(0) };
        for (scale, shown) in [(Scale::FromZero, 3), (Scale::Log, 2)] {
            panel.x_scale = scale;
            draw_svg(&path, std::slice::from_ref(&panel)).unwrap();
            let text = std::fs::read_to_string(&path).unwrap();
            assert_eq!(text.matches("<circle").count(), shown, "{scale:?}");
        }
    }

    #[test]
    fn an_axis_is_marked_where_points_are_or_at_decades() {
        let axis = Scale::FromZero.axis(&[10.0, 0.0, 62.0, 10.0]);
        assert_eq!(axis.marks, [0.0, 10.0, 62.0]);
        assert_eq!(axis.map(&0.0, (100, 1100)), 100);
        assert!((900..1100).contains(&axis.map(&62.0, (100, 1100))));
        let axis = Scale::Log.axis(&[8.0, 4096.0]);
        assert_eq!(axis.marks, [10.0, 100.0, 1000.0]);
        assert_eq!(axis.map(&axis.range.end, (0, 1000)), 1000);
        assert_eq!(Scale::Log.axis(&[140.0, 230.0]).marks, [200.0]);
        assert!(!Scale::FromZero.axis(&[0.0]).range.is_empty());
    }

    #[test]
    fn a_place_that_does_not_exist_is_an_error() {
        let nowhere = Path::new("/nonexistent/plot");
        for draw in [draw_svg, draw_png] {
            let error = draw(nowhere, &panels()).unwrap_err();
            assert!(error.to_string().contains("/nonexistent/plot: "), "{error}");
        }
    }

    #[test]
    fn figures_are_short() {
        let shown = [0.05, 1.0, 64.0, 4096.0, 65536.0, 1e6, 2.5e9].map(short);
        assert_eq!(shown, ["0.05", "1", "64", "4096", "66k", "1M", "2.5G"]);
    }
}
