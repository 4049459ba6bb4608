//! A map of bounded size that drops what was not touched for longest. Knows nothing of Events.

use std::collections::{BTreeMap, HashMap};

/// Values by hashed key.
#[derive(Debug)]
pub(super) struct Lru<V> {
    capacity: usize,
    values: HashMap<u64, (u64, V)>,
    /// Keys by when they were last touched.
    order: BTreeMap<u64, u64>,
    clock: u64,
}

impl<V: Default> Lru<V> {
    /// Holds at most `capacity` values, at least one.
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity: capacity.max(1), values: HashMap::new(), order: BTreeMap::new(), clock: 0 }
    }

    /// The value of `key`, a new one if there is none; now the last to be dropped.
    pub(super) fn touch(&mut self, key: u64) -> &mut V {
        if !self.values.contains_key(&key)
            && self.values.len() >= self.capacity
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.values.remove(&oldest);
        }
        self.clock += 1;
        let (touched, value) = self.values.entry(key).or_default();
        self.order.remove(touched);
        *touched = self.clock;
        self.order.insert(self.clock, key);
        value
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.values.len().max(self.order.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_that_was_not_touched_for_longest_is_dropped() {
        let mut lru = Lru::<u32>::new(2);
        *lru.touch(1) = 10;
        *lru.touch(2) = 20;
        assert_eq!(*lru.touch(1), 10);
        *lru.touch(3) = 30;
        assert_eq!((*lru.touch(1), *lru.touch(3)), (10, 30));
        assert_eq!(*lru.touch(2), 0);
        assert_eq!((lru.values.len(), lru.order.len()), (2, 2));
    }
}
