//! Bootstrap: whether unknown nodes may exist, because the data directory is new.
//!
//! A node without a member file lists neither nodes that are down nor nodes that it has not reached, and answers lack
//! their records. Another known node proves nothing, because it may be as new. So bootstrap lasts until
//!
//! - each seed of `--join` was reached once, or resolves to this node; or
//! - a node that is not bootstrapping has sent its digest.
//!
//! A seed that is never reached matters only in a cluster of new nodes. `members.json` persists the state.

use std::collections::BTreeSet;

use tokio::sync::watch;

/// The seeds that were not reached yet.
#[derive(Debug)]
pub(crate) struct Bootstrap {
    unreached_seeds: BTreeSet<String>,
    bootstrapping: watch::Sender<bool>,
}

impl Bootstrap {
    /// The bootstrap of a node with these seeds; `is_complete` if its member file is complete.
    pub(crate) fn new(seeds: &[String], is_complete: bool, bootstrapping: watch::Sender<bool>) -> Self {
        let unreached_seeds: BTreeSet<String> =
            if is_complete { BTreeSet::new() } else { seeds.iter().cloned().collect() };
        bootstrapping.send_replace(!unreached_seeds.is_empty());
        Self { unreached_seeds, bootstrapping }
    }

    /// Whether unknown nodes may exist.
    pub(crate) fn is_bootstrapping(&self) -> bool {
        !self.unreached_seeds.is_empty()
    }

    /// The seeds that were not reached yet.
    pub(crate) fn unreached_seeds(&self) -> impl Iterator<Item = &String> {
        self.unreached_seeds.iter()
    }

    /// A seed was reached. True if that ends the bootstrap.
    pub(crate) fn seed_reached(&mut self, name: &str) -> bool {
        self.unreached_seeds.remove(name) && self.publish()
    }

    /// A node that is not bootstrapping has sent its digest. True if that ends the bootstrap.
    pub(crate) fn complete(&mut self) -> bool {
        let was = self.is_bootstrapping();
        self.unreached_seeds.clear();
        was && self.publish()
    }

    fn publish(&self) -> bool {
        let is_over = self.unreached_seeds.is_empty();
        self.bootstrapping.send_if_modified(|published| std::mem::replace(published, !is_over) == is_over);
        is_over
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bootstrap_ends_with_all_seeds_or_a_complete_peer() {
        let names = ["a:1".to_owned(), "b:1".to_owned()];
        let published = watch::Sender::new(false);
        let mut bootstrap = Bootstrap::new(&names, false, published.clone());
        assert!(!bootstrap.seed_reached("a:1") && bootstrap.is_bootstrapping() && *published.borrow());
        assert!(!bootstrap.seed_reached("a:1") && !bootstrap.seed_reached("c:1"));
        assert_eq!(bootstrap.unreached_seeds().collect::<Vec<_>>(), ["b:1"]);
        assert!(bootstrap.seed_reached("b:1") && !bootstrap.is_bootstrapping() && !*published.borrow());
        assert!(!bootstrap.seed_reached("b:1") && !bootstrap.complete(), "it ends once");
        let mut bootstrap = Bootstrap::new(&names, false, published.clone());
        assert!(*published.borrow() && bootstrap.complete() && !bootstrap.is_bootstrapping() && !*published.borrow());
        for (names, is_complete) in [(&names[..], true), (&[], false)] {
            assert!(!Bootstrap::new(names, is_complete, published.clone()).is_bootstrapping() && !*published.borrow());
        }
    }
}
