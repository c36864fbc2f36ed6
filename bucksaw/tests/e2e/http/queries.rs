//! Queries: search, count, histogram, fields, context.

use std::time::SystemTime;

use bucksaw_generate::{Config, SampleFormat};
use bucksaw_record::Millis;
use bucksaw_record::time::{TimeZone, format_rfc3339, parse_timestamp};
use serde_json::{Value, json};

use crate::client::{Response, encode};
use crate::corpus::lines;
use crate::node::TestServer;

/// A node with six records, a minute apart, the last four minutes ago.
fn node() -> (TestServer, Vec<String>) {
    let node = TestServer::start(&[]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    let lines: Vec<String> = (4..10)
        .rev()
        .map(|ago| {
            let (time, level) = (now - 60 * ago, if ago % 2 == 0 { "error" } else { "info" });
            format!(r#"{{"ts":{time},"level":"{level}","status":{},"user":{{"id":{ago}}}}}"#, 100 * ago)
        })
        .collect();
    let body: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let headers = [("Content-Type", "application/x-ndjson")];
    node.post("/api/v1/ingest?label=app=web", &headers, body.as_bytes()).expect(200);
    (node, lines)
}

/// The lines and the stats of an answer.
fn answered(answer: Response) -> (Vec<String>, Value) {
    let mut objects = answer.expect(200).objects();
    let stats = objects.pop().unwrap()["stats"].clone();
    let line = |object: Value| {
        assert!(object["id"].as_str().unwrap().len() == 26 && object["labels"].is_object(), "{object}");
        assert!(object["time"].as_str().unwrap().len() == "2026-11-20T23:10:00.000000Z".len(), "{object}");
        object["line"].as_str().unwrap().to_owned()
    };
    (objects.into_iter().map(line).collect(), stats)
}

#[test]
fn order_and_limit() {
    let (node, lines) = node();
    let back: Vec<String> = lines.iter().rev().cloned().collect();
    let check = |parameters: &str, want: &[String]| {
        let (have, stats) = answered(node.get(&format!("/api/v1/query?{parameters}")));
        assert_eq!(have, want, "{parameters}");
        assert_eq!((&stats["partial"], &stats["nodes_answered"]), (&json!(false), &json!(1)), "{parameters}");
    };
    check("", &lines);
    check("order=asc&limit=100", &lines);
    check("order=desc", &back);
    check("limit=2", &lines[..2]);
    check("limit=2&order=desc", &back[..2]);
    check("limit=6", &lines);
    check("limit=0", &[]);
    check("q=level%3Derror&limit=1&order=desc", std::slice::from_ref(&lines[5]));
    check("q=nothing", &[]);
}

#[test]
fn time_ranges_in_every_format() {
    let (node, lines) = node();
    let times: Vec<u64> =
        lines.iter().map(|line| serde_json::from_str::<Value>(line).unwrap()["ts"].as_u64().unwrap()).collect();
    let shown = |time: u64| format_rfc3339(Millis(time * 1_000), 0);
    let check = |from: &str, to: &str, want: &[String]| {
        let span = format!("from={}&to={}", encode(from), encode(to));
        assert_eq!(answered(node.get(&format!("/api/v1/query?{span}"))).0, want, "{from} {to}");
        let count = node.get(&format!("/api/v1/count?{span}")).expect(200).json();
        assert_eq!(count["count"].as_u64(), Some(want.len() as u64), "{from} {to}");
    };
    // `from` is included, `to` is not.
    check(&times[1].to_string(), &times[3].to_string(), &lines[1..3]);
    check(&format!("{}000", times[1]), &format!("{}001", times[3]), &lines[1..4]);
    check(&shown(times[1]), &shown(times[3]), &lines[1..3]);
    check(&shown(times[1]).replace('Z', "+00:00"), "", &lines[1..]);
    check("", &shown(times[1]), &lines[..1]);
    check("1970-01-01", "now", &lines);
    check("30d", "1h", &[]);
    check("1h", "", &lines);
    check("1h", "1s", &lines);
    // Some seconds may have passed since the records were made, so the bounds are in the middle of a minute.
    check("7m30s", "", &lines[2..]);
    check("30d", "330s", &lines[..4]);
}

#[test]
fn filters_find_fields_and_text() {
    let (node, lines) = node();
    let check = |filter: &str, want: u64| {
        let (have, stats) = answered(node.get(&format!("/api/v1/query?q={}", encode(filter))));
        assert_eq!((have.len() as u64, stats["matched"].as_u64()), (want, Some(want)), "{filter}");
        assert_eq!(node.count(filter), want, "{filter}");
    };
    check("", lines.len() as u64);
    check("level=error", 3);
    check("level!=error app=web", 3);
    check("status>=800 status<900", 1);
    check("user.id=5 OR user.id=6", 2);
    check("level=~/^err/", 3);
    check("level!~/^err/", 3);
    check("-error", 3);
    check("/\"status\":[89]00/", 2);
    check("\"ERROR\"i NOT status=400", 2);
    check("(level=error OR level=info) AND NOT app=web", 0);
}

#[test]
fn formats_of_answers() {
    let node = TestServer::start(&[]);
    node.post("/api/v1/ingest", &[], b"text \"quoted\" \\ \xc3\xbc\x01\n\xff\xfe\0\nlast").expect(200);
    let objects = node.get("/api/v1/query").expect(200).objects();
    assert_eq!(objects.len(), 4);
    assert_eq!(objects[0]["line"], "text \"quoted\" \\ ü\u{1}");
    assert!(objects[1]["line"].is_null());
    assert_eq!(objects[1]["line_base64"], "//4A");
    assert_eq!((&objects[2]["line"], &objects[2]["unterminated"]), (&json!("last"), &json!(true)));
    assert_eq!(objects[3]["stats"]["matched"], 3);
    let kind = |headers: &[(&str, &str)], parameters: &str| {
        let answer = node.call("GET", &format!("/api/v1/query?{parameters}"), headers, b"").expect(200);
        (answer.header("content-type").unwrap().to_owned(), answer.text().ends_with("last"))
    };
    assert_eq!(kind(&[], ""), ("application/x-ndjson".to_owned(), false));
    assert_eq!(kind(&[("Accept", "application/x-ndjson")], ""), ("application/x-ndjson".to_owned(), false));
    assert_eq!(kind(&[("Accept", "text/plain")], ""), ("text/plain; charset=utf-8".to_owned(), true));
    assert_eq!(kind(&[], "format=raw"), ("text/plain; charset=utf-8".to_owned(), true));
    assert_eq!(kind(&[("Accept", "application/json")], ""), ("application/json".to_owned(), false));
}

#[test]
fn an_answer_can_be_one_document() {
    let (node, lines) = node();
    let document = |parameters: &str| {
        let headers = [("Accept", "application/json")];
        node.call("GET", &format!("/api/v1/query?{parameters}"), &headers, b"").expect(200).json()
    };
    for (parameters, want) in [("", &lines[..]), ("limit=2", &lines[..2]), ("q=nothing", &[])] {
        let answer = document(parameters);
        let records = answer["records"].as_array().unwrap();
        let have: Vec<&str> = records.iter().map(|record| record["line"].as_str().unwrap()).collect();
        assert_eq!(have, want, "{parameters}");
        assert_eq!((&answer["stats"]["partial"], answer.as_object().unwrap().len()), (&json!(false), 2), "{answer}");
        // The records are those of the lines.
        let mut objects = node.get(&format!("/api/v1/query?{parameters}")).expect(200).objects();
        objects.pop();
        assert_eq!(records, &objects, "{parameters}");
    }
}

#[test]
fn times_without_a_zone_are_in_the_given_one() {
    let node = TestServer::start(&[]);
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs();
    // Noon of the day before yesterday.
    let noon = (now / 86_400 - 2) * 86_400 + 43_200;
    let headers = [("Content-Type", "application/x-ndjson")];
    node.post("/api/v1/ingest", &headers, format!("{{\"ts\":{noon}}}\n").as_bytes()).expect(200);
    let day = format_rfc3339(Millis(noon * 1_000), 0)[..10].to_owned();
    let count = |zone: &str, from: &str, to: &str| {
        let span = format!("from={}&to={}", encode(format!("{day} {from}")), encode(format!("{day} {to}")));
        let target = format!("/api/v1/count?{span}&tz={}", encode(zone));
        node.get(&target).expect(200).json()["count"].as_u64().unwrap()
    };
    let zones =
        [("", "12"), ("UTC", "12"), ("+02:00", "14"), ("-05:00", "07"), ("Asia/Kolkata", "17"), ("Asia/Tokyo", "21")];
    for (zone, hour) in zones {
        assert_eq!(count(zone, &format!("{hour}:00"), &format!("{hour}:59")), 1, "{zone}");
        assert_eq!(count(zone, "00:00", &format!("{hour}:00")), 0, "{zone}");
    }
    // A time with a zone keeps it.
    let exact = encode(format!("{day}T12:00:00Z"));
    let target = format!("/api/v1/count?from={exact}&to={}&tz=Asia/Tokyo", encode(format!("{day}T12:00:01Z")));
    assert_eq!(node.get(&target).expect(200).json()["count"], 1);
}

#[test]
fn queries_can_be_posted() {
    let (node, _) = node();
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let body = b"q=level%3Derror+status%3E500&from=1h";
    let (lines, stats) = answered(node.post("/api/v1/query?order=desc", &form, body));
    assert_eq!((lines.len(), &stats["matched"]), (2, &json!(2)));
    assert!(lines[0].contains("600") && lines[1].contains("800"), "{lines:?}");
    assert_eq!(node.post("/api/v1/count", &form, body).expect(200).json()["count"], 2);
    let histogram = node.post("/api/v1/histogram", &form, b"q=level%3Derror&buckets=5").expect(200).json();
    assert_eq!(histogram["buckets"].as_array().unwrap().len(), 5);
    assert_eq!(node.post("/api/v1/fields", &form, body).expect(200).json()["records"], 2);
}

#[test]
fn histograms_add_up() {
    let (node, _) = node();
    node.post("/api/v1/ingest", &[], &lines(Config { format: SampleFormat::Text, size: None, seed: 7 }, 5_000))
        .expect(200);
    for filter in ["", "app=web", "error", "GET OR POST"] {
        for (from, buckets) in [("1h", ""), ("30d", "7"), ("10m", "1"), ("9m", "1000")] {
            let parameters = format!("q={}&from={from}&buckets={buckets}", encode(filter));
            let histogram = node.get(&format!("/api/v1/histogram?{parameters}")).expect(200).json();
            let list = histogram["buckets"].as_array().unwrap();
            // Equal buckets of whole milliseconds.
            let at = |time: &Value| parse_timestamp(time.as_str().unwrap(), Millis(0), &TimeZone::UTC).unwrap().0;
            let span = at(&list[list.len() - 1]["to"]) - at(&list[0]["from"]);
            let width = span.div_ceil(buckets.parse().unwrap_or(60));
            assert_eq!(list.len() as u64, span.div_ceil(width), "{parameters}");
            let whole = &list[..list.len() - 1];
            assert!(
                whole.iter().all(|bucket| at(&bucket["to"]) - at(&bucket["from"]) == width),
                "{parameters}: {list:?}"
            );
            let sum: u64 = list.iter().map(|bucket| bucket["count"].as_u64().unwrap()).sum();
            // The range of the histogram: `from` is relative to the time of the request.
            let (first, last) = (&list[0]["from"], &list[list.len() - 1]["to"]);
            let span = [first, last].map(|at| encode(at.as_str().unwrap()));
            let target = format!("/api/v1/count?q={}&from={}&to={}", encode(filter), span[0], span[1]);
            assert_eq!(node.get(&target).expect(200).json()["count"].as_u64(), Some(sum), "{parameters}");
            assert!(list.windows(2).all(|pair| pair[0]["to"] == pair[1]["from"]), "{parameters}: {list:?}");
            assert_eq!(histogram["stats"]["partial"], false);
        }
    }
}

#[test]
fn fields_have_their_values() {
    let (node, _) = node();
    let answer = node.get("/api/v1/fields").expect(200).json();
    assert_eq!((&answer["records"], &answer["sampled"]), (&json!(6), &json!(false)));
    let field = |name: &str| {
        let list = answer["fields"].as_array().unwrap();
        list.iter().find(|field| field["name"] == name).unwrap_or_else(|| panic!("no {name}: {answer}")).clone()
    };
    let app = field("app");
    assert_eq!((&app["kind"], &app["records"], &app["distinct"]), (&json!("label"), &json!(6), &json!(1)));
    assert_eq!(app["values"], json!([{ "value": "web", "count": 6 }]));
    let level = field("level");
    assert_eq!((&level["kind"], &level["records"], &level["distinct"]), (&json!("field"), &json!(6), &json!(2)));
    for value in ["error", "info"] {
        assert!(level["values"].as_array().unwrap().contains(&json!({ "value": value, "count": 3 })), "{level}");
    }
    assert_eq!((&field("status")["distinct"], &field("user.id")["distinct"]), (&json!(6), &json!(6)));
    let few = node.get("/api/v1/fields?q=level%3Derror").expect(200).json();
    assert_eq!(few["records"], 3);
}

#[test]
fn context_is_that_of_the_stream() {
    let node = TestServer::start(&[]);
    for stream in ["a", "b"] {
        let text: String = (0..50).map(|number| format!("{stream} {number}\n")).collect();
        node.post(&format!("/api/v1/ingest?label=stream={stream}"), &[], text.as_bytes()).expect(200);
    }
    let found = node.get(&format!("/api/v1/query?q={}", encode("\"b 25\""))).expect(200).objects();
    let id = found[0]["id"].as_str().unwrap();
    let around = |parameters: &str| -> Vec<String> {
        let answer = node.get(&format!("/api/v1/context?id={id}{parameters}")).expect(200).json();
        let records = answer["records"].as_array().unwrap();
        records.iter().map(|record| record["line"].as_str().unwrap().to_owned()).collect()
    };
    let lines = |from: u64, to: u64| (from..=to).map(|number| format!("b {number}")).collect::<Vec<_>>();
    assert_eq!(around("&before=3&after=2"), lines(22, 27));
    assert_eq!(around("&before=0&after=0"), lines(25, 25));
    assert_eq!(around(""), lines(15, 35));
    assert_eq!(around("&before=1000&after=1000"), lines(0, 49));
}

#[test]
fn answers_continue_after_a_record() {
    let (node, lines) = node();
    // Of equal time, so that only ids order them.
    node.post("/api/v1/ingest", &[], b"x 0\nx 1\nx 2\nx 3\n").expect(200);
    let all: Vec<String> = lines.iter().cloned().chain((0..4).map(|number| format!("x {number}"))).collect();
    for (order, want) in [("asc", all.clone()), ("desc", all.iter().rev().cloned().collect())] {
        let (mut have, mut after) = (Vec::new(), String::new());
        loop {
            let target = format!("/api/v1/query?order={order}&limit=3&after={after}");
            let mut page = node.get(&target).expect(200).objects();
            page.pop();
            let Some(last) = page.last() else { break };
            after = last["id"].as_str().unwrap().to_owned();
            have.extend(page.iter().map(|object| object["line"].as_str().unwrap().to_owned()));
            assert!(have.len() <= all.len(), "{order}: {have:?}");
        }
        assert_eq!(have, want, "{order}");
    }
}

/// The sums of a histogram: total and by group.
fn sums(histogram: &Value) -> (u64, Vec<(String, u64)>) {
    let mut groups = std::collections::BTreeMap::<String, u64>::new();
    let mut all = 0;
    for bucket in histogram["buckets"].as_array().unwrap() {
        all += bucket["count"].as_u64().unwrap();
        for (group, count) in bucket["groups"].as_object().into_iter().flatten() {
            *groups.entry(group.clone()).or_default() += count.as_u64().unwrap();
        }
    }
    (all, groups.into_iter().collect())
}

#[test]
fn histograms_count_levels() {
    let node = TestServer::start(&["--segment-max-age", "200ms"]);
    let text = "time ERROR a\nlevel=warn b\n{\"level\":\"info\"}\nplain\n[error] c\n".repeat(300);
    // The same body twice with one key: each record counts once.
    for _ in 0..2 {
        node.post("/api/v1/ingest", &[("Idempotency-Key", "levels")], text.as_bytes()).expect(200);
    }
    node.post("/api/v1/ingest?label=severity=debug", &[], b"ERROR, but the label says more\n").expect(200);
    let check = |what: &str| {
        let asked = |parameters: &str| node.get(&format!("/api/v1/histogram?{parameters}")).expect(200).json();
        let level = |name: &str, count| (name.to_owned(), count);
        let (debug, error, info, warn) =
            (level("debug", 1), level("error", 600), level("info", 300), level("warn", 300));
        assert_eq!(sums(&asked("")), (1_501, Vec::new()), "{what}");
        let all = vec![debug.clone(), error.clone(), info, warn];
        assert_eq!(sums(&asked("by=@level&buckets=7")), (1_501, all), "{what}");
        assert_eq!(sums(&asked("by=@level&q=%22ERROR%22i")), (601, vec![debug, error]), "{what}");
        assert_eq!(sums(&asked("by=@level&q=plain")), (300, Vec::new()), "{what}");
        assert_eq!(sums(&asked("by=@level&q=level%3Dwarn")), (300, vec![level("warn", 300)]), "{what}");
        let some = asked("by=@level&value=none&value=error");
        assert_eq!(some["group_values"], json!(["none", "error"]), "{what}");
        assert_eq!(sums(&some), (1_501, vec![level("error", 600), level("none", 300)]), "{what}");
    };
    check("in the queue");
    node.wait_stored();
    check("in the store");
}

#[test]
fn histograms_count_values_and_streams() {
    let node = TestServer::start(&["--segment-max-age", "200ms"]);
    let text = "status=200 a\n{\"status\":404}\nstatus=500 c\nstatus=200 d\nplain\n".repeat(100);
    node.post("/api/v1/ingest?label=app=shop&label=host=a", &[], text.as_bytes()).expect(200);
    node.post("/api/v1/ingest?label=app=cart", &[], b"status=200 of the cart\n").expect(200);
    let check = |what: &str| {
        let asked = |parameters: &str| node.get(&format!("/api/v1/histogram?{parameters}")).expect(200).json();
        let check = |parameters: &str, values: &Value, want: &[(&str, u64)]| {
            let answer = asked(parameters);
            assert_eq!(&answer["group_values"], values, "{parameters} {what}");
            let want: Vec<_> = want.iter().map(|(value, count)| ((*value).to_owned(), *count)).collect();
            assert_eq!(sums(&answer), (501, want), "{parameters} {what}");
        };
        check("by=status&value=404&value=200", &json!(["404", "200"]), &[("200", 201), ("404", 100)]);
        check("by=status", &json!(["200", "404", "500"]), &[("200", 201), ("404", 100), ("500", 100)]);
        check("by=app&value=cart", &json!(["cart"]), &[("cart", 1)]);
        let (shop, cart) = ("app=shop,host=a", "app=cart");
        check("by=@stream", &json!([shop, cart]), &[(cart, 1), (shop, 500)]);
        check("by=@stream&value=host%3Da,app%3Dshop", &json!([shop]), &[(shop, 500)]);
        check("by=nothing", &json!([]), &[]);
    };
    check("in the queue");
    node.wait_stored();
    check("in the store");
}

#[test]
fn histograms_are_streamed() {
    let (node, _) = node();
    let headers = [("Accept", "application/x-ndjson")];
    let answer = node.call("GET", "/api/v1/histogram?by=@level&buckets=4", &headers, b"").expect(200);
    assert_eq!(answer.header("content-type"), Some("application/x-ndjson"));
    let objects = answer.objects();
    let (last, before) = objects.split_last().unwrap();
    assert_eq!(last["stats"]["matched"], 6);
    assert_eq!(sums(last), (6, vec![("error".to_owned(), 3), ("info".to_owned(), 3)]));
    for object in before {
        assert!(object["progress"].as_f64().unwrap() < 1.0 && object["stats"].is_null(), "{object}");
        assert_eq!(object["buckets"].as_array().unwrap().len(), 4, "{object}");
        assert_eq!(object["group_values"], last["group_values"], "{object}");
    }
    // Errors are reported before an answer begins.
    let refused = node.call("GET", "/api/v1/histogram?q=%2F%28%2F", &headers, b"").expect(400).json();
    assert!(refused["error"].as_str().unwrap().contains("unclosed group"), "{refused}");
}
