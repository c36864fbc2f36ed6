//! Answers of an API server: any pieces of a watch give the events of the whole stream, in bounded memory; lists are read or refused.
#![no_main]
use bucksaw_kubernetes::{CacheLimits, WatchLines, PodCache, PodPage, WatchEvent};
use libfuzzer_sys::fuzz_target;
use std::time::Duration;

const LINE_BYTES_MAX: usize = 500;
const PODS_MAX: usize = 4;

fuzz_target!(|data: &[u8]| {
    let size = usize::from(data.first().copied().unwrap_or_default()) + 1;
    let (whole, parts) = (events(&[data]), events(&data.chunks(size).collect::<Vec<_>>()));
    assert_eq!(whole, parts);
    let mut cache = PodCache::new(CacheLimits { pods_max: PODS_MAX, ..CacheLimits::default() });
    for (second, event) in (0..).zip(whole) {
        let now = Duration::from_secs(second * 60);
        match event {
            Some(WatchEvent::Applied { pod, .. }) => {
                let (namespace, name, uid) = (pod.namespace.clone(), pod.name.clone(), pod.uid.clone());
                assert!(pod.labels.len() <= 256);
                let (has_changed, before) = (cache.apply(pod.clone()), cache.refused());
                let found = cache.find(&namespace, &name, Some(&uid));
                assert!(found.is_some() || !has_changed && before > 0);
            }
            Some(WatchEvent::Deleted { pod, .. }) => drop(cache.delete(pod, now)),
            _ => cache.expire(now),
        }
        let (live, deleted) = cache.count();
        assert!(live + deleted <= PODS_MAX as u64);
    }
    if let Ok(page) = PodPage::decode(data) {
        let count = page.pods.len();
        cache.replace(page.pods, Duration::from_secs(1_000_000));
        assert!(cache.count().0 <= count as u64);
    }
});

/// The events of a stream in these parts; `None` for what is none.
fn events(parts: &[&[u8]]) -> Vec<Option<WatchEvent>> {
    let (mut lines, mut events) = (WatchLines::new(LINE_BYTES_MAX), Vec::new());
    for part in parts {
        lines.push(part, &mut |line| events.push(WatchEvent::decode(line).ok()));
        assert!(lines.held_bytes() <= 2 * LINE_BYTES_MAX.max(64 << 10));
    }
    events
}
