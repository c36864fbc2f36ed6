//! Whether there may be nodes of which this one has not heard, because its data directory is new.
//!
//! A node without a list from before knows of no node that is down, and of no node that it has not reached. What such a node
//! holds is missing from answers. That another node is known proves nothing: it may be as new as this one. So a node awaits
//! others until one of these is so:
//!
//! - each name of `--join` was reached once, or leads back to this node;
//! - a node that awaits none has told all that it knows.
//!
//! A name that leads nowhere for ever matters to a cluster of new nodes alone. `members.json` keeps how it stands.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The names that were not reached, while others are awaited.
#[derive(Debug)]
pub(crate) struct Awaited {
    names: BTreeSet<String>,
    told: watch::Sender<bool>,
}

impl Awaited {
    /// Of a node with these names to join; `knows` when it has a list from before that was whole.
    pub(crate) fn new(names: &[String], knows: bool, told: watch::Sender<bool>) -> Self {
        let names: BTreeSet<String> = if knows { BTreeSet::new() } else { names.iter().cloned().collect() };
        told.send_replace(!names.is_empty());
        Self { names, told }
    }

    /// Whether there may be nodes of which nothing was heard.
    pub(crate) fn is_awaiting(&self) -> bool {
        !self.names.is_empty()
    }

    /// The names that were not reached yet, while it matters.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        self.names.iter()
    }

    /// A name was reached. True when nothing is awaited from now on.
    pub(crate) fn reached(&mut self, name: &str) -> bool {
        self.names.remove(name) && self.ended()
    }

    /// A node that awaits none has told all that it knows. True when nothing is awaited from now on.
    pub(crate) fn heard_all(&mut self) -> bool {
        let was = self.is_awaiting();
        self.names.clear();
        was && self.ended()
    }

    fn ended(&self) -> bool {
        let is_over = self.names.is_empty();
        self.told.send_if_modified(|told| std::mem::replace(told, !is_over) == is_over);
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_awaited_until_all_names_were_reached_or_a_node_that_knows_all_was() {
        let names = ["a:1".to_owned(), "b:1".to_owned()];
        let told = watch::Sender::new(false);
        let mut awaited = Awaited::new(&names, false, told.clone());
        assert!(!awaited.reached("a:1") && awaited.is_awaiting() && *told.borrow());
        assert!(!awaited.reached("a:1") && !awaited.reached("c:1"));
        assert_eq!(awaited.names().collect::<Vec<_>>(), ["b:1"]);
        assert!(awaited.reached("b:1") && !awaited.is_awaiting() && !*told.borrow());
        assert!(!awaited.reached("b:1") && !awaited.heard_all(), "it ends once");
        let mut awaited = Awaited::new(&names, false, told.clone());
        assert!(*told.borrow() && awaited.heard_all() && !awaited.is_awaiting() && !*told.borrow());
        for (names, knows) in [(&names[..], true), (&[], false)] {
            assert!(!Awaited::new(names, knows, told.clone()).is_awaiting() && !*told.borrow());
        }
    }
}
