//! Finds the position of a regex in the text of an expression, for errors of its compilation.

use super::error::column;
use super::lexer::{Lexer, Token};

/// The column in an expression of a column in one of its regexes.
///
/// `number` counts the regexes from 0, in the order of the tree; a quoted value in any case of letters counts, since it is
/// compiled to one. `within` is the column in the regex from 1, in characters of its source, in which an escaped slash is
/// one; 0 is the opening slash. Returns 1 if the expression has no such regex.
#[must_use]
pub fn regex_column(input: &[u8], number: usize, within: usize) -> usize {
    let mut lexer = Lexer::new(input);
    let mut offsets = std::iter::from_fn(|| match lexer.next() {
        Err(_) | Ok((_, Token::End)) => None,
        Ok(_) => Some(lexer.pattern_offset()),
    });
    let Some(start) = offsets.by_ref().flatten().nth(number) else { return 1 };
    let typed = String::from_utf8_lossy(input.get(start + 1..).unwrap_or_default());
    let mut chars = typed.chars();
    let mut length = 0;
    for _ in 1..within {
        // An escaped slash is one character of the source.
        let is_escape = chars.next() == Some('\\') && chars.clone().next() == Some('/');
        length += 1;
        if is_escape {
            chars.next();
            length += 1;
        }
    }
    column(input, start) + if within == 0 { 0 } else { 1 + length }
}
