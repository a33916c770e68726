//! `bench list`: lists the workloads, presets and engines.

use crate::preset;
use crate::process::Host;
use crate::workload::{self, Definition};
use std::fmt::Write;

/// Workloads, presets and engines, a line each.
pub fn render(host: &Host) -> String {
    let mut text = String::new();
    let workloads: Vec<[String; 5]> = workload::all().map(workload_row).collect();
    section(&mut text, ["WORKLOAD", "RECORDS", "KEY+VALUE", "LIMIT", "WHAT IT DOES"], &workloads);
    text.push('\n');
    for (family, members) in workload::families() {
        let _ = writeln!(text, "{family} stands for {}", members.join(", "));
    }
    let presets: Vec<[String; 2]> = preset::all()
        .into_iter()
        .map(|preset| [preset.name.to_owned(), format!("{} ({})", preset.about, preset.paper.source)])
        .collect();
    if !presets.is_empty() {
        text.push('\n');
        section(&mut text, ["PRESET", "WHAT IT DOES"], &presets);
    }
    let engines: Vec<&str> = host.factories.iter().map(|factory| factory.name()).collect();
    let _ = writeln!(text, "\nEngines: {}", engines.join(", "));
    text
}

fn workload_row(definition: &Definition) -> [String; 5] {
    let defaults = &definition.defaults;
    let limit = match (defaults.seconds, defaults.operations) {
        (Some(seconds), _) => format!("{seconds} s"),
        (None, Some(operations)) => format!("{operations} ops"),
        (None, None) => "all".to_owned(),
    };
    [
        definition.name.to_owned(),
        defaults.records.to_string(),
        format!("{}+{} B", defaults.key_bytes, defaults.value_bytes),
        limit,
        format!("{} ({})", definition.about, definition.source),
    ]
}

/// Appends a table: each column is as wide as its widest cell, and the last one is not padded.
fn section<const N: usize>(text: &mut String, head: [&str; N], rows: &[[String; N]]) {
    let head = head.map(str::to_owned);
    let lines: Vec<&[String; N]> = std::iter::once(&head).chain(rows).collect();
    let width = |column: usize| lines.iter().filter_map(|line| line.get(column)).map(|cell| cell.chars().count()).max();
    for line in &lines {
        let cells = line.iter().enumerate().map(|(column, cell)| match column + 1 == N {
            true => cell.clone(),
            false => format!("{cell:width$}  ", width = width(column).unwrap_or_default()),
        });
        let _ = writeln!(text, "{}", cells.collect::<String>().trim_end());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let mut text = String::new();
        section(&mut text, ["A", "WHAT"], &[["long".to_owned(), "x".to_owned()]]);
        assert_eq!(text, "A     WHAT\nlong  x\n");
    }
}
