//! Rewrites a regex for one record so that it can run over the text of many lines.
//!
//! A record that is a line contains no LF, so no match contains one. The rewrite removes LF from classes and lets literals with an LF
//! fail. The start and the end of the text become the start and the end of a line. The result matches in the text of many lines
//! exactly where the regex matches in one of the lines alone.
//!
//! The two anchors of the `R` flag examine CR and LF together and cannot be rewritten; [`can_restrict_to_lines`] rejects them.

use regex_syntax::hir::{
    Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look, Repetition,
};

/// Whether [`restrict_to_lines`] can rewrite the regex.
pub(crate) fn can_restrict_to_lines(hir: &Hir) -> bool {
    let looks = hir.properties().look_set();
    !looks.contains(Look::StartCRLF) && !looks.contains(Look::EndCRLF)
}

/// The regex for the text of many lines, and whether it differs from `hir`. Capture groups are dropped, because no search uses them.
/// The recursion is as deep as the regex nests, which the parser bounds.
pub(crate) fn restrict_to_lines(hir: Hir) -> (Hir, bool) {
    let mut changed = false;
    (rewrite(hir, &mut changed), changed)
}

fn rewrite(hir: Hir, changed: &mut bool) -> Hir {
    match hir.into_kind() {
        HirKind::Empty => Hir::empty(),
        HirKind::Literal(literal) if literal.0.contains(&b'\n') => {
            *changed = true;
            Hir::fail()
        }
        HirKind::Literal(literal) => Hir::literal(literal.0),
        HirKind::Class(class) => Hir::class(without_lf(class, changed)),
        HirKind::Look(Look::Start) => {
            *changed = true;
            Hir::look(Look::StartLF)
        }
        HirKind::Look(Look::End) => {
            *changed = true;
            Hir::look(Look::EndLF)
        }
        HirKind::Look(look) => Hir::look(look),
        HirKind::Repetition(Repetition { min, max, greedy, sub }) => {
            let sub = Box::new(rewrite(*sub, changed));
            Hir::repetition(Repetition { min, max, greedy, sub })
        }
        HirKind::Capture(capture) => rewrite(*capture.sub, changed),
        HirKind::Concat(parts) => Hir::concat(parts.into_iter().map(|part| rewrite(part, changed)).collect()),
        HirKind::Alternation(parts) => Hir::alternation(parts.into_iter().map(|part| rewrite(part, changed)).collect()),
    }
}

fn without_lf(class: Class, changed: &mut bool) -> Class {
    match class {
        Class::Bytes(mut bytes) => {
            if bytes.iter().any(|range| range.start() <= b'\n' && b'\n' <= range.end()) {
                *changed = true;
                bytes.difference(&ClassBytes::new([ClassBytesRange::new(b'\n', b'\n')]));
            }
            Class::Bytes(bytes)
        }
        Class::Unicode(mut chars) => {
            if chars.iter().any(|range| range.start() <= '\n' && '\n' <= range.end()) {
                *changed = true;
                chars.difference(&ClassUnicode::new([ClassUnicodeRange::new('\n', '\n')]));
            }
            Class::Unicode(chars)
        }
    }
}
