//! Keeping the list for the next start.

use std::io;
use std::time::Duration;

use bucksaw_env::run_blocking;

use super::{Actor, ActorCommand};
use crate::member_file::PersistedMembers;

/// `members.json` is written at most so often when somebody came or went, and so often when only facts changed.
const SAVE_PERIODS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];

impl Actor {
    /// Writes the list when it is time to, and at once when somebody says goodbye.
    pub(super) fn save_members(&mut self) {
        let time = self.now().uptime;
        let waited = |period| self.saved.is_none_or(|saved| time.saturating_sub(saved) >= period);
        let [standing, facts] = self.unsaved;
        let is_due = standing && waited(SAVE_PERIODS[0]) || facts && waited(SAVE_PERIODS[1]);
        if self.saving || !is_due && self.leave_replies.is_empty() {
            return;
        }
        (self.saving, self.saved, self.unsaved) = (true, Some(time), [false; 2]);
        let (keep, kept) = (self.member_file.clone(), self.persisted_members());
        let goodbyes = std::mem::take(&mut self.leave_replies);
        let goodbyes: Vec<_> = goodbyes.into_iter().map(|reply| (reply, self.entries())).collect();
        let (tasks, commands) = (self.context.tasks.clone(), self.context.commands.clone());
        self.context.tasks.spawn(Box::pin(async move {
            let result = run_blocking(&tasks, move || keep.write(&kept)).await;
            let result = result.unwrap_or_else(|| Err(io::Error::other("the task that writes members.json panicked")));
            if result.is_ok() {
                for (reply, entries) in goodbyes {
                    let _ = reply.send(entries);
                }
            }
            // The node may have left.
            let _ = commands.send(ActorCommand::Saved(result)).await;
        }));
    }

    pub(super) fn persisted_members(&self) -> PersistedMembers {
        PersistedMembers {
            incarnation: self.local_facts.incarnation,
            is_bootstrapping: self.bootstrap.is_bootstrapping(),
            members: self.table.entries(self.now()),
        }
    }
}
