//! [`Grid`]: a table of text, for a terminal or a file; and [`Look`], its appearance.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Placeholders of colours until the table is drawn: characters without width, so that the columns stay straight.
const COLOURS: [(&str, &str); 3] = [("\u{2061}", "\x1b[32m"), ("\u{2062}", "\x1b[31m"), ("\u{2063}", "\x1b[0m")];

/// Where a table is shown.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    /// Whether lines and colours are drawn; otherwise plain text for files and pipes.
    pub terminal: bool,
    /// The width of the output in columns.
    pub width: usize,
}

/// The mood of a cell: how its figure compares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    /// Nothing.
    #[default]
    Neutral,
    /// Better: green.
    Good,
    /// Worse: red.
    Bad,
}

/// A table of text: the first column to the left, the others to the right.
pub struct Grid {
    header: Vec<String>,
    rows: Vec<Vec<(String, Mood)>>,
}

impl Grid {
    /// An empty one.
    pub fn new(header: impl IntoIterator<Item = impl Into<String>>) -> Grid {
        Grid { header: header.into_iter().map(Into::into).collect(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl Into<String>>) {
        self.moody(cells.into_iter().map(|cell| (cell.into(), Mood::Neutral)));
    }

    /// Adds a row whose cells have moods.
    pub fn moody(&mut self, cells: impl IntoIterator<Item = (String, Mood)>) {
        self.rows.push(cells.into_iter().collect());
    }

    /// The names of the columns.
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// The rows.
    pub fn rows(&self) -> &[Vec<(String, Mood)>] {
        &self.rows
    }

    /// Whether the grid has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Removes the columns whose cells are all `–` or blank.
    pub fn without_blanks(mut self) -> Grid {
        let says = |cell: Option<&(String, Mood)>| cell.is_some_and(|(text, _)| !matches!(text.as_str(), "" | "–"));
        for column in (1..self.header.len()).rev() {
            if !self.rows.iter().any(|row| says(row.get(column))) {
                self.header.remove(column);
                self.rows.iter_mut().filter(|row| column < row.len()).for_each(|row| drop(row.remove(column)));
            }
        }
        self
    }

    /// The width of the drawn grid in columns.
    pub fn width(&self) -> usize {
        let chars = |text: &str| text.chars().count();
        let column = |(number, name): (usize, &String)| {
            let cells = self.rows.iter().filter_map(|row| row.get(number)).map(|(text, _)| chars(text));
            cells.max().unwrap_or(0).max(chars(name)) + 3
        };
        self.header.iter().enumerate().map(column).sum::<usize>() + 1
    }

    /// Draws the grid; every line ends with a newline. Never wraps: a line that does not fit is wider.
    pub fn draw(&self, look: &Look) -> String {
        let mut table = Table::new();
        table.set_content_arrangement(ContentArrangement::Disabled);
        table.load_preset(if look.terminal { presets::UTF8_FULL_CONDENSED } else { presets::ASCII_MARKDOWN });
        table.set_header(&self.header);
        for row in &self.rows {
            table.add_row(row.iter().map(|(text, mood)| match mood {
                Mood::Good if look.terminal => format!("{}{text}{}", COLOURS[0].0, COLOURS[2].0),
                Mood::Bad if look.terminal => format!("{}{text}{}", COLOURS[1].0, COLOURS[2].0),
                _ => text.clone(),
            }));
        }
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        let drawn = COLOURS.iter().fold(table.to_string(), |drawn, (mark, code)| drawn.replace(mark, code));
        drawn.lines().map(|line| format!("{}\n", line.trim_end())).collect()
    }
}
