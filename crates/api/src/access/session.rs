//! Log-in and log-out of the page, and who is logged in.
//!
//! There is no session on a node: the cookie holds the token itself, so every node of a cluster knows the client, and revoking
//! the token ends all of its log-ins.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use bucksaw_auth::{COOKIE_NAME, ClientAccess, Presented, SecretText};
use bucksaw_sources::ConnectionPeer;
use serde_json::{Value, json};

use super::check::peer_address;
use super::refusals::status;
use super::request_client::RequestClient;
use crate::app::App;
use crate::audit::RequestFacts;
use crate::error::ApiError;
use crate::params::Params;

/// `GET /api/v1/session`: who the client is, and what it may do.
pub(crate) async fn session(State(app): State<App>, RequestClient(client): RequestClient) -> Json<Value> {
    Json(describe(&app, &client))
}

fn describe(app: &App, client: &ClientAccess) -> Value {
    let Some(grant) = client.grant() else { return json!({ "authenticates": app.authenticator.is_some() }) };
    let principal = grant.principal();
    let scopes: Vec<&str> = principal.scopes.iter().map(bucksaw_auth::AccessScope::name).collect();
    let labels: serde_json::Map<String, Value> =
        principal.labels.iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
    json!({
        "authenticates": true,
        "name": principal.name,
        "scopes": scopes,
        "labels": labels,
        "tenants": principal.tenants,
        "sees_nodes": client.may_see_nodes(),
    })
}

/// `POST /api/v1/login` with the form `token=…`: sets the cookie. A page of another origin cannot call it, by the guard.
pub(crate) async fn login(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let connection = request.extensions().get::<Arc<ConnectionPeer>>().cloned();
    let is_secure = is_encrypted(connection.as_deref(), request.headers());
    if request.uri().query().is_some() {
        return Err(ApiError::bad_request("send the token in the body: URLs are logged"));
    }
    let facts = request.extensions().get::<RequestFacts>().cloned();
    let params = <Params as axum::extract::FromRequest<()>>::from_request(request, &()).await;
    let Ok(params) = params else { return Err(ApiError::bad_request("send the form token=TOKEN")) };
    params.reject_unknown(&["token"])?;
    let Some(authenticator) = &app.authenticator else {
        return Err(ApiError::bad_request("this node does not authenticate clients: there is no log-in"));
    };
    let token = SecretText::new(params.text("token")?.unwrap_or_default().trim());
    let is_cookie_value =
        token.expose().bytes().all(|byte| byte.is_ascii_graphic() && !matches!(byte, b';' | b',' | b'"' | b'\\'));
    let presented =
        Presented { token: Some(&token).filter(|token| !token.expose().is_empty()), ..Presented::default() };
    match authenticator.authenticate("http", peer_address(connection.as_deref()), &presented) {
        Ok(grant) if is_cookie_value => {
            if let Some(facts) = facts {
                facts.set_who(Some(&grant.principal().name));
            }
            let client = ClientAccess::new(grant, None).ok();
            let session = client.map_or_else(|| json!({ "authenticates": true }), |client| describe(&app, &client));
            Ok(with_cookie(Json(session).into_response(), token.expose(), is_secure))
        }
        Ok(_) => Err(ApiError::bad_request(
            "this token cannot be a cookie: it has other signs than those of `bucksaw token`",
        )),
        Err(refusal) => {
            tokio::time::sleep(refusal.delay).await;
            let message = match refusal.reason {
                bucksaw_auth::AuthRefusalReason::Missing => "enter a token".to_owned(),
                bucksaw_auth::AuthRefusalReason::Unknown => "the token is not valid".to_owned(),
                reason => reason.to_string(),
            };
            Err(ApiError::new(status(refusal.reason), message))
        }
    }
}

/// `POST /api/v1/logout`: removes the cookie.
pub(crate) async fn logout(request: Request) -> Response {
    let connection = request.extensions().get::<Arc<ConnectionPeer>>().cloned();
    let is_secure = is_encrypted(connection.as_deref(), request.headers());
    with_cookie(StatusCode::NO_CONTENT.into_response(), "", is_secure)
}

/// Whether the browser speaks TLS, with the node or with a proxy in front. A forged header makes the cookie stricter, not laxer.
pub(super) fn is_encrypted(connection: Option<&ConnectionPeer>, headers: &HeaderMap) -> bool {
    connection.is_some_and(|connection| connection.is_encrypted)
        || headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}

pub(super) fn with_cookie(mut response: Response, value: &str, is_secure: bool) -> Response {
    let secure = if is_secure { "; Secure" } else { "" };
    let age = if value.is_empty() { "; Max-Age=0" } else { "" };
    let cookie = format!("{COOKIE_NAME}={value}; Path=/; HttpOnly; SameSite=Strict{secure}{age}");
    if let Ok(mut cookie) = HeaderValue::try_from(cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
