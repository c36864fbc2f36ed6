//! Proves that the records of damaged files are kept elsewhere: asks the stores, and keeps what they told.

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bucksaw_doors::{Body, run};
use bucksaw_record::Id;
use futures_util::future::join_all;
use tracing::{debug, info, warn};

use super::proof::{PROOF, Proof};
use super::walk::Repair;
use super::walked::{Question, Told, ask, read};
use super::window::Window;
use crate::shelf::{Shelf, lock};
use crate::stored::Broken;

/// More than such a file has.
const PROOF_BYTES_MAX: u64 = 1 << 20;

/// After so long since its start a node has heard of all stores that are there, and of those that are not from its list.
pub(super) const KNOWN_AFTER: Duration = Duration::from_secs(10);

/// How often the other stores are asked.
const ASK_EVERY: Duration = Duration::from_secs(2);

impl Repair {
    /// Answers [`super::WALKED`].
    ///
    /// # Errors
    /// What is wrong with the question.
    pub async fn answer_walked(&self, body: Body) -> io::Result<Body> {
        let question = read(&self.linked, body).await?;
        Ok(Body::whole(serde_json::to_vec(&self.walked_told(question))?))
    }

    fn walked_told(&self, question: Question) -> Told {
        let told = lock(&self.state).asked(question);
        Told { damaged: self.linked.shelf.has_damage(question.window()), ..told }
    }

    fn is_due(&self, now: Duration) -> bool {
        let mut proved = lock(&self.proved);
        let is_due = *proved <= now;
        if is_due {
            *proved = now + ASK_EVERY;
        }
        is_due
    }

    /// Goes on with what is to be proven, now and then. Not before all other stores are known.
    pub(super) async fn prove(&self) {
        let shelf = &self.linked.shelf;
        let now = shelf.doors.clock.uptime();
        let mut open: Vec<Broken> = shelf.set_aside();
        open.retain(|file| !file.proof.is_good());
        if open.is_empty() || !self.is_due(now) {
            return;
        }
        let (own, fellows) = (self.linked.node, self.linked.peers.fellows());
        let stores: BTreeSet<Id> = fellows.iter().map(|fellow| fellow.peer.node).chain([own]).collect();
        let before = open.clone();
        open.iter_mut().for_each(|file| file.proof.meet(&stores));
        let question = |store: Id| {
            let wanted = open.iter().filter_map(|file| file.proof.wanted(store)).max_by_key(|(_, begin)| *begin);
            let (boot, begin) = wanted.unwrap_or_default();
            let from = open.iter().map(|file| file.low.0).min().unwrap_or_default();
            let to = open.iter().map(|file| file.high.0.saturating_add(1)).max().unwrap_or_default();
            Question { boot, begin, from_ms: from, to_ms: to }
        };
        let live = fellows.iter().filter(|fellow| fellow.is_live);
        let asked = live.map(|fellow| {
            let (peer, question) = (fellow.peer, question(fellow.peer.node));
            async move { (peer.node, ask(&self.linked, peer, question).await) }
        });
        let mut told = vec![(own, Ok(self.walked_told(question(own))))];
        told.extend(join_all(asked).await);
        for (store, told) in told {
            match told {
                Ok(told) => open.iter_mut().for_each(|file| file.proof.hear(store, told)),
                Err(error) => debug!(%store, %error, "a store does not tell whether it has walked: it is asked again"),
            }
        }
        let copies = shelf.config.copies;
        open.iter_mut().for_each(|file| file.proof.conclude(own, copies));
        let news: Vec<Broken> =
            open.into_iter().zip(before).filter(|(now, was)| now != was).map(|(now, _)| now).collect();
        let keeping = Arc::clone(shelf);
        run(&self.linked.tasks, move || news.into_iter().for_each(|file| keeping.keep_proof(file))).await;
    }
}

impl Shelf {
    /// Whether anything of a window is damaged here, and was not made good.
    fn has_damage(&self, window: Window) -> bool {
        let overlaps = |file: &Broken| !file.proof.is_good() && file.low < window.to && window.from <= file.high;
        let is_broken = |segment: &crate::Stored| {
            segment.broken_blocks() > 0 && window.overlaps(segment.reach().low, segment.reach().high)
        };
        self.set_aside().iter().any(overlaps) || self.segments().iter().any(|segment| is_broken(segment))
    }

    /// What was kept beside a file that was set aside.
    pub(crate) fn read_proof(&self, damaged: &Path) -> Proof {
        let read = |path: &Path| -> io::Result<Vec<u8>> {
            let file = self.doors.fs.open(path)?;
            let mut bytes = vec![0; file.size()?.min(PROOF_BYTES_MAX) as usize];
            file.read_exact_at(0, &mut bytes)?;
            Ok(bytes)
        };
        let bytes = match read(&damaged.with_extension(PROOF)) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == ErrorKind::NotFound => return Proof::default(),
            Err(error) => {
                warn!(path = %damaged.display(), %error, "what other stores told of a damaged file cannot be read: they are asked again");
                return Proof::default();
            }
        };
        let size = self.doors.fs.open(damaged).and_then(|file| file.size()).unwrap_or_default();
        Proof::parse(&bytes, size, self.config.copies).unwrap_or_default()
    }

    fn write_proof(&self, damaged: &Path, proof: &Proof) -> io::Result<()> {
        let fs = &self.doors.fs;
        let bytes = proof.encode(fs.open(damaged)?.size()?, self.config.copies);
        let (path, draft) = (damaged.with_extension(PROOF), self.dir.join(format!("{}.tmp", self.new_id())));
        let written = fs.create(&draft).and_then(|file| {
            file.append(&[&bytes])?;
            file.sync()?;
            fs.rename(&draft, &path)
        });
        if written.is_err() {
            self.discard(&draft);
        }
        written?;
        fs.sync_dir(&self.dir)
    }

    /// Removes what is kept beside a damaged file that somebody has moved away.
    pub(crate) fn drop_stale_proof(&self, proof: &Path) {
        let damaged = proof.with_extension("");
        if self.doors.fs.open(&damaged).is_err_and(|error| error.kind() == ErrorKind::NotFound) {
            self.discard(proof);
        }
    }

    /// Takes note of what is known about a file, first beside it.
    fn keep_proof(&self, file: Broken) {
        let path = self.dir.join(&file.name);
        if let Err(error) = self.write_proof(&path, &file.proof) {
            warn!(file = file.name, %error, "what other stores told of a damaged file cannot be written: it is tried again");
            return;
        }
        if file.proof.is_good() {
            info!(
                file = file.name,
                "every record of a damaged file is kept by other stores: answers are whole without it, and it may be deleted"
            );
        }
        lock(&self.set_aside)
            .iter_mut()
            .filter(|known| known.name == file.name)
            .for_each(|known| *known = file.clone());
        self.report();
    }
}
