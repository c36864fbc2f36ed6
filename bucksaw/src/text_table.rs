//! A table with aligned columns.

use std::fmt;

/// Rows of cells under names. An empty cell is a dash.
#[derive(Clone, Debug)]
pub(crate) struct TextTable {
    names: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

const MISSING: &str = "-";

impl TextTable {
    pub(crate) fn new(names: Vec<&'static str>) -> Self {
        Self { names, rows: Vec::new() }
    }

    /// Adds a row with a cell for each name.
    pub(crate) fn push(&mut self, row: Vec<Option<String>>) {
        self.rows.push(row.into_iter().map(Option::unwrap_or_default).collect());
    }
}

impl fmt::Display for TextTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.names.is_empty() {
            return Ok(());
        }
        let heading: Vec<String> = self.names.iter().map(|name| name.to_uppercase()).collect();
        let lines = || std::iter::once(&heading).chain(&self.rows);
        let widths: Vec<usize> = (0..heading.len())
            .map(|at| lines().map(|line| shown(line, at).chars().count()).max().unwrap_or_default())
            .collect();
        for line in lines() {
            let cells: String =
                widths.iter().enumerate().map(|(at, width)| format!("{:width$}  ", shown(line, at))).collect();
            writeln!(f, "{}", cells.trim_end())?;
        }
        Ok(())
    }
}

fn shown(line: &[String], at: usize) -> &str {
    line.get(at).map(String::as_str).filter(|cell| !cell.is_empty()).unwrap_or(MISSING)
}
