//! Columns that line up.

use std::fmt;

/// Rows of named cells. Columns come in the order in which their names were first seen; what a row lacks is a dash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    names: Vec<String>,
    rows: Vec<Vec<String>>,
}

const MISSING: &str = "-";

impl Table {
    /// Adds a row.
    pub(crate) fn push(&mut self, cells: Vec<(String, String)>) {
        let mut row = vec![String::new(); self.names.len()];
        for (name, value) in cells {
            match self.names.iter().position(|known| *known == name).and_then(|at| row.get_mut(at)) {
                Some(cell) => *cell = value,
                None => {
                    self.names.push(name);
                    row.push(value);
                }
            }
        }
        self.rows.push(row);
    }
}

impl fmt::Display for Table {
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
