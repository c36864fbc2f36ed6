//! Hints: places where a valid expression probably does not mean what its author intended.
//!
//! People bring the habits of other query languages. What they type is often a search for a few words here, so that an
//! answer without matches would be no help. A hint states how the expression is read, and how to write the probable
//! intention. It is only advice: it never changes an answer.

use std::ops::Range;

use super::error::{column, escape_input};
use super::lexer::{Lexer, Token, name_length, operator_length};
use super::tree::{Expr, Field, Test};

/// Hints for one expression; pasted log text could have any number.
const HINTS_MAX: usize = 5;

/// Characters of input that a hint quotes.
const QUOTED_CHARS_MAX: usize = 60;

/// Advice on one part of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The position of the part, as in [`SyntaxError`](super::SyntaxError).
    pub column: usize,
    /// How the part is read, and what to write instead; one line.
    pub message: String,
}

/// Prints the message.
/// The hints for an expression, in order; none if it is invalid, because its error is more precise.
///
/// ```
/// # use bucksaw_record::expr::hints;
/// let hint = &hints(b"status >= 500")[0];
/// assert_eq!(hint.message, "`status >= 500` searches for 3 words; to compare a field, write `status>=500`");
/// assert_eq!(hints(b"status>=500"), []);
/// ```
#[must_use]
pub fn hints(input: &[u8]) -> Vec<Hint> {
    if Expr::parse(input).is_err() {
        return Vec::new();
    }
    let pieces = Pieces::of(input);
    let mut hints = Vec::new();
    let mut at = 0;
    while at < pieces.list.len() && hints.len() < HINTS_MAX {
        let (used, message) = pieces.hint_at(at).map_or((1, None), |(used, message)| (used, Some(message)));
        if let (Some(message), Some(piece)) = (message, pieces.list.get(at)) {
            hints.push(Hint { column: column(input, piece.range.start), message });
        }
        at += used.max(1);
    }
    hints
}

/// A token, as far as hints need it.
#[derive(Debug)]
struct Piece {
    range: Range<usize>,
    kind: PieceKind,
}

#[derive(Debug)]
enum PieceKind {
    /// Text without quotes.
    Word,
    Quoted,
    Field(Field),
    Other,
}

/// The tokens of an expression.
#[derive(Debug)]
struct Pieces<'a> {
    input: &'a [u8],
    list: Vec<Piece>,
}

impl<'a> Pieces<'a> {
    fn of(input: &'a [u8]) -> Self {
        let (mut lexer, mut list) = (Lexer::new(input), Vec::new());
        while let Ok((start, token)) = lexer.next() {
            let kind = match token {
                Token::End => break,
                Token::Term(Expr::Literal(_)) if input.get(start) == Some(&b'"') => PieceKind::Quoted,
                Token::Term(Expr::Literal(_)) => PieceKind::Word,
                Token::Term(Expr::Field(field)) => PieceKind::Field(field),
                _ => PieceKind::Other,
            };
            list.push(Piece { range: start..lexer.offset(), kind });
        }
        Self { input, list }
    }

    fn source(&self, at: usize) -> Option<&'a str> {
        str::from_utf8(self.input.get(self.list.get(at)?.range.clone())?).ok()
    }

    fn word(&self, at: usize) -> Option<&'a str> {
        self.source(at).filter(|_| matches!(self.list.get(at), Some(Piece { kind: PieceKind::Word, .. })))
    }

    /// The text that may follow an operator as its value.
    fn value(&self, at: usize) -> Option<&'a str> {
        let is_text = matches!(self.list.get(at)?.kind, PieceKind::Word | PieceKind::Quoted);
        self.source(at).filter(|_| is_text)
    }

    /// The pieces from `at` on, as typed.
    fn typed(&self, at: usize, count: usize) -> Option<String> {
        let range = self.list.get(at)?.range.start..self.list.get(at + count - 1)?.range.end;
        Some(quoted(&String::from_utf8_lossy(self.input.get(range)?)))
    }

    /// A hint for the pieces from `at` on, and how many of them it explains.
    fn hint_at(&self, at: usize) -> Option<(usize, String)> {
        if let Some(PieceKind::Field(field)) = self.list.get(at).map(|piece| &piece.kind) {
            return Some((1, self.field_hint(at, field)?));
        }
        let word = self.word(at)?;
        self.separated_field(at, word)
            .or_else(|| self.selector(at, word))
            .or_else(|| self.single_quotes(at, word))
            .or_else(|| Some((1, self.word_hint(at, word)?)))
    }

    /// A field, its operator and its value, of which some are separated by space.
    fn separated_field(&self, at: usize, word: &str) -> Option<(usize, String)> {
        if !is_name(word) {
            return None;
        }
        let next = self.word(at + 1)?;
        let (operator, rest) = split_operator(next)?;
        let (count, value) = if rest.is_empty() { (3, self.value(at + 2)?) } else { (2, rest) };
        let value =
            if matches!(operator, "=~" | "!~") { format!("/{}/", value.trim_matches('"')) } else { value.to_owned() };
        let written = checked(&format!("{word}{operator}{value}"))?;
        let typed = self.typed(at, count)?;
        Some((count, format!("`{typed}` searches for {count} words; to compare a field, write `{written}`")))
    }

    /// A selector of labels as in LogQL: `{app="x",level="y"}`. With spaces it is a syntax error.
    fn selector(&self, at: usize, word: &str) -> Option<(usize, String)> {
        let text = word.strip_prefix('{').filter(|inner| inner.starts_with(|first: char| first.is_alphabetic()))?;
        let pairs = text.strip_suffix('}')?.split(',').map(|pair| pair.trim().replace('"', ""));
        let terms = pairs.filter(|pair| !pair.is_empty()).map(|pair| {
            let (name, rest) = pair.split_at_checked(name_length(pair.as_bytes()))?;
            let (operator, value) = split_operator(rest)?;
            let value = if matches!(operator, "=~" | "!~") { format!("/{value}/") } else { value.to_owned() };
            checked(&format!("{name}{operator}{value}"))
        });
        let written = terms.collect::<Option<Vec<_>>>()?.join(" ");
        let typed = self.typed(at, 1)?;
        Some((1, format!("`{typed}` is searched for as text; labels are fields: write `{written}`")))
    }

    /// Text in single quotes.
    fn single_quotes(&self, at: usize, word: &str) -> Option<(usize, String)> {
        let is_closed = |at: usize| self.word(at).is_some_and(|word| word.len() > 1 && word.ends_with('\''));
        if !word.starts_with('\'') || word.len() < 2 {
            return None;
        }
        let last = (at..self.list.len()).take_while(|at| self.word(*at).is_some()).find(|at| is_closed(*at))?;
        let count = last + 1 - at;
        let typed = self.typed(at, count)?;
        let inner = typed.trim_matches('\'');
        let written = checked(&format!("\"{inner}\""))?;
        Some((count, format!("the single quotes of `{typed}` are searched for too; write `{written}`")))
    }

    /// A hint for a single word.
    fn word_hint(&self, at: usize, word: &str) -> Option<String> {
        let typed = quoted(word);
        let is_text = |text: &str| format!("`{typed}` is searched for as text; {text}");
        let is_between = at > 0 && at + 1 < self.list.len();
        match word {
            "|" => return Some(is_text("an expression has no pipes, it only selects records")),
            "||" => return Some(is_text("write `OR`")),
            "&&" | "&" => return Some(is_text("write `AND`, or only a space")),
            "|=" | "|~" | "!=" | "!~" => {
                return Some(is_text("terms are separated by a space, and `-` excludes: `error -timeout`"));
            }
            "or" | "and" if is_between => {
                return Some(format!("`{word}` is searched for as a word; the operator is `{}`", word.to_uppercase()));
            }
            "not" if at + 1 < self.list.len() => {
                return Some("`not` is searched for as a word; the operator is `NOT`, or `-`".to_owned());
            }
            _ => {}
        }
        if let Some(inner) = word.strip_prefix('!').filter(|inner| is_name(inner)) {
            return Some(is_text(&format!("to exclude it, write `-{inner}`")));
        }
        let inner = word.trim_matches('*');
        if inner.len() < word.len() && is_name(inner) {
            return Some(is_text(&format!("text is found anywhere in a record, without stars: write `{inner}`")));
        }
        let (name, value) = word.split_once(':').filter(|(name, _)| is_name(name))?;
        // `localhost:8080`, `std::fs`, `http://…` and `10:30` are texts.
        let is_port = value.bytes().all(|byte| byte.is_ascii_digit()) && (name == "localhost" || name.contains('.'));
        if value.is_empty() || value.starts_with([':', '/']) || is_port || value.contains(':') {
            return None;
        }
        let written = match split_operator(value).filter(|(_, rest)| !rest.is_empty()) {
            Some((operator, value)) => checked(&format!("{name}{operator}{value}"))?,
            None => checked(&format!("{name}={value}"))?,
        };
        Some(is_text(&format!("to compare a field, write `{written}`")))
    }

    /// A hint for a field whose value looks like something else.
    fn field_hint(&self, at: usize, field: &Field) -> Option<String> {
        let (Test::Equal(value) | Test::NotEqual(value)) = &field.test else { return None };
        let typed = self.source(at)?;
        // A value in quotes is meant.
        let bare = str::from_utf8(value).ok().filter(|value| typed.ends_with(value))?;
        let before = typed.strip_suffix(bare)?;
        let (name, operator) =
            before.strip_suffix("!=").map(|name| (name, "!=")).or_else(|| Some((before.strip_suffix('=')?, "=")))?;
        let is_compared =
            |text: &str| Some(format!("`{}` compares with the text `{}`; {text}", quoted(typed), quoted(bare)));
        if let Some((first, rest)) = split_operator(bare).filter(|(_, rest)| !rest.is_empty()) {
            let meant = match first {
                "=" => operator,
                "<" if operator == "=" => "<=",
                ">" if operator == "=" => ">=",
                _ => return None,
            };
            return is_compared(&format!("write `{}`", checked(&format!("{name}{meant}{rest}"))?));
        }
        if let Some((first, rest)) = bare.split_once(',')
            && let Some((other, value)) =
                rest.split_once('=').filter(|(other, value)| is_name(other) && !value.is_empty())
        {
            let written = checked(&format!("{name}{operator}{first} {other}={value}"))?;
            return is_compared(&format!("terms are separated by a space: write `{written}`"));
        }
        let regex_operator = if operator == "=" { "=~" } else { "!~" };
        if let Some(source) = bare.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'))
            && source.contains(['*', '+', '\\', '[', '|', '^', '$'])
        {
            return is_compared(&format!(
                "for a regex, write `{}`",
                checked(&format!("{name}{regex_operator}{bare}"))?
            ));
        }
        let inner = bare.trim_matches('*');
        if inner.len() < bare.len() && is_name(inner) {
            let (start, end) =
                (if bare.starts_with('*') { "" } else { "^" }, if bare.ends_with('*') { "" } else { "$" });
            let inner = inner.replace('.', "\\.");
            return is_compared(&format!(
                "for a part of it, write `{}`",
                checked(&format!("{name}{regex_operator}/{start}{inner}{end}/"))?
            ));
        }
        None
    }
}

/// Input as quoted in a hint.
fn quoted(text: &str) -> String {
    escape_input(text.as_bytes(), QUOTED_CHARS_MAX)
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && name_length(word.as_bytes()) == word.len()
}

/// The operator at the start of a text as other languages write it, in the spelling of this one, and the rest.
fn split_operator(text: &str) -> Option<(&'static str, &str)> {
    const SPELLINGS: [(&str, &str); 5] = [("==", "="), ("<>", "!="), ("=>", ">="), ("=<", "<="), (":=", "=")];
    let spelling = SPELLINGS.iter().find_map(|(typed, meant)| Some((*meant, text.strip_prefix(typed)?)));
    spelling.or_else(|| operator_length(text.as_bytes()).and_then(|(name, length)| Some((name, text.get(length..)?))))
}

/// A proposal, if it is a valid expression without hints of its own.
fn checked(proposal: &str) -> Option<String> {
    Expr::parse(proposal.as_bytes()).ok().map(|_| quoted(proposal))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the columns and messages of all hints.
    fn check(input: &str, want: &[(usize, &str)]) {
        let found = hints(input.as_bytes());
        let found: Vec<(usize, &str)> = found.iter().map(|hint| (hint.column, hint.message.as_str())).collect();
        assert_eq!(found, want, "{input}");
    }

    #[test]
    fn an_expression_has_at_most_five_hints() {
        assert_eq!(hints("|| ".repeat(9).as_bytes()).len(), 5);
    }

    #[test]
    fn habits_of_other_languages_get_a_hint() {
        let one = |input: &str, want: &str| check(input, &[(1, want)]);
        let words = |count: usize, typed: &str, written: &str| {
            format!("`{typed}` searches for {count} words; to compare a field, write `{written}`")
        };
        one("status >= 500", &words(3, "status >= 500", "status>=500"));
        one("level = error", &words(3, "level = error", "level=error"));
        one("level == error", &words(3, "level == error", "level=error"));
        one("level != \"a b\"", &words(3, "level != \"a b\"", "level!=\"a b\""));
        one("level =error", &words(2, "level =error", "level=error"));
        one("status >500", &words(2, "status >500", "status>500"));
        one("status => 500", &words(3, "status => 500", "status>=500"));
        one("path =~ ^.api", &words(3, "path =~ ^.api", "path=~/^.api/"));
        one("@level >= warn", &words(3, "@level >= warn", "@level>=warn"));
        let text = |typed: &str, advice: &str| format!("`{typed}` is searched for as text; {advice}");
        let field = |typed: &str, written: &str| text(typed, &format!("to compare a field, write `{written}`"));
        one("level:error", &field("level:error", "level=error"));
        one("status:>=500", &field("status:>=500", "status>=500"));
        one("user.id:42x", &field("user.id:42x", "user.id=42x"));
        let labels = |typed: &str, written: &str| text(typed, &format!("labels are fields: write `{written}`"));
        one(r#"{app="x"}"#, &labels(r#"{app="x"}"#, "app=x"));
        one(r#"{app="x",level!="y"} a"#, &labels(r#"{app="x",level!="y"}"#, "app=x level!=y"));
        one(r#"{app=~"x|y"}"#, &labels(r#"{app=~"x|y"}"#, "app=~/x|y/"));
        let pipe = text("|", "an expression has no pipes, it only selects records");
        check("a | stats", &[(3, &pipe)]);
        check(
            "error |= timeout",
            &[(7, &text("|=", "terms are separated by a space, and `-` excludes: `error -timeout`"))],
        );
        check("a || b && c", &[(3, &text("||", "write `OR`")), (8, &text("&&", "write `AND`, or only a space"))]);
        check("a or b", &[(3, "`or` is searched for as a word; the operator is `OR`")]);
        check("a not b", &[(3, "`not` is searched for as a word; the operator is `NOT`, or `-`")]);
        one("!error", &text("!error", "to exclude it, write `-error`"));
        one("*error*", &text("*error*", "text is found anywhere in a record, without stars: write `error`"));
        one("'a b c' d", "the single quotes of `'a b c'` are searched for too; write `\"a b c\"`");
        one("'ab'", "the single quotes of `'ab'` are searched for too; write `\"ab\"`");
        let compares =
            |typed: &str, value: &str, advice: &str| format!("`{typed}` compares with the text `{value}`; {advice}");
        one("a==b", &compares("a==b", "=b", "write `a=b`"));
        one("status=>500", &compares("status=>500", ">500", "write `status>=500`"));
        one("a=b,c=d", &compares("a=b,c=d", "b,c=d", "terms are separated by a space: write `a=b c=d`"));
        one("path=/a.*/", &compares("path=/a.*/", "/a.*/", "for a regex, write `path=~/a.*/`"));
        one("path!=/a.*/", &compares("path!=/a.*/", "/a.*/", "for a regex, write `path!~/a.*/`"));
        one("host=web*", &compares("host=web*", "web*", "for a part of it, write `host=~/^web/`"));
        one("host=*a.b*", &compares("host=*a.b*", "*a.b*", "for a part of it, write `host=~/a\\.b/`"));
        check("grün level = x", &[(6, &words(3, "level = x", "level=x"))]);
    }

    #[test]
    fn what_is_meant_gets_no_hint() {
        for input in [
            "",
            "timeout",
            "level=error status>=500",
            "level=*",
            "@level>=warn",
            "\"status >= 500\"",
            "\"level:error\"",
            "10.0.0.1:80",
            "localhost:8080",
            "db.example.com:5432",
            "http://h/?a=b",
            "std::fs::read",
            "error: failed",
            "12:30:15",
            "a:b:c",
            "{\"a\":1}",
            "{}",
            "path=/api/v1/",
            "a=\"*x*\"",
            "a=\"=b\"",
            "or",
            "AND=x",
            "it's don't",
            "a - b",
            "*",
            "x=a,b",
            "| OR",
        ] {
            check(input, &[]);
        }
    }

    #[test]
    fn hints_are_few() {
        let found = hints("level:error ".repeat(100).as_bytes());
        assert_eq!(found.len(), HINTS_MAX);
        let long = hints(format!("level:{}", "x".repeat(10_000)).as_bytes());
        assert!(long.iter().all(|hint| hint.message.len() < 300));
    }

    proptest::proptest! {
        #[test]
        fn hints_of_any_input_are_valid_lines(input in "([a-z]{0,3}|[<>=!~|&:{}()\"'/*, é-]|level|@level|500|or|not){0,12}") {
            for hint in hints(input.as_bytes()) {
                proptest::prop_assert!(!hint.message.contains(char::is_control), "{}", hint.message);
                proptest::prop_assert!(hint.column >= 1 && hint.column <= input.chars().count());
            }
        }
    }
}
