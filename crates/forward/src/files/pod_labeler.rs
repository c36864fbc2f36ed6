//! The labels that files of a pod have from the API server.
//!
//! A batch has the labels that are known when it is written to the buffer, and keeps them there. So a batch that is sent again is
//! the same, whatever is known by then; only later batches have later labels.
//!
//! The text of a file whose pod is unknown waits for [`PodLabelConfig::wait`] from the first file of the pod on, because the kubelet
//! and the API server tell of a new pod at different times. Other files do not wait for it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;
use std::time::Duration;

use bucksaw_tailer::FileKey;

use super::config::PodLabelConfig;
use super::file_stream::FileStream;
use super::pod_labels::PodLabels;
use crate::lines::PodRef;
use crate::{Config, PodLabelStatus};

/// The pods whose first file is remembered. Beyond them, those without a file are forgotten.
const SEEN_PODS_MAX: usize = 1_024;

/// Gives streams the labels of their pods.
pub(super) struct PodLabeler {
    config: PodLabelConfig,
    /// The files whose text waits, and until when.
    held: BTreeMap<FileKey, Duration>,
    /// Those of the current step.
    newly_held: Vec<FileKey>,
    /// The generation of the directory at the last release.
    released_generation: u64,
    /// Until when the text of a pod waits.
    deadlines: HashMap<PodRef, Duration>,
    unlabelled_records: u64,
}

impl PodLabeler {
    pub(super) fn new(config: PodLabelConfig) -> Self {
        Self {
            config,
            held: BTreeMap::new(),
            newly_held: Vec::new(),
            released_generation: 0,
            deadlines: HashMap::new(),
            unlabelled_records: 0,
        }
    }

    /// Gives a stream the labels of its pod, if they are known. Returns false if its text has to wait for them.
    pub(super) fn prepare(
        &mut self,
        config: &Config,
        stream: &mut FileStream,
        (key, path): (FileKey, &Path),
        now: Duration,
    ) -> bool {
        let Some(container) = &stream.container else { return true };
        let Some(pod) = &container.pod else { return true };
        let generation = self.config.pods.generation();
        if stream.pod.generation != Some(generation) {
            stream.pod.generation = Some(generation);
            let found = self.config.pods.find(&pod.namespace, &pod.pod, container.pod_uid.as_deref());
            // A pod that is forgotten leaves its labels to what is still read of its files.
            if let Some(found) = found.filter(|found| stream.pod.metadata.as_ref() != Some(found)) {
                let labels = PodLabels::of(&found, &self.config.choice);
                stream.set_labels(config, path, &labels);
                let taken = labels.labels.iter().filter(|(name, _)| stream.labels.get(name).is_some()).count();
                stream.pod.left_out = labels.left_out + (labels.labels.len() - taken) as u64;
                stream.pod.metadata = Some(found);
            }
        }
        if stream.pod.metadata.is_some() {
            return true;
        }
        let deadline = match stream.pod.deadline {
            Some(deadline) => deadline,
            // A rotated file does not make its pod wait again.
            None => *self.deadlines.entry(stream_pod(stream)).or_insert(now + self.config.wait),
        };
        stream.pod.deadline = Some(deadline);
        if now >= deadline {
            return true;
        }
        self.held.insert(key, deadline);
        self.newly_held.push(key);
        false
    }

    /// Counts records of a stream that were written to the buffer.
    pub(super) fn note_written(&mut self, stream: &FileStream, records: u32) {
        let is_of_pod = stream.container.as_ref().is_some_and(|container| container.pod.is_some());
        if is_of_pod && stream.pod.metadata.is_none() {
            self.unlabelled_records += u64::from(records);
        }
    }

    /// The files whose text has waited for long enough, or whose pod may be known now.
    pub(super) fn take_released(&mut self, now: Duration) -> Vec<FileKey> {
        if self.held.is_empty() {
            return Vec::new();
        }
        let generation = self.config.pods.generation();
        let is_all = generation != std::mem::replace(&mut self.released_generation, generation);
        let (released, held) =
            std::mem::take(&mut self.held).into_iter().partition(|(_, deadline)| is_all || *deadline <= now);
        self.held = held;
        let released: BTreeMap<FileKey, Duration> = released;
        released.into_keys().collect()
    }

    /// The files that wait since the last call.
    pub(super) fn take_held(&mut self) -> Vec<FileKey> {
        std::mem::take(&mut self.newly_held)
    }

    /// Forgets what is of no use for these streams, which are all.
    pub(super) fn retain(&mut self, streams: &HashMap<FileKey, FileStream>) {
        self.held.retain(|key, _| streams.contains_key(key));
        if self.deadlines.len() > SEEN_PODS_MAX {
            let used: BTreeSet<PodRef> = streams.values().map(stream_pod).collect();
            self.deadlines.retain(|pod, _| used.contains(pod));
        }
    }

    /// The state at this uptime.
    pub(super) fn status(&self, streams: &HashMap<FileKey, FileStream>, now: Duration) -> PodLabelStatus {
        PodLabelStatus {
            watch: self.config.pods.status(now),
            unlabelled_records: self.unlabelled_records,
            waiting_files: self.held.len() as u64,
            left_out_labels: streams.values().map(|stream| stream.pod.left_out).sum(),
        }
    }
}

/// The pod of a stream, with its id as a part of the name, so that a pod is another one than its predecessor of the same name.
fn stream_pod(stream: &FileStream) -> PodRef {
    let container = stream.container.as_ref();
    let pod = container.and_then(|container| container.pod.clone());
    let PodRef { namespace, pod } = pod.unwrap_or(PodRef { namespace: String::new(), pod: String::new() });
    let uid = container.and_then(|container| container.pod_uid.as_deref()).unwrap_or_default();
    PodRef { namespace, pod: format!("{pod}_{uid}") }
}

#[cfg(test)]
mod tests;
