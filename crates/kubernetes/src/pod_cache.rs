//! The pods that are known. Pure: time is given.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::PodMetadata;

/// Limits of a [`PodCache`].
#[derive(Clone, Copy, Debug)]
pub struct CacheLimits {
    /// The most pods, deleted ones included. A node of Kubernetes has at most some hundred.
    pub pods_max: usize,
    /// How long a deleted pod is kept: its log is read to its end afterwards.
    pub keep_deleted: Duration,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { pods_max: 1_024, keep_deleted: Duration::from_secs(600) }
    }
}

/// The pods of a node, and those that were deleted a moment ago.
#[derive(Debug, Default)]
pub struct PodCache {
    limits: CacheLimits,
    /// By namespace and name. Pods that follow each other may have one name, as those of a StatefulSet.
    pods: HashMap<(String, String), Vec<CachedPod>>,
    /// Grows with each new pod.
    next_order: u64,
    refused: u64,
}

#[derive(Debug)]
struct CachedPod {
    pod: Arc<PodMetadata>,
    /// When it was deleted, as uptime.
    deleted: Option<Duration>,
    order: u64,
}

impl PodCache {
    /// An empty cache.
    pub fn new(limits: CacheLimits) -> Self {
        Self { limits, ..Self::default() }
    }

    /// Adds or changes a pod. Returns whether anything is known now that was not before.
    pub fn apply(&mut self, pod: PodMetadata) -> bool {
        self.put(pod, None)
    }

    /// Marks a pod as deleted, with its last state. Returns whether anything is known now that was not before.
    pub fn delete(&mut self, pod: PodMetadata, now: Duration) -> bool {
        self.put(pod, Some(now))
    }

    /// Replaces all pods by those of a list; the others are deleted. Returns whether anything is known now that was not before.
    pub fn replace(&mut self, pods: Vec<PodMetadata>, now: Duration) -> bool {
        let listed: HashSet<&str> = pods.iter().map(|pod| pod.uid.as_str()).collect();
        for known in self.pods.values_mut().flatten() {
            if known.deleted.is_none() && !listed.contains(known.pod.uid.as_str()) {
                known.deleted = Some(now);
            }
        }
        drop(listed);
        self.expire(now);
        pods.into_iter().fold(false, |has_changed, pod| self.apply(pod) | has_changed)
    }

    /// Forgets the pods that were deleted long ago.
    pub fn expire(&mut self, now: Duration) {
        let keep = self.limits.keep_deleted;
        self.retain(|pod| pod.deleted.is_none_or(|deleted| now.saturating_sub(deleted) < keep));
    }

    /// The pod of a namespace and a name: with `uid` only that one, which may be the id of a static pod's files. Otherwise the
    /// newest one that is not deleted, or else the one that was deleted last.
    pub fn find(&self, namespace: &str, name: &str, uid: Option<&str>) -> Option<Arc<PodMetadata>> {
        let key = (namespace.to_owned(), name.to_owned());
        let named = self.pods.get(&key)?.iter().filter(|known| uid.is_none_or(|uid| known.pod.has_uid(uid)));
        let found = named.max_by_key(|known| (known.deleted.is_none(), known.deleted, known.order))?;
        Some(Arc::clone(&found.pod))
    }

    /// The number of pods that are not deleted, and of those that are.
    pub fn count(&self) -> (u64, u64) {
        let deleted = self.pods.values().flatten().filter(|known| known.deleted.is_some()).count() as u64;
        (self.len() as u64 - deleted, deleted)
    }

    /// How often a pod was left out because there were too many.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    fn put(&mut self, pod: PodMetadata, deleted: Option<Duration>) -> bool {
        let key = (pod.namespace.clone(), pod.name.clone());
        let known = self.pods.get_mut(&key).and_then(|named| named.iter_mut().find(|known| known.pod.uid == pod.uid));
        if let Some(known) = known {
            known.deleted = deleted;
            let has_changed = *known.pod != pod;
            if has_changed {
                known.pod = Arc::new(pod);
            }
            return has_changed;
        }
        if self.len() >= self.limits.pods_max && !self.forget_oldest() {
            self.refused += 1;
            return false;
        }
        let order = self.next_order;
        self.next_order += 1;
        self.pods.entry(key).or_default().push(CachedPod { pod: Arc::new(pod), deleted, order });
        true
    }

    /// Makes room for a pod; returns false if no pod is deleted.
    fn forget_oldest(&mut self) -> bool {
        let deleted = self.pods.values().flatten().filter_map(|known| Some((known.deleted?, known.order)));
        let Some((_, oldest)) = deleted.min() else { return false };
        self.retain(|known| known.order != oldest);
        true
    }

    fn retain(&mut self, mut is_kept: impl FnMut(&CachedPod) -> bool) {
        self.pods.retain(|_, named| {
            named.retain(&mut is_kept);
            !named.is_empty()
        });
    }

    fn len(&self) -> usize {
        self.pods.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    fn pod(name: &str, uid: &str, version: &str) -> PodMetadata {
        PodMetadata {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            uid: uid.to_owned(),
            labels: vec![("v".to_owned(), version.to_owned())],
            ..PodMetadata::default()
        }
    }

    /// The uid and the label `v` of what is found.
    fn find(cache: &PodCache, name: &str, uid: Option<&str>) -> Option<(String, String)> {
        let found = cache.find("n", name, uid)?;
        Some((found.uid.clone(), found.label("v").unwrap().to_owned()))
    }

    fn of(uid: &str, version: &str) -> Option<(String, String)> {
        Some((uid.to_owned(), version.to_owned()))
    }

    #[test]
    fn a_change_is_one_of_what_is_kept() {
        let mut cache = PodCache::default();
        assert!(cache.apply(pod("a", "1", "x")));
        assert!(!cache.apply(pod("a", "1", "x")));
        assert!(cache.apply(pod("a", "1", "y")));
        assert!(!cache.delete(pod("a", "1", "y"), MINUTE));
        assert!(!cache.apply(pod("a", "1", "y")));
        assert!(cache.replace(vec![pod("a", "1", "z")], MINUTE) && !cache.replace(vec![], MINUTE));
        assert_eq!((cache.count(), find(&cache, "a", Some("1"))), ((0, 1), of("1", "z")));
        assert_eq!(cache.find("m", "a", Some("1")), None);
    }

    #[test]
    fn deleted_pods_are_kept_for_a_while() {
        let mut cache = PodCache::default();
        cache.apply(pod("db-0", "1", "x"));
        cache.delete(pod("db-0", "1", "last"), MINUTE);
        cache.apply(pod("db-0", "2", "x"));
        assert_eq!(find(&cache, "db-0", Some("1")), of("1", "last"));
        assert_eq!((find(&cache, "db-0", Some("3")), find(&cache, "db-0", None)), (None, of("2", "x")));
        cache.delete(pod("db-0", "2", "x"), 2 * MINUTE);
        assert_eq!(find(&cache, "db-0", None), of("2", "x"));
        cache.expire(11 * MINUTE);
        assert_eq!((find(&cache, "db-0", Some("1")), cache.count()), (None, (0, 1)));
        cache.expire(12 * MINUTE);
        assert_eq!((cache.count(), cache.pods.len()), ((0, 0), 0));
    }

    #[test]
    fn a_static_pod_is_found_by_the_id_of_its_files() {
        let mut cache = PodCache::default();
        for uid in ["1", "2"] {
            let mirror = PodMetadata { static_uid: Some("hash".to_owned()), ..pod("etcd-node", uid, uid) };
            cache.apply(mirror);
        }
        assert_eq!(find(&cache, "etcd-node", Some("hash")), of("2", "2"));
        assert_eq!(find(&cache, "etcd-node", Some("1")), of("1", "1"));
    }

    #[test]
    fn the_number_of_pods_is_limited() {
        let mut cache = PodCache::new(CacheLimits { pods_max: 3, ..CacheLimits::default() });
        for uid in ["1", "2", "3"] {
            cache.apply(pod(uid, uid, "x"));
        }
        assert!(!cache.apply(pod("4", "4", "x")));
        cache.delete(pod("2", "2", "x"), 2 * MINUTE);
        cache.delete(pod("3", "3", "x"), MINUTE);
        assert!(cache.apply(pod("4", "4", "x")));
        assert_eq!((find(&cache, "3", None), find(&cache, "2", None)), (None, of("2", "x")));
        assert_eq!((cache.count(), cache.refused()), ((2, 1), 1));
    }

    #[derive(Clone, Debug)]
    enum PodStep {
        Apply(u8, u8, u8),
        Delete(u8, u8, u8),
        Replace(Vec<(u8, u8, u8)>),
        Wait(u64),
    }

    fn step() -> impl Strategy<Value = PodStep> {
        let of = || (0_u8..3, 0_u8..3, 0_u8..2);
        prop_oneof![
            of().prop_map(|(name, uid, version)| PodStep::Apply(name, uid, version)),
            of().prop_map(|(name, uid, version)| PodStep::Delete(name, uid, version)),
            proptest::collection::vec(of(), 0..4).prop_map(PodStep::Replace),
            (0_u64..8).prop_map(PodStep::Wait),
        ]
    }

    /// Every pod that ever was, in the order of arrival, with its name, uid, label and the minute of its deletion.
    #[derive(Default)]
    struct NaivePods(Vec<(String, String, String, Option<u64>)>);

    impl NaivePods {
        fn put(&mut self, name: &str, uid: &str, version: &str, deleted: Option<u64>) {
            let known = self.0.iter_mut().find(|(other_name, other, _, _)| other_name == name && other == uid);
            match known {
                Some(known) => (known.2, known.3) = (version.to_owned(), deleted),
                None => self.0.push((name.to_owned(), uid.to_owned(), version.to_owned(), deleted)),
            }
        }

        fn find(&self, name: &str, uid: Option<&str>) -> Option<(String, String)> {
            let named = || self.0.iter().filter(|pod| pod.0 == name && uid.is_none_or(|uid| pod.1 == uid));
            let alive = named().rfind(|pod| pod.3.is_none());
            let last = named().max_by_key(|pod| pod.3);
            alive.or(last).map(|pod| (pod.1.clone(), pod.2.clone()))
        }
    }

    proptest! {
        #[test]
        fn events_have_the_effect_that_a_naive_list_shows(steps in proptest::collection::vec(step(), 0..40)) {
            let (mut cache, mut naive, mut minute) = (PodCache::default(), NaivePods::default(), 0_u64);
            let name = |number: u8| format!("pod-{number}");
            // An id belongs to one name.
            let uid = |name: u8, number: u8| format!("{name}-{number}");
            for step in steps {
                let now = MINUTE * minute as u32;
                match step {
                    PodStep::Apply(n, u, v) => {
                        cache.apply(pod(&name(n), &uid(n, u), &v.to_string()));
                        naive.put(&name(n), &uid(n, u), &v.to_string(), None);
                    }
                    PodStep::Delete(n, u, v) => {
                        cache.delete(pod(&name(n), &uid(n, u), &v.to_string()), now);
                        naive.put(&name(n), &uid(n, u), &v.to_string(), Some(minute));
                    }
                    PodStep::Replace(list) => {
                        cache.replace(list.iter().map(|(n, u, v)| pod(&name(*n), &uid(*n, *u), &v.to_string())).collect(), now);
                        for known in &mut naive.0 {
                            let is_listed = list.iter().any(|(n, u, _)| uid(*n, *u) == known.1);
                            known.3 = if is_listed { known.3 } else { known.3.or(Some(minute)) };
                        }
                        // As the cache does before it adds.
                        naive.0.retain(|known| known.3.is_none_or(|deleted| minute - deleted < 10));
                        list.iter().for_each(|(n, u, v)| naive.put(&name(*n), &uid(*n, *u), &v.to_string(), None));
                    }
                    PodStep::Wait(minutes) => {
                        minute += minutes;
                        cache.expire(MINUTE * minute as u32);
                        naive.0.retain(|known| known.3.is_none_or(|deleted| minute - deleted < 10));
                    }
                }
                for n in 0..3 {
                    prop_assert_eq!(find(&cache, &name(n), None), naive.find(&name(n), None));
                    for u in 0..3 {
                        let uid = uid(n, u);
                        prop_assert_eq!(find(&cache, &name(n), Some(&uid)), naive.find(&name(n), Some(&uid)));
                    }
                }
                let deleted = naive.0.iter().filter(|known| known.3.is_some()).count() as u64;
                prop_assert_eq!(cache.count(), (naive.0.len() as u64 - deleted, deleted));
            }
        }
    }
}
