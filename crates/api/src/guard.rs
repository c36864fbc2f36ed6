//! Refuses requests of other web pages, by `Host`, `Origin` and `Sec-Fetch-Site`.
//!
//! A browser sends requests to a node for any page that its user visits. Two attacks follow:
//! - A page of another origin posts to the node. Browsers name that origin in `Origin` and `Sec-Fetch-Site`; such a
//!   request is refused with 403.
//! - A page points its own host name at the address of the node (DNS rebinding). Page and node then have the same origin,
//!   but `Host` is the page's name. A name that is not configured is refused with 421.
//!
//! An address in `Host` is always accepted, because rebinding needs a name. A request without these headers is
//! accepted, because browsers send them and other programs can send anything. This is no authentication.

use std::net::{Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderName, Method, StatusCode, Uri, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use bucksaw_sources::ListenerTls;

use crate::config::Config;
use crate::error::ApiError;
use crate::metrics::{Metrics, RefusalReason};

/// Accepts every name.
const ANY: &str = "*";

/// Paths that a link of another site may open.
const PAGES: [&str; 4] = ["/", "/nodes", "/auth/login", "/auth/callback"];

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The check and the accepted host names.
#[derive(Debug)]
pub(crate) struct Guard {
    names: Vec<String>,
    /// Its certificate changes while the node runs, and with it the names that a browser trusts to be this node.
    tls: Option<ListenerTls>,
    metrics: Metrics,
}

impl Guard {
    /// Accepts the allowed host names and those of the certificate, besides `localhost` and all addresses; [`ANY`] accepts all,
    /// `*.a` one label before `a`.
    pub(crate) fn new(config: &Config, metrics: Metrics) -> Self {
        let names = config.allowed_hosts.iter().map(|name| canonical(name)).collect();
        Self { names, tls: config.tls.clone(), metrics }
    }

    /// Whether a request is accepted.
    pub(crate) fn check(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), RefusalReason> {
        let host = self.host(uri, headers)?;
        match cross_origin_reason(host, headers) {
            Some(_) if opens_page(method, uri, headers) => Ok(()),
            Some(reason) => Err(reason),
            None => Ok(()),
        }
    }

    /// The requested authority, if it is accepted; `None` if the request names none.
    fn host<'a>(&self, uri: &'a Uri, headers: &'a HeaderMap) -> Result<Option<Authority<'a>>, RefusalReason> {
        let mut hosts = headers.get_all(header::HOST).iter();
        let parse = |text: Option<&'a str>| text.and_then(Authority::parse).ok_or(RefusalReason::host);
        let stated = hosts.next().map(|host| parse(host.to_str().ok())).transpose()?;
        if hosts.next().is_some() {
            return Err(RefusalReason::host);
        }
        let target = uri.authority().map(|authority| parse(Some(authority.as_str()))).transpose()?;
        if [stated, target].into_iter().flatten().all(|authority| self.allows(authority.host)) {
            // The authority of the target precedes `Host` (RFC 9112, section 3.2.2).
            Ok(target.or(stated))
        } else {
            Err(RefusalReason::host)
        }
    }

    fn allows(&self, host: &str) -> bool {
        if is_address(host) {
            return true;
        }
        let host = canonical(host);
        // As in certificates, `*` is one label.
        let parent = host.split_once('.').map(|(_, parent)| parent);
        let is_below = |name: &str| name.strip_prefix("*.").is_some_and(|domain| parent == Some(domain));
        let is_certified = |tls: &ListenerTls| {
            let names = tls.server.host_names();
            names.iter().map(|name| canonical(name)).any(|name| name == host || is_below(&name))
        };
        host == "localhost"
            || self.names.iter().any(|name| name == ANY || *name == host || is_below(name))
            || self.tls.as_ref().is_some_and(is_certified)
    }
}

/// The check as middleware.
pub(crate) async fn guard(State(guard): State<Arc<Guard>>, request: Request, next: Next) -> Response {
    match guard.check(request.method(), request.uri(), request.headers()) {
        Ok(()) => next.run(request).await,
        Err(reason) => {
            guard.metrics.count_refused_request(reason);
            refusal(reason).into_response()
        }
    }
}

fn refusal(reason: RefusalReason) -> ApiError {
    match reason {
        RefusalReason::host => ApiError::new(
            StatusCode::MISDIRECTED_REQUEST,
            "the node is not known by the host name of this request: allow the name with --http-allowed-host NAME, or use the node's address",
        ),
        RefusalReason::origin => ApiError::new(
            StatusCode::FORBIDDEN,
            "a web page of another origin sent this request (header Origin): only the node's own page may call it",
        ),
        RefusalReason::fetch_site => ApiError::new(
            StatusCode::FORBIDDEN,
            "a web page of another site sent this request (header Sec-Fetch-Site): only the node's own page may call it",
        ),
    }
}

/// The header that shows another origin, if one does.
fn cross_origin_reason(host: Option<Authority<'_>>, headers: &HeaderMap) -> Option<RefusalReason> {
    let own = |origin: &str| {
        let (scheme, authority) = origin.split_once("://")?;
        let default_port = match scheme {
            "http" => 80,
            "https" => 443,
            _ => return None,
        };
        let (origin, host) = (Authority::parse(authority)?, host?);
        let same_port = origin.port.unwrap_or(default_port) == host.port.unwrap_or(default_port);
        (same_port && canonical(origin.host) == canonical(host.host)).then_some(())
    };
    let mut origins = headers.get_all(header::ORIGIN).iter();
    if origins.any(|origin| origin.to_str().ok().and_then(own).is_none()) {
        return Some(RefusalReason::origin);
    }
    let mut sites = headers.get_all(SEC_FETCH_SITE).iter();
    sites.any(|site| site != "same-origin" && site != "none").then_some(RefusalReason::fetch_site)
}

/// Whether a browser opens the page in a tab, not in a frame.
fn opens_page(method: &Method, uri: &Uri, headers: &HeaderMap) -> bool {
    let is = |name: HeaderName, want: &str| headers.get(name).is_some_and(|value| value == want);
    method == Method::GET
        && PAGES.contains(&uri.path())
        && is(SEC_FETCH_MODE, "navigate")
        && (is(SEC_FETCH_DEST, "document") || !headers.contains_key(SEC_FETCH_DEST))
}

/// `HOST` or `HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Authority<'a> {
    /// An IPv6 address is in brackets.
    host: &'a str,
    port: Option<u16>,
}

impl<'a> Authority<'a> {
    fn parse(text: &'a str) -> Option<Self> {
        let end = match text.strip_prefix('[') {
            Some(rest) => rest.find(']')? + 2,
            None => text.find(':').unwrap_or(text.len()),
        };
        let (host, port) = text.split_at_checked(end)?;
        let port = match port.strip_prefix(':') {
            // RFC 3986 allows an empty port.
            Some("") => None,
            Some(port) if port.bytes().all(|byte| byte.is_ascii_digit()) => Some(port.parse().ok()?),
            Some(_) => return None,
            None if port.is_empty() => None,
            None => return None,
        };
        (!host.is_empty()).then_some(Self { host, port })
    }
}

/// A name in lower case, without the final dot of a fully qualified name.
fn canonical(name: &str) -> String {
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

/// Whether a host is an address. Numbers that some resolvers read as addresses count as names.
fn is_address(host: &str) -> bool {
    match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').is_some_and(|address| address.parse::<Ipv6Addr>().is_ok()),
        None => host.parse::<Ipv4Addr>().is_ok(),
    }
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;
    use prometheus_client::registry::Registry;
    use proptest::prelude::*;

    use super::*;

    fn guard_of(names: &[String]) -> Guard {
        let config = Config { allowed_hosts: names.to_vec(), ..Config::default() };
        Guard::new(&config, Metrics::new(&mut Registry::default()))
    }

    fn check(
        method: &str,
        target: &str,
        headers: &[(&'static str, &'static str)],
        names: &[&str],
    ) -> Option<RefusalReason> {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        let guard = guard_of(&names);
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.append(*name, HeaderValue::from_static(value));
        }
        guard.check(&method.parse().unwrap(), &target.parse().unwrap(), &map).err()
    }

    #[test]
    fn hosts_are_addresses_or_known_names() {
        let host = |host: &'static str, names: &[&str], want: bool| {
            let got = check("GET", "/api/v1/query", &[("host", host)], names).is_none();
            assert_eq!(got, want, "{host} {names:?}");
        };
        for good in
            ["127.0.0.1:7650", "127.0.0.1", "10.1.2.3:80", "[::1]:7650", "[::1]", "localhost:7650", "LocalHost."]
        {
            host(good, &[], true);
        }
        for bad in [
            "evil.example:7650",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "2130706433",
            "127.1",
            "",
            ":7650",
        ] {
            host(bad, &[], false);
        }
        for bad in ["[::1", "[evil]", "::1", "127.0.0.1:x", "127.0.0.1:99999", "127.0.0.1@evil.example", "a b"] {
            host(bad, &["evil.example"], false);
        }
        host("logs.example:7650", &["logs.example"], true);
        host("LOGS.example", &["Logs.Example."], true);
        host("x.logs.example", &["logs.example"], false);
        host("whatever.example", &["*"], true);
        host("a.logs.example", &["*.logs.example"], true);
        for bad in ["b.a.logs.example", "logs.example", ".logs.example.evil"] {
            host(bad, &["*.logs.example"], false);
        }
        assert_eq!(check("GET", "/", &[], &[]), None);
        assert_eq!(check("GET", "/", &[("host", "127.0.0.1"), ("host", "127.0.0.1")], &[]), Some(RefusalReason::host));
        assert_eq!(check("GET", "http://evil.example/", &[("host", "127.0.0.1")], &[]), Some(RefusalReason::host));
        assert_eq!(check("GET", "http://127.0.0.1/", &[("host", "evil.example")], &[]), Some(RefusalReason::host));
    }

    #[test]
    fn only_the_own_origin_may_call() {
        let origin = |origin: &'static str, host: &'static str, want: bool| {
            for method in ["GET", "POST", "OPTIONS", "HEAD"] {
                let got = check(method, "/api/v1/ingest", &[("host", host), ("origin", origin)], &["*"]).is_none();
                assert_eq!(got, want, "{method} {origin} at {host}");
            }
        };
        origin("http://127.0.0.1:7650", "127.0.0.1:7650", true);
        origin("http://localhost:5173", "localhost:5173", true);
        origin("https://logs.example", "logs.example", true);
        origin("https://logs.example", "logs.example:443", true);
        origin("http://[::1]:7650", "[::1]:7650", true);
        origin("http://LOGS.example", "logs.example:80", true);
        origin("http://127.0.0.1:7651", "127.0.0.1:7650", false);
        origin("http://localhost:7650", "127.0.0.1:7650", false);
        origin("http://evil.example", "127.0.0.1:7650", false);
        origin("null", "127.0.0.1:7650", false);
        origin("", "127.0.0.1:7650", false);
        origin("file://", "127.0.0.1:7650", false);
        origin("chrome-extension://127.0.0.1:7650", "127.0.0.1:7650", false);
        assert_eq!(
            check("POST", "/", &[("origin", "http://127.0.0.1")], &[]),
            Some(RefusalReason::origin),
            "without Host"
        );
        let two = [("host", "127.0.0.1"), ("origin", "http://127.0.0.1"), ("origin", "http://evil.example")];
        assert_eq!(check("POST", "/", &two, &[]), Some(RefusalReason::origin));
    }

    #[test]
    fn other_sites_may_only_open_the_page() {
        let check =
            |method: &str, target: &str, headers: &[(&'static str, &'static str)], want: Option<RefusalReason>| {
                let headers = [&[("host", "127.0.0.1:7650")], headers].concat();
                assert_eq!(check(method, target, &headers, &[]), want, "{method} {target} {headers:?}");
            };
        let refused = Some(RefusalReason::fetch_site);
        for site in ["same-origin", "none"] {
            check("POST", "/api/v1/forget", &[("sec-fetch-site", site)], None);
        }
        for site in ["cross-site", "same-site", "", "new-value"] {
            check("POST", "/api/v1/forget", &[("sec-fetch-site", site)], refused);
            check("GET", "/api/v1/query", &[("sec-fetch-site", site)], refused);
            check("GET", "/", &[("sec-fetch-site", site)], refused);
            let link = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document")];
            check("GET", "/", &link, None);
            check("GET", "/nodes", &link, None);
            check("GET", "/?q=error", &link, None);
            check("GET", "/api/v1/query", &link, refused);
            check("GET", "/metrics", &link, refused);
            check("POST", "/", &link, refused);
            let frame = [("sec-fetch-site", site), ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "iframe")];
            check("GET", "/", &frame, refused);
        }
    }

    #[test]
    fn the_host_of_an_absolute_target_precedes_the_header() {
        let of = |origin: &'static str| {
            let headers = [("host", "127.0.0.1:7650"), ("origin", origin)];
            check("POST", "http://10.0.0.1:7650/api/v1/ingest", &headers, &[])
        };
        assert_eq!(of("http://10.0.0.1:7650"), None);
        assert_eq!(of("http://127.0.0.1:7650"), Some(RefusalReason::origin));
    }

    /// A host as sent, and how the guard must judge it.
    #[derive(Clone, Debug)]
    struct SentHost {
        text: String,
        /// Equal for equal hosts.
        name: String,
        port: Option<u16>,
        is_allowed: bool,
    }

    fn sent_host() -> impl Strategy<Value = SentHost> {
        let hosts = prop::sample::select(vec![
            ("127.0.0.1", "127.0.0.1", true),
            ("10.0.0.7", "10.0.0.7", true),
            ("[::1]", "[::1]", true),
            ("localhost", "localhost", true),
            ("LocalHost.", "localhost", true),
            ("logs.example", "logs.example", true),
            ("LOGS.example.", "logs.example", true),
            ("evil.example", "evil.example", false),
            ("logs.example.evil.example", "logs.example.evil.example", false),
            ("127.0.0.1.evil.example", "127.0.0.1.evil.example", false),
        ]);
        (hosts, prop::option::of(prop::sample::select(vec![80_u16, 443, 7650]))).prop_map(
            |((host, name, allowed), port)| {
                let text = port.map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"));
                SentHost { text, name: name.to_owned(), port, is_allowed: allowed }
            },
        )
    }

    proptest! {
        /// The reason follows from the parts of a request, in this order: host, origin, fetch site.
        #[test]
        fn requests_are_refused_by_their_parts(
            host in prop::option::of(sent_host()),
            origin in prop::option::of((prop::sample::select(vec!["http", "https", "ftp"]), sent_host())),
            null_origin in prop::bool::weighted(0.1),
            site in prop::option::of(prop::sample::select(vec!["same-origin", "none", "same-site", "cross-site", ""])),
            mode in prop::option::of(prop::sample::select(vec!["navigate", "cors"])),
            dest in prop::option::of(prop::sample::select(vec!["document", "iframe"])),
            method in prop::sample::select(vec!["GET", "POST"]),
            path in prop::sample::select(vec!["/", "/nodes", "/api/v1/query", "/nodes/x"]),
        ) {
            let mut headers = HeaderMap::new();
            let mut add = |name: &'static str, value: Option<String>| {
                if let Some(value) = value {
                    headers.append(name, HeaderValue::from_str(&value).unwrap());
                }
            };
            let origin_text = origin.as_ref().map(|(scheme, origin)| format!("{scheme}://{}", origin.text));
            add("host", host.as_ref().map(|host| host.text.clone()));
            add("origin", if null_origin { Some("null".to_owned()) } else { origin_text });
            add("sec-fetch-site", site.map(str::to_owned));
            add("sec-fetch-mode", mode.map(str::to_owned));
            add("sec-fetch-dest", dest.map(str::to_owned));
            let is_same_origin = match (&origin, &host) {
                _ if null_origin => false,
                (None, _) => true,
                (Some((scheme, origin)), Some(host)) => {
                    let default = match *scheme { "http" => Some(80), "https" => Some(443), _ => None };
                    default.is_some_and(|port| {
                        origin.name == host.name && origin.port.unwrap_or(port) == host.port.unwrap_or(port)
                    })
                }
                (Some(_), None) => false,
            };
            let is_same_site = site.is_none_or(|site| site == "same-origin" || site == "none");
            let opens_page = method == "GET" && (path == "/" || path == "/nodes") && mode == Some("navigate") && dest != Some("iframe");
            let want = if host.is_some_and(|host| !host.is_allowed) {
                Some(RefusalReason::host)
            } else if opens_page {
                None
            } else if !is_same_origin {
                Some(RefusalReason::origin)
            } else if !is_same_site {
                Some(RefusalReason::fetch_site)
            } else {
                None
            };
            let guard = guard_of(&["Logs.Example".to_owned()]);
            let got = guard.check(&method.parse().unwrap(), &path.parse().unwrap(), &headers).err();
            prop_assert_eq!(got, want);
        }

        #[test]
        fn any_host_and_origin_are_checked_without_a_panic(host in "\\PC{0,20}", origin in "[a-z:/\\[\\].0-9]{0,20}") {
            let mut headers = HeaderMap::new();
            for (name, value) in [("host", &host), ("origin", &origin)] {
                if let Ok(value) = HeaderValue::from_str(value) {
                    headers.insert(name, value);
                }
            }
            let guard = guard_of(&[]);
            let is_refused = guard.check(&Method::GET, &Uri::from_static("/api/v1/query"), &headers).is_err();
            // Only an address and `localhost` pass without a configured name.
            let name = host.split(':').next().unwrap_or_default();
            let may_pass = name.parse::<std::net::IpAddr>().is_ok() || host.starts_with('[') || canonical(name) == "localhost";
            prop_assert!(is_refused || may_pass || !headers.contains_key("host"), "{host:?} passed");
        }
    }
}
