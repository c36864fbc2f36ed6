//! Errors of invalid and oversized regexes, which are reported in bounded time.

use super::*;

fn error(expr: &str) -> String {
    Plan::compile(&Expr::parse(expr.as_bytes()).unwrap()).map_or_else(|error| error.to_string(), |_| "fine".to_owned())
}

#[test]
fn errors_say_which_and_where() {
    let check = |expr: &str, want: &str| assert_eq!(error(expr), want, "{expr}");
    check("/(a/", "the regex /(a/ is wrong in its column 1: unclosed group");
    check("ok OR x=~/é[a/", "the regex /é[a/ is wrong in its column 2: unclosed character class");
    check(
        r"/\pL/",
        r"the regex /\pL/ is wrong in its column 1: this needs Unicode, which is off for speed; `(?u)` in front turns it on",
    );
    check(
        "/[é]/",
        "the regex /[é]/ is wrong in its column 2: this needs Unicode, which is off for speed; `(?u)` in front turns it on",
    );
    check(r"/(?u)\pL/", "fine");
    check(
        "/a(?=b)/",
        "the regex /a(?=b)/ is wrong in its column 2: look-around, including look-ahead and look-behind, is not supported",
    );
    check(
        "/a{2,1}/",
        "the regex /a{2,1}/ is wrong in its column 2: invalid repetition count range, the start must be <= the end",
    );
    check(
        "/(a{1000}){1000}/",
        "the regex /(a{1000}){1000}/ is too large: it takes more than 524288 bytes when compiled; have it repeat less",
    );
    check(
        "x=~/(a{1000}){1000}/",
        "the regex /(a{1000}){1000}/ is too large: it takes more than 524288 bytes when compiled; have it repeat less",
    );
    let error = error(&format!("/{}\n(/", "x".repeat(200)));
    assert!(error.lines().count() == 1 && error.chars().count() < 150, "{error}");
}

#[test]
fn errors_name_the_column_in_the_expression() {
    let check = |expr: &str, want: &str| {
        let error = Plan::parse(expr.as_bytes()).map_or_else(|error| error.to_string(), |_| "fine".to_owned());
        assert_eq!(error, want, "{expr}");
    };
    check("/(a/", "column 2: the regex /(a/ is wrong here: unclosed group");
    check("ok OR x=~/é[a/", "column 12: the regex /é[a/ is wrong here: unclosed character class");
    check("é /b/ x=\"a\"i y=~/c/ /ab(/", "column 24: the regex /ab(/ is wrong here: unclosed group");
    check(r"(/a\/\//) /b\/c\/(/", r"column 18: the regex /b\/c\/(/ is wrong here: unclosed group");
    check("a \"b\" )", "column 7: found `)` without a `(` before it; put text in quotes to search for it as it is");
    let large = "it takes more than 524288 bytes when compiled; have it repeat less";
    check("a x=~/(a{1000}){1000}/", &format!("column 6: the regex /(a{{1000}}){{1000}}/ is too large: {large}"));
    check("a /b/ c=d", "fine");
}

#[test]
fn sizes_are_bounded() {
    let check = |expr: String, want: &str| {
        let got = error(&expr);
        assert!(got.contains(want), "{}: {got}", &expr[..40.min(expr.len())]);
    };
    check(format!("/{}a{}/", "(".repeat(200), ")".repeat(200)), "nest");
    check(format!("/{}a{}/", "(?:".repeat(99), ")".repeat(99)), "fine");
    check(format!("/{}/", "a".repeat(16 * 1024)), "fine");
    check(format!("/{}b*/", "a".repeat(16 * 1024)), "is too large: its source may have 16384 bytes");
    check(format!("\"{}\"i", "a".repeat(60_000)), "of a text in any case");
    check(vec!["/(?u)\\w{9}/"; 900].join(" "), "too large together");
    for empty in
        [r"(?:){4294967295}", r"(^){4294967295}", r"(?:(?:){9999}){9999}", r"(a{0}){4294967295}", r"[\n]{0,4294967295}"]
    {
        check(format!("/{empty}/"), "fine");
    }
    for huge in [r"a{4294967295}", r"\n{4294967295}", r"((a?){9999}){9999}", r"a[\n]{0,4294967295}b"] {
        check(format!("/{huge}/"), "is too large");
    }
}

#[test]
fn large_classes_compile_in_time() {
    for class in [r"\pL", r"\w", r"\PN", r"[^a]", r"[\pL--\p{Greek}]"] {
        let repeat = 16_000 / class.len();
        for flags in ["(?u)", "(?ui)"] {
            assert_ne!(error(&format!("/{flags}{}/", class.repeat(repeat))), "fine", "{class}");
        }
    }
}
