//! The kinds of lines, as tables of how they look.
//!
//! A table has a frame, which is the same for all its lines, and rows. A row says at which level its line appears, how
//! often among the lines of that level, and what it says; blanks stand in angle brackets and are those of
//! [`Blank`](crate::template::Blank) and of the lists in [`words`](crate::words). Adding a line is adding a row.

mod app;
mod database;
mod java;
mod json;
mod system;
mod web;

use crate::incidents::LogLevel;
use crate::rng::Rng;
use crate::template::Template;
use crate::weighted_choice::WeightedChoice;

/// One kind of lines.
pub(crate) struct LineTable {
    /// What stands before and after what the rows say.
    affixes: (&'static str, &'static str),
    rows: &'static [TemplateRow],
}

/// A level, a weight and a line.
type TemplateRow = (LogLevel, u16, &'static str);

/// The kinds that are mixed, taken apart and ready to draw from.
#[derive(Clone, Debug)]
pub(crate) struct LineKinds(WeightedChoice<LineKind>);

/// The lines of a kind for each level.
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

    /// A line of some kind for a level.
    pub(crate) fn draw(&self, level: LogLevel, rng: &mut Rng) -> Option<&Template> {
        let kind = self.0.sample(rng)?;
        let deck = match level {
            LogLevel::Debug => &kind.debug,
            LogLevel::Info => &kind.info,
            LogLevel::Warn => &kind.warn,
            LogLevel::Error => &kind.error,
        };
        deck.sample(rng)
    }
}

impl LineKind {
    fn new(table: &LineTable) -> Self {
        let (head, tail) = table.affixes;
        let deck = |wanted| {
            let rows = table.rows.iter().filter(|(level, ..)| *level == wanted);
            WeightedChoice::new(rows.map(|&(_, weight, line)| (weight, Template::new(&[head, line, tail]))))
        };
        Self {
            debug: deck(LogLevel::Debug),
            info: deck(LogLevel::Info),
            warn: deck(LogLevel::Warn),
            error: deck(LogLevel::Error),
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
