//! The known pods, shared between the task that watches them and those who ask for them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_env::lock;

use crate::{CacheLimits, PodCache, PodMetadata};

/// The known pods. Cheap to clone; all clones are one directory.
#[derive(Clone, Debug, Default)]
pub struct PodDirectory(Arc<SharedPods>);

#[derive(Debug, Default)]
struct SharedPods {
    cache: Mutex<PodCache>,
    /// Grows when something is known that was not before.
    generation: AtomicU64,
    watch: Mutex<WatchState>,
}

/// The state of the connection to the API server.
#[derive(Clone, Debug, Default)]
pub(crate) struct WatchState {
    pub(crate) is_synced: bool,
    /// When the last list, event or bookmark arrived, as uptime.
    pub(crate) last_event: Option<Duration>,
    pub(crate) connections: u64,
    pub(crate) unreadable_events: u64,
    /// Why the pods are not watched.
    pub(crate) error: Option<String>,
}

/// The state of a watch of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KubernetesStatus {
    /// Whether the pods were listed, and their changes arrive.
    pub is_synced: bool,
    /// The known pods that are not deleted.
    pub pods: u64,
    /// Those that were deleted in the last ten minutes.
    pub deleted_pods: u64,
    /// How often a pod was left out because there were too many.
    pub refused_pods: u64,
    /// How long ago the last list, event or bookmark arrived; `None` if none ever did.
    pub last_event_age: Option<Duration>,
    /// How often the agent has connected again. A server ends each watch after some minutes.
    pub reconnects: u64,
    /// Events and listed objects that are too long or no pods.
    pub unreadable_events: u64,
    /// Why the pods are not watched.
    pub error: Option<String>,
}

impl PodDirectory {
    /// An empty directory.
    pub fn new(limits: CacheLimits) -> Self {
        Self(Arc::new(SharedPods { cache: Mutex::new(PodCache::new(limits)), ..SharedPods::default() }))
    }

    /// Grows when a pod becomes known or changes. Cheap, so that it can be asked before each batch.
    pub fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    /// A known pod, as [`PodCache::find`] finds it.
    pub fn find(&self, namespace: &str, name: &str, uid: Option<&str>) -> Option<Arc<PodMetadata>> {
        lock(&self.0.cache).find(namespace, name, uid)
    }

    /// Adds or changes a pod.
    pub fn apply(&self, pod: PodMetadata) {
        self.change(|cache| cache.apply(pod));
    }

    /// The state at this uptime.
    pub fn status(&self, now: Duration) -> KubernetesStatus {
        let ((pods, deleted_pods), refused_pods) = {
            let cache = lock(&self.0.cache);
            (cache.count(), cache.refused())
        };
        let watch = lock(&self.0.watch).clone();
        KubernetesStatus {
            is_synced: watch.is_synced,
            pods,
            deleted_pods,
            refused_pods,
            last_event_age: watch.last_event.map(|last| now.saturating_sub(last)),
            reconnects: watch.connections.saturating_sub(1),
            unreadable_events: watch.unreadable_events,
            error: watch.error,
        }
    }

    /// Changes the cache; the change returns whether anything is known that was not before.
    pub(crate) fn change(&self, change: impl FnOnce(&mut PodCache) -> bool) {
        let has_changed = change(&mut lock(&self.0.cache));
        if has_changed {
            self.0.generation.fetch_add(1, Ordering::Release);
        }
    }

    pub(crate) fn note(&self, note: impl FnOnce(&mut WatchState)) {
        note(&mut lock(&self.0.watch));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_generation_grows_with_what_is_known() {
        let pods = PodDirectory::default();
        let pod = PodMetadata { namespace: "n".into(), name: "p".into(), uid: "u".into(), ..PodMetadata::default() };
        let mut seen = vec![pods.generation()];
        pods.apply(pod.clone());
        seen.push(pods.generation());
        pods.clone().apply(pod);
        seen.push(pods.generation());
        assert!(seen[0] < seen[1] && seen[1] == seen[2], "{seen:?}");
        assert!(pods.find("n", "p", Some("u")).is_some());
        pods.note(|watch| (watch.connections, watch.last_event) = (3, Some(Duration::from_secs(5))));
        let status = pods.status(Duration::from_secs(7));
        assert_eq!((status.pods, status.reconnects), (1, 2));
        assert_eq!(status.last_event_age, Some(Duration::from_secs(2)));
    }
}
