//! Line templates, by kind of lines.
//!
//! A kind is a text file. Its `frame` is common to all its lines, with `<row>` in the place of a row's text. A row is a
//! level, a weight among the lines of that level, and a text. Placeholders are in angle brackets: those of
//! [`Placeholder`](crate::template::Placeholder) and the lists in [`words`](crate::words).

use crate::incidents::LogLevel;
use crate::rng::Rng;
use crate::template::Template;
use crate::weighted_choice::WeightedChoice;

/// The kinds of text, with their weights.
static TEXT_KINDS: [(u16, &str); 5] = [
    (40, include_str!("web.txt")),
    (32, include_str!("app.txt")),
    (14, include_str!("java.txt")),
    (7, include_str!("database.txt")),
    (7, include_str!("system.txt")),
];
static JSON_KIND: (u16, &str) = (1, include_str!("json.txt"));

/// The kinds of a format.
#[derive(Clone, Debug)]
pub(crate) struct LineKinds(WeightedChoice<LineKind>);

/// The lines of a kind, by level.
#[derive(Clone, Debug)]
struct LineKind([WeightedChoice<Template>; 4]);

impl LineKinds {
    /// The mixed output of a fleet.
    pub(crate) fn text() -> Self {
        Self(WeightedChoice::new(TEXT_KINDS.map(|(weight, file)| (weight, LineKind::parse(file)))))
    }

    /// JSON objects.
    pub(crate) fn json() -> Self {
        Self(WeightedChoice::new([JSON_KIND].map(|(weight, file)| (weight, LineKind::parse(file)))))
    }

    /// A random line of a level.
    pub(crate) fn draw(&self, level: LogLevel, rng: &mut Rng) -> Option<&Template> {
        self.0.sample(rng)?.0.get(level as usize)?.sample(rng)
    }
}

impl LineKind {
    fn parse(file: &'static str) -> Self {
        let frame = file.lines().find_map(|line| line.strip_prefix("frame ")?.split_once("<row>"));
        let (before, after) = frame.unwrap_or_default();
        Self(LogLevel::ALL.map(|level| {
            let rows = file.lines().filter_map(parse_row).filter(|(row_level, ..)| *row_level == level);
            WeightedChoice::new(rows.map(|(_, weight, text)| (weight, Template::new(&[before, text, after]))))
        }))
    }
}

/// The level, weight and text of a row.
fn parse_row(line: &'static str) -> Option<(LogLevel, u16, &'static str)> {
    let (level, rest) = line.split_once(' ')?;
    let (weight, text) = rest.split_once(' ')?;
    let level = LogLevel::ALL.into_iter().find(|known| known.name() == level)?;
    Some((level, weight.parse().ok()?, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::TemplatePart;

    fn files() -> impl Iterator<Item = &'static str> {
        TEXT_KINDS.into_iter().chain([JSON_KIND]).map(|(_, file)| file)
    }

    #[test]
    fn every_kind_has_lines_for_every_level() {
        for file in files() {
            for wanted in LogLevel::ALL {
                let rows = file.lines().filter_map(parse_row);
                assert!(rows.filter(|(level, weight, _)| *level == wanted && *weight > 0).count() > 0, "{wanted:?}");
            }
        }
    }

    #[test]
    fn every_line_is_parsed_and_every_placeholder_is_known() {
        for line in files().flat_map(str::lines) {
            let is_frame = line.starts_with("frame ") && line.contains("<row>");
            assert!(is_frame || line.starts_with('#') || parse_row(line).is_some(), "{line}");
            for part in Template::new(&line.split("<row>").collect::<Vec<_>>()).parts() {
                assert!(!matches!(part, TemplatePart::Text(text) if text.contains(['<', '>'])), "{line}: {part:?}");
            }
        }
    }
}
