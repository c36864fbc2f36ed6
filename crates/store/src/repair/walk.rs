//! The walker: takes what is next, looks, asks, copies.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use bucksaw_record::{Id, Millis};
use futures_util::future::join_all;
use tracing::{debug, info, warn};

use super::ask::ask;
use super::decide::{Wanting, wanting};
use super::ids::{IDS_BYTES_MAX, Ids};
use super::legs::Leg;
use super::look::{Bounds, Found};
use super::prove::KNOWN_AFTER;
use super::state::{Done, State, Task};
use super::status::{Hindrance, Status};
use super::window::{Window, newest};
use crate::linked::Linked;
use crate::peers::{Fellow, Peer};
use crate::replicate::Replicate;
use crate::shelf::{StoreError, lock};

/// How long nothing is done when there is nothing to do.
const REST: Duration = Duration::from_secs(1);

/// How often a window is looked at anew in a row, because what others keep turned out to be less, or a block of it damaged.
const LOOKS_MAX: usize = 4;

/// Restores copies that are missing.
#[derive(Debug)]
pub struct Repair {
    pub(super) linked: Linked,
    replicate: Replicate,
    /// Held for moments only, and with no other lock.
    pub(super) state: Mutex<State>,
    /// When other stores were asked for damaged files last, by the uptime.
    pub(super) proved: Mutex<Duration>,
}

/// Who holds what of a window.
struct Compared {
    window: Window,
    found: Found,
    /// What is missing copies, and this store sees to.
    wanting: Vec<Wanting>,
}

/// A window came to nothing, and is to be looked at again.
struct PutOff {
    window: Window,
    why: Option<Hindrance>,
}

impl Repair {
    /// A walker; [`Self::turn`] has to be called again and again, by one task.
    #[must_use]
    pub fn new(linked: Linked) -> Self {
        let shelf = &linked.shelf;
        let (now, chance) = (shelf.doors.clock.uptime(), shelf.doors.entropy.next_u64());
        let state = State::new(shelf.config.repair, shelf.config.copies, now, chance);
        let (state, proved) = (Mutex::new(state), Mutex::new(now + KNOWN_AFTER));
        Self { replicate: Replicate(linked.clone()), state, proved, linked }
    }

    /// Tells that copies may be missing of records of `from..=to`. They are looked at before a pass goes on.
    pub fn hint(&self, from: Millis, to: Millis) {
        lock(&self.state).hint(Window { from, to: Millis(to.0.min(Millis::MAX.0) + 1) });
    }

    /// How it is getting on.
    #[must_use]
    pub fn status(&self) -> Status {
        let shelf = &self.linked.shelf;
        let left = lock(&self.state).left();
        let left_bytes = shelf.bytes_in(&left);
        let status = lock(&self.state).status(shelf.doors.clock.uptime(), left_bytes);
        Status {
            missing_bytes: shelf.bytes_of(status.missing),
            restored_records: shelf.metrics.repair_restored_records.get(),
            restored_bytes: shelf.metrics.repair_restored_bytes.get(),
            ..status
        }
    }

    /// When the last pass that came to its end began, as [`Status::walked`] says it.
    #[must_use]
    pub fn walked(&self) -> Option<Millis> {
        lock(&self.state).walked()
    }

    /// Stores that are lost, by the marks of what they told last, and need not come back for anything that this one holds:
    /// a pass that began when they were lost has ended, and all of it is held by enough of the others. By their ids.
    #[must_use]
    pub fn made_good(&self) -> Vec<u64> {
        lock(&self.state).made_good()
    }

    /// Takes note of how it is getting on, and tells the metrics.
    fn note(&self) -> Status {
        let shelf = &self.linked.shelf;
        let left = lock(&self.state).left();
        let left_bytes = shelf.bytes_in(&left);
        lock(&self.state).note(shelf.doors.clock.uptime(), left_bytes);
        let status = self.status();
        shelf.metrics.repair(&status);
        status
    }

    /// Looks at the next window and rests for as long as its bytes allow; or just rests, when there is nothing to do. What is
    /// dropped in the middle is done again.
    pub async fn turn(&self) {
        let Linked { shelf, tasks, peers, .. } = &self.linked;
        if shelf.config.copies <= 1 {
            // There is nobody to restore anything from.
            return tasks.sleep(REST * 60).await;
        }
        self.prove().await;
        let (now, wall) = (shelf.doors.clock.uptime(), shelf.now());
        let task = lock(&self.state).next(peers.fellows(), now, wall);
        let Some(task) = task else {
            self.note();
            return tasks.sleep(REST).await;
        };
        let is_hint = task.is_hint();
        let metrics = &shelf.metrics;
        let cost = || metrics.repair_read_bytes.get() + metrics.repair_restored_bytes.get();
        let before = cost();
        let done = self.window(task).await;
        let (now, chance) = (shelf.doors.clock.uptime(), shelf.doors.entropy.next_u64());
        let ended = lock(&self.state).done(is_hint, done, now, chance);
        let status = self.note();
        if ended {
            metrics.repair_passes.inc();
            info!(missing = status.missing, lost = status.lost.len(), "all records were compared with other stores");
        }
        let bytes_per_second = shelf.config.repair.bytes_per_second.max(1);
        tasks.sleep(Duration::from_secs_f64((cost() - before) as f64 / bytes_per_second as f64)).await;
    }

    /// The newest window of a leg.
    async fn window(&self, task: Task) -> Done {
        let Task { leg, live, verify, .. } = task;
        let Some(window) = newest(&self.linked.shelf.extents(), leg.window) else { return Done::default() };
        let compared = self.compare(window, &leg, &live, verify).await;
        let (window, mut done) = match compared {
            Ok(compared) => {
                let (window, is_unread) = (compared.window, compared.found.is_unread);
                let mut done = self.restore(compared, &live).await;
                // A pass that has not looked at everything has not come to its end.
                let again = Leg { window, why: Some(Hindrance::Unreadable), ..leg.clone() };
                done.later.extend(is_unread.then_some(again));
                (window, done)
            }
            Err(PutOff { window, why }) => {
                self.linked.shelf.metrics.repair_put_off.inc();
                (window, Done { later: vec![Leg { window, why, ..leg.clone() }], ..Done::default() })
            }
        };
        let rest = Window { from: leg.window.from, to: window.from };
        done.rest = (!rest.is_empty()).then_some(Leg { window: rest, why: None, ..leg });
        done
    }

    /// Finds out what of a window is here, and who else holds it. The window is made smaller when there is too much in it.
    async fn compare(&self, mut window: Window, leg: &Leg, live: &[Fellow], verify: bool) -> Result<Compared, PutOff> {
        let Linked { shelf, .. } = &self.linked;
        let mut looks = 0;
        loop {
            looks += 1;
            let keeps = lock(&self.state).keeps(shelf.keeps(), live);
            let bounds = Bounds { window, now: shelf.now(), margin: shelf.config.repair.margin, keeps };
            let found = self.look(bounds, leg.only.clone(), verify && looks == 1).await;
            let found = found.ok_or(PutOff { window, why: None })?;
            let mut own = found.ids.clone();
            own.join(&found.fresh);
            let asked = own.clone().encode();
            if asked.len() > IDS_BYTES_MAX {
                let Some(half) = window.newer_half() else {
                    if let Some(suppressed) = shelf.may_log(|errors| &errors.crowded) {
                        warn!(at = %window.from, suppressed, "there are too many records in a moment to be compared with other stores");
                    }
                    return Err(PutOff { window, why: None });
                };
                window = half;
                continue;
            }
            shelf.metrics.repair_windows.inc();
            let others = if own.is_empty() { Vec::new() } else { self.ask_all(window, &asked, live).await? };
            if lock(&self.state).keeps(shelf.keeps(), live) != keeps && looks < LOOKS_MAX {
                // Some keep less than was known. What they let go of is not missing.
                continue;
            }
            let wanting = wanting(self.linked.node, &own, &others, shelf.config.copies, leg.is_own());
            return Ok(Compared { window, found, wanting });
        }
    }

    async fn look(&self, bounds: Bounds, only: Option<Arc<Ids>>, verify: bool) -> Option<Found> {
        let shelf = Arc::clone(&self.linked.shelf);
        let found = self.linked.away_modestly(move || {
            let is_pressed = || shelf.is_pressed();
            let turns = shelf.repair_aside.begin(&is_pressed);
            shelf.look(&bounds, verify, &turns)
        });
        let mut found = found.await?;
        self.linked.shelf.metrics.repair_read_bytes.inc_by(found.bytes);
        if let Some(only) = only {
            (found.ids, found.fresh) = (found.ids.common(&only), found.fresh.common(&only));
        }
        Some(found)
    }

    /// What all others hold of some records.
    async fn ask_all(&self, window: Window, asked: &[u8], live: &[Fellow]) -> Result<Vec<(Id, Ids)>, PutOff> {
        let answers = join_all(live.iter().map(|fellow| ask(&self.linked, fellow.peer, window, asked))).await;
        let mut others = Vec::new();
        for (fellow, answer) in live.iter().zip(answers) {
            let node = fellow.peer.node;
            match answer {
                Ok((held, keeps)) => {
                    lock(&self.state).told(node, keeps);
                    others.push((node, held));
                }
                Err(error) => {
                    debug!(store = %node, %error, "another store cannot be asked what it holds: the window is put off");
                    return Err(PutOff { window, why: Some(Hindrance::Silent(node)) });
                }
            }
        }
        Ok(others)
    }

    /// Has copies made of what is missing some.
    async fn restore(&self, compared: Compared, live: &[Fellow]) -> Done {
        let Compared { window, found, wanting } = compared;
        let (copies, config) = (self.linked.shelf.config.copies, self.linked.shelf.config.repair);
        let mut done = Done::default();
        let mut later = |ids: Ids, ready: Duration, why: Option<Hindrance>| {
            if !ids.is_empty() {
                let (only, is_missing) = (Some(Arc::new(ids)), why.is_some());
                done.later.push(Leg { window, only, ready, is_missing, why });
            }
        };
        let now = self.linked.shelf.doors.clock.uptime();
        for Wanting { holders, ids } in wanting {
            later(ids.common(&found.fresh), now + config.margin, None);
            let ids = ids.common(&found.ids);
            if ids.is_empty() {
                continue;
            }
            let takes = |fellow: &&Fellow| fellow.takes && !holders.contains(&fellow.peer.node);
            let takers: Vec<Peer> = live.iter().filter(takes).map(|fellow| fellow.peer).collect();
            let possible = (copies - holders.len()).min(takers.len());
            let (count, ids) = (ids.len(), Arc::new(ids));
            if let Err(why) = self.copy(window, &ids, takers, possible).await {
                self.linked.shelf.metrics.repair_failed.inc();
                later(Arc::unwrap_or_clone(ids), now + config.margin, Some(why));
            } else if holders.len() + possible < copies {
                done.missing += count;
            }
        }
        done
    }

    /// Has so many others keep some records.
    async fn copy(&self, window: Window, ids: &Arc<Ids>, takers: Vec<Peer>, copies: usize) -> Result<(), Hindrance> {
        if copies == 0 {
            return Ok(());
        }
        let (shelf, wanted) = (Arc::clone(&self.linked.shelf), Arc::clone(ids));
        let extract = self.linked.away_modestly(move || shelf.extract(window, &wanted)).await;
        let extract = match extract {
            Some(Ok(Some(extract))) => extract,
            // They were let go meanwhile.
            Some(Ok(None)) => return Ok(()),
            Some(Err(StoreError::Stopped)) | None => return Err(Hindrance::Unreadable),
            Some(Err(error)) => {
                if let Some(suppressed) = self.linked.shelf.may_log(|errors| &errors.repair) {
                    warn!(%error, suppressed, "cannot read records that are missing copies: it is tried again");
                }
                return Err(Hindrance::Unreadable);
            }
        };
        self.linked.shelf.metrics.repair_read_bytes.inc_by(extract.stored.file_bytes());
        let wanted_bytes = extract.stored.file_bytes() + self.linked.shelf.config.free_bytes_min;
        let is_full = takers.iter().filter(|taker| taker.free_bytes >= wanted_bytes).count() < copies;
        let kept = self.replicate.to_others(&extract.stored, takers, copies).await;
        let metrics = &self.linked.shelf.metrics;
        metrics.repair_restored_records.inc_by(extract.stored.reach().records * kept as u64);
        metrics.repair_restored_bytes.inc_by(extract.stored.file_bytes() * kept as u64);
        info!(records = extract.stored.reach().records, kept, wanted = copies, from = %window.from, to = %window.to, "restored copies");
        match kept >= copies {
            true => Ok(()),
            false if is_full => Err(Hindrance::NoRoom),
            false => Err(Hindrance::NotTaken),
        }
    }
}
