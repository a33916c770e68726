//! Draws the levels of a partition, for golden tests and for people.
//!
//! All rows share one key axis, so that tables that stand above each other overlap. Level 0 has as many rows as it
//! needs, the newest on top; each level below has one:
//!
//! ```text
//! L0  [a———————————f]            2 tables  2.0 MiB
//!         [c———e]
//! L1  [a———c] [d———f] [x]        3 tables  3.0 MiB
//! ```
//!
//! With many tables the boxes would not fit a screen. Then each row is a strip of cells over the same axis, and each
//! cell shows how many tables touch it. The first and the last key stand below.

use super::shape::{Levels, Shape};
use crate::table::TableMeta;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Characters of a key that are shown.
const LABEL_CHARS_MAX: usize = 8;

/// A wider drawing consists of strips.
const AXIS_CHARS_MAX: usize = 120;

/// Cells of a strip.
const STRIP_CELLS: usize = 64;

/// Returns a drawing of the levels that ends with a newline. Two equal shapes give the same drawing.
pub(crate) fn draw(levels: &Levels) -> String {
    draw_shape(&Shape::of(levels))
}

/// The line above the levels of a partition that has tables in the fast tier.
pub(crate) fn draw_fast(tables: usize, bytes: u64) -> String {
    format!("fast tier: {}\n", totals(tables, bytes))
}

/// See [`draw`].
pub(super) fn draw_shape(shape: &Shape<'_>) -> String {
    let Some(deepest) = (0..shape.len()).rev().find(|level| !shape.level(*level).is_empty()) else {
        return "no tables\n".to_string();
    };
    let axis = Axis::new(shape);
    let mut out = String::new();
    for level in 0..=deepest {
        let tables = shape.level(level);
        let mut rows = if level == 0 { rows_of_level0(tables) } else { vec![tables.to_vec()] };
        if rows.is_empty() {
            rows.push(Vec::new());
        }
        for (index, row) in rows.iter().enumerate() {
            let name = if index == 0 { format!("L{level}") } else { String::new() };
            let totals = match index {
                0 => totals(tables.len(), shape.bytes(level)),
                _ => String::new(),
            };
            let line = format!("{name:<4}{:<width$}  {totals}", axis.row(row), width = axis.width());
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out.push_str(&axis.legend());
    out
}

fn totals(tables: usize, bytes: u64) -> String {
    match tables {
        0 => "empty".to_string(),
        1 => format!("1 table  {}", human(bytes)),
        _ => format!("{tables} tables  {}", human(bytes)),
    }
}

/// Returns the rows of level 0, newest first. A table shares a row with newer ones only if it overlaps none of them.
fn rows_of_level0<'a>(tables: &[&'a TableMeta]) -> Vec<Vec<&'a TableMeta>> {
    let mut rows: Vec<Vec<&TableMeta>> = Vec::new();
    for table in tables.iter().rev() {
        match rows.last_mut() {
            Some(row) if row.iter().all(|other| !other.overlaps(&table.key_min, &table.key_max)) => row.push(table),
            _ => rows.push(vec![table]),
        }
    }
    for row in &mut rows {
        row.sort_by(|a, b| a.key_min.cmp(&b.key_min));
    }
    rows
}

/// Where keys lie on a line.
enum Axis<'a> {
    /// Each key that begins or ends a table has a cell: where it starts, and its label.
    Boxes { cells: BTreeMap<&'a [u8], (usize, String)>, width: usize },
    /// The rank of each such key among them.
    Strips { ranks: BTreeMap<&'a [u8], usize> },
}

impl<'a> Axis<'a> {
    fn new(shape: &Shape<'a>) -> Self {
        let tables = (0..shape.len()).flat_map(|level| shape.level(level).iter());
        let mut cells: BTreeMap<&[u8], (usize, String)> =
            tables.flat_map(|table| [&*table.key_min, &*table.key_max]).map(|key| (key, (0, label(key)))).collect();
        let mut width = 0;
        for (start, label) in cells.values_mut() {
            *start = width;
            // The label, a bracket or a line at each side of it, and a space to the next cell.
            width += label.chars().count() + 3;
        }
        let width = width.saturating_sub(1);
        if width <= AXIS_CHARS_MAX {
            return Axis::Boxes { cells, width };
        }
        Axis::Strips { ranks: cells.into_keys().enumerate().map(|(rank, key)| (key, rank)).collect() }
    }

    fn width(&self) -> usize {
        match self {
            Axis::Boxes { width, .. } => *width,
            Axis::Strips { .. } => STRIP_CELLS,
        }
    }

    /// One row of tables that do not overlap, in key order.
    fn row(&self, tables: &[&TableMeta]) -> String {
        match self {
            Axis::Boxes { cells, .. } => {
                let mut out = String::new();
                for table in tables {
                    draw_box(&mut out, cells, table);
                }
                out
            }
            Axis::Strips { ranks } => draw_strip(ranks, tables),
        }
    }

    /// The legend of a drawing: the first and last keys that its lines stand for.
    fn legend(&self) -> String {
        match self {
            Axis::Boxes { .. } => String::new(),
            Axis::Strips { ranks } => {
                let end = |key: Option<&&[u8]>| key.map_or_else(String::new, |key| label(key));
                let (first, last) = (end(ranks.keys().next()), end(ranks.keys().next_back()));
                let gap = STRIP_CELLS.saturating_sub(first.chars().count());
                format!("    {first}{last:>gap$}\n")
            }
        }
    }
}

/// Appends `[min———max]`, or `[key]` for a table of one user key.
fn draw_box(out: &mut String, cells: &BTreeMap<&[u8], (usize, String)>, table: &TableMeta) {
    let (Some((from, min)), Some((to, max))) = (cells.get(&*table.key_min), cells.get(&*table.key_max)) else {
        return;
    };
    pad(out, *from, ' ');
    out.push('[');
    out.push_str(min);
    if to > from {
        pad(out, to + 1, '—');
        out.push_str(max);
    }
    out.push(']');
}

fn draw_strip(ranks: &BTreeMap<&[u8], usize>, tables: &[&TableMeta]) -> String {
    let cell = |key: &[u8]| ranks.get(key).map_or(0, |rank| rank * STRIP_CELLS / ranks.len().max(1));
    let mut counts = [0usize; STRIP_CELLS];
    for table in tables {
        let (from, to) = (cell(&table.key_min), cell(&table.key_max));
        for count in counts.iter_mut().take(to + 1).skip(from) {
            *count += 1;
        }
    }
    counts
        .iter()
        .map(|count| match count {
            0 => '·',
            1..=9 => char::from(b'0' + *count as u8),
            _ => '+',
        })
        .collect()
}

fn pad(out: &mut String, to: usize, fill: char) {
    let length = out.chars().count();
    out.extend(std::iter::repeat_n(fill, to.saturating_sub(length)));
}

/// A key in printable form, cut short.
pub(super) fn label(key: &[u8]) -> String {
    // Escaping makes nothing shorter, so a prefix of the key is enough.
    let escaped = key.get(..LABEL_CHARS_MAX + 1).unwrap_or(key).escape_ascii().to_string();
    if escaped.len() <= LABEL_CHARS_MAX {
        return if escaped.is_empty() { "\"\"".to_string() } else { escaped };
    }
    let mut short: String = escaped.chars().take(LABEL_CHARS_MAX - 1).collect();
    short.push('…');
    short
}

/// Bytes with a binary unit and one decimal.
pub(super) fn human(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    // In tenths of the unit, rounded down, so that no float decides a digit.
    let mut tenths = u128::from(bytes) * 10 / 1024;
    let mut unit = 0;
    while tenths >= 10240 && unit + 1 < UNITS.len() {
        tenths /= 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, UNITS[unit])
}
