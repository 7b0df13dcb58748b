//! A queue in which nobody waits for somebody else's flood.
//!
//! Everything belongs to a lane, and the lanes take turns. Within a lane the order is that of arrival. A lane that puts
//! in a thousand things gets as many turns as one that puts in one; what is in the way of a newcomer is therefore at
//! most one thing of each other lane, and never a backlog. No clock and no tasks in here.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;

/// What follows an item in the same batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Then {
    /// Anything.
    Anything,
    /// Nothing of its own lane.
    OtherLanes,
    /// Nothing.
    Nothing,
}

/// How much a batch may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) items: usize,
    /// A batch that has passed this takes nothing more.
    pub(super) bytes: usize,
}

/// The queue.
#[derive(Debug)]
pub(super) struct FairQueue<K, T> {
    lanes: HashMap<K, VecDeque<T>>,
    /// The lanes that hold anything, the next one first.
    turn: VecDeque<K>,
    len: usize,
}

impl<K: Copy + Eq + Hash, T> FairQueue<K, T> {
    pub(super) fn new() -> Self {
        Self { lanes: HashMap::new(), turn: VecDeque::new(), len: 0 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// How much waits in this lane.
    pub(super) fn depth(&self, lane: &K) -> usize {
        self.lanes.get(lane).map_or(0, VecDeque::len)
    }

    pub(super) fn push(&mut self, lane: K, item: T) {
        let items = self.lanes.entry(lane).or_default();
        if items.is_empty() {
            self.turn.push_back(lane);
        }
        items.push_back(item);
        self.len += 1;
    }

    /// Takes the next batch, lane by lane in turn.
    pub(super) fn take(
        &mut self,
        size: Size,
        bytes_of: impl Fn(&T) -> usize,
        then: impl Fn(&T) -> Then,
    ) -> Vec<T> {
        let (mut batch, mut bytes) = (Vec::new(), 0);
        // Lanes that have had their last item of this batch and hold more.
        let mut closed = Vec::new();
        while batch.len() < size.items && bytes < size.bytes {
            let Some(lane) = self.turn.pop_front() else { break };
            let Some(items) = self.lanes.get_mut(&lane) else { continue };
            let Some(item) = items.pop_front() else { continue };
            self.len -= 1;
            let rest = !items.is_empty();
            if !rest {
                self.lanes.remove(&lane);
            }
            let next = then(&item);
            bytes += bytes_of(&item);
            batch.push(item);
            match (rest, next) {
                (true, Then::OtherLanes) => closed.push(lane),
                (true, _) => self.turn.push_back(lane),
                (false, _) => {}
            }
            if next == Then::Nothing {
                break;
            }
        }
        // Each has had a turn in this batch, so they line up behind those that have not.
        self.turn.extend(closed);
        batch
    }

    /// Takes everything.
    pub(super) fn drain(&mut self) -> Vec<T> {
        self.turn.clear();
        self.len = 0;
        self.lanes.drain().flat_map(|(_, items)| items).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: Size = Size { items: 128, bytes: 1 << 20 };

    /// A small generator, so that a seed means the same everywhere.
    struct Dice(u64);

    impl Dice {
        fn roll(&mut self, sides: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % sides
        }
    }

    #[derive(Debug, Clone, Copy)]
    struct Item {
        lane: u32,
        number: u64,
        /// Before which batch it came.
        came: u64,
        bytes: usize,
        then: Then,
    }

    fn take(queue: &mut FairQueue<u32, Item>) -> Vec<Item> {
        queue.take(SIZE, |item| item.bytes, |item| item.then)
    }

    /// Time is counted in batches. A lane floods; others put in one thing now and then.
    #[test]
    fn a_flooded_namespace_delays_another_by_no_more_than_a_batch() {
        for seed in 1..=200u64 {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
            let mut queue = FairQueue::new();
            let others = 1 + dice.roll(100) as u32;
            let mut number = 0;
            for batch in 0..60u64 {
                let mut put = |queue: &mut FairQueue<u32, Item>, lane, bytes, then| {
                    number += 1;
                    queue.push(lane, Item { lane, number, came: batch, bytes, then });
                };
                for _ in 0..dice.roll(2_000) {
                    let then = if dice.roll(50) == 0 { Then::OtherLanes } else { Then::Anything };
                    put(&mut queue, 0, dice.roll(8_000) as usize, then);
                }
                for lane in 1..=others {
                    if dice.roll(3) == 0 {
                        put(&mut queue, lane, 300, Then::Anything);
                    }
                }
                for item in take(&mut queue) {
                    assert!(
                        item.lane == 0 || batch - item.came <= 1,
                        "seed {seed}: {item:?} in batch {batch}"
                    );
                }
            }
            assert!(queue.depth(&0) > 1_000, "seed {seed}: there was no flood");
        }
    }

    #[test]
    fn the_order_within_a_namespace_is_kept_and_nothing_is_lost() {
        let mut dice = Dice(7);
        let mut queue = FairQueue::new();
        let (mut put, mut got) = (vec![Vec::new(); 5], vec![Vec::new(); 5]);
        for number in 0..5_000 {
            let lane = dice.roll(5) as u32;
            let then = [Then::Anything, Then::OtherLanes, Then::Nothing][dice.roll(20).min(2) as usize];
            queue.push(lane, Item { lane, number, came: 0, bytes: 10, then });
            put[lane as usize].push(number);
            if dice.roll(100) == 0 {
                take(&mut queue).iter().for_each(|item| got[item.lane as usize].push(item.number));
            }
        }
        while queue.len() > 0 {
            take(&mut queue).iter().for_each(|item| got[item.lane as usize].push(item.number));
        }
        assert_eq!(put, got);
    }

    #[test]
    fn what_closes_a_lane_ends_it_for_this_batch_and_no_other() {
        let mut queue = FairQueue::new();
        let item = |lane, number, then| Item { lane, number, came: 0, bytes: 1, then };
        queue.push(1, item(1, 1, Then::OtherLanes));
        queue.push(1, item(1, 2, Then::Anything));
        queue.push(2, item(2, 3, Then::Anything));
        queue.push(2, item(2, 4, Then::Nothing));
        queue.push(2, item(2, 5, Then::Anything));
        let numbers = |batch: Vec<Item>| batch.iter().map(|item| item.number).collect::<Vec<_>>();
        assert_eq!(numbers(take(&mut queue)), [1, 3, 4]);
        assert_eq!(numbers(take(&mut queue)), [5, 2]);
    }

    #[test]
    fn large_things_end_a_batch_early() {
        let mut queue = FairQueue::new();
        for number in 0..100 {
            queue.push(1, Item { lane: 1, number, came: 0, bytes: 64 << 10, then: Then::Anything });
        }
        assert_eq!(take(&mut queue).len(), 16);
    }
}
