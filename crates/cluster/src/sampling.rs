//! Random samples, decided by the environment's seed.

use bucksaw_env::Entropy;

/// A uniform random sample of at most `count` elements, in random order.
pub(crate) fn sample<T>(entropy: &dyn Entropy, mut items: Vec<T>, count: usize) -> Vec<T> {
    let count = count.min(items.len());
    for at in 0..count {
        let left = (items.len() - at) as u64;
        let other = at + usize::try_from(entropy.next_u64() % left).unwrap_or(0);
        items.swap(at, other);
    }
    items.truncate(count);
    items
}
