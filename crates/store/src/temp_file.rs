//! Temporary files: drafts of segments, and fetched queue segments.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bucksaw_env::{Env, File, LogRateLimiter};
use bucksaw_record::{Id, Millis, Producer};
use tracing::warn;

/// A new file `<id>.tmp`. Dropping this removes the file, unless it was renamed. The store removes files with such names when
/// it is opened.
#[derive(Debug)]
pub(crate) struct TempFile {
    env: Env,
    pub(crate) id: Id,
    pub(crate) path: PathBuf,
    pub(crate) file: Arc<dyn File>,
}

impl TempFile {
    pub(crate) fn create(env: &Env, dir: &Path) -> io::Result<Self> {
        let id = new_id(env);
        let path = dir.join(format!("{id}.tmp"));
        let file = env.fs.create(&path)?;
        Ok(Self { env: env.clone(), id, path, file })
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        remove_file(&self.env, &self.path);
    }
}

pub(crate) fn new_id(env: &Env) -> Id {
    Id::new(Millis(env.clock.unix_ms()), Producer::random(env.entropy.next_u64()), 0)
}

/// Removes a file that may be missing. A failure is logged.
pub(crate) fn remove_file(env: &Env, path: &Path) {
    static LOG_LIMIT: LogRateLimiter = LogRateLimiter::new();
    if let Err(error) = env.fs.remove(path)
        && error.kind() != io::ErrorKind::NotFound
        && let Some(suppressed) = LOG_LIMIT.check(env.clock.uptime())
    {
        warn!(path = %path.display(), %error, suppressed, "cannot remove a file that is not needed");
    }
}
