//! The chains that memtables waited for: the width of chains of compactions, by level, and their length (vLSM, figures
//! 2 and 9).

use super::bars::{Bar, Bars, Group};
use super::overview::{card, crown};
use crate::report::model::Run;
use crate::report::number;
use crate::report::summary::{Entry, Spread, Step, Summary};

/// Levels that a drawing has at most.
const LEVELS_MAX: usize = 12;

/// A gauge of a run, at the end of its draining if there was one.
fn gauge(run: &Run, name: &str) -> Option<f64> {
    let usage = run.drained.as_ref().unwrap_or(&run.usage);
    usage.peaks.get("chain_memtables").filter(|memtables| **memtables > 0)?;
    usage.peaks.get(name).map(|value| *value as f64)
}

/// The percentage of level 1's tables that overlap no more of level 2 than they should.
fn good_percent(run: &Run) -> Option<f64> {
    let usage = run.drained.as_ref().unwrap_or(&run.usage);
    let [good, poor] = ["good tables", "poor tables"].map(|name| usage.counters.other.get(name).copied().unwrap_or(0));
    (good + poor > 0).then(|| good as f64 / (good + poor) as f64 * 100.0)
}

type Figure<'f> = (&'f str, &'f dyn Fn(&Run) -> Option<f64>);

/// Bars of figures of one step: a group for each.
fn bars(
    summary: &Summary<'_>,
    title: String,
    hint: &'static str,
    step: &Step<'_>,
    show: fn(f64) -> String,
    figures: &[Figure<'_>],
) -> Bars {
    let median = |entry: &Entry<'_>, of: &dyn Fn(&Run) -> Option<f64>| {
        Spread::of(entry.runs.iter().filter_map(|run| of(run)).collect()).map(|spread| spread.median)
    };
    let group = |(name, of): &Figure<'_>| {
        let bar = |entry: &Entry<'_>| {
            let (engine, name) = (summary.place(entry.engine), entry.engine.to_owned());
            median(entry, of).map(|figure| Bar { engine, name, figure, text: show(figure), ratio: None, best: false })
        };
        let mut bars: Vec<Bar> = step.entries.iter().filter_map(bar).collect();
        crown(&mut bars, hint == "longer is better");
        Group { name: (*name).to_owned(), bars }
    };
    let groups = figures.iter().map(group).filter(|group| !group.bars.is_empty()).collect();
    Bars { title, hint, groups }
}

/// Draws all steps in which an engine counted chains; empty if there are none.
pub fn draw(summary: &Summary<'_>) -> String {
    let mut html = String::new();
    for step in &summary.steps {
        let all: [Figure<'_>; 3] = [
            ("mean", &|run| gauge(run, "chain_bytes_mean")),
            ("P99", &|run| gauge(run, "chain_bytes_p99")),
            ("most", &|run| gauge(run, "chain_bytes_max")),
        ];
        let width =
            bars(summary, format!("{}: bytes moved", step.short()), "shorter is better", step, number::bytes, &all);
        let names: Vec<(String, String)> = (0..LEVELS_MAX)
            .map(|level| (format!("out of level {level}"), format!("chain_level{level}_bytes_mean")))
            .collect();
        type Owned<'n> = (&'n str, Box<dyn Fn(&Run) -> Option<f64> + 'n>);
        let levels: Vec<Owned<'_>> =
            names.iter().map(|(name, key)| -> Owned<'_> { (name, Box::new(move |run| gauge(run, key))) }).collect();
        let levels: Vec<Figure<'_>> = levels.iter().map(|(name, of)| (*name, &**of)).collect();
        let by_level = bars(summary, "mean, by level".to_owned(), "shorter is better", step, number::bytes, &levels);
        let length: [Figure<'_>; 2] = [
            ("mean", &|run| gauge(run, "chain_stages_mean_100").map(|hundredths| hundredths / 100.0)),
            ("most", &|run| gauge(run, "chain_stages_max")),
        ];
        let count = |figure: f64| format!("{figure:.2}");
        let length = bars(summary, "levels taken from".to_owned(), "shorter is better", step, count, &length);
        let percent = |figure: f64| format!("{figure:.0} %");
        let good: [Figure<'_>; 1] = [("good tables", &good_percent)];
        let good = bars(summary, "tables of level 1".to_owned(), "longer is better", step, percent, &good);
        html.extend(
            [width, by_level, length, good].iter().map(Bars::draw).filter(|svg| !svg.is_empty()).map(|s| card(&s)),
        );
    }
    if html.is_empty() {
        return html;
    }
    format!("<section>\n<h2>What a memtable waited for</h2>\n<div class=\"thirds\">{html}</div>\n</section>\n")
}
