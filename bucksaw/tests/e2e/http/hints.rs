//! Hints and `/api/v1/check`: what a valid expression probably should have been, and where an invalid one is wrong.

use serde_json::{Value, json};

use crate::client::encode;
use crate::node::TestServer;

#[test]
fn expressions_are_checked_without_a_search() {
    let node = TestServer::start(&[]);
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let check = |filter: &str, status: u16| {
        let q = format!("q={}", encode(filter));
        let answer = node.get(&format!("/api/v1/check?{q}")).expect(status).json();
        assert_eq!(node.post("/api/v1/check", &form, q.as_bytes()).expect(status).json(), answer, "{filter}");
        answer
    };
    for good in ["", "level=error", "@level>=warn path=~/^.v1/"] {
        assert_eq!(check(good, 200), json!({ "ok": true, "hints": [] }), "{good}");
    }
    let hints = check("status >= 500", 200)["hints"].clone();
    assert_eq!(hints, json!(["`status >= 500` searches for 3 words; to compare a field, write `status>=500`"]));
    for (bad, column) in [("(a", 3), ("a AND", 6), ("ok @level=eror", 11)] {
        let answer = check(bad, 400);
        assert_eq!((&answer["column"], answer["error"].is_string()), (&json!(column), true), "{bad}: {answer}");
    }
    let unknown = check("@level=eror", 400)["error"].as_str().unwrap().to_owned();
    assert!(
        ["trace", "debug", "info", "warn", "error", "fatal"].iter().all(|level| unknown.contains(level)),
        "{unknown}"
    );
    assert_eq!(node.metric("bucksaw_query_answers_total"), 0.0, "nothing was searched");
}

#[test]
fn answers_carry_hints_where_they_help() {
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest?label=app=web", &[], b"status=200 a\nstatus=500 b\nstatus >= 500 in words\n").expect(200);
    for call in ["query", "count", "histogram", "fields"] {
        let stats = |filter: &str| -> Value {
            let answer = node.get(&format!("/api/v1/{call}?q={}", encode(filter))).expect(200);
            answer.objects().pop().unwrap()["stats"].clone()
        };
        let words = stats("status >= 500");
        assert_eq!(words["matched"], 1, "{call}: the hint changes nothing");
        assert_eq!(words["hints"][0], "`status >= 500` searches for 3 words; to compare a field, write `status>=500`");
        let unknown = stats("statsu=500");
        let near = "none of the newest 3 records of this time range has a field `statsu`; there is `status`";
        assert_eq!((&unknown["matched"], &unknown["hints"]), (&json!(0), &json!([near])), "{call}");
        for plain in ["", "status=500", "status=404", "nothing", "app=web -statsu=500"] {
            assert_eq!(stats(plain)["hints"], Value::Null, "{call} {plain}");
        }
    }
}
