//! [`Plot`]: lines over two axes, as wide as half a page. Also the colours of engines, which are the same everywhere.

use super::axis::Axis;
use super::svg::{Anchor, Svg};

/// The number of colours; further engines share them.
pub const COLOURS: usize = 8;

/// The class of an engine's lines.
pub fn stroke(engine: usize) -> String {
    format!("s{}", engine % COLOURS)
}

/// The class of an engine's areas.
pub fn fill(engine: usize) -> String {
    format!("f{}", engine % COLOURS)
}

/// A plot of lines.
pub struct Plot<'a> {
    /// The title above the plot.
    pub title: &'a str,
    /// The axis to the right.
    pub x: Axis,
    /// Formats the ticks of the x axis.
    pub x_tick: &'a dyn Fn(f64) -> String,
    /// The name of the x axis.
    pub x_name: &'a str,
    /// The axis upwards.
    pub y: Axis,
    /// Formats the ticks of the y axis.
    pub y_tick: &'a dyn Fn(f64) -> String,
    /// The lines, in the order they are drawn.
    pub lines: Vec<Line>,
    /// The marks at its foot.
    pub marks: Vec<Mark>,
    /// Its height.
    pub height: f64,
}

/// A stretch that is marked at the foot of a plot, each engine's in a row of its own.
pub struct Mark {
    /// The engine's place.
    pub engine: usize,
    /// Where it begins, on the x axis.
    pub from: f64,
    /// Where it ends.
    pub until: f64,
    /// The text shown when pointed at.
    pub title: String,
}

/// A line of a plot.
pub struct Line {
    /// The engine's place.
    pub engine: usize,
    /// The text shown when pointed at.
    pub title: String,
    /// Whether the line is the less important one of an engine's two lines.
    pub dashed: bool,
    /// In the units of the axes.
    pub points: Vec<(f64, f64)>,
    /// The text of a dot at each point.
    pub dots: Vec<String>,
}

/// The default height of a plot.
pub const HEIGHT: f64 = 235.0;

const WIDTH: f64 = 560.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 14.0;
const TOP: f64 = 28.0;
const BOTTOM: f64 = 36.0;
/// The height of a mark.
const MARK: f64 = 6.0;

impl Plot<'_> {
    /// The plot as an element of a page.
    pub fn draw(self) -> String {
        let mut svg = Svg::new(WIDTH, self.height, self.title);
        let x = self.x.between(LEFT, WIDTH - RIGHT);
        let y = self.y.between(self.height - BOTTOM, TOP);
        svg.text((LEFT, 14.0), "pt", Anchor::Start, self.title);
        for tick in y.ticks() {
            let at = y.at(tick);
            svg.line((x.start(), at), (x.end(), at), "g");
            svg.text((LEFT - 6.0, at + 4.0), "t", Anchor::End, &(self.y_tick)(tick));
        }
        for tick in x.ticks() {
            let at = x.at(tick);
            svg.line((at, y.start()), (at, y.start() + 4.0), "a");
            svg.line((at, y.start()), (at, y.end()), "g v");
            // The last tick's text must not leave the drawing.
            let anchor = if at > WIDTH - 30.0 { Anchor::End } else { Anchor::Middle };
            let at = if at > WIDTH - 30.0 { WIDTH - 2.0 } else { at };
            svg.text((at, y.start() + 16.0), "t", anchor, &(self.x_tick)(tick));
        }
        svg.line((x.start(), y.start()), (x.end(), y.start()), "a");
        svg.text((x.start(), self.height - 4.0), "t n", Anchor::Start, self.x_name);
        for mark in &self.marks {
            let (from, until) = (x.at(mark.from), x.at(mark.until));
            let at = y.start() - MARK * (mark.engine as f64 + 1.0);
            svg.rect((from, at), ((until - from).max(2.0), MARK - 1.0), &fill(mark.engine), &mark.title);
        }
        // The first engine is drawn last: on top.
        for line in self.lines.iter().rev() {
            let points: Vec<(f64, f64)> = line.points.iter().map(|(a, b)| (x.at(*a), y.at(*b))).collect();
            if points.len() > 1 {
                let class = if line.dashed { "l d" } else { "l" };
                svg.path(&points, &format!("{class} {}", stroke(line.engine)), &line.title);
            }
            let alone = [line.title.clone()];
            let dots = if points.len() == 1 && line.dots.is_empty() { &alone[..] } else { &line.dots };
            for (point, title) in points.iter().zip(dots) {
                svg.dot(*point, &fill(line.engine), title);
            }
        }
        svg.finish()
    }
}
