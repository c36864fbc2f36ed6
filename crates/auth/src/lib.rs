//! Who a client is and what it may do, by the auth file of a node.
//!
//! ```text
//!   auth file ─► AuthRules ─► snapshot ◄─ reloaded when the file changes
//!                                │
//!   token, certificate, user of a proxy ─► Authenticator ─► Grant: principal, checked again while a connection lives
//!                                │
//!                                └─► AuthRefusal: reason, and a delay that grows with the failures of an address
//! ```
//! The file lists tokens by their SHA-256, subjects of client certificates, and groups of users that a reverse proxy
//! authenticates. All nodes of a cluster have the same file; they do not coordinate. A version of the file that is not valid
//! changes nothing: the last valid one stays in use, and the status, a metric and the log report that.
//!
//! A token has 256 random bits, so one SHA-256 suffices, and guessing is not feasible. Digests are compared in constant time.
//! Failed attempts are nevertheless slowed per address, so that a flood costs little; a valid credential is never slowed.
//!
//! No secret appears in the debug form of a type, in an error, or in a log line. Tokens are [`SecretText`]s.
//!
//! This crate reads no socket. The listeners take the credential out of their protocol; [`token_of_authorization`] and
//! [`token_of_cookie`] read headers of HTTP.
//!
//! ```
//! use bucksaw_auth::{AuthRules, TokenDigest, new_token};
//! let token = new_token([7; 32]);
//! let file = format!("[[token]]\nname = \"web\"\nsha256 = \"{}\"\nscopes = [\"ingest\"]\n", TokenDigest::of(token.expose()));
//! assert_eq!(AuthRules::parse(&file).unwrap().credentials(), 1);
//! ```
#![deny(clippy::indexing_slicing)]

mod access_scope;
mod access_token;
mod auth_file;
mod auth_file_error;
mod auth_rules;
mod auth_state;
mod authenticator;
mod client_access;
mod client_usage;
mod failed_attempts;
mod grant;
mod header_credentials;
mod metrics;
mod oidc_settings;
mod presented;
mod principal;
mod refusal;
mod secret_text;

pub use access_scope::{AccessScope, AccessScopes};
pub use access_token::{TokenDigest, new_token};
pub use auth_file_error::{AuthFileError, FILE_BYTES_MAX};
pub use auth_rules::AuthRules;
pub use authenticator::{AuthStatus, Authenticator};
pub use client_access::ClientAccess;
pub use client_usage::{ClientUsage, QuerySlot};
pub use grant::Grant;
pub use header_credentials::{COOKIE_NAME, InvalidAuthorization, token_of_authorization, token_of_cookie};
pub use metrics::Metrics;
pub use oidc_settings::OidcSettings;
pub use presented::{CertificateNames, ExternalUser, Presented};
pub use principal::{ClientLimits, Principal, TENANT_LABEL, TenantError};
pub use refusal::{AuthRefusal, AuthRefusalReason};
pub use secret_text::SecretText;

#[cfg(test)]
mod tests;
