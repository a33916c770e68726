//! Bars side by side: a group for each step, a bar for each engine, each group in a scale of its own.

use super::plot::fill;
use super::svg::{Anchor, Svg};

/// Bars of one figure.
pub struct Bars {
    /// What they show: `Throughput`.
    pub title: String,
    /// How to read them: `longer is better`.
    pub hint: &'static str,
    /// In order.
    pub groups: Vec<Group>,
}

/// The bars of one step.
pub struct Group {
    /// The step; blank: no headline.
    pub name: String,
    /// One for each engine that has the figure.
    pub bars: Vec<Bar>,
}

/// One bar.
pub struct Bar {
    /// The engine's place.
    pub engine: usize,
    /// The engine's name.
    pub name: String,
    /// How long it is.
    pub figure: f64,
    /// The figure as read.
    pub text: String,
    /// It is the best of its group.
    pub best: bool,
}

const WIDTH: f64 = 380.0;
/// About the width of a character.
const CHAR: f64 = 6.5;
/// The longest bar at least, whatever the texts.
const MARKED: f64 = 60.0;
const BAR: f64 = 17.0;
const HEAD: f64 = 24.0;
const NAME_CHARS_MAX: usize = 18;

impl Bars {
    /// The bars as an element of a page; nothing when there are not two to compare.
    pub fn draw(&self) -> String {
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        if bars < 2 {
            return String::new();
        }
        let heads = self.groups.iter().map(Group::head).sum::<f64>();
        let height = 24.0 + heads + bars as f64 * BAR + 4.0;
        let names = self.groups.iter().flat_map(|group| &group.bars).map(|bar| shortened(&bar.name).chars().count());
        let left = names.max().unwrap_or(0) as f64 * CHAR + 10.0;
        let texts = self.groups.iter().flat_map(|group| &group.bars).map(|bar| bar.text.chars().count());
        let room = (WIDTH - left - texts.max().unwrap_or(0) as f64 * CHAR - 8.0).max(MARKED);
        let mut svg = Svg::new(WIDTH, height, &self.title);
        svg.text((0.0, 14.0), "pt", Anchor::Start, &self.title);
        svg.text((WIDTH - 2.0, 14.0), "t n", Anchor::End, self.hint);
        let mut y = 24.0;
        for group in &self.groups {
            svg.text((0.0, y + 16.0), "gn", Anchor::Start, &group.name);
            y += group.head();
            let longest = group.bars.iter().map(|bar| bar.figure).fold(0.0, f64::max);
            for bar in &group.bars {
                let share = if longest > 0.0 { bar.figure / longest } else { 0.0 };
                let long = (share * room).max(1.0);
                let title = format!("{} {}: {}", group.name, bar.name, bar.text);
                svg.text((left - 6.0, y + 12.0), "t", Anchor::End, &shortened(&bar.name));
                svg.rect((left, y + 2.0), (long, BAR - 4.0), &fill(bar.engine), &title);
                let class = if bar.best { "t b" } else { "t" };
                svg.text((left + long + 5.0, y + 12.0), class, Anchor::Start, &bar.text);
                y += BAR;
            }
        }
        svg.finish()
    }
}

impl Group {
    fn head(&self) -> f64 {
        if self.name.is_empty() { 6.0 } else { HEAD }
    }
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_CHARS_MAX {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(NAME_CHARS_MAX - 1).collect();
    short.push('…');
    short
}
