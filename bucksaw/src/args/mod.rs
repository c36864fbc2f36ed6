//! Groups of arguments that several commands share, and the arguments of `serve`, `query` and `tail`.
//!
//! Doc comments of arguments are help texts: the first paragraph for `-h`, all of it for `--help`. `tests/golden` and
//! `docs/config.md` show every change of a name or text.

mod client_tls;
mod display;
mod kafka;
mod listener_tls;
mod node;
mod output;
mod pattern;
mod query;
mod serve;
mod summary;
mod tail;
mod token;
mod window;

pub(crate) use client_tls::ClientTlsArgs;
pub(crate) use display::DisplayArgs;
pub(crate) use kafka::{KafkaArgs, KafkaStart, KafkaValueFormat};
pub(crate) use listener_tls::ListenerTlsArgs;
pub(crate) use node::NodeArgs;
pub(crate) use output::{DocumentFormat, OutputFormat};
pub(crate) use pattern::PatternArgs;
pub(crate) use query::QueryArgs;
pub(crate) use serve::{Role, ServeArgs, StoreCodec};
pub(crate) use summary::SummaryArgs;
pub(crate) use tail::TailArgs;
pub(crate) use token::PresentedTokenArgs;
pub(crate) use window::{WindowArgs, time_parameter};
