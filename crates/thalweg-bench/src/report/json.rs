//! Reports as JSON; reading a report gives precise errors.

use super::Report;
use crate::error::{Error, Result};
use serde::Deserialize;
use std::fs;
use std::path::Path;

/// The schema number that is written, and the only one that is read.
pub const SCHEMA: u32 = 1;

/// A report as JSON.
///
/// # Errors
/// A measured report causes none.
pub fn text(report: &Report) -> Result<String> {
    let text = serde_json::to_string_pretty(report);
    text.map(|text| text + "\n").map_err(|error| Error::Said(format!("cannot make JSON of the report: {error}")))
}

/// Reads a report.
///
/// # Errors
/// `Io`: the file cannot be read. `Said`: it is not JSON, not a report, or one of another schema.
pub fn read(path: &Path) -> Result<Report> {
    let text = fs::read_to_string(path).map_err(|error| Error::of_path(format!("read {}", path.display()), error))?;
    parse(&text).map_err(|what| Error::Said(format!("{}: {what}", path.display())))
}

/// The one field that every schema has.
#[derive(Deserialize)]
struct Numbered {
    schema: u32,
}

fn parse(text: &str) -> std::result::Result<Report, String> {
    let value: serde_json::Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    let Numbered { schema } = Numbered::deserialize(&value)
        .map_err(|_| "not a report of this benchmark: it has no schema number".to_owned())?;
    if schema != SCHEMA {
        return Err(format!("a report of schema {schema}; this version reads schema {SCHEMA}"));
    }
    // Parsed from the text, not from the value, so that the error names a line.
    serde_json::from_str(text).map_err(|error| format!("a report of schema {schema}, but damaged: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Pace;
    use crate::report::tests::sample;

    #[test]
    fn a_report_comes_back_as_it_was() {
        let mut report = sample::report(&["a", "b"], &[("load", Pace::Closed), ("ycsb-a", sample::open(1e4))], 2, 3);
        sample::sustained(&mut report, "ycsb-a");
        report.paper = Some(sample::paper());
        assert_eq!(parse(&text(&report).unwrap()).unwrap(), report);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert!(parse("hello").unwrap_err().starts_with("not JSON"), "{}", parse("hello").unwrap_err());
        assert!(parse("{\"a\": 1}").unwrap_err().contains("not a report"));
        assert_eq!(parse("{\"schema\": 2}").unwrap_err(), "a report of schema 2; this version reads schema 1");
        assert!(parse("{\"schema\": 1}").unwrap_err().contains("damaged: missing field"));
        let missing = Path::new("/nonexistent/report.json");
        assert!(read(missing).unwrap_err().to_string().starts_with("cannot read /nonexistent/report.json: "));
    }
}
