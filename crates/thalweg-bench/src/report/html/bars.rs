//! Bars side by side: a group for each step, a bar for each engine, each group in a scale of its own.

use super::plot::fill;
use super::svg::{Anchor, Svg};

/// Bars of one figure.
pub struct Bars {
    /// The title: `Throughput`.
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
    /// The length of the bar, in units of the figure.
    pub figure: f64,
    /// The figure as read.
    pub text: String,
    /// The ratio to the baseline's figure, if it is shown.
    pub ratio: Option<f64>,
    /// Whether the bar is the best of its group.
    pub best: bool,
}

const WIDTH: f64 = 380.0;
/// The width of a character of a name, of which most are small letters.
const CHAR: f64 = 6.6;
/// The width of a character of a figure: digits are wide, and figures are bold.
const FIGURE_CHAR: f64 = 7.6;
/// The minimum of the longest bar's length; names are shortened before the bar becomes shorter.
const BAR_MIN: f64 = 40.0;
const BAR: f64 = 17.0;
const HEAD: f64 = 24.0;
const NAME_CHARS_MAX: usize = 22;
const NAME_CHARS_MIN: usize = 8;

impl Bars {
    /// Draws the bars as an element of a page; empty if there are fewer than two bars to compare.
    pub fn draw(&self) -> String {
        let bars: usize = self.groups.iter().map(|group| group.bars.len()).sum();
        if bars < 2 {
            return String::new();
        }
        let heads = self.groups.iter().map(Group::head).sum::<f64>();
        let height = 24.0 + heads + bars as f64 * BAR + 4.0;
        let all = || self.groups.iter().flat_map(|group| &group.bars);
        let longest = |chars: &dyn Fn(&Bar) -> usize| all().map(chars).max().unwrap_or(0);
        let texts = longest(&|bar| bar.text.chars().count()) as f64 * FIGURE_CHAR + 8.0;
        let fitting = ((WIDTH - texts - BAR_MIN - 10.0) / CHAR).max(0.0) as usize;
        let names_max = fitting.clamp(NAME_CHARS_MIN, NAME_CHARS_MAX);
        let left = longest(&|bar| bar.name.chars().count().min(names_max)) as f64 * CHAR + 10.0;
        let room = (WIDTH - left - texts).max(1.0);
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
                svg.text((left - 6.0, y + 12.0), "t", Anchor::End, &shortened(&bar.name, names_max));
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

fn shortened(name: &str, chars_max: usize) -> String {
    if name.chars().count() <= chars_max {
        return name.to_owned();
    }
    let mut short: String = name.chars().take(chars_max.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text's end, from where it begins, as wide as the widest digits in bold.
    fn text_ends(svg: &str) -> Vec<f64> {
        let number = |text: &str| text.split('"').next().unwrap().parse::<f64>().unwrap();
        let texts = svg.split("<text x=\"").skip(1).filter(|text| !text.contains("text-anchor"));
        let end = |text: &str| {
            let said = text.split('>').nth(1).unwrap().trim_end_matches("</text");
            number(text) + said.chars().count() as f64 * 7.0
        };
        texts.filter(|text| text.contains("class=\"t")).map(end).collect()
    }

    #[test]
    fn the_longest_bar_leaves_room_for_its_figure() {
        let bar = |engine, name: &str, figure, text: &str| {
            let (name, text) = (name.to_owned(), text.to_owned());
            Bar { engine, name, figure, text, ratio: None, best: true }
        };
        for (name, text) in [("ycsb-load", "228 k/s"), ("thalweg:table=2M:backend=none", "12.3 MiB · 0.73× noisy")] {
            let bars = vec![bar(0, name, 9.0, text), bar(1, "b", 1.0, "1")];
            let bars = Bars { title: "T".into(), hint: "h", groups: vec![Group { name: String::new(), bars }] };
            let ends = text_ends(&bars.draw());
            assert!(ends.len() == 2 && ends.iter().all(|end| *end <= WIDTH), "{name}: {ends:?}");
        }
    }
}
