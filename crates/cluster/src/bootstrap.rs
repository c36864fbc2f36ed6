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
pub(crate) struct Bootstrap {
    unreached_seeds: BTreeSet<String>,
    bootstrapping: watch::Sender<bool>,
}

impl Bootstrap {
    /// Of a node with these names to join; `knows` when it has a list from before that was whole.
    pub(crate) fn new(names: &[String], knows: bool, told: watch::Sender<bool>) -> Self {
        let names: BTreeSet<String> = if knows { BTreeSet::new() } else { names.iter().cloned().collect() };
        told.send_replace(!names.is_empty());
        Self { unreached_seeds: names, bootstrapping: told }
    }

    /// Whether there may be nodes of which nothing was heard.
    pub(crate) fn is_bootstrapping(&self) -> bool {
        !self.unreached_seeds.is_empty()
    }

    /// The names that were not reached yet, while it matters.
    pub(crate) fn unreached_seeds(&self) -> impl Iterator<Item = &String> {
        self.unreached_seeds.iter()
    }

    /// A name was reached. True when nothing is awaited from now on.
    pub(crate) fn seed_reached(&mut self, name: &str) -> bool {
        self.unreached_seeds.remove(name) && self.publish()
    }

    /// A node that awaits none has told all that it knows. True when nothing is awaited from now on.
    pub(crate) fn complete(&mut self) -> bool {
        let was = self.is_bootstrapping();
        self.unreached_seeds.clear();
        was && self.publish()
    }

    fn publish(&self) -> bool {
        let is_over = self.unreached_seeds.is_empty();
        self.bootstrapping.send_if_modified(|told| std::mem::replace(told, !is_over) == is_over);
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_ends_with_all_seeds_or_a_complete_peer() {
        let names = ["a:1".to_owned(), "b:1".to_owned()];
        let told = watch::Sender::new(false);
        let mut awaited = Bootstrap::new(&names, false, told.clone());
        assert!(!awaited.seed_reached("a:1") && awaited.is_bootstrapping() && *told.borrow());
        assert!(!awaited.seed_reached("a:1") && !awaited.seed_reached("c:1"));
        assert_eq!(awaited.unreached_seeds().collect::<Vec<_>>(), ["b:1"]);
        assert!(awaited.seed_reached("b:1") && !awaited.is_bootstrapping() && !*told.borrow());
        assert!(!awaited.seed_reached("b:1") && !awaited.complete(), "it ends once");
        let mut awaited = Bootstrap::new(&names, false, told.clone());
        assert!(*told.borrow() && awaited.complete() && !awaited.is_bootstrapping() && !*told.borrow());
        for (names, knows) in [(&names[..], true), (&[], false)] {
            assert!(!Bootstrap::new(names, knows, told.clone()).is_bootstrapping() && !*told.borrow());
        }
    }
}
