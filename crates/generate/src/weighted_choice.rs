//! Random choice with integer weights.

use crate::rng::Rng;

/// Items with integer weights. A draw costs one random number and two lookups.
#[derive(Clone, Debug)]
pub(crate) struct WeightedChoice<T> {
    items: Vec<T>,
    /// The index of each item, repeated by its weight.
    slots: Vec<u16>,
}

impl<T> WeightedChoice<T> {
    pub(crate) fn new(weighted: impl IntoIterator<Item = (u16, T)>) -> Self {
        let mut choice = Self { items: Vec::new(), slots: Vec::new() };
        for (place, (weight, thing)) in (0u16..).zip(weighted) {
            choice.items.push(thing);
            choice.slots.extend(std::iter::repeat_n(place, usize::from(weight)));
        }
        choice
    }

    /// A random item; `None` if there are no items.
    pub(crate) fn sample(&self, rng: &mut Rng) -> Option<&T> {
        let slot = self.slots.get(rng.below(self.slots.len() as u32) as usize)?;
        self.items.get(usize::from(*slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_follow_the_weights() {
        let choice = WeightedChoice::new([(1, 0), (9, 1), (0, 2)]);
        let mut rng = Rng::new(4);
        let mut seen = [0; 3];
        for _ in 0..10_000 {
            seen[*choice.sample(&mut rng).unwrap()] += 1;
        }
        assert!((850..1_150).contains(&seen[0]) && seen[2] == 0, "{seen:?}");
        assert_eq!(WeightedChoice::<u8>::new([]).sample(&mut rng), None);
    }
}
