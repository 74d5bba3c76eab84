//! One plot over time, as SVG that is readable on light and on dark pages.

use plotters::prelude::*;

/// Colours that stand out from white and from black alike.
pub(super) const BLUE: RGBColor = RGBColor(59, 130, 246);
pub(super) const GREEN: RGBColor = RGBColor(22, 163, 74);
pub(super) const ORANGE: RGBColor = RGBColor(224, 120, 20);
pub(super) const GREY: RGBColor = RGBColor(128, 128, 128);

const WIDTH: u32 = 420;
const HEIGHT: u32 = 150;

/// Comes out a fifth smaller: plotters takes it for the height of a line.
const FONT: u32 = 14;

/// Room above the highest point.
const HEADROOM: f64 = 1.05;

/// A plot over time.
pub(super) struct Chart<'a> {
    /// What it shows, for those who cannot see it.
    pub(super) label: &'a str,
    /// Where the time ends, in seconds.
    pub(super) until: f64,
    /// Where the scale ends; what is higher is cut off.
    pub(super) most: f64,
    pub(super) lines: Vec<Line>,
    /// Times that are marked.
    pub(super) marked: &'a [(f64, f64)],
}

/// A line through points, with gaps where nothing is known.
pub(super) struct Line {
    pub(super) color: RGBColor,
    pub(super) points: Vec<(f64, Option<f64>)>,
}

impl Line {
    pub(super) fn highest(&self) -> f64 {
        self.points
            .iter()
            .filter_map(|&(_, value)| value)
            .fold(0.0, f64::max)
    }
}

impl Chart<'_> {
    /// The plot.
    pub(super) fn svg(&self) -> String {
        let mut svg = String::new();
        {
            let root = SVGBackend::with_string(&mut svg, (WIDTH, HEIGHT)).into_drawing_area();
            self.draw(&root)
                .and_then(|()| root.present())
                .expect("a text takes whatever is written to it");
        }
        // Black is what plotters draws axes and texts in.
        let svg = svg.replace("#000000", "currentColor");
        let label = super::html::escaped(self.label);
        svg.replacen(
            "<svg ",
            &format!("<svg role=\"img\" aria-label=\"{label}\" "),
            1,
        )
    }

    fn draw<'a>(
        &self,
        root: &DrawingArea<SVGBackend<'a>, plotters::coord::Shift>,
    ) -> Result<(), DrawingAreaErrorKind<<SVGBackend<'a> as DrawingBackend>::ErrorType>> {
        let most = self.most.max(1.0) * HEADROOM;
        let until = self.until.max(0.1);
        let mut chart = ChartBuilder::on(root)
            .margin(4)
            .margin_right(12)
            .x_label_area_size(20)
            .y_label_area_size(46)
            .build_cartesian_2d(0.0..until, 0.0..most)?;
        chart
            .configure_mesh()
            .disable_mesh()
            .x_labels(8)
            .y_labels(4)
            .x_label_formatter(&|seconds| format!("{seconds} s"))
            .y_label_formatter(&|value| short(*value))
            .label_style(("sans-serif", FONT))
            .draw()?;
        chart.draw_series(self.marked.iter().map(|&(from, to)| {
            Rectangle::new(
                [(from, 0.0), (to.min(until), most)],
                ORANGE.mix(0.25).filled(),
            )
        }))?;
        for line in &self.lines {
            for known in line.points.split(|(_, value)| value.is_none()) {
                let points = known
                    .iter()
                    .filter_map(|&(at, value)| Some((at, value?.min(most))));
                chart.draw_series(LineSeries::new(points, line.color.stroke_width(2)))?;
            }
        }
        Ok(())
    }
}

/// A figure of the scale: 1500 is `1.5k`.
fn short(value: f64) -> String {
    let (scaled, unit) = match value {
        value if value >= 1e6 => (value / 1e6, "M"),
        value if value >= 1e3 => (value / 1e3, "k"),
        value => (value, ""),
    };
    // Rounded first, so that 0.30000000000000004 is not written out.
    format!("{}{unit}", (scaled * 100.0).round() / 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chart(points: Vec<(f64, Option<f64>)>) -> String {
        let line = Line {
            color: BLUE,
            points,
        };
        Chart {
            label: "a \"quoted\" <label>",
            until: 10.0,
            most: 100.0,
            lines: vec![line],
            marked: &[(1.0, 2.0)],
        }
        .svg()
    }

    #[test]
    fn a_gap_parts_the_line() {
        let whole = chart(vec![(0.0, Some(1.0)), (1.0, Some(2.0)), (2.0, Some(3.0))]);
        let parted = chart(vec![
            (0.0, Some(1.0)),
            (1.0, Some(2.0)),
            (2.0, None),
            (3.0, Some(1.0)),
            (4.0, Some(2.0)),
        ]);

        let lines = |svg: &str| svg.matches("stroke=\"#3B82F6\"").count();
        assert_eq!((lines(&whole), lines(&parted)), (1, 2));
    }

    #[test]
    fn it_takes_its_ink_from_the_page_and_its_label_is_escaped() {
        let svg = chart(Vec::new());

        assert!(svg.contains("currentColor"));
        assert!(!svg.contains("#000000"));
        assert!(svg.contains("a &quot;quoted&quot; &lt;label&gt;"));
    }

    #[test]
    fn figures_of_the_scale_are_short() {
        assert_eq!(short(1500.0), "1.5k");
        assert_eq!(short(2_000_000.0), "2M");
        assert_eq!(short(0.1 + 0.2), "0.3");
    }
}
