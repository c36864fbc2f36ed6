//! Figures of several runs, printed as a table and written as CSV.
//!
//! A row of the CSV is a run, or the median of the runs of a subject. Each row includes the machine, the commit and
//! the load, so that rows of several files can be combined.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use crate::corpus::Corpus;
use crate::machine;
use crate::spread::median;

/// The name of the figure for lines or bytes per second.
pub(crate) const SPEED: &str = "speed";

/// A number with its name and unit.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) value: f64,
}

/// Creates a figure.
pub(crate) fn figure(name: &'static str, unit: &'static str, value: f64) -> Figure {
    Figure { name, unit, value }
}

/// One run of a subject.
#[derive(Debug)]
pub(crate) struct BenchRun {
    pub(crate) subject: String,
    pub(crate) round: usize,
    /// The load average at its start.
    pub(crate) load: f64,
    pub(crate) figures: Vec<Figure>,
}

impl BenchRun {
    pub(crate) fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// All runs of a measurement.
#[derive(Debug)]
pub(crate) struct BenchResults {
    measured: &'static str,
    about: Vec<(&'static str, String)>,
    pub(crate) runs: Vec<BenchRun>,
}

impl BenchResults {
    pub(crate) fn new(measured: &'static str) -> Self {
        Self { measured, about: machine::about(), runs: Vec::new() }
    }

    /// Sets the program.
    pub(crate) fn with_program(mut self, commit: String, written: String) -> Self {
        self.about.extend([("commit", commit), ("program_written", written)]);
        self
    }

    /// Sets the input.
    pub(crate) fn with_corpus(mut self, corpus: &Corpus) -> Self {
        self.about.push(("corpus", corpus.about.clone()));
        self.about.push(("corpus_bytes", corpus.bytes.to_string()));
        self.about.push(("corpus_lines", corpus.lines.to_string()));
        self
    }

    /// Prints the medians with a column for each subject.
    pub(crate) fn print(&self) {
        for (name, value) in &self.about {
            println!("{name:16} {value}");
        }
        let loads: Vec<f64> = self.runs.iter().map(|run| run.load).collect();
        println!("{:16} {:.1} (median at the start of a run)\n", "load", median(&loads));
        let subjects = self.subjects();
        let heads: String = subjects.iter().map(|subject| format!("{subject:>16}")).collect();
        println!("{:42}{heads}", format!("medians of {} rounds", self.rounds()));
        for (name, unit) in self.columns() {
            let of = |subject: &&str| self.median(subject, name).map_or_else(|| "-".into(), short);
            let values: String = subjects.iter().map(|subject| format!("{:>16}", of(subject))).collect();
            println!("{:42}{values}", format!("{}, {unit}", name.replace('_', " ")));
        }
    }

    /// Prints the medians with a row for each subject.
    pub(crate) fn print_rows(&self) {
        for (name, value) in &self.about {
            println!("{name:16} {value}");
        }
        for subject in self.subjects() {
            println!("\n{subject}");
            for (name, unit) in self.columns() {
                if let Some(value) = self.median(subject, name) {
                    println!("    {:20} {:>12} {unit}", name.replace('_', " "), short(value));
                }
            }
        }
    }

    /// Writes the CSV, replacing one of the same day.
    pub(crate) fn write(&self, dir: &Path) -> anyhow::Result<PathBuf> {
        let path = dir.join(format!("{}-{}.csv", self.measured, machine::date()));
        let columns = self.columns();
        let mut rows = Vec::new();
        let mut head: Vec<String> = self.about.iter().map(|(name, _)| (*name).to_owned()).collect();
        head.extend(["subject", "round", "load"].map(str::to_owned));
        head.extend(columns.iter().map(|(name, unit)| format!("{name} ({unit})")));
        rows.push(head);
        let row = |subject: &str, round: String, load: f64, value: &dyn Fn(&str) -> Option<f64>| {
            let mut row: Vec<String> = self.about.iter().map(|(_, value)| value.clone()).collect();
            row.extend([subject.to_owned(), round, format!("{load:.2}")]);
            row.extend(
                columns.iter().map(|(name, _)| value(name).map_or_else(String::new, |value| format!("{value:.4}"))),
            );
            row
        };
        for run in &self.runs {
            rows.push(row(&run.subject, run.round.to_string(), run.load, &|name| run.value(name)));
        }
        for subject in self.subjects() {
            let loads: Vec<f64> = self.of(subject).map(|run| run.load).collect();
            rows.push(row(subject, "median".into(), median(&loads), &|name| self.median(subject, name)));
        }
        let text: String = rows.iter().map(|row| csv_line(row)).collect();
        fs::create_dir_all(dir).with_context(|| format!("cannot create {}", dir.display()))?;
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn of<'a>(&'a self, subject: &'a str) -> impl Iterator<Item = &'a BenchRun> {
        self.runs.iter().filter(move |run| run.subject == subject)
    }

    /// The median of a figure over the runs of a subject.
    pub(crate) fn median(&self, subject: &str, name: &str) -> Option<f64> {
        let values: Vec<f64> = self.of(subject).filter_map(|run| run.value(name)).collect();
        (!values.is_empty()).then(|| median(&values))
    }

    fn rounds(&self) -> usize {
        self.runs.iter().map(|run| run.round).max().unwrap_or(0)
    }

    /// In the order of their first runs.
    fn subjects(&self) -> Vec<&str> {
        let mut subjects: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !subjects.contains(&run.subject.as_str()) {
                subjects.push(&run.subject);
            }
        }
        subjects
    }

    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        let mut columns = Vec::new();
        for figure in self.runs.iter().flat_map(|run| &run.figures) {
            if !columns.contains(&(figure.name, figure.unit)) {
                columns.push((figure.name, figure.unit));
            }
        }
        columns
    }
}

/// The number of significant decimals.
fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 1_000.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 100.0 => format!("{value:.1}"),
        size if size >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

fn csv_line(fields: &[String]) -> String {
    let quoted = |field: &String| {
        if field.contains([',', '"', '\n']) { format!("\"{}\"", field.replace('"', "\"\"")) } else { field.clone() }
    };
    fields.iter().map(quoted).collect::<Vec<String>>().join(",") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_per_subject_and_figure() {
        let mut results = BenchResults::new("trial");
        for (round, a, b) in [(1, 3.0, 10.0), (2, 1.0, 30.0), (3, 2.0, 20.0)] {
            let run = |subject: &str, figures| BenchRun { subject: subject.into(), round, load: 1.0, figures };
            results.runs.push(run("a", vec![figure("speed", "MB/s", a)]));
            results.runs.push(run("b", vec![figure("speed", "MB/s", b), figure("only_b", "s", 1.0)]));
        }
        assert_eq!((results.median("a", "speed"), results.median("b", "speed")), (Some(2.0), Some(20.0)));
        assert_eq!((results.median("a", "only_b"), results.rounds()), (None, 3));
        let dir = tempfile::tempdir().unwrap();
        let text = fs::read_to_string(results.write(dir.path()).unwrap()).unwrap();
        assert_eq!(text.lines().count(), 1 + 6 + 2);
        let commas = |line: &str| line.split('"').step_by(2).map(|part| part.matches(',').count()).sum::<usize>();
        assert!(text.lines().all(|line| commas(line) == commas(text.lines().next().unwrap())), "{text}");
        assert!(text.lines().last().unwrap().ends_with("b,median,1.00,20.0000,1.0000"), "{text}");
    }

    #[test]
    fn csv_fields_are_quoted() {
        assert_eq!(csv_line(&["a".into(), "b,\"c\"".into()]), "a,\"b,\"\"c\"\"\"\n");
    }
}
