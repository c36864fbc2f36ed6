//! The check of a request, as middleware, and of a call of gRPC.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};
use bucksaw_auth::{
    AuthRefusal, AuthRefusalReason, Authenticator, CertificateNames, ClientAccess, ExternalUser, Presented, SecretText,
    token_of_authorization, token_of_cookie,
};
use bucksaw_oidc::{IdentityProvider, OidcError, TokenFault, is_id_token};
use bucksaw_sources::{AuditOutcome, ConnectionPeer, alternative_names};
use tracing::{debug, error};

use super::held_body::hold;
use super::refusals::{ErrorForm, message, status, tenant_error};
use super::request_client::RequestClient;
use super::route_access::RouteAccess;
use super::route_rule::RouteRule;
use super::tenant_header::requested_tenant;
use crate::app::App;
use crate::audit::{self, RequestFacts};
use crate::error::ApiError;
use crate::grpc::{self, GrpcError};

/// The header with the key of Datadog's clients.
const DATADOG_KEY: &str = "dd-api-key";

/// The check of one listener.
#[derive(Debug)]
pub(crate) struct AccessCheck {
    authenticator: Option<Authenticator>,
    provider: IdentityProvider,
    listener: &'static str,
    rules: BTreeMap<&'static str, RouteRule>,
}

/// Why a request is refused.
enum Refused {
    Auth(AuthRefusal),
    Error(ApiError),
}

impl From<AuthRefusal> for Refused {
    fn from(refusal: AuthRefusal) -> Self {
        Self::Auth(refusal)
    }
}

impl AccessCheck {
    pub(super) fn new(app: &App, listener: &'static str, rules: BTreeMap<&'static str, RouteRule>) -> Self {
        Self { authenticator: app.authenticator.clone(), provider: app.provider.clone(), listener, rules }
    }

    /// The rule of a request; `None` for a path that is registered without one.
    fn rule(&self, request: &Request) -> Option<RouteRule> {
        let path = request.extensions().get::<MatchedPath>();
        let Some(path) = path else {
            // No such path.
            return Some(RouteRule { access: RouteAccess::Any, form: ErrorForm::Json });
        };
        let rule = self.rules.get(path.as_str()).copied()?;
        let probe = RouteRule { access: RouteAccess::Any, form: ErrorForm::Elasticsearch };
        Some(if rule.access == RouteAccess::Page && asks_for_json(request.headers()) { probe } else { rule })
    }
}

/// Whether a request for `/` comes from a sender to Elasticsearch.
pub(crate) fn asks_for_json(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    accept.contains("json") && !accept.contains("html")
}

/// Recognises the client of a request, or refuses it.
pub(crate) async fn check(State(check): State<Arc<AccessCheck>>, mut request: Request, next: Next) -> Response {
    let Some(authenticator) = &check.authenticator else {
        request.extensions_mut().insert(RequestClient(ClientAccess::default()));
        return next.run(request).await;
    };
    let Some(RouteRule { access, form }) = check.rule(&request) else {
        error!(path = request.uri().path(), "a path has no rule of access, so it is refused: this is a bug");
        return ApiError::internal().into_response();
    };
    if matches!(access, RouteAccess::Public | RouteAccess::Page) {
        return next.run(request).await;
    }
    let connection = request.extensions().get::<Arc<ConnectionPeer>>().cloned();
    let (listener, connected) = (check.listener, connection.as_deref());
    let user = id_token_user(authenticator, &check.provider, listener, connected, request.headers()).await;
    let recognised =
        user.and_then(|user| recognise(authenticator, listener, connected, request.headers(), user, access));
    let client = match recognised {
        Ok(client) => client,
        Err(Refused::Error(error)) => return form.render(error, request.headers()),
        Err(Refused::Auth(AuthRefusal { reason, delay })) => {
            tokio::time::sleep(delay).await;
            return form.refuse(reason, access.needed(), request.headers());
        }
    };
    if let Some(facts) = RequestFacts::of(request.extensions()) {
        facts.set_who(client.name());
    }
    let slot = match limit(&client, access) {
        Ok(slot) => slot,
        Err(error) => return form.render(error, request.headers()),
    };
    request.extensions_mut().insert(RequestClient(client.clone()));
    let mut response = next.run(request).await;
    // Answers are for this client alone, and are no documents of the page.
    let headers = response.headers_mut();
    headers.entry(header::CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    headers.entry(header::X_CONTENT_TYPE_OPTIONS).or_insert(HeaderValue::from_static("nosniff"));
    if access == RouteAccess::Read { hold(response, client, slot) } else { response }
}

/// Recognises the client of a call of gRPC, and makes the call.
pub(crate) async fn check_call<F: Future<Output = Response>>(
    app: &App,
    access: RouteAccess,
    mut request: Request,
    call: impl FnOnce(Request) -> F,
) -> Response {
    let Some(authenticator) = &app.authenticator else {
        request.extensions_mut().insert(RequestClient(ClientAccess::default()));
        return call(request).await;
    };
    let connection = request.extensions().get::<Arc<ConnectionPeer>>().cloned();
    let connected = connection.as_deref();
    let user = id_token_user(authenticator, &app.provider, "otlp", connected, request.headers()).await;
    let recognised = user.and_then(|user| recognise(authenticator, "otlp", connected, request.headers(), user, access));
    let client = match recognised {
        Ok(client) => client,
        Err(Refused::Error(error)) => return refuse_call(app, &request, None, error),
        Err(Refused::Auth(AuthRefusal { reason, delay })) => {
            audit::write_refused_call(app, &request, None, AuditOutcome::Refused);
            tokio::time::sleep(delay).await;
            let error = ApiError::new(status(reason), message(reason, access.needed()));
            return grpc::refusal(&GrpcError::from(error));
        }
    };
    let slot = match limit(&client, access) {
        Ok(slot) => slot,
        Err(error) => return refuse_call(app, &request, client.name(), error),
    };
    request.extensions_mut().insert(RequestClient(client.clone()));
    let response = call(request).await;
    if access == RouteAccess::Read { hold(response, client, slot) } else { response }
}

/// Refuses a call of gRPC, and notes it in the audit trail.
fn refuse_call(app: &App, request: &Request, who: Option<&str>, error: ApiError) -> Response {
    audit::write_refused_call(app, request, who, audit::outcome_of_status(error.status));
    grpc::refusal(&GrpcError::from(error))
}

/// The user of the ID token of a request; `None` if it has none.
async fn id_token_user(
    authenticator: &Authenticator,
    provider: &IdentityProvider,
    listener: &'static str,
    connection: Option<&ConnectionPeer>,
    headers: &HeaderMap,
) -> Result<Option<ExternalUser>, Refused> {
    let refuse = |reason| Refused::Auth(authenticator.refuse(listener, peer_address(connection), reason));
    let Some(settings) = authenticator.oidc() else { return Ok(None) };
    let token = presented_token(headers).map_err(refuse)?;
    let Some(token) = token.filter(|token| is_id_token(token.expose())) else { return Ok(None) };
    match provider.verify(&settings, &token).await {
        Ok(user) => Ok(Some(user)),
        Err(OidcError::Token(TokenFault::Expired)) => Err(refuse(AuthRefusalReason::Expired)),
        Err(OidcError::Token(fault)) => {
            debug!(%fault, "an ID token is refused");
            Err(refuse(AuthRefusalReason::Unknown))
        }
        Err(error) => Err(Refused::Error(ApiError::new(StatusCode::SERVICE_UNAVAILABLE, error.to_string()))),
    }
}

/// Recognises a client by the headers of its request or by its connection, and checks its scope and its tenant. `user` is that
/// of its ID token.
fn recognise(
    authenticator: &Authenticator,
    listener: &'static str,
    connection: Option<&ConnectionPeer>,
    headers: &HeaderMap,
    user: Option<ExternalUser>,
    access: RouteAccess,
) -> Result<ClientAccess, Refused> {
    let peer = peer_address(connection);
    let refuse = |reason| Refused::Auth(authenticator.refuse(listener, peer, reason));
    let token = presented_token(headers).map_err(refuse)?;
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_user = user.is_some();
    let user = user.or_else(|| authenticator.proxied_user(peer, text));
    let identity = connection.and_then(|connection| connection.identity.as_deref());
    let sans = identity.map(alternative_names).unwrap_or_default();
    let presented = Presented {
        // An ID token is the credential of its user.
        token: token.as_ref().filter(|_| !is_user),
        user: user.as_ref(),
        certificate: identity.map(|identity| CertificateNames { subject: &identity.subject, sans: &sans }),
    };
    let grant = authenticator.authenticate(listener, peer, &presented)?;
    let tenant = requested_tenant(headers);
    // What every client may ask concerns no records, and tells it which tenants it may name.
    let implied = grant.principal().tenants.first().filter(|_| access == RouteAccess::Any).cloned();
    let tenant = tenant.as_deref().or(implied.as_deref());
    let client = match ClientAccess::new(grant, tenant) {
        Ok(client) => client,
        // It is recognised, and may learn of the call's tenant what it needs to know.
        Err(error) => {
            if error == bucksaw_auth::TenantError::Forbidden {
                authenticator.refuse(listener, peer, AuthRefusalReason::Tenant);
            }
            return Err(Refused::Error(tenant_error(error)));
        }
    };
    if access.allows(&client) { Ok(client) } else { Err(refuse(AuthRefusalReason::Scope)) }
}

/// The address of a client; that of none for a request without a connection, as in tests.
pub(super) fn peer_address(connection: Option<&ConnectionPeer>) -> IpAddr {
    connection.map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |connection| connection.address.ip())
}

/// The token of a request: in `Authorization`, else in Datadog's header, else in the cookie of the page.
pub(crate) fn presented_token(headers: &HeaderMap) -> Result<Option<SecretText>, AuthRefusalReason> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    if let Some(value) = values.next() {
        if values.next().is_some() {
            return Err(AuthRefusalReason::Unknown);
        }
        return token_of_authorization(value.as_bytes()).map(Some).map_err(|_| AuthRefusalReason::Unknown);
    }
    if let Some(key) = headers.get(DATADOG_KEY) {
        let key = key.to_str().ok().filter(|key| !key.is_empty()).ok_or(AuthRefusalReason::Unknown)?;
        return Ok(Some(SecretText::new(key)));
    }
    Ok(headers.get_all(header::COOKIE).iter().find_map(|cookie| token_of_cookie(cookie.as_bytes())))
}

/// Checks the limits of a client. Returns the slot of a query.
fn limit(client: &ClientAccess, access: RouteAccess) -> Result<Option<bucksaw_auth::QuerySlot>, ApiError> {
    match access {
        RouteAccess::Ingest => {
            let delay = client.bytes_delay();
            if delay.is_zero() {
                return Ok(None);
            }
            let wait = u32::try_from(delay.as_secs()).unwrap_or(u32::MAX).saturating_add(1);
            let message = "the credential has sent more than its bytes per second: send again later";
            Err(ApiError::too_many_requests(message).after(wait))
        }
        RouteAccess::Read => client.try_query().map_err(|()| {
            ApiError::too_many_requests("the credential has as many queries in flight as it may: try again")
        }),
        _ => Ok(None),
    }
}
