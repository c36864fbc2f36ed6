//! Damaged segments: which there are, and for which time answers may lack records because of them.
//!
//! A segment in which a store finds damage is still read as far as it is whole. When its whole frames are stored, or when
//! nothing of it can be read, its file is renamed `damaged` and kept for a person.

use std::path::Path;
use std::sync::Arc;

use bucksaw_record::{Id, Millis};
use bucksaw_segment::queue::Seal;
use tracing::warn;

use crate::append::Refusal;
use crate::queue::{Queue, lock};
use crate::segment::{Segment, State};

/// A file of the queue from which records are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetAside {
    /// The file's name in the queue's directory.
    pub name: String,
    /// The time of the first record that may be missing.
    pub low: Millis,
    /// The time of the last record that may be missing.
    pub high: Millis,
}

impl SetAside {
    /// Without a span, of any time: sources may state times of their own.
    pub(crate) fn new(path: &Path, span: Option<(Millis, Millis)>) -> Self {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let (low, high) = span.unwrap_or((Millis(0), Millis::MAX));
        Self { name, low, high }
    }
}

/// From when to when the records of a sealed file are.
pub(crate) fn span_of(seal: &Seal) -> Option<(Millis, Millis)> {
    (seal.records > 0).then(|| (seal.low.at(), seal.high.at()))
}

impl Queue {
    /// Files from which records are missing: those that are set aside, and those that are still read as far as they are
    /// whole.
    #[must_use]
    pub fn set_aside(&self) -> Vec<SetAside> {
        let mut all = lock(&self.damaged).clone();
        for segment in self.readable() {
            let contents = segment.contents();
            if !contents.damage.is_empty() {
                all.push(SetAside::new(&contents.path, contents.span));
            }
        }
        all
    }

    /// The names of [`Self::set_aside`].
    #[must_use]
    pub fn damaged(&self) -> Vec<String> {
        self.set_aside().into_iter().map(|file| file.name).collect()
    }

    /// Takes a segment whose file was renamed `damaged` out of the list of those that are read.
    pub(crate) fn quarantined(&self, segment: &Segment) {
        let aside = {
            let contents = segment.contents();
            SetAside::new(&contents.path, contents.span)
        };
        lock(&self.damaged).push(aside);
        lock(&self.segments).remove(&segment.id());
    }

    /// Takes a segment whose file cannot be read out of the way: kept, named `damaged`, and told of in answers.
    pub(crate) fn quarantine(&self, segment: &Segment) {
        let done = {
            let mut contents = segment.contents();
            contents.state = State::Committed;
            std::mem::take(&mut contents.on_commit)
        };
        self.rename(segment, "damaged");
        self.quarantined(segment);
        done.into_iter().for_each(|done| done(Err(Refusal::Io("the segment cannot be read back".to_owned()))));
    }

    /// Sets a file aside that was found at the start and of which nothing can be read.
    pub(crate) fn set_file_aside(&self, path: &Path) {
        let aside = path.with_extension("damaged");
        if let Err(error) = self.doors.fs.rename(path, &aside) {
            warn!(path = %path.display(), %error, "cannot rename a damaged queue segment");
        }
        self.note_set_aside(&aside);
    }

    /// Takes note of a file that is named `damaged`.
    pub(crate) fn note_set_aside(&self, path: &Path) {
        let id = path.file_name().and_then(|name| name.to_str()?.split_once('.')?.0.parse::<Id>().ok());
        let seal = self.doors.fs.open(path).ok().zip(id).and_then(|(file, id)| {
            let size = file.size().ok()?;
            Seal::find(&*file, path, id, size).ok()?
        });
        lock(&self.damaged).push(SetAside::new(path, seal.as_ref().and_then(span_of)));
    }

    /// Looks through the closed segments of which a reader could not read a frame. One that is still written waits until it is
    /// closed: what it should hold changes meanwhile.
    pub(crate) fn inspect_suspects(&self, segments: &[Arc<Segment>]) {
        let closed = segments.iter().filter(|segment| segment.state() != State::Active);
        for segment in closed.filter(|segment| segment.take_suspicion()) {
            if let Err(error) = self.inspect(segment.id())
                && let Some(suppressed) = self.may_log(|errors| &errors.read)
            {
                warn!(segment = %segment.id(), %error, suppressed, "a queue segment cannot be read: it is tried again");
            }
        }
    }
}
