//! Which requests the audit trail has, and what it has of them.
//!
//! An entry is written when the answer begins, with the status of the answer, so a tail or a long answer is in the trail while it
//! runs. Handlers do not write entries: the parameters are noted where they are decoded, in the [`RequestFacts`] of the request.

use std::sync::{Arc, Mutex};

use axum::extract::{Request, State};
use axum::http::{Extensions, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use bucksaw_env::lock;
use bucksaw_sources::{AuditEntry, AuditOutcome, ConnectionPeer};

use crate::app::App;

/// The parameter with a token, which is never noted.
const TOKEN: &str = "token";

/// The calls that read records or change something, by their paths, and the names of their entries.
const ACTIONS: [(&str, &str); 12] = [
    ("/api/v1/login", "log-in"),
    ("/api/v1/logout", "log-out"),
    ("/api/v1/query", "query"),
    ("/api/v1/tail", "tail"),
    ("/api/v1/count", "count"),
    ("/api/v1/histogram", "histogram"),
    ("/api/v1/fields", "fields"),
    ("/api/v1/context", "context"),
    ("/api/v1/labels", "labels"),
    ("/api/v1/streams", "streams"),
    ("/api/v1/forget", "forget"),
    ("/api/v1/erase", "erase"),
];

/// The names of the calls of the service `bucksaw.v1`.
const SERVICE_ACTIONS: [(&str, &str); 3] = [("Query", "query"), ("Count", "count"), ("Tail", "tail")];

/// The entry of another call that was refused.
const OTHER: &str = "request";

/// Parameters that an entry has.
const DETAILS_MAX: usize = 16;

/// What a request turns out to be while it is handled. Cheap to clone; clones share.
#[derive(Clone, Debug, Default)]
pub(crate) struct RequestFacts(Arc<Mutex<NotedFacts>>);

#[derive(Debug, Default)]
struct NotedFacts {
    /// The name of the principal.
    who: Option<String>,
    /// The address of the client.
    client: Option<String>,
    details: Vec<(String, String)>,
}

impl RequestFacts {
    /// Those of a request, if it may have an entry.
    pub(crate) fn of(extensions: &Extensions) -> Option<&Self> {
        extensions.get()
    }

    /// Notes who the client is, once it is recognised.
    pub(crate) fn set_who(&self, name: Option<&str>) {
        lock(&self.0).who = name.map(str::to_owned);
    }

    /// The facts of a request that begins on this connection.
    pub(crate) fn begin(connection: Option<&Arc<ConnectionPeer>>) -> Self {
        let client = connection.map(|connection| connection.address.ip().to_canonical().to_string());
        Self(Arc::new(Mutex::new(NotedFacts { client, ..NotedFacts::default() })))
    }

    /// Notes parameters.
    pub(crate) fn add_details<'a>(&self, details: impl Iterator<Item = (&'a str, &'a [u8])>) {
        let mut facts = lock(&self.0);
        for (name, value) in details.filter(|(name, _)| *name != TOKEN) {
            if facts.details.len() >= DETAILS_MAX {
                return;
            }
            facts.details.push((name.to_owned(), String::from_utf8_lossy(value).into_owned()));
        }
    }
}

/// Writes the entries of the routes.
pub(crate) async fn audit(State(app): State<App>, mut request: Request, next: Next) -> Response {
    if app.audit.is_none() {
        return next.run(request).await;
    }
    let path = request.uri().path();
    let action = ACTIONS.into_iter().find(|(of, _)| *of == path).map(|(_, action)| action);
    let path = path.to_owned();
    let facts = RequestFacts::begin(request.extensions().get());
    request.extensions_mut().insert(facts.clone());
    let response = next.run(request).await;
    let outcome = outcome_of_status(response.status());
    if action.is_some() || outcome == AuditOutcome::Refused {
        let status = response.status().as_u16().to_string();
        write(&app, action.unwrap_or(OTHER), outcome, &facts, &[("path", &path), ("status", &status)]);
    }
    response
}

/// The name of an entry of a call of the service, if it has one.
pub(crate) fn service_action(method: &str) -> Option<&'static str> {
    SERVICE_ACTIONS.into_iter().find(|(of, _)| *of == method).map(|(_, action)| action)
}

/// Writes an entry, if the node has an audit trail.
pub(crate) fn write(app: &App, action: &str, outcome: AuditOutcome, facts: &RequestFacts, more: &[(&str, &str)]) {
    let Some(trail) = &app.audit else { return };
    let facts = lock(&facts.0);
    let details = facts.details.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    // What the node knows replaces parameters of these names.
    let details: Vec<_> = details.chain(more.iter().copied()).collect();
    let (who, client) = (facts.who.as_deref(), facts.client.as_deref());
    trail.record(&AuditEntry { action, who, client, outcome, details: &details });
}

/// Writes the entry of a call of gRPC that was refused before its method was called. `who` is the name of the client's credential,
/// if it is known.
pub(crate) fn write_refused_call(app: &App, request: &Request, who: Option<&str>, outcome: AuditOutcome) {
    let facts = RequestFacts::begin(request.extensions().get());
    facts.set_who(who);
    write(app, OTHER, outcome, &facts, &[("path", request.uri().path())]);
}

/// The outcome of a request that is answered with this status.
pub(crate) fn outcome_of_status(status: StatusCode) -> AuditOutcome {
    match status {
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN | StatusCode::TOO_MANY_REQUESTS => AuditOutcome::Refused,
        status if status.is_client_error() || status.is_server_error() => AuditOutcome::Failed,
        _ => AuditOutcome::Allowed,
    }
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use bucksaw_env::sim;
    use bucksaw_record::{LabelScope, Labels};
    use hyper::service::Service as _;
    use hyper_util::service::TowerToHyperService;
    use serde_json::Value;

    use super::*;
    use crate::fixtures;
    use crate::server::router;

    async fn send(app: &App, request: Request<Body>) -> StatusCode {
        TowerToHyperService::new(router(app.clone())).call(request).await.unwrap().status()
    }

    fn get(uri: &str) -> Request<Body> {
        Request::get(uri).header("host", "localhost").body(Body::empty()).unwrap()
    }

    async fn entries(app: &App) -> Vec<Value> {
        app.audit.as_ref().unwrap().flush();
        let all = bucksaw_query::Request::new(
            bucksaw_record::Expr::All,
            bucksaw_record::Millis(0),
            bucksaw_record::Millis::MAX,
        );
        let records =
            app.answers.search(all).unwrap().write_to(Vec::<bucksaw_query::OwnedRecord>::new()).await.unwrap().0;
        let of_trail = records.into_iter().filter(|record| record.labels.is_reserved());
        of_trail.map(|record| serde_json::from_slice(&record.text).unwrap()).collect()
    }

    #[tokio::test]
    async fn requests_for_records_and_changes_are_in_the_trail() {
        let app = fixtures::audited(fixtures::app(&sim::Fs::new(), 1));
        assert_eq!(send(&app, get("/api/v1/count?q=a+%22b%22&path=x")).await, 400);
        assert_eq!(send(&app, get("/api/v1/count?q=secret")).await, 200);
        assert_eq!(send(&app, get("/metrics")).await, 200);
        let form = Request::post("/api/v1/fields").header("host", "localhost");
        let form =
            form.header("content-type", "application/x-www-form-urlencoded").body(Body::from("q=of+a+form")).unwrap();
        assert_eq!(send(&app, form).await, 200);
        let foreign = Request::get("/metrics").header("host", "localhost").header("origin", "http://evil.example");
        assert_eq!(send(&app, foreign.body(Body::empty()).unwrap()).await, 403);
        let entries = entries(&app).await;
        let texts =
            |name: &str| entries.iter().map(|entry| entry[name].as_str().unwrap_or("-").to_owned()).collect::<Vec<_>>();
        assert_eq!(texts("action"), ["count", "count", "fields", "request"]);
        assert_eq!(texts("outcome"), ["failed", "allowed", "allowed", "refused"]);
        assert_eq!(texts("q"), ["a \"b\"", "secret", "of a form", "-"]);
        assert_eq!(texts("path"), ["/api/v1/count", "/api/v1/count", "/api/v1/fields", "/metrics"]);
        assert_eq!(texts("status"), ["400", "200", "200", "403"]);
    }

    #[tokio::test]
    async fn a_client_with_a_label_scope_does_not_find_the_trail() {
        let app = fixtures::audited(fixtures::app(&sim::Fs::new(), 1));
        send(&app, get("/api/v1/count")).await;
        assert_eq!(entries(&app).await.len(), 1);
        for (scope, want) in [("", 0), ("tenant=a", 0), ("_bucksaw=audit", 1)] {
            let scope = LabelScope::new(Labels::parse(scope).unwrap());
            let all = bucksaw_query::Request::new(
                bucksaw_record::Expr::All,
                bucksaw_record::Millis(0),
                bucksaw_record::Millis::MAX,
            );
            let count = app.answers.count(all.within(Some(scope)), ()).await.unwrap().0;
            assert_eq!(count, want);
        }
    }
}
