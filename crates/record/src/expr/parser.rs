//! Builds the tree from tokens by recursive descent of bounded depth.

use std::mem;

use super::SyntaxError;
use super::lexer::{HINT, Lexer, Token, is_space};
use super::tree::Expr;

/// Maximum bytes of an expression: enough for a pasted stack trace, and cheap to parse.
pub const INPUT_BYTES_MAX: usize = 64 * 1024;

/// Maximum nesting of parentheses and negations. Functions over the tree recurse this deep; typed expressions stay below
/// ten.
pub const DEPTH_MAX: usize = 64;

/// Maximum terms (texts, regexes and fields) of an expression. Each costs a search over every block that is read.
pub const TERMS_MAX: usize = 1_000;

/// See [`Expr::parse`].
pub(super) fn parse(input: &[u8]) -> Result<Expr, SyntaxError> {
    let lexer = Lexer::new(input);
    if input.len() > INPUT_BYTES_MAX {
        let message = format!("expected at most {INPUT_BYTES_MAX} bytes, found {}", input.len());
        return Err(lexer.error(INPUT_BYTES_MAX, message));
    }
    if input.iter().all(|byte| is_space(*byte)) {
        return Ok(Expr::All);
    }
    let mut parser = Parser { lexer, token: Token::End, at: 0, terms: 0 };
    parser.advance()?;
    let expr = parser.parse_or(0, "")?;
    match parser.token {
        Token::End => Ok(expr),
        // `parse_or` stops only at `)` or the end.
        _ => Err(parser.lexer.error(parser.at, format!("found `)` without a `(` before it; {HINT}"))),
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The next token.
    token: Token,
    /// The offset of the next token.
    at: usize,
    terms: usize,
}

impl Parser<'_> {
    /// Takes the next token.
    fn advance(&mut self) -> Result<Token, SyntaxError> {
        let (at, token) = self.lexer.next()?;
        self.at = at;
        Ok(mem::replace(&mut self.token, token))
    }

    /// Parses operands of `OR`. `after` is the token before them, for error messages.
    fn parse_or(&mut self, depth: usize, mut after: &str) -> Result<Expr, SyntaxError> {
        let mut members = Vec::new();
        loop {
            match self.parse_and(depth, after)? {
                Expr::Or(inner) => members.extend(inner),
                other => members.push(other),
            }
            if !matches!(self.token, Token::Or) {
                return Ok(join_members(members, Expr::Or));
            }
            self.advance()?;
            after = "OR";
        }
    }

    /// Parses operands of `AND`, which may be implicit.
    fn parse_and(&mut self, depth: usize, mut after: &str) -> Result<Expr, SyntaxError> {
        let mut members = Vec::new();
        loop {
            match self.parse_unary(depth, after)? {
                Expr::And(inner) => members.extend(inner),
                other => members.push(other),
            }
            match self.token {
                Token::Or | Token::CloseParen | Token::End => return Ok(join_members(members, Expr::And)),
                Token::And => {
                    self.advance()?;
                    after = "AND";
                }
                Token::Not(_) | Token::OpenParen | Token::Term(_) => {}
            }
        }
    }

    fn parse_unary(&mut self, depth: usize, after: &str) -> Result<Expr, SyntaxError> {
        let start = self.at;
        match self.token {
            Token::Not(_) | Token::OpenParen if depth == DEPTH_MAX => {
                let message = format!("expected at most {DEPTH_MAX} parentheses and negations inside each other");
                Err(self.lexer.error(start, message))
            }
            Token::Not(written) => {
                self.advance()?;
                Ok(Expr::Not(Box::new(self.parse_unary(depth + 1, written)?)))
            }
            Token::OpenParen => {
                self.advance()?;
                let expr = self.parse_or(depth + 1, "(")?;
                if !matches!(self.token, Token::CloseParen) {
                    let what = format!("`)` to close the `(` in column {}", self.lexer.column(start));
                    return Err(self.lexer.expected(&what, self.at));
                }
                self.advance()?;
                Ok(expr)
            }
            Token::Term(_) => self.parse_term(),
            Token::End => Err(self.lexer.expected(&expected_operand(after), start)),
            Token::And | Token::Or | Token::CloseParen => {
                Err(self.lexer.expected_with_advice(&expected_operand(after), start, HINT))
            }
        }
    }

    fn parse_term(&mut self) -> Result<Expr, SyntaxError> {
        self.terms += 1;
        if self.terms > TERMS_MAX {
            let message = format!("expected at most {TERMS_MAX} texts, regexes and fields");
            return Err(self.lexer.error(self.at, message));
        }
        match self.advance()? {
            Token::Term(expr) => Ok(expr),
            // Unreachable: the next token is a term.
            _ => Ok(Expr::All),
        }
    }
}

fn expected_operand(after: &str) -> String {
    if after.is_empty() { "something to match".to_owned() } else { format!("something to match after `{after}`") }
}

/// Joins the members, unless there is only one.
fn join_members(mut members: Vec<Expr>, join: fn(Vec<Expr>) -> Expr) -> Expr {
    if members.len() > 1 { join(members) } else { members.pop().unwrap_or(Expr::All) }
}
