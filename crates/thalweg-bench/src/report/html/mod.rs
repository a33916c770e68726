//! [`page`]: a report as one HTML file: plots, tables and configuration. The page needs no script and no other file,
//! works from a disk, and follows the reader's choice of light or dark.
//!
//! - `svg`: a drawing as text
//! - `axis`: positions of figures on a drawing, and round ticks
//! - `plot`: lines over two axes
//! - `bars`: bars side by side
//! - `overview`: the top of the page
//! - `timeline`, `resources`: throughput, P99, memory and bytes over time
//! - `rates`, `distribution`, `chains`: P99 by rate, latencies, chains of compactions
//! - `tables`: every figure, the paper's table, the configuration

mod axis;
mod bars;
mod chains;
mod distribution;
mod overview;
mod plot;
mod rates;
mod resources;
mod svg;
mod tables;
mod timeline;

use super::{Metric, Step, Summary, number, table};
use std::fmt::Write;
use svg::escape;

/// The greatest number of steps of a workload whose plots are all open; of more steps only the last is open.
const OPEN_MAX: usize = 2;

/// Renders a report as a page, with ratios to the summary's baseline.
pub fn page(summary: &Summary<'_>) -> String {
    let report = summary.report;
    let title = title(summary);
    let mut body = header(summary, &title);
    body.push_str("<main>\n");
    body.push_str(&overview::draw(summary));
    body.push_str(&tables::terms(summary));
    body.push_str(&tables::ratios(summary));
    if let Some(paper) = &report.paper {
        body.push_str(&tables::paper(summary, paper));
    }
    body.push_str(&workloads(summary));
    body.push_str(&chains::draw(summary));
    body.push_str(&costs(summary));
    body.push_str(&tables::numbers(summary));
    body.push_str(&tables::glossary());
    body.push_str(&tables::configuration(report));
    let _ = write!(
        body,
        "<footer>thalweg-bench {}, {}</footer>\n</main>\n",
        escape(&report.version),
        escape(&report.started)
    );
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>{}</title>\n\
         <style>\n{}{}</style>\n</head>\n<body>\n{body}</body>\n</html>\n",
        escape(&title),
        include_str!("page.css"),
        colours()
    )
}

/// The classes of lines and areas in each colour.
fn colours() -> String {
    (0..plot::COLOURS)
        .map(|n| format!(".s{n} {{ stroke: var(--c{n}); }} .f{n} {{ fill: var(--c{n}); background: var(--c{n}); }}\n"))
        .collect()
}

fn title(summary: &Summary<'_>) -> String {
    let mut names: Vec<&str> = Vec::new();
    for step in summary.asked() {
        if !names.contains(&step.workload) {
            names.push(step.workload);
        }
    }
    let engines = match summary.engines.as_slice() {
        [engine] => (*engine).to_owned(),
        [first, others @ ..] if others.len() < 5 => format!("{first} and {}", others.join(", ")),
        engines => format!("{} engines", engines.len()),
    };
    let what = match (&summary.report.preset, names.len()) {
        (Some(preset), _) => preset.clone(),
        (None, 0..=6) => names.join(", "),
        (None, many) => format!("{many} workloads"),
    };
    format!("{engines}: {what}")
}

fn header(summary: &Summary<'_>, title: &str) -> String {
    let report = summary.report;
    let run = summary.asked().next().and_then(Step::first);
    let facts = [
        run.map_or(String::new(), table::circumstances),
        match report.parameters.rounds {
            1 => "1 round".to_owned(),
            rounds => format!("median of {rounds} rounds"),
        },
        format!("{} × {}", report.machine.cpus, report.machine.cpu),
        format!("{} of memory", number::bytes(report.machine.memory_bytes as f64)),
        report.started.clone(),
    ];
    let mut html =
        format!("<header>\n<h1>{}</h1>\n<p class=\"soft\">{}</p>\n", escape(title), escape(&facts.join(" · ")));
    if summary.steps.iter().flat_map(|step| &step.entries).any(|entry| entry.noisy()) {
        html.push_str(
            "<p class=\"bad\">Other processes disturbed some of these runs, which are marked noisy: do not trust their \
             latencies.</p>\n",
        );
    }
    html.push_str("</header>\n<div class=\"legend\"><div>");
    for (place, engine) in summary.engines.iter().enumerate() {
        let version = report.engines.iter().find(|described| described.name == *engine);
        let _ = write!(
            html,
            "<span><i class=\"{}\"></i>{} <span class=\"soft\">{}</span></span>",
            plot::fill(place),
            escape(engine),
            escape(version.map_or("", |described| &described.version))
        );
    }
    html.push_str("</div></div>\n");
    html
}

/// A section for each workload: P99 against rate, and for each step the plots over time and the distributions.
fn workloads(summary: &Summary<'_>) -> String {
    let mut html = String::new();
    let mut done: Vec<&str> = Vec::new();
    for step in summary.asked() {
        if done.contains(&step.workload) {
            continue;
        }
        done.push(step.workload);
        let steps: Vec<&Step<'_>> = summary.asked().filter(|other| other.workload == step.workload).collect();
        let _ = write!(html, "<section>\n<h2>{}</h2>\n", escape(step.workload));
        let rates: String = rates::draw(summary, &steps).iter().map(|svg| overview::card(svg)).collect();
        if !rates.is_empty() {
            let _ = writeln!(html, "<div class=\"plots\">{rates}</div>");
        }
        for (number, step) in steps.iter().enumerate() {
            let open = steps.len() <= OPEN_MAX || number + 1 == steps.len();
            html.push_str(&plots(summary, step, open));
        }
        html.push_str("</section>\n");
    }
    let loads: String =
        summary.steps.iter().filter(|step| step.preparation).map(|step| plots(summary, step, false)).collect();
    if !loads.is_empty() {
        let _ = write!(html, "<section>\n<h2>Loads</h2>\n{loads}</section>\n");
    }
    html
}

/// Plots of a step over time, and of the distribution of its latencies; unfolded if `open`.
fn plots(summary: &Summary<'_>, step: &Step<'_>, open: bool) -> String {
    let plots = [timeline::draw(summary, step), distribution::draw(summary, step)];
    let plots = plots.into_iter().filter(|svg| !svg.is_empty()).chain(resources::draw(summary, step));
    let plots: String = plots.map(|svg| overview::card(&svg)).collect();
    let open = if open { " open=\"\"" } else { "" };
    format!(
        "<details{open}><summary>{}</summary>\n<div class=\"plots\">{plots}</div>\n</details>\n",
        escape(&table::title(step))
    )
}

/// Bars of the costs of each step. Loads are included, because they write the most.
fn costs(summary: &Summary<'_>) -> String {
    let mut html = String::new();
    let loads = summary.steps.iter().filter(|step| step.preparation);
    let loads: Vec<_> = loads.map(|step| (step.short(), step, Metric::Throughput)).collect();
    let svg = overview::bars(summary, "Throughput of loads", &loads).draw();
    if !svg.is_empty() {
        html.push_str(&overview::card(&svg));
    }
    for (metric, title) in [
        (Metric::Cpu, "CPU time of an operation"),
        (Metric::Written, "Bytes written for an operation"),
        (Metric::WriteAmplification, "Write amplification"),
        (Metric::DeviceReads, "Device reads for a read"),
        (Metric::PeakMemory, "Peak of resident memory"),
        (Metric::Space, "Space on disk afterwards"),
    ] {
        // A step that wrote nothing would have a bar of length 0.
        let says = |step: &&Step<'_>| step.entries.iter().any(|e| e.median(metric).is_some_and(|figure| figure > 0.0));
        let figures: Vec<_> = summary.steps.iter().filter(says).map(|step| (step.short(), step, metric)).collect();
        let svg = overview::bars(summary, title, &figures).draw();
        if !svg.is_empty() {
            html.push_str(&overview::card(&svg));
        }
    }
    if html.is_empty() { html } else { format!("<h2>What it costs</h2>\n<div class=\"thirds\">{html}</div>\n") }
}

#[cfg(test)]
mod tests;
