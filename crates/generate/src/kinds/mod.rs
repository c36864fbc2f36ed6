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

use crate::deck::Deck;
use crate::mood::Level;
use crate::rng::Rng;
use crate::template::Template;

/// One kind of lines.
pub(crate) struct Table {
    /// What stands before and after what the rows say.
    frame: (&'static str, &'static str),
    rows: &'static [Row],
}

/// A level, a weight and a line.
type Row = (Level, u16, &'static str);

/// The kinds that are mixed, taken apart and ready to draw from.
#[derive(Clone, Debug)]
pub(crate) struct Kinds(Deck<Kind>);

/// The lines of a kind for each level.
#[derive(Clone, Debug)]
struct Kind {
    debug: Deck<Template>,
    info: Deck<Template>,
    warn: Deck<Template>,
    error: Deck<Template>,
}

impl Kinds {
    /// The mixed output of a fleet.
    pub(crate) fn text() -> Self {
        let weighted =
            [(40, &web::TABLE), (32, &app::TABLE), (14, &java::TABLE), (7, &database::TABLE), (7, &system::TABLE)];
        Self(Deck::new(weighted.map(|(weight, table)| (weight, Kind::new(table)))))
    }

    /// JSON objects.
    pub(crate) fn json() -> Self {
        Self(Deck::new([(1, Kind::new(&json::TABLE))]))
    }

    /// A line of some kind for a level.
    pub(crate) fn draw(&self, level: Level, rng: &mut Rng) -> Option<&Template> {
        let kind = self.0.draw(rng)?;
        let deck = match level {
            Level::Debug => &kind.debug,
            Level::Info => &kind.info,
            Level::Warn => &kind.warn,
            Level::Error => &kind.error,
        };
        deck.draw(rng)
    }
}

impl Kind {
    fn new(table: &Table) -> Self {
        let (head, tail) = table.frame;
        let deck = |wanted| {
            let rows = table.rows.iter().filter(|(level, ..)| *level == wanted);
            Deck::new(rows.map(|&(_, weight, line)| (weight, Template::new(&[head, line, tail]))))
        };
        Self { debug: deck(Level::Debug), info: deck(Level::Info), warn: deck(Level::Warn), error: deck(Level::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Part;

    static TABLES: [&Table; 6] =
        [&web::TABLE, &app::TABLE, &java::TABLE, &database::TABLE, &system::TABLE, &json::TABLE];

    #[test]
    fn every_kind_has_lines_for_every_level() {
        for table in TABLES {
            for wanted in [Level::Debug, Level::Info, Level::Warn, Level::Error] {
                let rows = table.rows.iter().filter(|(level, weight, _)| *level == wanted && *weight > 0);
                assert!(rows.count() > 0, "{wanted:?} of {:?}", table.frame);
            }
        }
    }

    #[test]
    fn every_blank_is_known() {
        for table in TABLES {
            for (_, _, line) in table.rows {
                for part in Template::new(&[table.frame.0, line, table.frame.1]).parts() {
                    assert!(!matches!(part, Part::Text(text) if text.contains(['<', '>', '\n'])), "{line}: {part:?}");
                }
            }
        }
    }
}
