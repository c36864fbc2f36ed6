//! Encryption of stored segments: under which key each is, and segments whose key the node does not have.
//!
//! Such a *keyless* segment is not damaged. Its file is neither read, moved nor removed, and answers over its time are partial.
//! Once the operator names its key, it is opened without a restart.
//!
//! A segment under another key than the one that writes is rewritten, like one that is compressed quickly; so is a plain one if
//! there is a key. So is the file of an erasure. No client waits for this, so it is no part of the backlog, and comes after all other merges.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bucksaw_env::{FileKeys, KeyId, file_name, lock, log_limited, set_gauge};
use bucksaw_record::Millis;
use bucksaw_segment::stored::Reader;
use bucksaw_segment::{OpenError, ReadError};
use tracing::{error, info};

use crate::encryption_status::{EncryptionStatus, KeyUsage, KeylessSegment};
use crate::segment_store::SegmentStore;
use crate::stored_segment::StoredSegment;

/// The files under one key.
#[derive(Clone, Copy, Default)]
struct KeySums {
    segments: u64,
    erasures: u64,
    bytes: u64,
}

impl SegmentStore {
    fn keys(&self) -> Option<Arc<dyn FileKeys>> {
        self.env.fs.keys()
    }

    /// Segments whose key the node does not have.
    pub(crate) fn keyless_segments(&self) -> Vec<KeylessSegment> {
        lock(&self.keyless).clone()
    }

    /// Keeps a file that cannot be opened without a key.
    pub(crate) fn add_keyless(&self, path: &Path, span: (Millis, Millis), unreadable: &ReadError) {
        let ReadError::MissingKey { key, .. } = unreadable else { return };
        error!(error = %unreadable, "a segment cannot be read without its key: it stays, and answers over its time are partial");
        let bytes = self.env.fs.stat(path).map(|stat| stat.size).unwrap_or_default();
        let (low, high) = span;
        lock(&self.keyless).push(KeylessSegment { name: file_name(path), low, high, key: *key, bytes });
    }

    /// Refuses to open a store of which no encrypted segment can be read: the keys are forgotten, or those of another node.
    pub(crate) fn check_keys(&self, segments: &[Arc<StoredSegment>]) -> Result<(), OpenError> {
        let is_any_readable = segments.iter().any(|segment| segment.reader().key_id().is_some());
        match lock(&self.keyless).first() {
            Some(KeylessSegment { name, key, .. }) if !is_any_readable => {
                let unreadable = ReadError::MissingKey { path: self.dir.join(name), key: *key };
                Err(OpenError::MissingKey { unreadable })
            }
            _ => Ok(()),
        }
    }

    /// Opens segments whose key the operator has named since.
    pub(crate) fn open_keyless(&self) {
        let Some(keys) = self.keys().filter(|_| !lock(&self.keyless).is_empty()) else { return };
        let named = self.keyless_segments().into_iter().filter(|segment| keys.is_named(segment.key));
        for keyless in named {
            let path = self.dir.join(&keyless.name);
            let file = self.env.fs.open(&path).map_err(|source| ReadError::Io { path: path.clone(), source });
            match file.and_then(|file| Reader::open(file, &path)) {
                Ok(reader) => {
                    let segment = StoredSegment::new(reader);
                    self.restore_damage(&segment);
                    self.replace_segments(&[Arc::new(segment)], &[]);
                    // Not earlier: an answer reads this list before that of the segments.
                    lock(&self.keyless).retain(|other| other.name != keyless.name);
                    info!(path = %path.display(), key = %keyless.key, "a segment can be read with its key");
                }
                // It is tried again, and the next start quarantines it if it is damaged.
                Err(error) => {
                    log_limited!(self.log_limits, warn, path = %path.display(), %error, "a segment cannot be read with its key");
                }
            }
        }
        self.update_metrics();
    }

    /// Whether a segment is under another key than a new one would be.
    pub(crate) fn has_old_key(&self, segment: &StoredSegment) -> bool {
        let Some(keys) = self.keys() else { return false };
        keys.writing_key().is_some_and(|key| segment.reader().key_id() != Some(key))
    }

    pub(crate) fn encryption_status(&self) -> EncryptionStatus {
        let (keys, keyless) = (self.keys(), self.keyless_segments());
        let writing = keys.as_ref().and_then(|keys| keys.writing_key());
        let mut sums: BTreeMap<Option<KeyId>, KeySums> = BTreeMap::new();
        let segments = self.segments();
        let readable = segments.iter().map(|segment| (segment.reader().key_id(), segment.file_bytes()));
        for (key, bytes) in readable.chain(keyless.iter().map(|segment| (Some(segment.key), segment.bytes))) {
            let sum = sums.entry(key).or_default();
            (sum.segments, sum.bytes) = (sum.segments + 1, sum.bytes + bytes);
        }
        for (key, bytes) in self.erasures.key_usage() {
            let sum = sums.entry(key).or_default();
            (sum.erasures, sum.bytes) = (sum.erasures + 1, sum.bytes + bytes);
        }
        if writing.is_some() {
            sums.entry(writing).or_default();
        } else if sums.keys().all(Option::is_none) {
            return EncryptionStatus::default();
        }
        let is_named = |key: Option<KeyId>| key.is_none_or(|key| keys.as_ref().is_some_and(|keys| keys.is_named(key)));
        let mut usage: Vec<KeyUsage> = sums
            .into_iter()
            .map(|(key, KeySums { segments, erasures, bytes })| KeyUsage {
                key,
                segments,
                erasures,
                bytes,
                is_writing: key == writing,
                is_named: is_named(key),
            })
            .collect();
        usage.sort_by_key(|usage| (!usage.is_writing, usage.key.is_none()));
        EncryptionStatus { keys: usage, keyless }
    }

    pub(crate) fn update_encryption_metrics(&self, status: &EncryptionStatus) {
        let sum = |is_counted: fn(&KeyUsage) -> bool| {
            status.keys.iter().filter(|usage| is_counted(usage)).map(|usage| usage.bytes).sum::<u64>()
        };
        set_gauge(&self.metrics.keyless_segments, status.keyless.len() as u64);
        set_gauge(&self.metrics.encrypted_bytes, sum(|usage| usage.key.is_some()));
        set_gauge(&self.metrics.rewrite_for_key_bytes, sum(|usage| !usage.is_writing));
    }
}
