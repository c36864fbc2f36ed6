//! Literals that every match of a regex contains, which filters and columns are searched for before any line is built.
//!
//! A regex has clauses. A clause is a list of texts; every match contains at least one of them. Adjacent literals form
//! one text; a letter that matches in both cases makes its text case-insensitive.

use bucksaw_search::Needle;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The most texts of a clause.
const CLAUSE_LITERALS_MAX: usize = 64;

/// The shortest text, in bytes: a shorter one is in nearly every line.
const LITERAL_BYTES_MIN: usize = 2;

/// The shortest text beside a longer one, in bytes: a shorter one would exclude hardly any further line.
const EXTRA_LITERAL_BYTES_MIN: usize = 4;

/// The literals that every match of a regex contains.
#[derive(Debug, Default)]
pub(crate) struct RequiredLiterals {
    /// Every match contains a text of each clause.
    pub(crate) clauses: Vec<Vec<Needle>>,
    /// Whether a line matches if and only if it contains a text of the only clause.
    pub(crate) is_exact: bool,
    /// The clause whose only text every match begins with.
    pub(crate) literal_prefix: Option<usize>,
}

impl RequiredLiterals {
    pub(crate) fn of(hir: &Hir) -> Self {
        let mut walk = LiteralExtractor { is_exact: true, ..LiteralExtractor::default() };
        walk.visit(hir);
        walk.finish_literal();
        let exact = walk.is_exact && walk.clauses.len() == 1;
        let shortest =
            |clause: &Vec<RequiredLiteral>| clause.iter().map(|text| text.bytes.len()).min().unwrap_or_default();
        let mut clauses = walk.clauses;
        // The longest first: it is probably the rarest.
        clauses.sort_by_key(|clause| std::cmp::Reverse(shortest(clause)));
        let longest = clauses.first().map_or(0, shortest);
        let min = if longest < EXTRA_LITERAL_BYTES_MIN { LITERAL_BYTES_MIN } else { EXTRA_LITERAL_BYTES_MIN };
        clauses.retain(|clause| exact || shortest(clause) >= min);
        let needle = |text: &RequiredLiteral| Needle::new(&text.bytes, text.any_case);
        let head = clauses.iter().position(|clause| !exact && matches!(clause.as_slice(), [text] if text.is_prefix));
        Self {
            clauses: clauses.iter().map(|clause| clause.iter().map(needle).collect()).collect(),
            is_exact: exact,
            literal_prefix: head,
        }
    }
}

#[derive(Clone, Debug, Default)]
struct RequiredLiteral {
    bytes: Vec<u8>,
    any_case: bool,
    /// Whether a letter matches in one case only, so that a case-insensitive search finds too much.
    has_letter: bool,
    /// Whether every match begins with exactly this text.
    is_prefix: bool,
}

#[derive(Debug, Default)]
struct LiteralExtractor {
    current: RequiredLiteral,
    clauses: Vec<Vec<RequiredLiteral>>,
    /// Whether the clauses describe the regex completely so far.
    is_exact: bool,
    /// Whether something may precede the next text in a match.
    has_preceding: bool,
}

impl LiteralExtractor {
    fn visit(&mut self, hir: &Hir) {
        match hir.kind() {
            HirKind::Empty => {}
            HirKind::Look(_) => {
                self.is_exact = false;
                // An assertion may depend on the byte before the match.
                self.has_preceding |= self.current.bytes.is_empty();
            }
            HirKind::Literal(literal) => literal.0.iter().for_each(|byte| self.push_byte(*byte)),
            HirKind::Class(class) => match case_pair(class) {
                Some(lower) => {
                    self.current.bytes.push(lower);
                    self.current.any_case = true;
                }
                None => self.break_literal(),
            },
            HirKind::Repetition(repetition) => {
                self.break_literal();
                if repetition.min > 0 {
                    self.visit(&repetition.sub);
                    self.break_literal();
                }
            }
            HirKind::Capture(capture) => self.visit(&capture.sub),
            HirKind::Concat(parts) => parts.iter().for_each(|part| self.visit(part)),
            HirKind::Alternation(branches) => self.visit_alternation(branches),
        }
    }

    fn push_byte(&mut self, byte: u8) {
        // A line contains no LF, so the text is not found although the regex may match a record.
        self.is_exact &= byte != b'\n';
        self.current.has_letter |= byte.is_ascii_alphabetic();
        self.current.bytes.push(byte);
    }

    /// Ends the current text, because something unknown follows.
    fn break_literal(&mut self) {
        self.finish_literal();
        self.is_exact = false;
    }

    fn finish_literal(&mut self) {
        let mut text = std::mem::take(&mut self.current);
        let is_first = !std::mem::replace(&mut self.has_preceding, true);
        if !text.bytes.is_empty() {
            let too_much = text.any_case && text.has_letter;
            self.is_exact &= !too_much;
            text.is_prefix = is_first && !too_much;
            self.clauses.push(vec![text]);
        }
    }

    /// Adds a clause with the longest text of each branch.
    fn visit_alternation(&mut self, branches: &[Hir]) {
        self.finish_literal();
        let mut union: Vec<RequiredLiteral> = Vec::new();
        for branch in branches {
            let mut walk = Self { is_exact: true, has_preceding: true, ..Self::default() };
            walk.visit(branch);
            walk.finish_literal();
            self.is_exact &= walk.is_exact && walk.clauses.len() == 1;
            let shortest =
                |clause: &Vec<RequiredLiteral>| clause.iter().map(|text| text.bytes.len()).min().unwrap_or_default();
            let Some(best) = walk.clauses.into_iter().max_by_key(shortest) else {
                self.is_exact = false;
                return;
            };
            union.extend(best);
        }
        drop_superfluous(&mut union);
        if union.len() > CLAUSE_LITERALS_MAX {
            self.is_exact = false;
            return;
        }
        self.clauses.push(union);
    }
}

/// Leaves out each text that contains another one, which finds at least as much.
fn drop_superfluous(union: &mut Vec<RequiredLiteral>) {
    let all = std::mem::take(union);
    let is_superfluous = |(number, text): (usize, &RequiredLiteral)| {
        all.iter().enumerate().any(|(other_number, other)| {
            let is_other = other_number < number || other.bytes.len() < text.bytes.len();
            is_other && other.any_case == text.any_case && memchr::memmem::find(&text.bytes, &other.bytes).is_some()
        })
    };
    union.extend(all.iter().enumerate().filter(|entry| !is_superfluous(*entry)).map(|(_, text)| text.clone()));
}

/// The letter, in lower case, if a class consists of its two cases.
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
        let needles = RequiredLiterals::of(&hir);
        let text = |needle: &Needle| {
            format!("{}{}", String::from_utf8_lossy(needle.text()), if needle.any_case() { "/i" } else { "" })
        };
        let clause = |clause: &Vec<Needle>| clause.iter().map(text).collect::<Vec<_>>().join("|");
        let mut clauses: Vec<String> = needles.clauses.iter().map(clause).collect();
        needles.literal_prefix.into_iter().for_each(|head| clauses[head].push('…'));
        assert_eq!(format!("{}{}", clauses.join(" & "), if needles.is_exact { " !" } else { "" }), want, "{regex}");
    }

    #[test]
    fn needles_of_regexes() {
        check("abc", "abc !");
        check("abc|de|f", "abc|de|f !");
        check("abc|ab|xaby|ab|cd", "ab|cd !");
        check("(?i)abc|bc", "bc/i !");
        check("abc|(?i:ab)", "abc|ab/i !");
        check("^abc", "abc");
        check("a.*bc", "bc");
        check("ab[0-9]+cd", "ab… & cd");
        check("ab(cd)?ef", "ab… & ef");
        check("ab(cd)+ef", "ab… & cd & ef");
        check("(?i)abc", "abc/i !");
        check("a(?i)bc1", "abc1/i");
        check("(?i)abc[0-9]", "abc/i…");
        check("(ab[0-9])+", "ab");
        check("((ab)c[0-9])", "abc…");
        check("ab\\b c$", "ab c…");
        check("\\bab$", "ab");
        check("(ab|cd)ef.", "ab|cd & ef");
        check("()ab.", "ab…");
        check("x(ab|cd.*efg)y", "ab|efg");
        check("ab.*cdef.*gh.*ijklm", "ijklm & cdef");
        check("abcd.*gh.*ijklm", "ijklm & abcd…");
        check("(ab|.)", "");
        check("[0-9]{3}", "");
        check("ab\\ncd", "ab\ncd…");
    }
}
