//! What became of files that changed while a process runs and were read again: certificates, secrets, the auth file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use crate::lock;

/// A changed file that was read again.
#[derive(Clone, Copy, Debug)]
pub struct Reload<'a> {
    /// What the file is, such as `auth file`.
    pub name: &'static str,
    /// Its path.
    pub path: &'a Path,
    /// Why the changed file cannot be used, so that its previous content stays in use; `None` if it is in use.
    pub failure: Option<&'a str>,
}

/// A changed file that is not in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedReload {
    /// What the file is, such as `auth file`.
    pub name: &'static str,
    /// Its path.
    pub path: PathBuf,
    /// Why it cannot be used.
    pub failure: String,
}

/// The reloads of a process: what failed last, for its status, and who observes them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Reloads(Arc<ReloadsState>);

#[derive(Default)]
struct ReloadsState {
    failed: Mutex<BTreeMap<&'static str, FailedReload>>,
    observer: OnceLock<ReloadObserver>,
}

type ReloadObserver = Box<dyn Fn(&Reload<'_>) + Send + Sync>;

impl Reloads {
    /// Has every later reload reported to `observer`. Only the first call has an effect.
    pub fn observe(&self, observer: impl Fn(&Reload<'_>) + Send + Sync + 'static) {
        // A second observer would be a bug of the assembly, and the first one is as good.
        let _ = self.0.observer.set(Box::new(observer));
    }

    /// Notes a reload.
    pub fn report(&self, reload: &Reload<'_>) {
        let Reload { name, path, failure } = *reload;
        match failure {
            Some(failure) => {
                let failed = FailedReload { name, path: path.to_owned(), failure: failure.to_owned() };
                lock(&self.0.failed).insert(name, failed);
            }
            None => drop(lock(&self.0.failed).remove(name)),
        }
        if let Some(observer) = self.0.observer.get() {
            observer(reload);
        }
    }

    /// The changed files that are not in use, by name.
    pub fn failed(&self) -> Vec<FailedReload> {
        lock(&self.0.failed).values().cloned().collect()
    }
}

impl fmt::Debug for Reloads {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Reloads").field("failed", &self.failed()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_reported_until_the_file_is_in_use() {
        let (reloads, seen) = (Reloads::default(), Arc::new(Mutex::new(Vec::new())));
        let path = Path::new("/auth.toml");
        let report = |name, failure| reloads.report(&Reload { name, path, failure });
        report("auth file", Some("not TOML"));
        let observed = Arc::clone(&seen);
        reloads.observe(move |reload| lock(&observed).push((reload.name, reload.failure.map(str::to_owned))));
        report("certificate", Some("expired"));
        report("certificate", Some("no key"));
        let failed = |name, failure: &str| FailedReload { name, path: path.to_owned(), failure: failure.to_owned() };
        assert_eq!(reloads.failed(), [failed("auth file", "not TOML"), failed("certificate", "no key")]);
        report("certificate", None);
        assert_eq!(reloads.failed(), [failed("auth file", "not TOML")]);
        let want = [Some("expired"), Some("no key"), None].map(|failure| ("certificate", failure.map(str::to_owned)));
        assert_eq!(*lock(&seen), want);
    }
}
