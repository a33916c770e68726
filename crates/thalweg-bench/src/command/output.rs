//! Prints tables, and decides their width and colours.

use super::args::{Colour, When};
use crate::error::{Error, Result};
use crate::report::Look;
use std::io::{self, IsTerminal, Write};

/// Writes `text` to `output`.
pub fn print(output: &mut dyn Write, text: &str) -> Result<()> {
    output.write_all(text.as_bytes()).map_err(|error| Error::io("write the output", error))
}

/// Columns of an output that is no terminal.
const WIDTH: usize = 120;

impl Colour {
    /// The look according to the flag, standard output and `NO_COLOR`.
    pub fn look(&self) -> Look {
        let unwanted = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let output = io::stdout();
        let terminal = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => output.is_terminal() && !unwanted,
        };
        let columns = rustix::termios::tcgetwinsize(&output).map_or(0, |size| usize::from(size.ws_col));
        Look { terminal, width: if columns == 0 { WIDTH } else { columns } }
    }
}
