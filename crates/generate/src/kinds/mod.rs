//! Tables of line templates, by kind.
//!
//! A table has a frame, common to all its lines, and rows of a level, a weight among the lines of that level, and a
//! text. Placeholders are in angle brackets: those of [`Placeholder`](crate::template::Placeholder) and the lists in
//! [`words`](crate::words).

mod app;
mod database;
mod java;
mod json;
mod line_table;
mod system;
mod web;

use crate::incidents::LogLevel;
use crate::rng::Rng;
use crate::template::Template;
use crate::weighted_choice::WeightedChoice;
use line_table::LineTable;

/// The kinds of a format, parsed.
#[derive(Clone, Debug)]
pub(crate) struct LineKinds(WeightedChoice<LineKind>);

/// The lines of a kind, by level.
#[derive(Clone, Debug)]
struct LineKind {
    debug: WeightedChoice<Template>,
    info: WeightedChoice<Template>,
    warn: WeightedChoice<Template>,
    error: WeightedChoice<Template>,
}

impl LineKinds {
    /// The mixed output of a fleet.
    pub(crate) fn text() -> Self {
        let weighted =
            [(40, &web::TABLE), (32, &app::TABLE), (14, &java::TABLE), (7, &database::TABLE), (7, &system::TABLE)];
        Self(WeightedChoice::new(weighted.map(|(weight, table)| (weight, LineKind::new(table)))))
    }

    /// JSON objects.
    pub(crate) fn json() -> Self {
        Self(WeightedChoice::new([(1, LineKind::new(&json::TABLE))]))
    }

    /// A random line of a level.
    pub(crate) fn draw(&self, level: LogLevel, rng: &mut Rng) -> Option<&Template> {
        let kind = self.0.sample(rng)?;
        let choice = match level {
            LogLevel::Debug => &kind.debug,
            LogLevel::Info => &kind.info,
            LogLevel::Warn => &kind.warn,
            LogLevel::Error => &kind.error,
        };
        choice.sample(rng)
    }
}

impl LineKind {
    fn new(table: &LineTable) -> Self {
        let (head, tail) = table.affixes;
        let choice = |wanted| {
            let rows = table.rows.iter().filter(|(level, ..)| *level == wanted);
            WeightedChoice::new(rows.map(|&(_, weight, line)| (weight, Template::new(&[head, line, tail]))))
        };
        Self {
            debug: choice(LogLevel::Debug),
            info: choice(LogLevel::Info),
            warn: choice(LogLevel::Warn),
            error: choice(LogLevel::Error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::TemplatePart;

    static TABLES: [&LineTable; 6] =
        [&web::TABLE, &app::TABLE, &java::TABLE, &database::TABLE, &system::TABLE, &json::TABLE];

    #[test]
    fn every_kind_has_lines_for_every_level() {
        for table in TABLES {
            for wanted in [LogLevel::Debug, LogLevel::Info, LogLevel::Warn, LogLevel::Error] {
                let rows = table.rows.iter().filter(|(level, weight, _)| *level == wanted && *weight > 0);
                assert!(rows.count() > 0, "{wanted:?} of {:?}", table.affixes);
            }
        }
    }

    #[test]
    fn every_placeholder_is_known() {
        for table in TABLES {
            for (_, _, line) in table.rows {
                for part in Template::new(&[table.affixes.0, line, table.affixes.1]).parts() {
                    assert!(
                        !matches!(part, TemplatePart::Text(text) if text.contains(['<', '>', '\n'])),
                        "{line}: {part:?}"
                    );
                }
            }
        }
    }
}
