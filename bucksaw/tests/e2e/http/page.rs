//! The page: headers, policy and caching.

use crate::client::open;
use crate::node::TestServer;

/// The paths of the scripts and styles of the page; none if it was built without npm.
fn assets(page: &str) -> Vec<String> {
    let named = page.split('"').filter(|part| part.starts_with("/assets/"));
    named.map(str::to_owned).collect()
}

#[test]
fn the_page_is_served_with_a_strict_policy() {
    let node = TestServer::start(&[]);
    for path in ["/", "/nodes", "/?q=error&from=15m"] {
        let answer = node.get(path).expect(200);
        assert_eq!(answer.header("content-type"), Some("text/html; charset=utf-8"), "{path}");
        assert_eq!(answer.header("cache-control"), Some("no-cache"), "{path}");
        assert_eq!(answer.header("x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(answer.header("referrer-policy"), Some("no-referrer"), "{path}");
        let policy = answer.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"), "{policy}");
        assert!(!policy.contains("unsafe") && !policy.contains("http") && !policy.contains('*'), "{policy}");
        for part in ["frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "trusted-types"] {
            assert!(policy.contains(part), "{policy}");
        }
        let page = answer.text();
        assert!(page.contains("<title>Bucksaw</title>"), "{page}");
        // Nothing that the policy forbids, and nothing from other origins.
        assert!(!page.contains("<style") && !page.contains("://") && !page.contains("onload"), "{page}");
    }
}

#[test]
fn parts_of_the_page_are_immutable() {
    let node = TestServer::start(&[]);
    for path in assets(&node.get("/").expect(200).text()) {
        let answer = node.get(&path).expect(200);
        assert_eq!(answer.header("cache-control"), Some("public, max-age=31536000, immutable"), "{path}");
        let kind = if path.ends_with(".css") { "text/css; charset=utf-8" } else { "text/javascript; charset=utf-8" };
        assert_eq!(answer.header("content-type"), Some(kind), "{path}");
        assert!(answer.header("content-security-policy").is_some(), "{path}");
        let packed = node.call("GET", &path, &[("Accept-Encoding", "gzip, br")], b"").expect(200);
        assert_eq!(packed.header("content-encoding"), Some("br"), "{path}");
        assert!(packed.body.len() < answer.body.len() / 2, "{path}");
        let gzip = node.call("GET", &path, &[("Accept-Encoding", "gzip")], b"").expect(200);
        assert_eq!(gzip.header("content-encoding"), Some("gzip"), "{path}");
        let mut plain = Vec::new();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&gzip.body[..]), &mut plain).unwrap();
        assert!(plain == answer.body, "{path}: gzip and plain differ");
    }
}

#[test]
fn an_unchanged_page_is_not_sent_again() {
    let node = TestServer::start(&[]);
    let first = node.get("/").expect(200);
    let tag = first.header("etag").unwrap().to_owned();
    let again = node.call("GET", "/", &[("If-None-Match", &tag)], b"").expect(304);
    assert!(again.body.is_empty());
    assert_eq!(again.header("etag"), Some(tag.as_str()));
    node.call("GET", "/", &[("If-None-Match", "\"other\"")], b"").expect(200);
    let head = open(node.address("http"), "HEAD", "/", &[]).unwrap();
    assert_eq!(head.status, 200);
    assert!(head.headers.contains(&("etag".to_owned(), tag.clone())), "{:?}", head.headers);
    let packed = node.call("GET", "/", &[("Accept-Encoding", "br")], b"").expect(200);
    if packed.header("content-encoding").is_some() {
        assert_ne!(packed.header("etag"), Some(tag.as_str()), "other bytes have another tag");
        assert_eq!(packed.header("vary"), Some("Accept-Encoding"));
    }
}
