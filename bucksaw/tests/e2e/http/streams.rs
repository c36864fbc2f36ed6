//! `/api/v1/streams` and `/api/v1/labels`: what is stored, without reading lines.

use serde_json::{Value, json};

use crate::client::encode;
use crate::node::TestServer;

#[test]
fn streams_and_labels_are_listed_with_their_records() {
    let node = TestServer::start(&["--segment-max-age", "200ms"]);
    let put = |labels: &str, key: &str, lines: usize| {
        let headers = [("Idempotency-Key", key)];
        node.post(&format!("/api/v1/ingest?{labels}"), &headers, "a line\n".repeat(lines).as_bytes()).expect(200);
    };
    put("label=app=shop&label=host=a", "1", 300);
    put("label=app=shop&label=host=b", "2", 200);
    // A retry is stored once.
    (0..2).for_each(|_| put("label=app=cart&label=host=a", "3", 100));
    put("", "4", 1);
    let list = |target: &str| node.get(&format!("/api/v1/{target}")).expect(200).json();
    let stream = |labels: Value, text: &str, records: u64| json!({ "labels": labels, "text": text, "records": records, "bytes": records * 7 });
    let (shop_a, shop_b, cart, none) = (
        stream(json!({ "app": "shop", "host": "a" }), "app=shop,host=a", 300),
        stream(json!({ "app": "shop", "host": "b" }), "app=shop,host=b", 200),
        stream(json!({ "app": "cart", "host": "a" }), "app=cart,host=a", 100),
        stream(json!({}), "", 1),
    );
    let check = |what: &str| {
        let check = |parameters: &str, want: &[&Value], distinct: u64| {
            let answer = list(&format!("streams?{parameters}"));
            assert_eq!(
                (&answer["streams"], &answer["distinct"]),
                (&json!(want), &json!(distinct)),
                "{parameters} {what}"
            );
            assert!(answer["approximate"].is_null() && answer["cut"].is_null(), "{what}: {answer}");
            let stats = &answer["stats"];
            assert_eq!((&stats["partial"], &stats["bytes_scanned"]), (&json!(false), &json!(0)), "{what}: {answer}");
        };
        check("", &[&shop_a, &shop_b, &cart, &none], 4);
        check("limit=1", &[&shop_a], 4);
        check(&format!("q={}", encode("host=a")), &[&shop_a, &cart], 2);
        check(&format!("q={}", encode("app=* host!=a")), &[&shop_b], 1);
        check("from=1970-01-01&to=1d", &[], 0);
        let labels = list("labels");
        let value = |value: &str, streams: u64| json!({ "value": value, "streams": streams });
        let app = json!({ "name": "app", "values": [value("shop", 2), value("cart", 1)], "distinct": 2 });
        let host = json!({ "name": "host", "values": [value("a", 2), value("b", 1)], "distinct": 2 });
        assert_eq!(labels["labels"], json!([app, host]), "{what}");
        let few = list(&format!("labels?limit=1&q={}", encode("app=shop")));
        let first =
            |name: &str, value: Value, distinct: u64| json!({ "name": name, "values": [value], "distinct": distinct });
        assert_eq!(
            few["labels"],
            json!([first("app", value("shop", 2), 1), first("host", value("a", 1), 2)]),
            "{what}"
        );
        assert_eq!(list("labels?from=1970-01-01&to=1d")["labels"], json!([]), "{what}");
        for call in ["streams", "labels"] {
            let refused = node.get(&format!("/api/v1/{call}?q=line")).expect(400).json();
            assert!(refused["error"].as_str().unwrap().contains("label"), "{refused}");
        }
    };
    check("in the queue");
    node.wait_stored();
    check("in the store");
}
