//! The arguments of `serve`, `query` and `tail`; other commands have theirs beside them.
//!
//! Doc comments of arguments are help texts: the first paragraph for `-h`, all of it for `--help`. `tests/golden` and
//! `docs/config.md` show every change of a name or text.

mod search;
mod serve;

pub(crate) use search::{FilterArgs, OutputFormat, QueryArgs, TailArgs};
pub(crate) use serve::{Role, ServeArgs, StoreCodec};
