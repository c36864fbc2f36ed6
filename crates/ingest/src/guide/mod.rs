//! What clients hear at the door: come in, others have less to do, or go there.
//!
//! Whoever knows the other nodes advises once in a while ([`Guide::advise`]); the listeners ask here, for each client, and
//! never wait for it. Nobody is sent away who cannot be told where else to go: the advice counts for nothing while no node
//! with less to do has the same kind of port.
//!
//! | level | newcomers of the framed protocol | connected ones | lines over TCP | HTTP |
//! | --- | --- | --- | --- | --- |
//! | 0 at ease | | others are suggested to some | | others are named to some |
//! | 1 busy | others are suggested | others are suggested to some | | others are named to some |
//! | 2 very busy | refused, told of others | others are suggested to some | | others are named |
//! | 3 overloaded | refused, told of others | some are let go, told of others | new ones are closed | refused, others are named |
//!
//! Where it says "refused", "let go" and "closed", the node must be one of those that may: see [`Advice::refuses`].
//! A node that may not suggests.
//!
//! To "some" it is said within what is offered ([`Guide::offer`]): so many bytes a second may go, and no more, until it is
//! offered again. Each client that is there asks now and then whether it is its turn ([`Guide::turn`]) and says what it
//! brings, so those go whose going helps, and an offer is used up by few that bring much or by many that bring little.

mod advice;
mod guest;
mod purse;

pub use advice::{Advice, Other};
pub use guest::Guest;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use bucksaw_doors::Entropy;

use crate::append::Durability;
use crate::metrics::{ByHow, Metrics};
use advice::drawn;
use purse::Purse;

/// Clients of HTTP are not known apart, nor what each brings: they count as so many, which bring all that the node takes
/// in. So of the many answers to a few clients no more than some name others while an offer stands.
const HTTP_CLIENTS: u64 = 16;

/// A client that brings less than one in so many parts of what clients bring on the average is let be: its going would be
/// no help.
const SMALL: u64 = 4;

/// A kind of port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Port {
    /// HTTP.
    Http,
    /// Lines and frames.
    Tcp(Durability),
}

/// What is said to a client that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    /// Nothing.
    Welcome,
    /// Others, of these addresses, have less to do; it may stay.
    Suggested(Vec<String>),
    /// It may not stay; these have less to do.
    Refused(Vec<String>),
}

/// What became of a client that was told of others, for the metrics.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// It was told, and may stay.
    Suggested,
    /// It had just come, and may not stay.
    Refused,
    /// It was there, and has to go.
    LetGo,
}

impl How {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Suggested, Self::Refused, Self::LetGo];

    /// The word for it in metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Suggested => "suggested",
            Self::Refused => "refused",
            Self::LetGo => "let_go",
        }
    }
}

/// See the module. Shared by all listeners of a node.
pub struct Guide {
    advice: Mutex<Arc<Advice>>,
    connections: AtomicU64,
    movable: AtomicU64,
    /// What may go of the clients of the framed protocol, and of HTTP.
    framed: Purse,
    http: Purse,
    metrics: Metrics,
}

/// Counts a client for as long as it is connected.
#[derive(Debug)]
pub struct Connected<'a>(&'a AtomicU64);

impl Drop for Connected<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Guide {
    pub(crate) fn new(metrics: Metrics) -> Self {
        let (zero, purse) = (AtomicU64::default, Purse::default);
        let (advice, framed, http) = (Mutex::default(), purse(), purse());
        Self { advice, connections: zero(), movable: zero(), framed, http, metrics }
    }

    /// Counts a TCP connection.
    pub fn connected(&self) -> Connected<'_> {
        self.connections.fetch_add(1, Ordering::Relaxed);
        Connected(&self.connections)
    }

    /// Counts, besides, one whose client can be told where else to go.
    pub fn movable(&self) -> Connected<'_> {
        self.movable.fetch_add(1, Ordering::Relaxed);
        Connected(&self.movable)
    }

    /// TCP connections that are open.
    #[must_use]
    pub fn connections(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    /// How many of them can be told where else to go.
    #[must_use]
    pub fn connections_movable(&self) -> u64 {
        self.movable.load(Ordering::Relaxed)
    }

    /// From now on this is said to clients.
    pub fn advise(&self, advice: Advice) {
        self.metrics.load_level.set(i64::from(advice.level));
        self.metrics.refusing.set(i64::from(advice.refuses && advice.level >= 2));
        *self.advice.lock().unwrap_or_else(PoisonError::into_inner) = Arc::new(advice);
    }

    /// Clients that bring so many bytes a second, all together, are told of others, from now until the next offer; as many
    /// again of HTTP. What was offered before and not used is taken back.
    pub fn offer(&self, bytes_per_second: u64) {
        self.framed.fill(bytes_per_second);
        self.http.fill(bytes_per_second);
    }

    /// Whether what was offered last is used up, and yet nobody went.
    #[must_use]
    pub fn offered_in_vain(&self) -> bool {
        self.framed.was_in_vain()
    }

    /// What was advised last.
    #[must_use]
    pub fn advice(&self) -> Arc<Advice> {
        Arc::clone(&self.advice.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// What a newcomer is told, if it can be told anything.
    #[must_use]
    pub fn greeting(&self, port: Port, entropy: &dyn Entropy) -> Greeting {
        let advice = self.advice();
        let others = drawn(advice.less_busy(port), port, entropy);
        match advice.level {
            _ if others.is_empty() => Greeting::Welcome,
            2.. if advice.refuses => Greeting::Refused(others),
            1.. => Greeting::Suggested(others),
            0 => Greeting::Welcome,
        }
    }

    /// Whether those are refused, too, that cannot be told of others.
    #[must_use]
    pub fn shuts(&self, port: Port) -> bool {
        let advice = self.advice();
        advice.lets_go() && advice.less_busy(port).next().is_some()
    }

    /// Whether connected clients are let go, and not only told of others.
    #[must_use]
    pub fn lets_go(&self) -> bool {
        self.advice().lets_go()
    }

    /// What a client that is there is told when it is its turn: it may stay, or has to go. `brings` is what comes from it, in
    /// bytes a second; `None` when nobody knows.
    #[must_use]
    pub fn turn(&self, port: Port, brings: Option<u64>, entropy: &dyn Entropy) -> Option<(How, Vec<String>)> {
        let (purse, clients) = match port {
            Port::Http => (&self.http, HTTP_CLIENTS),
            Port::Tcp(_) => (&self.framed, self.connections_movable()),
        };
        if purse.is_empty() {
            return None;
        }
        let advice = self.advice();
        let share = advice.bytes_per_second / clients.max(1);
        let brings = brings.unwrap_or(share);
        let (how, others) = if advice.lets_go() {
            (How::LetGo, drawn(advice.less_busy(port), port, entropy))
        } else if brings.saturating_mul(SMALL) < share {
            return None;
        } else {
            (How::Suggested, drawn(advice.better_for(brings, port), port, entropy))
        };
        // A client costs what it brings, and no less than the others do, so that never many go at once.
        let goes = !others.is_empty() && purse.spend(brings.max(share).max(1), entropy);
        goes.then_some((how, others))
    }

    /// Those that are less busy, of which an answer of HTTP may tell whoever asks.
    #[must_use]
    pub fn named(&self, port: Port, entropy: &dyn Entropy) -> Vec<String> {
        drawn(self.advice().less_busy(port), port, entropy)
    }

    /// Where clients may go when this node stops, however busy it is; may be nowhere.
    #[must_use]
    pub fn heirs(&self, port: Port, entropy: &dyn Entropy) -> Vec<String> {
        let advice = self.advice();
        let having = || advice.others.iter().filter(|other| other.address(port).is_some());
        let least = having().map(|other| other.level).min();
        drawn(having().filter(|other| Some(other.level) == least), port, entropy)
    }

    /// Counts a client that was told of others.
    pub fn count(&self, how: How) {
        self.metrics.sent_elsewhere.get_or_create(&ByHow { how: how.name() }).inc();
    }
}

impl std::fmt::Debug for Guide {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Guide").field("advice", &self.advice()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
