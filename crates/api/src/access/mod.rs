//! Who may make which call: recognises the client of a request, and refuses it before a handler runs.
//!
//! ```text
//!   request ─► guard (origin) ─► check: rule of the path ─► handler, with the client as an extension
//!                                  │  no credential, wrong scope, other tenant
//!                                  └─► refusal in the form of the path's protocol, after a delay
//! ```
//! Each path has a rule where it is registered ([`Routes`]). A path without a rule is refused, so that a forgotten rule
//! discloses nothing. Without an auth file every client may do everything, and rules have no effect.
//!
//! The page sends its token as a cookie. A browser adds a cookie to requests of other sites' pages, too (CSRF); three things
//! keep such requests out. The cookie is `SameSite=Strict`, so other sites' pages send none. The guard refuses requests whose
//! `Origin` or `Sec-Fetch-Site` names another origin, also another port of the same host, which `SameSite` does not cover. And
//! no `GET` changes anything.
#![allow(clippy::disallowed_methods, reason = "serves real clients over real sockets, in real time")]

mod check;
mod held_body;
mod provider_login;
mod refusals;
mod request_client;
mod route_access;
mod route_rule;
mod routes;
mod session;
mod tenant_header;

pub(crate) use check::{AccessCheck, asks_for_json, check, check_call, presented_token};
pub(crate) use provider_login::{
    begin as begin_login, complete as complete_login, login_methods, pending as pending_login,
};
pub(crate) use refusals::ErrorForm;
pub(crate) use request_client::RequestClient;
pub use route_access::RouteAccess;
pub(crate) use routes::Routes;
pub(crate) use session::{login, logout, session};
pub(crate) use tenant_header::{TENANT_HEADER, requested_tenant};

#[cfg(test)]
mod tests;
