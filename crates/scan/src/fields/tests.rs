use bucksaw_record::expr::{self, Test};
use bucksaw_record::{Expr, Labels, RecordView};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::Value;

use super::*;
use crate::Plan;

fn text(value: Option<Cow<'_, [u8]>>) -> String {
    value.map_or("none".to_owned(), |value| value.escape_ascii().to_string())
}

fn listed(record: &[u8], limit: usize) -> Vec<(String, Vec<u8>)> {
    let mut list = Vec::new();
    visit(record, limit, &mut |name, value| list.push((name.to_owned(), value.into_owned())));
    list
}

#[test]
fn pieces_of_text_are_not_listed() {
    let named = |record: &[u8]| {
        let mut names = Vec::new();
        visit_named(record, 50, &mut |name, value| {
            assert_eq!(lookup(record, name).as_deref(), Some(&*value), "what is listed can be filtered by");
            names.push(name.to_owned());
        });
        names.join(" ")
    };
    let check = |record: &str, want: &str| assert_eq!(named(record.as_bytes()), want, "{record}");
    check(
        "level=info user.id=7 @t=1 _x=2 trace-id=9 gr\u{f6}\u{df}e=3",
        "level user.id @t _x trace-id gr\u{f6}\u{df}e",
    );
    check("app.kubernetes.io/name=shop environment:os.name=Linux", "app.kubernetes.io/name environment:os.name");
    check("GET /search?q=1&page=2 https://a.example/x?y=1 status=200", "status");
    check("session opened (uid=0) f(x=1) a[0]=1 {error_code=0} -modules=system", "");
    check("5=five 20171223-22:15|Step=1 !=x >=1 a..b=1 a%20b=2 p=ok", "p");
    check("data dGhlIHF1aWNrIGJyb3duIGZveDE= SGFjS2VkDQoxMjM0NTY== error= empty=", "error empty");
    // Programs that write JSON mean every name.
    check(r#"{"/search?q":1,"a b":2}"#, "/search?q a b");
    assert_eq!(named(b"a\xff=1 b=2"), "b");
}

#[test]
fn json() {
    let check = |record: &[u8], name: &str, want: &str| {
        assert_eq!(text(lookup(record, name)), want, "{name} in {}", record.escape_ascii());
    };
    check(br#"{"a":"x"}"#, "a", "x");
    check(b" \t{\r\n \"a\" : \"x\" }", "a", "x");
    check(br#"{"a":1.50,"b":-2e+3,"c":true,"d":null,"e":""}"#, "a", "1.50");
    check(br#"{"a":1.50,"b":-2e+3,"c":true,"d":null,"e":""}"#, "b", "-2e+3");
    check(br#"{"a":1.50,"b":-2e+3,"c":true,"d":null,"e":""}"#, "c", "true");
    check(br#"{"a":1.50,"b":-2e+3,"c":true,"d":null,"e":""}"#, "d", "null");
    check(br#"{"a":1.50,"b":-2e+3,"c":true,"d":null,"e":""}"#, "e", "");
    check(br#"{"a":{"b":{"c":1}}}"#, "a.b.c", "1");
    check(br#"{"a":{"b":{"c":1}}}"#, "a.b", "{\\\"c\\\":1}");
    check(br#"{"a":{"b":{"c":1}}}"#, "a.c", "none");
    check(br#"{"a":{"b.c":1}}"#, "a.b.c", "1");
    check(br#"{"a.b":{"c":1}}"#, "a.b.c", "1");
    check(br#"{"a.b.c":1}"#, "a.b.c", "1");
    check(br#"{"a":1}"#, "a.b", "none");
    check(br#"{"a":[1,"x",{"b":2}]}"#, "a.1", "x");
    check(br#"{"a":[1,"x",{"b":2}]}"#, "a.2.b", "2");
    check(br#"{"a":[1,"x",{"b":2}]}"#, "a.3", "none");
    check(br#"{"a":[1,"x",{"b":2}]}"#, "a.01", "none");
    check(br#"{"a":[ 1 , "x y" , { "b" : [ ] } ]}"#, "a", r#"[1,\"x y\",{\"b\":[]}]"#);
    check(
        br#"{"a":"\"\\\/\b\f\n\r\t\u0041\u00e9\ud83d\ude00"}"#,
        "a",
        r#"\"\\/\x08\x0c\n\r\tA\xc3\xa9\xf0\x9f\x98\x80"#,
    );
    check(br#"{"a":"\ud83dx\ude00"}"#, "a", r"\xef\xbf\xbdx\xef\xbf\xbd");
    check(br#"{"a":"C:\path\u12"}"#, "a", r"C:\\path\\u12");
    check(b"{\"a\":\"\xff\t\"}", "a", r"\xff\t");
    check(br#"{"\u0061":1}"#, "a", "1");
    // The last of a name counts, wherever it stands.
    check(br#"{"a":1,"a":2}"#, "a", "2");
    check(br#"{"a":1,"b":"a","\u0061":2,"c":{"a":3}}"#, "a", "2");
    check(br#"{"a/b":1,"c":2,"a\/b":3}"#, "a/b", "3");
    check(br#"{"c":{"1":1},"c.1":2}"#, "c.1", "2");
    check(br#"{"a.b":1,"a":{"b":2}}"#, "a.b", "2");
    check(br#"{"a":{"b":1},"a":{}}"#, "a.b", "1");
    // Objects and arrays are not listed, so another value of the name comes before them.
    check(br#"{"a.b":1,"a":{"b":{"c":2}}}"#, "a.b", "1");
    check(br#"{"a":{"b":{"c":2}},"a.b":1}"#, "a.b", "1");
    check(br#"{"a":[1],"a":[2]}"#, "a", "[2]");
    // A truncated or invalid record has the fields up to that point.
    check(br#"{"a":1,"b":2"#, "a", "1");
    check(br#"{"a":1,"b":2"#, "b", "none");
    check(br#"{"a":"x","b":"y"#, "b", "none");
    check(br#"{"a":{"b":1,"c"#, "a.b", "1");
    check(br#"{"a":{"b":1,"c"#, "a", "none");
    check(br#"{"a":1 "b":2}"#, "a", "1");
    check(br#"{"a":1 "b":2}"#, "b", "none");
    check(br#"{"a":1,,"b":2}"#, "b", "none");
    check(br#"{"a":,"b":2}"#, "b", "none");
    check(br#"{"a":1} b=2"#, "a", "1");
    check(br#"{"a":1} b=2"#, "b", "none");
    check(b"{", "a", "none");
    check(b"{a=1}", "a", "none");
    check(br#"{"a":NaN}"#, "a", "NaN");
}

#[test]
fn logfmt() {
    let check = |record: &[u8], name: &str, want: &str| {
        assert_eq!(text(lookup(record, name)), want, "{name} in {}", record.escape_ascii());
    };
    check(b"a=x", "a", "x");
    check(b"GET /x?a=1 a=2\r", "a", "2");
    check(b"GET /x?a=1", "a", "none");
    check(b"a= b=1", "a", "");
    check(b"a= b=1", "b", "1");
    check(b"a", "a", "none");
    check(b"a =1", "a", "none");
    check(b"=1 a=2", "a", "2");
    check(b"a=b=c", "a", "b=c");
    check(b"aa=1", "a", "none");
    check(b"a=1 a=2", "a", "2");
    check(b"a.b=1", "a.b", "1");
    check(br#"a="x y" b=1"#, "a", "x y");
    check(br#"a="x y" b=1"#, "b", "1");
    check(br#"a="b=1" c"#, "b", "none");
    check(br#"a="x b=1 \"y\" \\ \n\r\t \z""#, "a", r#"x b=1 \"y\" \\ \n\r\t \\z"#);
    check(br#"b=1 a="x c=2"#, "a", "none");
    check(br#"b=1 a="x c=2"#, "b", "1");
    check(br#"b=1 a="x c=2"#, "c", "none");
    check(br#"a="x\"#, "a", "none");
    check(br#"a="x"y=2 z=3"#, "z", "3");
    check(br#"a="x"y=2 z=3"#, "y", "none");
    check(br#""GET /?x=1 y=2" z=3"#, "y", "2\\\"");
    check(br#"a=x"y z""#, "a", "x\\\"y");
    check(b"line one\nlevel=warn x\n\tat y", "level", "warn");
    check(b"a=\xff", "a", "\\xff");
}

#[test]
fn lists() {
    let check = |record: &[u8], limit: usize, want: &str| {
        let got = listed(record, limit).into_iter().map(|(name, value)| format!("{name}={}", value.escape_ascii()));
        assert_eq!(got.collect::<Vec<_>>().join(" "), want, "{}", record.escape_ascii());
    };
    check(br#"{"a":{"b":[1,{"c":"x"}],"d":null},"e":{},"f.g":2}"#, 9, "a.b.0=1 a.b.1.c=x a.d=null f.g=2");
    check(br#"{"a":{"b":[1,{"c":"x"}],"d":null},"e":{},"f.g":2}"#, 2, "a.b.0=1 a.b.1.c=x");
    check(br#"{"a":{"b":1,"c":"#, 9, "a.b=1");
    check(b"{\"\xff\":1,\"b\":2}", 9, "b=2");
    check(br#"x a=1 b="2 3" a=4 c"#, 9, "a=4 b=2 3");
    check(br#"x a=1 b="2 3" a=4 c"#, 1, "a=4");
    check(br#"{"a":1,"b":2,"a":3,"c":4}"#, 2, "a=3 b=2");
    check(br#"{"a.b":1,"a":{"b":{"c":2}}}"#, 9, "a.b=1 a.b.c=2");
    check(b"a=1", 0, "");
    check(br#"{"a":1}"#, 0, "");
    check(b"", 9, "");
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
    let name = |depth: usize| vec!["a"; depth].join(".");
    assert_eq!(text(lookup(nested(129).as_bytes(), &name(129))), "1");
    assert_eq!(text(lookup(nested(130).as_bytes(), &name(129))), "{\\\"a\\\":1}");
    assert_eq!(text(lookup(nested(130).as_bytes(), &name(130))), "none");
    let deep = nested(200_000);
    assert_eq!(text(lookup(deep.as_bytes(), &name(200_000))), "none");
    assert_eq!(listed(deep.as_bytes(), 9).len(), 1);
    assert_eq!(listed(nested(129).as_bytes(), 9).len(), 1);
    let brackets = format!("{{\"a\":{}", "[".repeat(1_000_000));
    assert_eq!(text(lookup(brackets.as_bytes(), "a")), "none");
    assert_eq!(text(lookup(brackets.as_bytes(), "a.0.0.0")), "none");
}

/// JSON values whose numbers print as they are read.
fn any_json() -> impl Strategy<Value = Value> {
    let key = "[ab.\"\\\\é]{0,3}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i16>().prop_map(Value::from),
        "[ -~é\n\t\u{1F600}\\\\\"]{0,6}".prop_map(Value::from),
    ];
    let value = leaf.prop_recursive(4, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(key, inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map(key, value, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
}

/// All values below `value` with their names, in order.
fn flatten(prefix: &str, value: &Value, out: &mut Vec<(String, String, bool)>) {
    let members: Vec<(String, &Value)> = match value {
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
        Value::Array(list) => list.iter().enumerate().map(|(at, value)| (at.to_string(), value)).collect(),
        _ => Vec::new(),
    };
    for (key, value) in members {
        let name = format!("{prefix}{key}");
        flatten(&format!("{name}."), value, out);
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        out.push((name, text, value.is_object() || value.is_array()));
    }
}

/// A case of `cases.json`, which the tests of the page read too.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldsCase {
    record: String,
    /// Name and value of each field.
    fields: Vec<(String, String)>,
    /// The terms that compare the fields with their values.
    terms: Vec<String>,
}

#[test]
fn fields_and_their_terms_agree_with_the_table_of_cases() {
    let cases: Vec<FieldsCase> = serde_json::from_str(include_str!("cases.json")).unwrap();
    assert!(cases.len() > 40);
    for FieldsCase { record, fields, terms } in cases {
        let got = listed(record.as_bytes(), usize::MAX);
        let got: Vec<_> = got.into_iter().map(|(name, value)| (name, String::from_utf8(value).unwrap())).collect();
        assert_eq!(got, fields, "{record}");
        let equal = |(name, value): &(String, String)| {
            let test = Test::Equal(value.clone().into_bytes());
            Expr::Field(expr::Field { name: name.clone(), test })
        };
        let spelt: Vec<String> = fields.iter().map(|field| equal(field).to_string()).collect();
        assert_eq!(spelt, terms, "{record}");
        for term in spelt {
            let (_, plan) = Plan::parse(term.as_bytes()).unwrap();
            assert!(plan.matches(&Labels::default(), RecordView::line_only(record.as_bytes())), "{term} in {record}");
        }
    }
}

proptest! {
    #[test]
    fn json_reads_as_others_read_it(value in any_json(), pretty in any::<bool>()) {
        let text = if pretty { serde_json::to_string_pretty(&value).unwrap() } else { value.to_string() };
        let mut want = Vec::new();
        flatten("", &value, &mut want);
        let mut leaves: Vec<(String, Vec<u8>)> = Vec::new();
        for (name, text, _) in want.iter().filter(|(_, _, branch)| !branch) {
            match leaves.iter_mut().find(|(other, _)| other == name) {
                Some((_, last)) => *last = text.clone().into_bytes(),
                None => leaves.push((name.clone(), text.clone().into_bytes())),
            }
        }
        prop_assert_eq!(listed(text.as_bytes(), usize::MAX), leaves);
        for (name, _, _) in &want {
            let last_of = |branch| want.iter().rfind(|(other, _, is)| other == name && *is == branch);
            let last = last_of(false).or_else(|| last_of(true)).unwrap();
            let got = lookup(text.as_bytes(), name).map(|value| String::from_utf8(value.into_owned()).unwrap());
            prop_assert_eq!(got.as_ref(), Some(&last.1), "{}", name);
        }
    }

    #[test]
    fn cut_json_has_the_fields_before_the_cut(value in any_json(), cut in 1_usize..200) {
        let text = value.to_string();
        let names = |list: Vec<(String, Vec<u8>)>| list.into_iter().map(|(name, _)| name).collect::<Vec<_>>();
        let whole = names(listed(text.as_bytes(), usize::MAX));
        let cut = names(listed(&text.as_bytes()[..cut.min(text.len())], usize::MAX));
        prop_assert_eq!(&whole[..cut.len()], &cut[..]);
    }

    #[test]
    fn any_bytes_can_be_read(record in "[{}\\[\\]\":,a=1\\\\ u]{0,40}", name in "[a.1]{0,4}") {
        let _ = lookup(record.as_bytes(), &name);
        let list = listed(record.as_bytes(), usize::MAX);
        for (name, value) in &list {
            let found = lookup(record.as_bytes(), name).map(Cow::into_owned);
            prop_assert_eq!(found.as_ref(), Some(value), "{}", name);
        }
    }
}
