//! Log-in of the page at an identity provider.
//!
//! ```text
//!   /auth/login ─► page of the provider ─► /auth/callback?code=…&state=… ─► cookie with the ID token ─► /
//! ```
//! Both are `GET`s, as browsers come to them by links of other sites. The first changes nothing. The second sets the cookie of
//! the page only for a browser that has begun the same log-in, so no other site can log a user in under another name.

use std::sync::Arc;

use axum::Json;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bucksaw_auth::OidcSettings;
use bucksaw_oidc::{OidcError, PendingLogin};
use bucksaw_sources::ConnectionPeer;
use serde_json::{Value, json};

use super::session::{is_encrypted, with_cookie};
use crate::app::App;
use crate::audit::RequestFacts;
use crate::error::ApiError;
use crate::params::Params;

/// The cookie of a log-in that has begun.
const PENDING_COOKIE: &str = "bucksaw_login";

/// How long a user may take to log in, in seconds.
const PENDING_SECONDS: u32 = 600;

/// Longest ID token that fits into a cookie: browsers keep 4,096 bytes with the name and the attributes.
const COOKIE_TOKEN_BYTES_MAX: usize = 3_900;

/// `GET /api/v1/login`: how users can log in.
pub(crate) async fn login_methods(State(app): State<App>) -> Json<Value> {
    let provider = app.authenticator.as_ref().and_then(bucksaw_auth::Authenticator::oidc);
    let issuer = provider.map(|settings| settings.issuer.clone());
    Json(
        json!({ "authenticates": app.authenticator.is_some(), "token": app.authenticator.is_some(), "provider": issuer }),
    )
}

/// `GET /auth/login`: sends the browser to the provider.
pub(crate) async fn begin(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let settings = settings(&app)?;
    let start = app.provider.begin(&settings).await.map_err(failure)?;
    Ok(with_pending(see_other(&start.url)?, &start.pending.cookie_value(), is_secure(&request)))
}

/// `GET /auth/callback`: completes the log-in.
pub(crate) async fn complete(State(app): State<App>, request: Request) -> Result<Response, ApiError> {
    let settings = settings(&app)?;
    let is_secure = is_secure(&request);
    let pending = pending(request.headers());
    let facts = request.extensions().get::<RequestFacts>().cloned();
    let params = <Params as axum::extract::FromRequest<()>>::from_request(request, &()).await;
    let params = params.map_err(|_| ApiError::bad_request("the identity provider sent no code"))?;
    let denied = |message: String| ApiError::new(StatusCode::UNAUTHORIZED, message);
    let pending = pending.ok_or_else(|| denied(bucksaw_oidc::LoginFault::NotBegun.to_string()))?;
    pending.check_state(params.text("state")?.unwrap_or_default()).map_err(|fault| denied(fault.to_string()))?;
    if let Some(error) = params.text("error")? {
        let error: String =
            error.chars().filter(|letter| letter.is_ascii_alphanumeric() || *letter == '_').take(60).collect();
        return Err(denied(format!("the identity provider did not log you in: {error}")));
    }
    // RFC 9207: the answer is that of the provider that was asked.
    if params.text("iss")?.is_some_and(|issuer| issuer != settings.issuer) {
        return Err(denied("the answer comes from another identity provider".to_owned()));
    }
    let code = params.text("code")?.ok_or_else(|| ApiError::bad_request("the identity provider sent no code"))?;
    let logged_in = app.provider.finish(&settings, &pending, code).await.map_err(failure)?;
    if logged_in.id_token.expose().len() > COOKIE_TOKEN_BYTES_MAX {
        return Err(ApiError::new(
            StatusCode::BAD_GATEWAY,
            format!(
                "the ID token is longer than {COOKIE_TOKEN_BYTES_MAX} bytes: let the provider put fewer claims into it"
            ),
        ));
    }
    if let Some(facts) = facts {
        facts.set_who(Some(logged_in.user.name()));
    }
    let response = with_cookie(see_other("/")?, logged_in.id_token.expose(), is_secure);
    Ok(with_pending(response, "", is_secure))
}

fn settings(app: &App) -> Result<Arc<OidcSettings>, ApiError> {
    let settings = app.authenticator.as_ref().and_then(bucksaw_auth::Authenticator::oidc);
    settings
        .ok_or_else(|| ApiError::new(StatusCode::NOT_FOUND, "this node has no identity provider: log in with a token"))
}

fn failure(error: OidcError) -> ApiError {
    let status = match error {
        OidcError::Token(_) | OidcError::Refused => StatusCode::UNAUTHORIZED,
        _ => StatusCode::BAD_GATEWAY,
    };
    ApiError::new(status, error.to_string())
}

fn is_secure(request: &Request) -> bool {
    let connection = request.extensions().get::<Arc<ConnectionPeer>>();
    is_encrypted(connection.map(|connection| &**connection), request.headers())
}

/// The log-in that the browser has begun, from its cookie.
pub(crate) fn pending(headers: &HeaderMap) -> Option<PendingLogin> {
    let cookies = headers.get_all(header::COOKIE).iter().filter_map(|cookie| cookie.to_str().ok());
    let mut pairs = cookies.flat_map(|cookie| cookie.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.find(|(name, _)| *name == PENDING_COOKIE).and_then(|(_, value)| PendingLogin::parse(value))
}

/// A redirect that is a new `GET`.
fn see_other(url: &str) -> Result<Response, ApiError> {
    let location = HeaderValue::try_from(url).map_err(|_| ApiError::internal())?;
    let mut response = StatusCode::SEE_OTHER.into_response();
    response.headers_mut().insert(header::LOCATION, location);
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    Ok(response)
}

/// Sets the cookie of a log-in that has begun, or removes it. It is `Lax`, because the provider's page leads to the callback.
fn with_pending(mut response: Response, value: &str, is_secure: bool) -> Response {
    let secure = if is_secure { "; Secure" } else { "" };
    let age = if value.is_empty() { 0 } else { PENDING_SECONDS };
    let cookie = format!("{PENDING_COOKIE}={value}; Path=/auth; HttpOnly; SameSite=Lax{secure}; Max-Age={age}");
    if let Ok(mut cookie) = HeaderValue::try_from(cookie) {
        cookie.set_sensitive(true);
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}
