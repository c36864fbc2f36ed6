//! Users of an identity provider that speaks OpenID Connect.
//!
//! ```text
//!   browser ─► begin ─► page of the provider ─► code ─► finish: code + verifier ─► ID token, the cookie of the page
//!   request with an ID token ─► verify: signature by a key of the provider, issuer, audience, times ─► user and groups
//! ```
//! A node keeps no sessions. The ID token itself is the credential, signed by the provider, so every node of a cluster can
//! check it, and it ends with the time that the provider gave it. What a user may do follows from the groups in the token, by
//! the auth file.
//!
//! Sources: OpenID Connect Core 1.0 (sections 2, 3.1.2, 3.1.3.7) and Discovery 1.0 (section 4); OAuth 2.0 with PKCE (RFC 6749,
//! RFC 7636); JWT and its best practices (RFC 7519, RFC 8725). Signatures are checked by `jsonwebtoken`.
//!
//! Invariant: only asymmetric algorithms are accepted, and only with a key that the provider publishes for signatures. A token
//! cannot choose how it is checked.
#![deny(clippy::indexing_slicing)]
#![allow(clippy::disallowed_methods, reason = "calls a real provider over real sockets, in real time")]

mod fetch;
mod fuzz;
mod id_token;
mod key_set;
mod login;
mod metadata;
mod provider;
mod ring_verifier;

pub use fetch::DocumentError;
pub use id_token::TokenFault;
pub use login::{LoginFault, PendingLogin};
pub use provider::{IdentityProvider, LoggedIn, LoginStart, OidcError};

/// Whether a token has the form of an ID token, and not that of `bucksaw token`.
#[must_use]
pub fn is_id_token(token: &str) -> bool {
    token.starts_with("ey") && token.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// Reads `data` as everything that a provider or a client sends, for fuzzing.
#[doc(hidden)]
pub fn fuzz_input(data: &[u8]) {
    fuzz::input(data);
}
