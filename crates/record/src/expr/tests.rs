//! Tables of the grammar, the limits, and round trips through printing.

use proptest::prelude::*;
use regex_automata::{meta::Regex, util::syntax};
use serde::Deserialize;

use super::lexer::{Lexer, Token, is_space};
use super::*;
use crate::level::Level;

fn parse(input: &str) -> Expr {
    Expr::parse(input.as_bytes()).unwrap_or_else(|error| panic!("{input}: {error}"))
}

fn text(bytes: &[u8]) -> Expr {
    Expr::literal(bytes)
}

fn pattern(source: &str, case_insensitive: bool) -> Pattern {
    Pattern { source: source.to_owned(), case_insensitive }
}

fn limit(text: &str) -> Limit {
    Limit::parse(text.as_bytes()).unwrap()
}

fn field(name: &str, test: Test) -> Expr {
    Expr::Field(Field { name: name.to_owned(), test })
}

#[test]
fn terms_parse() {
    let check = |input: &[u8], want: Expr| assert_eq!(Expr::parse(input), Ok(want), "{}", input.escape_ascii());
    check(b"", Expr::All);
    check(b" \t\r\n", Expr::All);
    check(b"timeout", text(b"timeout"));
    check(b"  timeout  ", text(b"timeout"));
    check(b"10.0.0.1:80", text(b"10.0.0.1:80"));
    check(b"-", text(b"-"));
    check(b"and", text(b"and"));
    check(b"ANDY", text(b"ANDY"));
    check(b"a-b", text(b"a-b"));
    check(b"a\"b/c\\n", text(b"a\"b/c\\n"));
    check("größe\u{a0}".as_bytes(), text("größe\u{a0}".as_bytes()));
    check(b"\xff\xfe", text(b"\xff\xfe"));
    check(b"\"\"", text(b""));
    check(b"\"connection refused\"", text(b"connection refused"));
    check(b"\"AND\"", text(b"AND"));
    check(br#""\"\\\n\r\t\0\x00\xfF/""#, text(b"\"\\\n\r\t\0\0\xff/"));
    check(b"\"two\nlines\xff\"", text(b"two\nlines\xff"));
    check(b"\"foo\"i", Expr::Literal(Literal { bytes: b"foo".to_vec(), case_insensitive: true }));
    check(b"/time(d)? ?out/", Expr::Regex(pattern("time(d)? ?out", false)));
    check(b"/a/i", Expr::Regex(pattern("a", true)));
    check(b"//", Expr::Regex(pattern("", false)));
    check(br"/a\/b\\/", Expr::Regex(pattern(r"a/b\\", false)));
    check(br"/\d\x2f[\/]/", Expr::Regex(pattern(r"\d\x2f[/]", false)));
}

#[test]
fn fields_parse() {
    let check = |input: &[u8], want: Expr| assert_eq!(Expr::parse(input), Ok(want), "{}", input.escape_ascii());
    let equal = |value: &[u8]| Test::Equal(value.to_vec());
    check(b"level=error", field("level", equal(b"error")));
    check(b"level!=info", field("level", Test::NotEqual(b"info".to_vec())));
    check(b"user.id=42", field("user.id", equal(b"42")));
    check(b"@timestamp=x", field("@timestamp", equal(b"x")));
    check(b"_a-b@c.d=x", field("_a-b@c.d", equal(b"x")));
    check(b"AND=x", field("AND", equal(b"x")));
    check(b"path=/api/v1", field("path", equal(b"/api/v1")));
    check(b"a==b", field("a", equal(b"=b")));
    check(b"a=-1", field("a", equal(b"-1")));
    check(b"a=\xff", field("a", equal(b"\xff")));
    check(b"a=\"\"", field("a", equal(b"")));
    check(b"a=\"b c\"", field("a", equal(b"b c")));
    check(b"a=\"b.c\"i", field("a", Test::Match(pattern(r"^b\.c$", true))));
    check(b"a!=\"b\"i", field("a", Test::NotMatch(pattern("^b$", true))));
    check(b"\"odd name\"=x", field("odd name", equal(b"x")));
    check(b"\"\xc3\xb6\">1", field("ö", Test::Greater(limit("1"))));
    check(b"\"\"=x", field("", equal(b"x")));
    check(b"path=~/^.api/", field("path", Test::Match(pattern("^.api", false))));
    check(b"path!~/^.api/i", field("path", Test::NotMatch(pattern("^.api", true))));
    check(b"status>=500", field("status", Test::GreaterEqual(limit("500"))));
    check(b"status<=5e2", field("status", Test::LessEqual(limit("500"))));
    check(b"took>-0.25", field("took", Test::Greater(limit("-0.25"))));
    check(b"took<+1.5E-3", field("took", Test::Less(limit("0.0015"))));
    check(b"dur>10ms", field("dur", Test::Greater(limit("10ms"))));
    check(b"size<=1.5MB", field("size", Test::LessEqual(limit("1.5MB"))));
    check(b"id>9007199254740993", field("id", Test::Greater(limit("9007199254740993"))));
    check(b"a=*", field("a", Test::Exists));
    check(b"a!=*", field("a", Test::NotExists));
    check(b"a=\"*\"", field("a", equal(b"*")));
    check(b"a!=\"*\"", field("a", Test::NotEqual(b"*".to_vec())));
    check(b"a=**", field("a", equal(b"**")));
    check("größe_2=1".as_bytes(), field("größe_2", equal(b"1")));
    check("名前=1".as_bytes(), field("名前", equal(b"1")));
    check("a.é!=1".as_bytes(), field("a.é", Test::NotEqual(b"1".to_vec())));
    // The left side is not a field name.
    for literal in
        ["a/b=c", "=x", "==", "5=5", "http://h/?a=b", "->", "<b>", "a!b", "a~b", "[a=b]", "a:b=c", "→=1", "²=1"]
    {
        check(literal.as_bytes(), if literal == "->" { text(b">").negate() } else { text(literal.as_bytes()) });
    }
}

#[test]
fn levels_parse() {
    let check = |input: &str, want: LevelTest| assert_eq!(parse(input), Expr::Level(want), "{input}");
    check("@level=error", LevelTest::Equal(Some(Level::Error)));
    check("@level=ERR", LevelTest::Equal(Some(Level::Error)));
    check("@level=\"crit\"", LevelTest::Equal(Some(Level::Fatal)));
    check("@level!=warning", LevelTest::NotEqual(Some(Level::Warn)));
    check("@level<notice", LevelTest::Less(Level::Info));
    check("@level<=debug", LevelTest::LessEqual(Level::Debug));
    check("@level>warn", LevelTest::Greater(Level::Warn));
    check("@level>=warning", LevelTest::GreaterEqual(Level::Warn));
    check("@level=none", LevelTest::Equal(None));
    check("@level!=None", LevelTest::NotEqual(None));
    check("@level=*", LevelTest::Exists);
    check("@level!=*", LevelTest::NotExists);
    assert_eq!(parse("\"@level\"=error"), field("@level", Test::Equal(b"error".to_vec())));
    assert_eq!(parse("@levels=error"), field("@levels", Test::Equal(b"error".to_vec())));
    assert_eq!(parse("\"@level\"=error").to_string(), "\"@level\"=error");
    assert_eq!(parse("NOT @level=Warning").to_string(), "NOT @level=warn");
    assert_eq!(parse("@level>=err").into_case_insensitive().to_string(), "@level>=error");
}

#[test]
fn levels_have_ranks() {
    let check = |input: &str, want: &str| {
        let Expr::Level(test) = parse(input) else { panic!("{input}") };
        let all = Level::ALL.into_iter().map(Some).chain([None]).filter(|level| test.accepts(*level));
        assert_eq!(all.map(|level| level.map_or("none", Level::name)).collect::<Vec<_>>().join(" "), want, "{input}");
    };
    check("@level=error", "error");
    check("@level!=error", "trace debug info warn fatal none");
    check("@level>=warn", "warn error fatal");
    check("@level>warn", "error fatal");
    check("@level<warn", "trace debug info");
    check("@level<=trace", "trace");
    check("@level<trace", "");
    check("@level=none", "none");
    check("@level!=none", "trace debug info warn error fatal");
    check("@level=*", "trace debug info warn error fatal");
    check("@level!=*", "none");
}

#[test]
fn expressions_print_with_minimal_parentheses() {
    let check = |input: &str, want: &str| {
        assert_eq!(parse(input).to_string(), want, "{input}");
        assert_eq!(parse(want), parse(input), "{input}");
    };
    check("a b", "a b");
    check("a AND b", "a b");
    check("a OR b c", "a OR b c");
    check("(a OR b) c", "(a OR b) c");
    check("(a b) OR c", "a b OR c");
    check("(a b) c (d AND e)", "a b c d e");
    check("a OR (b OR (c OR d))", "a OR b OR c OR d");
    check("((a))", "a");
    check("NOT a b", "NOT a b");
    check("NOT (a b)", "NOT (a b)");
    check("-(a OR b)c", "NOT (a OR b) c");
    check("-a", "NOT a");
    check("--a", "NOT NOT a");
    check("NOT NOT a", "NOT NOT a");
    check("NOT(a)", "NOT a");
    check("-level=debug", "NOT level=debug");
    check("-\"a\" -/b/", "NOT a NOT /b/");
    check("(-)", "\"-\"");
    check("f(x)", "f x");
    check("a AND NOT b OR NOT c", "a NOT b OR NOT c");
    check("\"a b\" \"AND\" \"-x\" \"/x\" \"a=b\"", "\"a b\" \"AND\" \"-x\" \"/x\" \"a=b\"");
    check("\"a\"i", "\"a\"i");
    check(r#""\x7f\xff\xC2\x85ö\0""#, r#""\x7F\xFF\xC2\x85ö\0""#);
    check("a=/x b=\"-\" c=\"~x\" \"d e\"=\"f g\"", "a=/x b=- c=\"~x\" \"d e\"=\"f g\"");
    check("a>1e300 b<0.1 c>=-5 d<=1e21", "a>1e300 b<0.1 c>=-5 d<=1e21");
    check("a>1e400 b<1h30m c>=1.5MB", "a>1e400 b<1h30m c>=1.5MB");
    check("a=* b!=* c=\"*\"", "a=* b!=* c=\"*\"");
    check("größe=1", "\"größe\"=1");
    check("@level>=warning @level!=none", "@level>=warn @level!=none");
    check(r"/a\/b\\\/[\d]/i", r"/a\/b\\\/[\d]/i");
}

#[test]
fn operators_have_the_documented_precedence() {
    assert_eq!(parse("a b OR c"), Expr::Or(vec![Expr::And(vec![text(b"a"), text(b"b")]), text(b"c")]));
    assert_eq!(parse("NOT a b"), Expr::And(vec![text(b"a").negate(), text(b"b")]));
    assert_eq!(parse("--a"), Expr::Not(Box::new(Expr::Not(Box::new(text(b"a"))))));
}

#[test]
fn errors_name_the_column_and_the_expected_token() {
    let check = |input: &[u8], want: &str| {
        let error = Expr::parse(input).unwrap_err();
        assert_eq!(error.to_string(), want, "{}", input.escape_ascii());
    };
    let hint = |error: &str| format!("{error}; put text in quotes to search for it as it is");

    check(b"level=", "column 7: expected a value after `level=`, found the end of the expression");
    check(b"level= error", "column 7: expected a value after `level=`, found a space");
    check(b"level!=(a OR b)", "column 8: expected a value after `level!=`, found `(`");
    check(b"\"odd name\"=", "column 12: expected a value after `\"odd name\"=`, found the end of the expression");
    check(
        "grün \"größe\"=".as_bytes(),
        "column 14: expected a value after `\"größe\"=`, found the end of the expression",
    );
    check(b"\xff\xfe a=", "column 6: expected a value after `a=`, found the end of the expression");
    check(
        b"s>=",
        &hint(
            "column 4: expected a number, a duration such as `10ms` or a size such as `1MB` after `s>=`, found the end of the expression",
        ),
    );
    check(
        b"s>=abc",
        &hint(
            "column 4: expected a number, a duration such as `10ms` or a size such as `1MB` after `s>=`, found `abc`",
        ),
    );
    check(
        b"s>inf",
        &hint("column 3: expected a number, a duration such as `10ms` or a size such as `1MB` after `s>`, found `inf`"),
    );
    check(
        b"s>1e9999999999999999",
        &hint(
            "column 3: expected a number, a duration such as `10ms` or a size such as `1MB` after `s>`, found `1e9999999999999999`",
        ),
    );
    check(
        b"ptr->next",
        &hint(
            "column 6: expected a number, a duration such as `10ms` or a size such as `1MB` after `ptr->`, found `next`",
        ),
    );
    let ranks = "the rank of levels is compared by `@level`, as in `@level>=warn`";
    let number = "a number, a duration such as `10ms` or a size such as `1MB`";
    check(b"level>=warning", &format!("column 8: expected {number} after `level>=`, found `warning`; {ranks}"));
    let levels = "`trace`, `debug`, `info`, `warn`, `error`, `fatal`";
    check(
        b"@level=eror",
        &format!("column 8: expected a level after `@level=` ({levels}, `none` or `*`), found `eror`"),
    );
    check(b"a @level>=none", &format!("column 11: expected a level after `@level>=` ({levels}), found `none`"));
    check(b"@level<*", &format!("column 8: expected a level after `@level<` ({levels}), found `*`"));
    check(
        b"@level!=",
        &format!(
            "column 9: expected a level after `@level!=` ({levels}, `none` or `*`), found the end of the expression"
        ),
    );
    check(
        b"@level=\"\"",
        &format!("column 8: expected a level after `@level=` ({levels}, `none` or `*`), found `\"\"`"),
    );
    check(b"@level=~/err/", "column 7: expected `=`, `!=`, `<`, `<=`, `>` or `>=` after `@level`, found `=~/err/`");
    check(b"p=~abc", &hint("column 4: expected a regex such as `/…/` after `p=~`, found `abc`"));
    check(b"\"\xff\"=x", "column 1: expected a field name in UTF-8, found other bytes");

    check(b"a \"b c", "column 7: expected `\"` to close the quote in column 3, found the end of the expression");
    check(b"\"a\\", "column 4: expected `\"` to close the quote in column 1, found the end of the expression");
    check(b"\"a\\x", "column 5: expected `\"` to close the quote in column 1, found the end of the expression");
    check(b"\"\\x4\"", "column 4: expected two hex digits after `\\x`, found `4\"`");
    check(b"\"\\x4", "column 4: expected two hex digits after `\\x`, found `4`");
    let known = r#"`\"`, `\\`, `\n`, `\r`, `\t`, `\0` or `\xHH`"#;
    let advice = r"a backslash in quotes is written `\\`";
    check(br#""C:\dir""#, &format!(r"column 4: expected {known}, found `\d`; {advice}"));
    check(r#""a\ö""#.as_bytes(), &format!(r"column 3: expected {known}, found `\ö`; {advice}"));
    check(b"\"\\\x1b\"", &format!(r"column 2: expected {known}, found `\\u{{1b}}`; {advice}"));
    let advice = "inside quotes a `\"` is written `\\\"`";
    check(b"\"a\"b", &format!("column 4: expected a space or `i` after the closing quote, found `b`; {advice}"));
    check(b"\"a\":1", &format!("column 4: expected a space or `i` after the closing quote, found `:1`; {advice}"));
    check(b"x=\"a\"ii", &format!("column 6: expected a space or `i` after the closing quote, found `ii`; {advice}"));

    let advice = "labels and fields are written without braces and commas: `app=x level=y`";
    let ends = "expected a space or `i` after the closing quote";
    check(br#"{app="x", level="y"}"#, &format!("column 20: {ends}, found `}}`; {advice}"));
    check(br#"app="x", level=y"#, &format!("column 8: {ends}, found `,`; {advice}"));

    let close = "expected `/` to close the regex in column";
    let advice = r"a regex writes a slash as `\/`, text with a slash in front goes in quotes:";
    check(b"/api", &format!("column 5: {close} 1, found the end of the expression; {advice} \"/api\""));
    check(br"a /b\/ c", &format!(r#"column 9: {close} 3, found the end of the expression; {advice} "/b\\/""#));
    let ends = "expected a space or `i` after the regex";
    check(b"/api/v1", &format!("column 6: {ends} `/api/`, found `v1`; {advice} \"/api/v1\""));
    check(b"/a/x", &format!("column 4: {ends} `/a/`, found `x`; {advice} \"/a/x\""));
    let advice = r"a regex writes a slash as `\/`";
    check(b"p=~/a", &format!("column 6: {close} 4, found the end of the expression; {advice}"));
    check(b"p=~/a/b/", &format!("column 7: {ends} `/a/`, found `b/`; {advice}"));
    let bytes = r"expected UTF-8 in a regex, found the byte 0xFF; write it `(?-u:\xFF)`";
    check(b"/a\xff/", &format!("column 3: {bytes}"));

    check(b"AND", &hint("column 1: expected something to match, found `AND`"));
    check(b"a OR", "column 5: expected something to match after `OR`, found the end of the expression");
    check(b"a AND OR b", &hint("column 7: expected something to match after `AND`, found `OR`"));
    check(b"NOT", "column 4: expected something to match after `NOT`, found the end of the expression");
    check(b"-AND", &hint("column 2: expected something to match after `-`, found `AND`"));
    check(b"main()", &hint("column 6: expected something to match after `(`, found `)`"));
    check(b"a (b c", "column 7: expected `)` to close the `(` in column 3, found the end of the expression");
    check(b"a) b", &hint("column 2: found `)` without a `(` before it"));
    check(b")", &hint("column 1: expected something to match, found `)`"));

    let (long, cut) = ("x".repeat(10_000), "x".repeat(40));
    check(
        format!("a>{long}").as_bytes(),
        &hint(&format!(
            "column 3: expected a number, a duration such as `10ms` or a size such as `1MB` after `a>`, found `{cut}…`"
        )),
    );
    check(
        b"a>\x1b[31m",
        &hint(
            r"column 3: expected a number, a duration such as `10ms` or a size such as `1MB` after `a>`, found `\u{1b}[31m`",
        ),
    );
}

#[test]
fn limits_are_enforced() {
    let check = |input: &str, want: Result<(), &str>| {
        let got = Expr::parse(input.as_bytes()).map(|_| ()).map_err(|error| error.to_string());
        assert_eq!(got, want.map_err(str::to_owned), "{}", &input[..input.len().min(80)]);
    };
    let deep = "column 65: expected at most 64 parentheses and negations inside each other";
    check(&("(".repeat(64) + "a" + &")".repeat(64)), Ok(()));
    check(&("(".repeat(65) + "a" + &")".repeat(65)), Err(deep));
    check(&"(".repeat(INPUT_BYTES_MAX), Err(deep));
    check(&("-".repeat(64) + "a"), Ok(()));
    check(&("-".repeat(65) + "a"), Err(deep));
    check(&("NOT ".repeat(64) + "a"), Ok(()));
    check(&"NOT ".repeat(10_000), Err(&deep.replace("65", "257")));

    check(&"a ".repeat(TERMS_MAX), Ok(()));
    check(&"a ".repeat(TERMS_MAX + 1), Err("column 2001: expected at most 1000 texts, regexes and fields"));
    check(&"a".repeat(INPUT_BYTES_MAX), Ok(()));
    check(&"a".repeat(INPUT_BYTES_MAX + 1), Err("column 65537: expected at most 65536 bytes, found 65537"));
    check(&" ".repeat(INPUT_BYTES_MAX + 1), Err("column 65537: expected at most 65536 bytes, found 65537"));
}

#[test]
fn case_insensitivity_applies_to_texts_regexes_and_values() {
    let check = |input: &str, want: &str| assert_eq!(parse(input).into_case_insensitive().to_string(), want);
    check("", "");
    check("a OR /b/ NOT \"c d\"", "\"a\"i OR /b/i NOT \"c d\"i");
    check("a=x.y/z b!=\"(\" c=~/x/ d!~/y/ e>5", r"a=~/^x\.y\/z$/i b!~/^\($/i c=~/x/i d!~/y/i e>5");
    check(r#"a="\xffö""#, r"a=~/^(?-u:\xFF)ö$/i");
}

#[test]
fn the_alternate_form_quotes_all_literals() {
    let check = |expr: Expr, want: &str| assert_eq!(format!("{expr:#}"), want);
    check(text(b"a"), "\"a\"");
    check(text(b"a:b\\"), "\"a:b\\\\\"");
    check(Expr::Or(vec![text(b"a"), text(b"")]).negate(), "NOT (\"a\" OR \"\")");
    check(parse("\"a\"i /b/ c=d"), "\"a\"i /b/ c=d");
}

#[test]
fn literal_and_regex_do_not_interpret_their_argument() {
    assert_eq!(Expr::literal("(a OR -b"), text(b"(a OR -b"));
    assert_eq!(Expr::regex("a b|/c"), Expr::Regex(pattern("a b|/c", false)));
    assert_eq!(Expr::regex(r"^\/\d\\/"), Expr::Regex(pattern(r"^/\d\\/", false)));
}

#[test]
fn trees_that_the_parser_does_not_build_print_as_expressions() {
    let check = |expr: Expr, want: &str| {
        assert_eq!(expr.to_string(), want);
        assert!(Expr::parse(want.as_bytes()).is_ok(), "{want}");
    };
    check(Expr::All.negate(), "NOT \"\"");
    check(Expr::And(vec![Expr::All, text(b"a")]), "\"\" a");
    check(Expr::And(vec![Expr::And(vec![text(b"a"), text(b"b")]), text(b"c")]), "(a b) c");
    check(Expr::Or(vec![Expr::Or(vec![text(b"a"), text(b"b")]), text(b"c")]), "(a OR b) OR c");
    check(Expr::Regex(pattern(r"\/", false)), r"/\//");
}

/// A case of `cases.json`, which the tests of the page read too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct GrammarCase {
    input: String,
    /// Kind and source of each token. A text or regex has its unescaped value as well. The source of an error is the rest
    /// of the input.
    tokens: Vec<Vec<String>>,
    /// The expression as it prints.
    canonical: Option<String>,
    /// The terms that a matching record contains, which the page highlights.
    highlights: Option<Vec<String>>,
    error: Option<String>,
}

/// The tokens of an input in the form of [`GrammarCase::tokens`].
fn tokens_of(input: &str) -> Vec<Vec<String>> {
    let mut lexer = Lexer::new(input.as_bytes());
    let mut tokens = Vec::new();
    let mut end = 0;
    loop {
        let start = end + input[end..].bytes().take_while(|byte| is_space(*byte)).count();
        let Ok((_, token)) = lexer.next() else {
            tokens.push(vec!["error".to_owned(), input[start..].to_owned()]);
            return tokens;
        };
        end = lexer.offset();
        let (kind, value) = match token {
            Token::End => return tokens,
            Token::OpenParen => ("open", None),
            Token::CloseParen => ("close", None),
            Token::And => ("and", None),
            Token::Or => ("or", None),
            Token::Not(_) => ("not", None),
            Token::Term(Expr::Literal(literal)) => ("text", Some(String::from_utf8_lossy(&literal.bytes).into_owned())),
            Token::Term(Expr::Regex(pattern)) => ("regex", Some(pattern.source)),
            Token::Term(_) => ("field", None),
        };
        tokens.push([Some(kind.to_owned()), Some(input[start..end].to_owned()), value].into_iter().flatten().collect());
    }
}

/// The terms that a record matching `expr` contains, in order.
fn positive_terms(expr: &Expr, is_negated: bool, terms: &mut Vec<Expr>) {
    match expr {
        Expr::All => {}
        Expr::And(members) | Expr::Or(members) => {
            members.iter().for_each(|member| positive_terms(member, is_negated, terms));
        }
        Expr::Not(inner) => positive_terms(inner, !is_negated, terms),
        Expr::Field(Field { test: Test::NotEqual(_) | Test::NotMatch(_) | Test::NotExists, .. }) => {}
        Expr::Level(LevelTest::NotEqual(_) | LevelTest::NotExists) => {}
        Expr::Line(LineTest::NotContains(_) | LineTest::NotMatch(_)) => {}
        term if !is_negated => terms.push(term.clone()),
        _ => {}
    }
}

#[test]
fn grammar_agrees_with_the_table_of_cases() {
    let cases: Vec<GrammarCase> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert!(cases.len() > 80);
    for case in cases {
        let parsed = Expr::parse(case.input.as_bytes());
        assert_eq!(tokens_of(&case.input), case.tokens, "{}", case.input);
        assert_eq!(parsed.as_ref().err().map(ToString::to_string), case.error, "{}", case.input);
        assert_eq!(parsed.as_ref().ok().map(ToString::to_string), case.canonical, "{}", case.input);
        let Ok(expr) = parsed else { continue };
        let mut terms = Vec::new();
        positive_terms(&expr, false, &mut terms);
        let highlights: Vec<Expr> = case.highlights.unwrap().iter().map(|term| parse(term)).collect();
        assert_eq!(terms, highlights, "{}", case.input);
    }
}

/// Arbitrary bytes, often syntax.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        "[a-zA-Z0-9_./:@-]{0,8}".prop_map(String::into_bytes),
        "AND|OR|NOT|i|-|/|\\PC{0,6}".prop_map(String::into_bytes),
        prop::collection::vec(any::<u8>(), 0..8),
    ]
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    let source = r"([a-z \[\]()?\n-]|/|\\\\|\\[a-z.]){0,8}";
    (source, any::<bool>()).prop_map(|(source, case_insensitive)| pattern(&source, case_insensitive))
}

fn any_test() -> impl Strategy<Value = Test> {
    let number = "[+-]?[0-9]{1,25}(\\.[0-9]{0,25})?(e[+-]?[0-9]{1,4})?";
    let limit = prop_oneof![
        number.prop_map(|text| limit(&text)),
        "-?[0-9]{1,30}(\\.[0-9]{1,30})?(ns|us|µs|ms|s|m|h|d|w|hours|B|K|kB|MiB|G|TB|p)".prop_map(|text| limit(&text)),
        "[0-9]{1,3}h[0-9]{1,3}m".prop_map(|text| limit(&text)),
    ];
    prop_oneof![
        any_bytes().prop_map(Test::Equal),
        any_bytes().prop_map(Test::NotEqual),
        any_pattern().prop_map(Test::Match),
        any_pattern().prop_map(Test::NotMatch),
        Just(Test::Exists),
        Just(Test::NotExists),
        (limit, 0..4).prop_map(|(limit, kind)| match kind {
            0 => Test::Less(limit),
            1 => Test::LessEqual(limit),
            2 => Test::Greater(limit),
            _ => Test::GreaterEqual(limit),
        }),
    ]
}

fn any_level_test() -> impl Strategy<Value = LevelTest> {
    let level = prop::sample::select(&Level::ALL[..]);
    let level_or_none = prop::option::of(level.clone());
    prop_oneof![
        level_or_none.clone().prop_map(LevelTest::Equal),
        level_or_none.prop_map(LevelTest::NotEqual),
        level.clone().prop_map(LevelTest::Less),
        level.clone().prop_map(LevelTest::LessEqual),
        level.clone().prop_map(LevelTest::Greater),
        level.prop_map(LevelTest::GreaterEqual),
        Just(LevelTest::Exists),
        Just(LevelTest::NotExists),
    ]
}

fn any_line_test() -> impl Strategy<Value = LineTest> {
    let literal =
        || (any_bytes(), any::<bool>()).prop_map(|(bytes, case_insensitive)| Literal { bytes, case_insensitive });
    prop_oneof![
        literal().prop_map(LineTest::Contains),
        literal().prop_map(LineTest::NotContains),
        any_pattern().prop_map(LineTest::Match),
        any_pattern().prop_map(LineTest::NotMatch),
    ]
}

/// Trees as the parser builds them: groups have at least two members, none of the same kind.
fn any_expr() -> impl Strategy<Value = Expr> {
    let name = "[a-zA-Z_@][a-zA-Z0-9_.@-]{0,6}|\\PC{0,6}|AND|@level|_line";
    let term = prop_oneof![
        (any_bytes(), any::<bool>())
            .prop_map(|(bytes, case_insensitive)| Expr::Literal(Literal { bytes, case_insensitive })),
        any_pattern().prop_map(Expr::Regex),
        (name, any_test()).prop_map(|(name, test)| field(&name, test)),
        any_level_test().prop_map(Expr::Level),
        any_line_test().prop_map(Expr::Line),
    ];
    let and = |member| if let Expr::And(inner) = member { inner } else { vec![member] };
    let or = |member| if let Expr::Or(inner) = member { inner } else { vec![member] };
    term.prop_recursive(5, 40, 4, move |inner| {
        let group = prop::collection::vec(inner.clone(), 2..5);
        prop_oneof![
            inner.prop_map(|inner| Expr::Not(Box::new(inner))),
            group.clone().prop_map(move |members| Expr::And(members.into_iter().flat_map(and).collect())),
            group.prop_map(move |members| Expr::Or(members.into_iter().flat_map(or).collect())),
        ]
    })
}

/// Input made of fragments of the grammar.
fn any_fragments() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop::sample::select(vec![
        " ", " ", " ", "(", ")", "-", "NOT ", " AND ", " OR ", "a", "b1", "\"", "\\", "\\x41", "/", "i", "=", "!=",
        "=~", "!~", ">", "<=", "5", ".", "e9", "*", "@level", "_line", "ms", "KB", "warn", "none", "\"q r\"", "/r s/",
        "ö", "\n", "k=v",
    ]);
    let piece =
        prop_oneof![20 => piece.prop_map(|piece| piece.as_bytes().to_vec()), 1 => any::<[u8; 1]>().prop_map(Vec::from)];
    prop::collection::vec(piece, 0..24).prop_map(|pieces| pieces.concat())
}

/// Checks invariants of every input.
fn check_input(input: &[u8]) -> Result<(), TestCaseError> {
    match Expr::parse(input) {
        Ok(expr) => {
            let printed = expr.to_string();
            prop_assert_eq!(Expr::parse(printed.as_bytes()), Ok(expr), "{}", printed);
        }
        Err(error) => {
            let columns = String::from_utf8_lossy(input).chars().count() + 1;
            prop_assert!((1..=columns).contains(&error.column), "{}", error);
            prop_assert!(!error.message.chars().any(char::is_control), "{}", error);
        }
    }
    Ok(())
}

/// Whether the regex matches in the byte mode used for records.
fn is_match(pattern: &Pattern, value: &[u8]) -> bool {
    let syntax = syntax::Config::new().utf8(false).case_insensitive(pattern.case_insensitive);
    let regex = Regex::builder().syntax(syntax).configure(Regex::config().utf8_empty(false)).build(&pattern.source);
    regex.unwrap().is_match(value)
}

proptest! {
    #[test]
    fn printed_expressions_parse_into_the_same_tree(expr in any_expr()) {
        let printed = expr.to_string();
        prop_assert_eq!(Expr::parse(printed.as_bytes()), Ok(expr), "{}", printed);
    }

    #[test]
    fn any_bytes_parse_without_panic(input in prop::collection::vec(any::<u8>(), 0..200)) {
        check_input(&input)?;
    }

    #[test]
    fn any_fragments_parse_without_panic(input in any_fragments()) {
        check_input(&input)?;
    }

    #[test]
    fn case_insensitive_equality_compares_the_whole_value(value in any_bytes(), around in any_bytes()) {
        let Test::Match(pattern) = case_fold::case_insensitive_test(Test::Equal(value.clone())) else { panic!("not a match") };
        prop_assert!(is_match(&pattern, &value));
        prop_assert!(is_match(&pattern, &value.to_ascii_uppercase()));
        prop_assert!(is_match(&pattern, &value.to_ascii_lowercase()));
        if !around.is_empty() {
            prop_assert!(!is_match(&pattern, &[value.as_slice(), &around].concat()));
            prop_assert!(!is_match(&pattern, &[around.as_slice(), &value].concat()));
        }
    }
}
