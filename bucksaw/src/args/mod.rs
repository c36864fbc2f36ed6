//! What each of the larger commands can be told, as typed by the user and parsed; the small ones keep their own.
//!
//! The names are a public door: `tests/golden` and `docs/config.md` show every change of them. A doc comment here is the
//! help text of its flag: the first paragraph for `-h`, all of it for `--help`.

mod forward;
mod search;
mod serve;
mod verify;

pub(crate) use forward::{ForwardArgs, ForwardDurability};
pub(crate) use search::{FilterArgs, OutputFormat, QueryArgs, TailArgs};
pub(crate) use serve::{Role, ServeArgs, StoreCodec};
pub(crate) use verify::VerifyArgs;
