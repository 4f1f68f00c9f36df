//! Curves over message sizes (or depths, or peers), as SVG or PNG.

mod axis;
mod style;

pub use axis::{Axis, Scale, Unit};

use crate::provenance::Provenance;
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::{FontStyle, register_font};
use std::sync::Once;
use style::Style;

const FAMILY: &str = "sans-serif";
const WIDTH: u32 = 1000;
const PANEL_HEIGHT: u32 = 560;
/// Pixels below the panels, for where the figures come from.
const FOOTER: u32 = 48;
const FOOTER_LINE: i32 = 18;
const MARGIN: i32 = 20;

/// One coordinate system with its curves.
#[derive(Clone, Debug)]
pub struct Panel {
    /// What is above it.
    pub title: String,
    /// What runs to the right.
    pub x: Axis,
    /// What runs upwards.
    pub y: Axis,
    /// The curves.
    pub curves: Vec<Curve>,
}

/// A named curve. What has no place on the axes is left out.
#[derive(Clone, Debug, Default)]
pub struct Curve {
    /// Its name in the legend.
    pub name: String,
    /// The points that its line goes through.
    pub points: Vec<(f64, f64)>,
    /// Points beside the line, drawn faintly: of sizes a few bytes off.
    pub beside: Vec<(f64, f64)>,
}

/// Panels below each other, and below them where their figures come from, as SVG.
///
/// # Errors
/// What could not be drawn.
pub fn svg(panels: &[Panel], from: &Provenance) -> Result<String, String> {
    let mut text = String::new();
    draw_on(SVGBackend::with_string(&mut text, size(panels)).into_drawing_area(), panels, from)?;
    let known = serde_json::to_string(from).map_err(|e| e.to_string())?;
    let about = format!(
        "<desc>{}</desc>\n<metadata>{}</metadata>\n",
        escaped(&from.lines().join("\n")),
        escaped(&known)
    );
    // Behind the opening tag, where readers look for it.
    let inside = text.find('>').map_or(0, |at| at + 1);
    text.insert_str(inside, &format!("\n{about}"));
    Ok(text)
}

/// The same as PNG.
///
/// # Errors
/// As [`svg`].
pub fn png(panels: &[Panel], from: &Provenance) -> Result<Vec<u8>, String> {
    let (width, height) = size(panels);
    let mut pixels = vec![0; (width * height * 3) as usize];
    let area = BitMapBackend::with_buffer(&mut pixels, (width, height)).into_drawing_area();
    draw_on(area, panels, from)?;
    encode(&pixels, (width, height), from).map_err(|e| e.to_string())
}

fn encode(
    pixels: &[u8],
    (width, height): (u32, u32),
    from: &Provenance,
) -> Result<Vec<u8>, png::EncodingError> {
    let mut bytes = Vec::new();
    let mut encoder = png::Encoder::new(&mut bytes, width, height);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    let [machine, command] = from.lines();
    for (keyword, text) in [("Source", machine), ("Comment", command)] {
        encoder.add_itxt_chunk(keyword.into(), text)?;
    }
    encoder.write_header()?.write_image_data(pixels)?;
    Ok(bytes)
}

/// Text that XML takes for text.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn size(panels: &[Panel]) -> (u32, u32) {
    (WIDTH, PANEL_HEIGHT * panels.len().max(1) as u32 + FOOTER)
}

fn draw_on<B: DrawingBackend>(
    area: DrawingArea<B, Shift>,
    panels: &[Panel],
    from: &Provenance,
) -> Result<(), String> {
    bring_the_font();
    area.fill(&WHITE).map_err(|e| e.to_string())?;
    let (above, below) = area.split_vertically(area.dim_in_pixel().1 - FOOTER);
    for (part, panel) in above.split_evenly((panels.len().max(1), 1)).iter().zip(panels) {
        draw_panel(part, panel).map_err(|e| e.to_string())?;
    }
    draw_footer(&below, from).map_err(|e| e.to_string())?;
    area.present().map_err(|e| e.to_string())
}

fn draw_footer<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    from: &Provenance,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let grey = RGBColor(80, 80, 80);
    let style = TextStyle::from((FAMILY, 13).into_font()).color(&grey);
    let room = area.dim_in_pixel().0.saturating_sub(2 * MARGIN as u32);
    for (place, line) in (0..).zip(from.lines()) {
        let mut shown = line.clone();
        while area.estimate_text_size(&shown, &style)?.0 > room {
            let keep = shown.chars().count().saturating_sub(2);
            shown = shown.chars().take(keep).chain(['…']).collect();
        }
        area.draw_text(&shown, &style, (MARGIN, FOOTER_LINE * place))?;
    }
    Ok(())
}

fn draw_panel<B: DrawingBackend>(
    area: &DrawingArea<B, Shift>,
    panel: &Panel,
) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
    let (x, y) = (panel.x.scale, panel.y.scale);
    let shown = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
        points.iter().copied().filter(|&(left, up)| x.shows(left) && y.shows(up)).collect()
    };
    let every = panel.curves.iter().flat_map(|curve| [&curve.points, &curve.beside]);
    let (xs, ys): (Vec<f64>, Vec<f64>) = every.flat_map(|points| shown(points)).unzip();
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FAMILY, 24))
        .margin(MARGIN)
        .x_label_area_size(55)
        .y_label_area_size(100)
        .build_cartesian_2d(x.span(&xs), y.span(&ys))?;
    chart
        .configure_mesh()
        .x_desc(&panel.x.label)
        .y_desc(&panel.y.label)
        .axis_desc_style((FAMILY, 18))
        .label_style((FAMILY, 15))
        .x_label_formatter(&|mark| x.label(*mark))
        .y_label_formatter(&|mark| y.label(*mark))
        .light_line_style(BLACK.mix(0.05))
        .draw()?;
    for (index, curve) in panel.curves.iter().enumerate() {
        let style = Style::of(index);
        chart.draw_series(shown(&curve.beside).into_iter().map(|at| style.faint(at)))?;
        let points = shown(&curve.points);
        chart
            .draw_series(std::iter::once(style.line(points.clone())))?
            .label(&curve.name)
            .legend(move |at| EmptyElement::at(at) + style.legend_line() + style.legend_marker());
        chart.draw_series(points.into_iter().map(|at| EmptyElement::at(at) + style.marker()))?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .legend_area_size(Style::legend_width())
        .margin(12)
        .background_style(WHITE.mix(0.85))
        .border_style(BLACK.mix(0.3))
        .label_font((FAMILY, 16))
        .draw()
}

/// Labels need a font, and a machine may have none: DejaVu Sans comes along.
#[expect(clippy::unreachable, reason = "the font is part of the program, and valid")]
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
        let beside = vec![(61.0, 0.1), (67.0, 0.2)];
        let curve = Curve { name: "Taffrail".into(), points: points.collect(), beside };
        let nothing =
            Curve { name: "not run".into(), points: vec![(8.0, 0.0)], ..Curve::default() };
        let panel = Panel {
            title: "Time".into(),
            x: Axis::new("message size (bytes)", Scale::Bytes),
            y: Axis::new("half a round trip", Scale::Log(Unit::Us)),
            curves: vec![curve, nothing],
        };
        vec![panel.clone(), Panel { title: "Empty".into(), curves: vec![], ..panel }]
    }

    #[test]
    fn a_png_is_an_image_with_something_on_it() {
        let bytes = png(&panels(), &Provenance::here()).unwrap();
        let mut reader = png::Decoder::new(&bytes[..]).read_info().unwrap();
        let mut pixels = vec![0; reader.output_buffer_size()];
        let frame = reader.next_frame(&mut pixels).unwrap();
        assert_eq!((frame.width, frame.height), (WIDTH, 2 * PANEL_HEIGHT + FOOTER));
        let pixels = || pixels.chunks_exact(3);
        let coloured = pixels().filter(|p| p[0] != p[1] || p[1] != p[2]).count();
        let dark = pixels().filter(|p| p.iter().all(|&c| c < 90)).count();
        assert!(coloured > 1000, "{coloured} pixels of curves");
        assert!(dark > 1000, "{dark} pixels of letters");
        let host = Provenance::here().host;
        assert!(String::from_utf8_lossy(&bytes).contains(&host), "{host} is not in its texts");
    }

    #[test]
    fn an_svg_has_its_curves_its_labels_and_where_they_come_from() {
        let from = Provenance {
            command: ["perf", "netpipe", "a<b&c"].map(String::from).into(),
            ..Provenance::here()
        };
        let text = svg(&panels(), &from).unwrap();
        assert!(text.starts_with("<svg") && text.trim_end().ends_with("</svg>"), "{text}");
        for label in ["Taffrail", "message size (bytes)", "64 KiB", "10 µs", "100 ns", "Empty"] {
            assert!(text.contains(label), "{label} is missing");
        }
        assert!(text.contains("<polyline"));
        assert_eq!(text.matches("opacity=\"0.35\"").count(), 2, "points beside the line: {text}");
        let [machine, _] = from.lines();
        // Below the panels, and for readers that draw nothing.
        for line in [&*machine, "$ perf netpipe"] {
            assert_eq!(text.matches(line).count(), 2, "{line}: {text}");
        }
        assert!(
            text.contains("<metadata>{\"command\":[\"perf\",\"netpipe\",\"a&lt;b&amp;c\"]"),
            "{text}"
        );
    }

    #[test]
    fn a_command_too_long_for_the_footer_is_cut_there_and_nowhere_else() {
        let long = "word-".repeat(100);
        let from = Provenance { command: vec!["perf".into(), long.clone()], ..Provenance::here() };
        let text = svg(&panels(), &from).unwrap();
        assert_eq!(text.matches('…').count(), 1, "{text}");
        assert_eq!(text.matches(&long).count(), 2, "description and metadata: {text}");
    }

    #[test]
    fn what_is_at_zero_is_shown_if_the_scale_has_a_zero() {
        let points = vec![(0.0, 1.0), (1.0, 1.0), (100.0, 2.0)];
        let curve = Curve { name: "depth".into(), points, ..Curve::default() };
        let mut panel = Panel { curves: vec![curve], ..panels().remove(0) };
        let mut markers = |scale| {
            panel.x.scale = scale;
            let text = svg(std::slice::from_ref(&panel), &Provenance::here()).unwrap();
            text.matches("<polygon").count()
        };
        // One more is in the legend.
        assert_eq!(markers(Scale::FromZero), 3 + 1);
        assert_eq!(markers(Scale::Bytes), 2 + 1);
    }
}
