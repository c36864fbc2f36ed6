//! Regexes that are a literal with a class of bytes before it, behind it, or both, such as `took \d` or `[a-z]Exception`.
//!
//! Many regexes are one once their [ends are trimmed](crate::trim_repetitions). A search for the literal finds all matches: the bytes
//! beside an occurrence decide. That costs a tenth of a call of an engine, which tests each record with the literal from its start.

use bucksaw_search::Needle;
use regex_syntax::hir::{Class, Hir, HirKind};

/// The shortest literal, in bytes: a shorter one is in nearly every record.
const LITERAL_BYTES_MIN: usize = 3;

/// The longest literal, in bytes: whether it can overlap itself takes time quadratic in the length.
const LITERAL_BYTES_MAX: usize = 256;

type AllowedBytes = Box<[bool; 256]>;

/// A literal and the classes of the bytes beside it. Neither contains an LF, so a match is in one line.
#[derive(Debug)]
pub(crate) struct LiteralBesideClasses {
    literal: Needle,
    before: Option<AllowedBytes>,
    after: Option<AllowedBytes>,
}

impl LiteralBesideClasses {
    /// `None` if the regex is of another form, or if occurrences of the literal that may match can overlap.
    pub(crate) fn of(hir: &Hir) -> Option<Self> {
        let HirKind::Concat(parts) = hir.kind() else { return None };
        let (before, literal, after) = match parts.as_slice() {
            [before, literal] if is_class(before) => (Some(before), literal, None),
            [literal, after] => (None, literal, Some(after)),
            [before, literal, after] => (Some(before), literal, Some(after)),
            _ => return None,
        };
        let HirKind::Literal(literal) = literal.kind() else { return None };
        let text = &*literal.0;
        if !(LITERAL_BYTES_MIN..=LITERAL_BYTES_MAX).contains(&text.len()) || text.contains(&b'\n') {
            return None;
        }
        let class = |part: Option<&Hir>| match part {
            Some(part) => byte_class(part).map(Some),
            None => Some(None),
        };
        let (before, after) = (class(before)?, class(after)?);
        let is_alone = before.as_ref().is_some_and(|class| !text.iter().any(|byte| contains(class, *byte)));
        (is_alone || !can_overlap_itself(text)).then(|| Self { literal: Needle::new(text, false), before, after })
    }

    /// The start of the literal in the first match at or after `from`. Calls `visit` for each occurrence.
    pub(crate) fn find(&self, text: &[u8], mut from: usize, mut visit: impl FnMut()) -> Option<usize> {
        let fits = |class: &Option<AllowedBytes>, at: Option<usize>| match class {
            Some(class) => at.and_then(|at| text.get(at)).is_some_and(|byte| contains(class, *byte)),
            None => true,
        };
        loop {
            let hit = self.literal.find(text, from)?;
            visit();
            let end = hit + self.literal.text().len();
            if fits(&self.before, hit.checked_sub(1)) && fits(&self.after, Some(end)) {
                return Some(hit);
            }
            from = end;
        }
    }
}

fn contains(class: &AllowedBytes, byte: u8) -> bool {
    class.get(usize::from(byte)).is_some_and(|is_in| *is_in)
}

fn is_class(part: &Hir) -> bool {
    matches!(part.kind(), HirKind::Class(_))
}

/// The bytes of a class without an LF; `None` for other parts of a regex.
fn byte_class(part: &Hir) -> Option<AllowedBytes> {
    let HirKind::Class(class) = part.kind() else { return None };
    let bytes = match class {
        Class::Bytes(bytes) => bytes.clone(),
        Class::Unicode(chars) => chars.to_byte_class()?,
    };
    let mut class = Box::new([false; 256]);
    for range in bytes.iter() {
        for byte in range.start()..=range.end() {
            if let Some(is_in) = class.get_mut(usize::from(byte)) {
                *is_in = true;
            }
        }
    }
    (!contains(&class, b'\n')).then_some(class)
}

/// Whether an occurrence of a text can begin inside another one.
fn can_overlap_itself(text: &[u8]) -> bool {
    (1..text.len()).any(|shift| text.get(shift..).is_some_and(|end| text.starts_with(end)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use regex_automata::meta;
    use regex_syntax::ParserBuilder;

    use super::*;

    fn of(regex: &str) -> Option<LiteralBesideClasses> {
        let hir = ParserBuilder::new().utf8(false).unicode(false).multi_line(true).build().parse(regex).unwrap();
        LiteralBesideClasses::of(&hir)
    }

    #[test]
    fn literals_with_classes_are_recognised() {
        for regex in ["took [0-9]", "[a-z]Exception", "[0-9]ms [a-f]", "[0-9]----", "[(]?x: [0-9]", "(?u:[a-z])abc"] {
            let is_one = !regex.starts_with("[(]?");
            assert_eq!(of(regex).is_some(), is_one, "{regex}");
        }
        for other in [
            "abc",
            "ab[0-9]",
            "[^x]abc",
            "[0-9]+abc",
            "^abc[0-9]",
            "----[0-9]",
            "[-]----",
            "[a-z]abab",
            "[0-9]a\\nbc",
            "(?i)[0-9]abc",
        ] {
            assert!(of(other).is_none(), "{other}");
        }
    }

    proptest! {
        #[test]
        fn finds_what_the_regex_finds(
            regex in r"(\[a\]|\[ab-\]|\[0-9-\])?(abc|---|ab-|cab|a-a)(\[a\]|\[bc-\])?",
            text in "(abc|---|ab-|cab|a-a|[abc0\n-]){0,16}",
        ) {
            let Some(term) = of(&regex) else { return Ok(()) };
            let want = meta::Regex::new(&regex).unwrap().is_match(&text);
            prop_assert_eq!(term.find(text.as_bytes(), 0, || ()).is_some(), want, "{} in {:?}", regex, text);
        }
    }
}
