//! Tables of expressions and the records that they match.

use super::*;

/// Checks which of the records match, given as lines and with their numbers of lines stated.
fn check(expr: &str, records: &[&[u8]], want: &[usize]) {
    let labels = Labels::default();
    let plan = compile(expr);
    if !records.iter().any(|record| record.contains(&b'\n')) {
        assert_eq!(rows(&plan, &labels, records, false), want, "{expr} in lines");
    }
    assert_eq!(rows(&plan, &labels, records, true), want, "{expr} in records");
}

#[test]
fn text() {
    check("b", &[b"abc", b"", b"B", b"b"], &[0, 3]);
    check("\"b\"i", &[b"abc", b"", b"B", b"b"], &[0, 2, 3]);
    check("\"[1]\"i", &[b"[1]", b"1"], &[0]);
    check("\"\\xFF\\0\"", &[b"\xff\0", b"\xff", b"\0"], &[0]);
    check("\"\\xC3\\x89\"i", &["É".as_bytes(), "é".as_bytes()], &[0]);
    check("\"a\\nb\"", &[b"a", b"b", b"a"], &[]);
    check("\"A\\nB\"i", &[b"a", b"b", b"a"], &[]);
    check("\"a\\nb\"", &[b"a", b"b", b"a\nb", b"a\n", b"b"], &[2]);
    check("\"\\n\"", &[b"", b"", b"a"], &[]);
    check("\"\\n\\n\"", &[b"\n", b"\n\n", b"", b""], &[1]);
    check("\"\\r\"", &[b"a\r", b"a"], &[0]);
}

#[test]
fn anchors() {
    check("/^$/", &[b"", b"a", b"", b""], &[0, 2, 3]);
    check("/^/", &[b"", b"a"], &[0, 1]);
    check("/$/", &[b"", b"a"], &[0, 1]);
    check("/foo$/", &[b"foo", b"foo\r", b"a foo", b"foo "], &[0, 2]);
    check("/^foo/", &[b"foo", b" foo", b"foo "], &[0, 2]);
    check(r"/\Afoo\z/", &[b"foo", b"foo ", b"foo"], &[0, 2]);
    check(r"/\bfoo\b/", &[b"foo", b"xfoo", b"foo", b"\xfffoo\xff"], &[0, 2, 3]);
    check(r"/(?u)\bfoo\b/", &[b"foo", "éfoo".as_bytes(), b"foo"], &[0, 2]);
    check(r"/\Bfoo/", &[b"foo", b"xfoo"], &[1]);
    check("/(?R)foo$/", &[b"foo", b"foo\r", b"a foo", b"foo "], &[0, 1, 2]);
    check("/(?R)\\r$/", &[b"foo", b"foo\r", b""], &[1]);
    check("/(?R)\\r^/", &[b"foo", b"foo\r", b""], &[1]);
    check("/(?-m)^b/", &[b"a", b"b", b"ab"], &[1]);
}

#[test]
fn nothing_matches_across_lines() {
    for expr in [
        r"/a\nb/",
        r"/a[^x]b/",
        r"/a\s+b/",
        r"/(?s)a.b/",
        r"/a\Wb/",
        r"/(?s)a.*b/",
        r"/a[\x00-\xff]b/",
        r"/(?u)a[^x]b/",
    ] {
        check(expr, &[b"a", b"b", b"xa", b"", b"b"], &[]);
    }
    check(r"/a\s*b/", &[b"a", b"b", b"a  b", b"ab"], &[2, 3]);
    check(r"/[^x]/", &[b"", b"x", b"", b"y", b"xx"], &[3]);
    check(r"/\n/", &[b"", b""], &[]);
    check(r"/(\n|a)b?/", &[b"", b"b", b"a"], &[2]);
    check(r"/\n*/", &[b"", b"b"], &[0, 1]);
    check(r"/.*/", &[b"", b"b", b""], &[0, 1, 2]);
    check(r"/.+/", &[b"", b"b", b"\r"], &[1, 2]);
    check(r"/./", &[b"", b"\xff", b"\0"], &[1, 2]);
    check(r"/x*/", &[b"", b"b", b""], &[0, 1, 2]);
}

#[test]
fn records_of_many_lines() {
    check(r"/(?s)a.*b/", &[b"a\nx\nb", b"a", b"b", b"b\na"], &[0]);
    check(r"/a.*b/", &[b"a\nx\nb", b"a--b"], &[1]);
    check(r"/a\nb/", &[b"a\nb", b"a", b"b", b"ab"], &[0]);
    check(r"/^b$/", &[b"a\nb\nc", b"a", b"b", b"ab"], &[0, 2]);
    check(r"/\Ab\z/", &[b"a\nb\nc", b"a", b"b", b"ab"], &[2]);
    check(r"/^$/", &[b"a\n\nc", b"a", b"a\n", b""], &[0, 2, 3]);
    check("c", &[b"a\n\nc", b"a", b"c\n", b""], &[0, 2]);
    check("NOT c", &[b"a\n\nc", b"a", b"c\n", b""], &[1, 3]);
    check("level=warn", &[b"level=info\nlevel=warn", b"level=warn\nlevel=info", b"x\nlevel=warn y\n"], &[0, 2]);
}

#[test]
fn cases_and_unicode() {
    check("/É/i", &["É".as_bytes(), "é".as_bytes()], &[0]);
    check("/(?u)É/i", &["É".as_bytes(), "é".as_bytes()], &[0, 1]);
    check("/a.c/", &["aéc".as_bytes(), b"abc"], &[1]);
    check("/(?u)a.c/", &["aéc".as_bytes(), b"abc", b"a\xffc"], &[0, 1]);
    check("/É+$/", &["éÉÉ".as_bytes(), "ÉÉ\u{301}".as_bytes()], &[0]);
    check(r"/(?-u:\xFF)/", &[b"\xff", b"a"], &[0]);
}

#[test]
fn combinations() {
    let records: [&[u8]; 5] = [b"a b", b"a", b"b", b"", b"a b c"];
    check("a b", &records, &[0, 4]);
    check("a OR b", &records, &[0, 1, 2, 4]);
    check("NOT a", &records, &[2, 3]);
    check("a NOT b", &records, &[1]);
    check("a b NOT c", &records, &[0]);
    check("NOT (a OR b)", &records, &[3]);
    check("NOT a NOT b", &records, &[3]);
    check("NOT a OR NOT b", &records, &[1, 2, 3]);
    check("(a NOT b) OR (b NOT a)", &records, &[1, 2]);
    check("", &records, &[0, 1, 2, 3, 4]);
    check("", &[], &[]);
    check("a", &[], &[]);
}

#[test]
fn fields() {
    let json: [&[u8]; 7] = [
        br#"{"level":"error","status":500,"user":{"id":42}}"#,
        br#"{"l\u0065vel":"err\u006fr","user.id":42}"#,
        br#"{"level":"info","status":"404","user":{"id":"x"}}"#,
        br#"level=error status=503 msg="a \"b\" c""#,
        br#"plain text with level=info in it"#,
        br#"{"a":[{"b":1},{"b":2}],"user": { "id" : [1, 2] } }"#,
        b"",
    ];
    check("level=error", &json, &[0, 1, 3]);
    check("level!=error", &json, &[2, 4, 5, 6]);
    check("level!~/^e/", &json, &[2, 4, 5, 6]);
    check("level=~/^e.*r$/", &json, &[0, 1, 3]);
    check("level=\"ERROR\"i", &json, &[0, 1, 3]);
    check("status>=404", &json, &[0, 2, 3]);
    check("status<500", &json, &[2]);
    check("status<=503", &json, &[0, 2, 3]);
    check("status>500", &json, &[3]);
    check("level>0", &json, &[]);
    check("NOT status>0", &json, &[1, 4, 5, 6]);
    check("user.id=42", &json, &[0, 1]);
    check("user.id=\"[1,2]\"", &json, &[5]);
    check("user=\"{\\\"id\\\":[1,2]}\"", &json, &[5]);
    check("a.1.b=2", &json, &[5]);
    check("a.0.b=2", &json, &[]);
    check("a.0=\"{\\\"b\\\":1}\"", &json, &[5]);
    check("msg=\"a \\\"b\\\" c\"", &json, &[3]);
    check("level=\"\"", &[b"level=", br#"{"level":""}"#, b"level"], &[0, 1]);
    check("level=error status>500", &json, &[3]);
    check("level=error 42", &json, &[0, 1]);
    check("x=~/^b$/", &[br#"{"x":"a\nb"}"#, br#"{"x":"b"}"#], &[1]);
    check("x=~/a.b/", &[br#"{"x":"a\nb"}"#, br#"{"x":"a b"}"#], &[1]);
    check("x=~/a\\sb/", &[br#"{"x":"a\nb"}"#, br#"{"x":"a b"}"#], &[0, 1]);
    check("\"0\"=1", &[br#"{"0":1}"#, br#"{"1":0}"#], &[0]);
    check("\"a b\"=1", &[br#"{"a b":1}"#], &[0]);
    check("\"\"=1", &[br#"{"":1}"#, b"=1"], &[0]);
    check("\"a.\"=1", &[br#"{"a":{"":1}}"#, br#"{"a.":1}"#, b"a.=1"], &[0, 1, 2]);
}

#[test]
fn existence() {
    let records: [&[u8]; 6] =
        [br#"{"a":{"b":null}}"#, br#"{"b":""}"#, b"b= x", b"b", br#"{"a":"b"}"#, br#"{"a":{"b":"*"#];
    check("b=*", &records, &[1, 2]);
    check("b!=*", &records, &[0, 3, 4, 5]);
    check("a=*", &records, &[0, 4]);
    check("a.b=*", &records, &[0]);
    check("NOT a.b=*", &records, &[1, 2, 3, 4, 5]);
    check("b=\"*\"", &[b"b=*", b"b=x"], &[0]);
    check("größe=*", &["größe=1".as_bytes(), br#"{"gr\u00f6\u00dfe":1}"#, b"gr=1"], &[0, 1]);
}

#[test]
fn limits() {
    let ids: [&[u8]; 5] =
        [b"id=9007199254740992", b"id=9007199254740993", br#"{"id":9007199254740994}"#, b"id=1e400", b"id=x"];
    check("id>9007199254740993", &ids, &[2, 3]);
    check("id>=9007199254740993", &ids, &[1, 2, 3]);
    check("id<9007199254740993", &ids, &[0]);
    check("id>1e399", &ids, &[3]);
    let durations: [&[u8]; 6] = [b"d=12.5ms", br#"{"d":"3s"}"#, b"d=1h2m3s", b"d=9ms", b"d=12", br#"{"d":"12 ms"}"#];
    check("d>10ms", &durations, &[0, 1, 2, 5]);
    check("d<10ms", &durations, &[3]);
    check("d>10", &durations, &[4]);
    check("d=12.5ms", &durations, &[0]);
    check("size>1MB", &[b"size=1.5MB", b"size=512KiB", b"size=1GB", b"size=2000000"], &[0, 2]);
}

#[test]
fn levels() {
    let records: [&[u8]; 9] = [
        br#"{"level":"error","msg":"INFO"}"#,
        b"10:00 WARN slow",
        b"I1121 10:00:00 started",
        b"GET /error 200",
        br#"{"level":60}"#,
        b"",
        b"\x1b[31mERROR\x1b[0m failed",
        b"LOG:  checkpoint",
        b"no ERRORS here",
    ];
    check("@level=error", &records, &[0, 6]);
    check("@level!=error", &records, &[1, 2, 3, 4, 5, 7, 8]);
    check("@level>=warn", &records, &[0, 1, 4, 6]);
    check("@level>=warning", &records, &[0, 1, 4, 6]);
    check("@level<warn", &records, &[2, 7]);
    check("@level=none", &records, &[3, 5, 8]);
    check("@level=*", &records, &[0, 1, 2, 4, 6, 7]);
    check("@level<trace", &records, &[]);
    check("@level=error msg=*", &records, &[0]);
    check("@level=fatal OR started", &records, &[2, 4]);
    // The word may end with the bytes that the rule examines.
    let at_end = [&b" ".repeat(507)[..], b"ERRORS"].concat();
    check("@level=error", &[&at_end, b"x"], &[0]);
}
