//! Follows log files and delivers each line once, through rotation, truncation, compression, deletion and restarts.
//!
//! A [`Tailer`] is a synchronous state machine over [`bucksaw_env::Fs`]: it waits for nothing and starts no thread.
//! `docs/tailing.md` has the rules by which it recognises files. [`Tailer::scan`] finds files, [`Tailer::read`] delivers their
//! bytes as [`FileChunk`]s. The sink consumes a part and persists [`FileChunk::position_after`] together with it. After a
//! restart [`Tailer::new`] resumes at these positions.
//!
//! ```text
//!  new file ──────────────► Following ◄──────── found under its path
//!                            │   │  │                     ▲
//!        its path leads      │   │  │ its bytes changed   │
//!        to another file     │   │  └──────► Replaced     │
//!            ▼               │   │ no name      │         │
//!         Renamed ───────────┼─► Deleted        │ copy?   │
//!            │ no growth     │      │ no growth │         │
//!            ▼               │      ▼           ▼         │
//!         Finished ◄─────────┼──── (end)       Rest ──► Finished
//!            │ gone          │ gone, not open   ▲
//!            ▼               ▼                  │ copy or compressed form
//!          Lost ◄──────── (search by number, then by contents) ◄── position after a restart
//!            │ two scans without success
//!            ▼
//!          Ending: a gap; the bytes in memory are the end of the file
//! ```
//!
//! - A file is *active* while it grows, and *idle* afterwards: only a scan inspects it, with one `stat`.
//! - Unconsumed bytes of a file stay in memory, within a limit for all files; beyond it they are read again.
//! - A file that follows another one (`predecessor`) has no turn until that one was read as far as it was when it was rotated.
//!
//! ```
//! use bucksaw_env::{Env, sim};
//! use bucksaw_tailer::{PathPattern, Tailer, TailerConfig};
//! use std::sync::Arc;
//!
//! let fs = sim::Fs::new();
//! fs.append_to("/app.log", b"one\ntwo")?;
//! let clock = Arc::new(sim::Clock::at_unix_ms(1_000));
//! let env = Env { fs: Arc::new(fs), clock, entropy: Arc::new(sim::Entropy::seeded(1)) };
//! let config = TailerConfig { patterns: vec![PathPattern::parse("/*.log")?], ..TailerConfig::default() };
//!
//! let mut tailer = Tailer::new(config, &env, Vec::new(), true);
//! tailer.scan();
//! tailer.read(&mut |chunk| {
//!     assert_eq!(chunk.text, b"one\ntwo");
//!     Ok(4)
//! })?;
//! assert_eq!(tailer.positions().next().map(|position| position.offset), Some(4));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod arrivals;
mod chunk;
mod config;
mod content;
mod file_status;
mod fingerprint;
mod gaps;
mod growth;
mod pattern;
mod position;
mod rotation_name;
mod scan;
mod search;
mod tailed_file;
mod tailer;
#[cfg(test)]
mod tests;
mod turn;
mod unpacker;

pub use chunk::FileChunk;
pub use config::{ReadFrom, TailerConfig};
pub use file_status::{FileState, FileStatus};
pub use fingerprint::{ANCHOR_BYTES_MAX, Anchor, FINGERPRINT_BYTES_MAX, Fingerprint};
pub use gaps::{Gap, GapReason, TailerCounters};
pub use pattern::{PathPattern, PatternError};
pub use position::{FileKey, FilePosition, PositionError};
pub use tailer::{ReadReport, Tailer};
