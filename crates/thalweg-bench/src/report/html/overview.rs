//! The top of the page: which engine is faster, and at what tail.

use super::bars::{Bar, Bars, Group};
use super::svg::escape;
use crate::report::metric::{Quantile, class_name};
use crate::report::summary::{Step, Summary};
use crate::report::{Metric, number};
use std::fmt::Write;

/// Bars of a figure for some steps: with several engines a group for each step, otherwise one group of all steps.
pub fn bars(summary: &Summary<'_>, title: &str, figures: &[(String, &Step<'_>, Metric)]) -> Bars {
    let rises = figures.first().is_some_and(|(_, _, metric)| metric.rises());
    let groups = figures.iter().map(|(name, step, metric)| group(summary, name, step, *metric));
    let groups = groups.filter(|group| !group.bars.is_empty()).collect();
    finished(summary, title, rises, groups)
}

fn finished(summary: &Summary<'_>, title: &str, rises: bool, mut groups: Vec<Group>) -> Bars {
    if summary.engines.len() == 1 {
        let named = |group: Group| group.bars.into_iter().map(move |bar| Bar { name: group.name.clone(), ..bar });
        let bars: Vec<Bar> = groups.into_iter().flat_map(named).map(|bar| Bar { best: true, ..bar }).collect();
        groups = if bars.is_empty() { Vec::new() } else { vec![Group { name: String::new(), bars }] };
    }
    let hint = if rises { "longer is better" } else { "shorter is better" };
    Bars { title: title.to_owned(), hint, groups }
}

fn group(summary: &Summary<'_>, name: &str, step: &Step<'_>, metric: Metric) -> Group {
    let mut bars: Vec<Bar> = Vec::new();
    for entry in &step.entries {
        let Some(figure) = entry.median(metric) else { continue };
        let mut text = metric.show(figure);
        let ratio = summary.ratio(step, entry.engine, metric).map(|ratio| ratio.median);
        if let Some(ratio) = ratio.filter(|_| entry.engine != summary.baseline) {
            let _ = write!(text, " · {}", number::ratio(ratio));
        }
        if entry.noisy() && matches!(metric, Metric::Latency(..) | Metric::Throughput) {
            text.push_str(" noisy");
        }
        let (engine, name) = (summary.place(entry.engine), entry.engine.to_owned());
        bars.push(Bar { engine, name, figure, text, ratio, best: false });
    }
    crown(&mut bars, metric.rises());
    Group { name: name.to_owned(), bars }
}

/// Marks the best bar, if there are at least two.
pub fn crown(bars: &mut [Bar], rises: bool) {
    let order = |a: &&mut Bar, b: &&mut Bar| {
        if rises { a.figure.total_cmp(&b.figure) } else { b.figure.total_cmp(&a.figure) }
    };
    if bars.len() > 1
        && let Some(best) = bars.iter_mut().max_by(order)
    {
        best.best = true;
    }
}

/// Bars of throughput and of sustained rates. In an open loop all engines reach the offered rate, which shows nothing:
/// such steps appear only if there are no others.
fn throughput(summary: &Summary<'_>) -> Bars {
    let all: Vec<&Step<'_>> = summary.asked().collect();
    let closed: Vec<&Step<'_>> = all.iter().copied().filter(|step| step.closed()).collect();
    let searched = summary.searched();
    let shown = if closed.is_empty() && searched.is_empty() { &all } else { &closed };
    let mut groups: Vec<Group> =
        shown.iter().map(|step| group(summary, &step.short(), step, Metric::Throughput)).collect();
    for workload in searched {
        let bar = |(engine, name): (usize, &&str)| {
            let figure = summary.sustained(workload, name)?.median;
            let ratio = summary.sustained_ratio(workload, name).map(|ratio| ratio.median);
            let mut text = number::rate(figure);
            if let Some(ratio) = ratio.filter(|_| *name != summary.baseline) {
                let _ = write!(text, " · {}", number::ratio(ratio));
            }
            let name = (*name).to_owned();
            Some(Bar { engine, name, figure, text, ratio, best: false })
        };
        let mut bars: Vec<Bar> = summary.engines.iter().enumerate().filter_map(bar).collect();
        crown(&mut bars, true);
        groups.push(Group { name: format!("{workload}, sustained rate"), bars });
    }
    finished(summary, "Throughput", true, groups)
}

fn tail(summary: &Summary<'_>, writes: bool) -> Bars {
    let mut figures = Vec::new();
    for step in summary.asked() {
        for class in step.classes().into_iter().filter(|class| class.writes() == writes) {
            let name = format!("{}: {}", step.short(), class_name(class));
            figures.push((name, step, Metric::Latency(class, Quantile::P99)));
        }
    }
    bars(summary, if writes { "P99 of writes" } else { "P99 of reads" }, &figures)
}

/// The overview: ratios, and bars of throughput and tails.
pub fn draw(summary: &Summary<'_>) -> String {
    let panels = [throughput(summary), tail(summary, false), tail(summary, true)];
    let mut html = String::new();
    if summary.engines.len() > 1 {
        html.push_str(&verdict(summary, &panels));
    } else {
        html.push_str(&tiles(summary));
    }
    let drawn: String = panels.iter().map(Bars::draw).filter(|svg| !svg.is_empty()).map(|svg| card(&svg)).collect();
    if !drawn.is_empty() {
        let _ = writeln!(html, "<div class=\"thirds\">{drawn}</div>");
    }
    html
}

/// A drawing in its frame.
pub fn card(svg: &str) -> String {
    format!("<div>{svg}</div>\n")
}

/// For each engine its throughput against the baseline, and how often it is the first.
fn verdict(summary: &Summary<'_>, panels: &[Bars; 3]) -> String {
    let mut html = String::from("<ul class=\"verdict e\">");
    for (place, engine) in summary.engines.iter().enumerate() {
        let wins = panels.each_ref().map(|bars| wins(bars, place));
        let mut lines = Vec::new();
        for ((won, of), what) in
            wins.into_iter().zip(["fastest in", "lowest P99 of reads in", "lowest P99 of writes in"])
        {
            if of > 0 {
                lines.push(format!("{what} {won} of {of}"));
            }
        }
        let (mean, count) = mean_ratio(&panels[0], place);
        let workloads = match panels[0].groups.as_slice() {
            _ if *engine == summary.baseline => "throughput; the others are relative to it".to_owned(),
            [group] => format!("throughput in {}", group.name),
            _ => format!("throughput, geometric mean of {count}"),
        };
        let _ = write!(
            html,
            "<li style=\"--c:var(--c{})\"><div class=\"k\">{}</div><div class=\"v\">{}</div><div class=\"d\">{}</div>\
             <div class=\"d w\">{}</div></li>",
            place % super::plot::COLOURS,
            escape(engine),
            mean.map_or("–".to_owned(), number::ratio),
            escape(&workloads),
            lines.join("<br/>")
        );
    }
    html.push_str("</ul>\n");
    html
}

/// The number of groups in which an engine is the best, and the number of groups that have a best engine.
fn wins(bars: &Bars, engine: usize) -> (usize, usize) {
    let best = |group: &&Group| group.bars.iter().any(|bar| bar.best && bar.engine == engine);
    let contested = |group: &&Group| group.bars.iter().any(|bar| bar.best);
    (bars.groups.iter().filter(best).count(), bars.groups.iter().filter(contested).count())
}

/// The geometric mean of an engine's figures over the baseline's, and the number of groups in it.
fn mean_ratio(bars: &Bars, engine: usize) -> (Option<f64>, usize) {
    let ratio = |group: &Group| group.bars.iter().find(|bar| bar.engine == engine)?.ratio.filter(|ratio| *ratio > 0.0);
    let logs: Vec<f64> = bars.groups.iter().filter_map(|group| Some(ratio(group)?.ln())).collect();
    let mean = logs.iter().sum::<f64>() / logs.len() as f64;
    ((!logs.is_empty()).then(|| mean.exp()), logs.len())
}

/// The tiles of a single engine: large figures of each step.
fn tiles(summary: &Summary<'_>) -> String {
    let mut html = String::from("<ul class=\"verdict\">");
    for step in &summary.steps {
        let Some(entry) = step.entries.first() else { continue };
        let preparation = if step.preparation { " (preparation)" } else { "" };
        let shown = |metric| crate::report::table::shown(entry, metric);
        let p99 = |class| format!("{} P99 {}", class_name(class), shown(Metric::Latency(class, Quantile::P99)));
        let tails: Vec<String> = step.classes().into_iter().map(p99).collect();
        let noisy = if entry.noisy() { " (noisy)" } else { "" };
        let _ = write!(
            html,
            "<li><div class=\"k\">{}{preparation}{noisy}</div><div class=\"v\">{}</div><div class=\"d\">{}</div></li>",
            escape(&step.short()),
            shown(Metric::Throughput),
            tails.join(" · ")
        );
    }
    html.push_str("</ul>\n");
    html
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(engine: usize, figure: f64) -> Bar {
        Bar { engine, name: String::new(), figure, text: String::new(), ratio: Some(figure), best: false }
    }

    #[test]
    fn the_best_is_the_longest_or_the_shortest() {
        let mut bars = vec![bar(0, 2.0), bar(1, 1.0)];
        crown(&mut bars, true);
        assert!(bars[0].best && !bars[1].best);
        let mut bars = vec![bar(0, 2.0), bar(1, 1.0)];
        crown(&mut bars, false);
        assert!(!bars[0].best && bars[1].best);
        let mut alone = vec![bar(0, 2.0)];
        crown(&mut alone, true);
        assert!(!alone[0].best, "nobody to be better than");
    }

    #[test]
    fn the_mean_of_ratios_is_geometric() {
        let group = |a, b| Group { name: String::new(), bars: vec![bar(0, a), bar(1, b)] };
        let groups = vec![group(1.0, 4.0), group(1.0, 1.0), group(1.0, 0.0)];
        let bars = Bars { title: String::new(), hint: "", groups };
        assert_eq!(mean_ratio(&bars, 1), (Some(2.0), 2));
    }
}
