//! Writes the member file.

use std::io;
use std::time::Duration;

use bucksaw_env::run_blocking;

use super::{Actor, ActorCommand};
use crate::member_file::PersistedMembers;

/// Minimum interval of writes after a change of presence, and after a change of facts only.
const SAVE_PERIODS: [Duration; 2] = [Duration::from_secs(5), Duration::from_secs(60)];

impl Actor {
    /// Writes the member file if it is due, and at once after a leave message.
    pub(super) fn save_members(&mut self) {
        let time = self.now().uptime;
        let waited = |period| self.saved.is_none_or(|saved| time.saturating_sub(saved) >= period);
        let [standing, facts] = self.unsaved;
        let is_due = standing && waited(SAVE_PERIODS[0]) || facts && waited(SAVE_PERIODS[1]);
        if self.saving || !is_due && self.leave_replies.is_empty() {
            return;
        }
        (self.saving, self.saved, self.unsaved) = (true, Some(time), [false; 2]);
        let (file, members) = (self.member_file.clone(), self.persisted_members());
        let replies = std::mem::take(&mut self.leave_replies);
        let replies: Vec<_> = replies.into_iter().map(|reply| (reply, self.entries())).collect();
        let (tasks, commands) = (self.context.tasks.clone(), self.context.commands.clone());
        self.context.tasks.spawn(Box::pin(async move {
            let result = run_blocking(&tasks, move || file.write(&members)).await;
            let result = result.unwrap_or_else(|| Err(io::Error::other("the task that writes members.json panicked")));
            if result.is_ok() {
                for (reply, entries) in replies {
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
