//! Texts that whatever a regex matches must contain: what a filter or a column can be asked before any line is there.
//!
//! A regex is turned into clauses, each a list of texts of which one at least must be there. Neighbouring literals are
//! one text; a letter that matches in both cases makes the text one of any case.

use bucksaw_columns::Needle;
use regex_syntax::hir::{Class, Hir, HirKind};

/// Texts of a clause, at most.
const TEXTS_MAX: usize = 64;

/// A shorter text is nearly everywhere, in bytes.
const TEXT_BYTES_MIN: usize = 2;

/// A shorter text leaves hardly a line out that a longer one has not left out.
const FURTHER_BYTES_MIN: usize = 4;

/// What a regex asks for at least.
#[derive(Debug, Default)]
pub(crate) struct Needles {
    /// Of each list, one text is in every match.
    pub(crate) clauses: Vec<Vec<Needle>>,
    /// Whether a line matches if it has one text of the only clause.
    pub(crate) exact: bool,
}

impl Needles {
    pub(crate) fn of(hir: &Hir) -> Self {
        let mut walk = Walk { exact: true, ..Walk::default() };
        walk.hir(hir);
        walk.end_text();
        let exact = walk.exact && walk.clauses.len() == 1;
        let shortest = |clause: &Vec<Text>| clause.iter().map(|text| text.bytes.len()).min().unwrap_or_default();
        let mut clauses = walk.clauses;
        // The longest first: it is thought to be the rarest.
        clauses.sort_by_key(|clause| std::cmp::Reverse(shortest(clause)));
        let longest = clauses.first().map_or(0, shortest);
        let min = if longest < FURTHER_BYTES_MIN { TEXT_BYTES_MIN } else { FURTHER_BYTES_MIN };
        clauses.retain(|clause| exact || shortest(clause) >= min);
        let needle = |text: &Text| Needle::new(&text.bytes, text.any_case);
        Self { clauses: clauses.iter().map(|clause| clause.iter().map(needle).collect()).collect(), exact }
    }
}

#[derive(Clone, Debug, Default)]
struct Text {
    bytes: Vec<u8>,
    any_case: bool,
    /// Whether some letter has a case, so that any case would be too much.
    cased: bool,
}

#[derive(Debug, Default)]
struct Walk {
    text: Text,
    clauses: Vec<Vec<Text>>,
    /// Whether nothing was left out so far.
    exact: bool,
}

impl Walk {
    fn hir(&mut self, hir: &Hir) {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Look(_) => self.exact = false,
            HirKind::Literal(literal) => literal.0.iter().for_each(|byte| self.byte(*byte)),
            HirKind::Class(class) => match case_pair(class) {
                Some(lower) => {
                    self.text.bytes.push(lower);
                    self.text.any_case = true;
                }
                None => self.gap(),
            },
            HirKind::Repetition(repetition) => {
                self.gap();
                if repetition.min > 0 {
                    self.hir(&repetition.sub);
                    self.gap();
                }
            }
            HirKind::Capture(capture) => self.hir(&capture.sub),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.hir(part)),
            HirKind::Alternation(branches) => self.alternation(branches),
        }
    }

    fn byte(&mut self, byte: u8) {
        // No line has one; such a match is not to be found here.
        self.exact &= byte != b'\n';
        self.text.cased |= byte.is_ascii_alphabetic();
        self.text.bytes.push(byte);
    }

    /// Something stands here of which nothing is known.
    fn gap(&mut self) {
        self.end_text();
        self.exact = false;
    }

    fn end_text(&mut self) {
        let text = std::mem::take(&mut self.text);
        if !text.bytes.is_empty() {
            self.exact &= !(text.any_case && text.cased);
            self.clauses.push(vec![text]);
        }
    }

    /// Of each branch, its longest text.
    fn alternation(&mut self, branches: &[Hir]) {
        self.end_text();
        let mut union: Vec<Text> = Vec::new();
        for branch in branches {
            let mut walk = Self { exact: true, ..Self::default() };
            walk.hir(branch);
            walk.end_text();
            self.exact &= walk.exact && walk.clauses.len() == 1;
            let shortest = |clause: &Vec<Text>| clause.iter().map(|text| text.bytes.len()).min().unwrap_or_default();
            let Some(best) = walk.clauses.into_iter().max_by_key(shortest) else {
                self.exact = false;
                return;
            };
            union.extend(best);
        }
        if union.len() > TEXTS_MAX {
            self.exact = false;
            return;
        }
        self.clauses.push(union);
    }
}

/// The letter of which a class has both cases and nothing else.
fn case_pair(class: &Class) -> Option<u8> {
    let bounds: Vec<(u32, u32)> = match class {
        Class::Bytes(bytes) => bytes.iter().map(|range| (range.start().into(), range.end().into())).collect(),
        Class::Unicode(chars) => chars.iter().map(|range| (range.start().into(), range.end().into())).collect(),
    };
    match bounds.as_slice() {
        [(upper, upper_end), (lower, lower_end)] if upper == upper_end && lower == lower_end => {
            let (upper, lower) = (u8::try_from(*upper).ok()?, u8::try_from(*lower).ok()?);
            (upper.is_ascii_uppercase() && upper.to_ascii_lowercase() == lower).then_some(lower)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use regex_syntax::ParserBuilder;

    fn check(regex: &str, want: &str) {
        let hir = ParserBuilder::new().utf8(false).unicode(false).multi_line(true).build().parse(regex).unwrap();
        let needles = Needles::of(&hir);
        let text = |needle: &Needle| {
            format!("{}{}", String::from_utf8_lossy(needle.text()), if needle.any_case() { "/i" } else { "" })
        };
        let clause = |clause: &Vec<Needle>| clause.iter().map(text).collect::<Vec<_>>().join("|");
        let clauses: Vec<String> = needles.clauses.iter().map(clause).collect();
        assert_eq!(format!("{}{}", clauses.join(" & "), if needles.exact { " !" } else { "" }), want, "{regex}");
    }

    #[test]
    fn needles_of_regexes() {
        check("abc", "abc !");
        check("abc|de|f", "abc|de|f !");
        check("^abc", "abc");
        check("a.*bc", "bc");
        check("ab[0-9]+cd", "ab & cd");
        check("ab(cd)?ef", "ab & ef");
        check("ab(cd)+ef", "ab & cd & ef");
        check("(?i)abc", "abc/i !");
        check("a(?i)bc1", "abc1/i");
        check("x(ab|cd.*efg)y", "ab|efg");
        check("ab.*cdef.*gh.*ijklm", "ijklm & cdef");
        check("(ab|.)", "");
        check("[0-9]{3}", "");
        check("ab\\ncd", "ab\ncd");
    }
}
