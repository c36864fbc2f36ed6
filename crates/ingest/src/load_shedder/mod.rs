//! Decides which clients are accepted, given a redirect suggestion, refused or disconnected.
//!
//! `node::load_control` sets a [`RedirectPolicy`] and a redirect budget periodically. The listeners ask the [`LoadShedder`] for
//! each client and never wait for it. A client is refused only if a less loaded node with the same kind of port can be
//! named.
//!
//! | level | new framed clients | connected framed clients | lines over TCP | HTTP |
//! | --- | --- | --- | --- | --- |
//! | 0 idle | accepted | some: suggestion | accepted | some replies: redirect header |
//! | 1 busy | suggestion | some: suggestion | accepted | some replies: redirect header |
//! | 2 very busy | refused | some: suggestion | accepted | redirect header |
//! | 3 overloaded | refused | some: disconnected | new ones closed | refused with a redirect header |
//!
//! Only a node within the refusal quota refuses, disconnects or closes ([`RedirectPolicy::may_refuse`]); others suggest.
//!
//! "Some" is limited by the redirect budget ([`LoadShedder::set_redirect_budget`]), in bytes per second of client traffic. Each
//! connected client is checked at intervals with its rate ([`LoadShedder::try_redirect`]), so a budget redirects few busy
//! clients or many quiet ones.

mod client_rate;
mod redirect_policy;
mod shedder;
mod token_bucket;

pub use client_rate::ClientRate;
pub use redirect_policy::{ListenerKind, RedirectKind, RedirectPolicy, RedirectTarget};
pub use shedder::{ConnectionGuard, LoadShedder};

#[cfg(test)]
mod tests;
