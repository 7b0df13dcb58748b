//! Who meets whom (pipe §3.2). No sockets, no clock: the time is an argument.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use skald_relay_common::challenge::peer_hash;
use skald_relay_common::ids::{ConnectionId, NamespaceId, PeerHash, PublicKey};

/// One side's arrival, for as long as the relay runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct SideId(u64);

/// An authenticated side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Side {
    pub(super) namespace: NamespaceId,
    pub(super) connection: ConnectionId,
    pub(super) key: PublicKey,
    /// Whom it expects opposite.
    pub(super) dest: PeerHash,
}

/// What an arrival leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    /// It waits for its partner, under this number.
    Wait(SideId),
    /// It belongs to the side that waits, and the pipe goes on under that one's number.
    Match(SideId),
    /// It does not belong to the side that waits: both must go.
    Mismatch(SideId),
    /// The connection id is in use or was used a moment ago.
    Taken,
    /// The namespace has as many pipes as are allowed.
    Full,
}

/// All pipes, from the first side's arrival to the end.
#[derive(Debug)]
pub(super) struct Rendezvous {
    max_per_namespace: u32,
    /// How long a used connection id is remembered: as long as a late partner might still come with it.
    remember: Duration,
    next: u64,
    meetings: HashMap<ConnectionId, Meeting>,
    pipes: HashMap<SideId, ConnectionId>,
    counts: HashMap<NamespaceId, u32>,
}

#[derive(Debug)]
enum Meeting {
    Waiting { id: SideId, side: Side },
    Streaming { id: SideId, namespace: NamespaceId, keys: [PublicKey; 2] },
    Over { forget: Instant },
}

impl Rendezvous {
    pub(super) fn new(max_per_namespace: u32, remember: Duration) -> Self {
        Self {
            max_per_namespace,
            remember,
            next: 0,
            meetings: HashMap::new(),
            pipes: HashMap::new(),
            counts: HashMap::new(),
        }
    }

    /// An authenticated member has come.
    pub(super) fn arrive(&mut self, now: Instant, side: Side) -> Arrival {
        self.forget(now);
        match self.meetings.get(&side.connection) {
            None => self.wait(side),
            Some(Meeting::Streaming { .. } | Meeting::Over { .. }) => Arrival::Taken,
            Some(Meeting::Waiting { id, side: first }) => {
                let id = *id;
                let good = first.namespace == side.namespace
                    && peer_hash(&first.key) == side.dest
                    && peer_hash(&side.key) == first.dest;
                if good {
                    let (namespace, keys) = (side.namespace, [first.key, side.key]);
                    self.meetings.insert(side.connection, Meeting::Streaming { id, namespace, keys });
                    Arrival::Match(id)
                } else {
                    self.leave(now, id);
                    Arrival::Mismatch(id)
                }
            }
        }
    }

    fn wait(&mut self, side: Side) -> Arrival {
        let count = self.counts.entry(side.namespace).or_insert(0);
        if *count >= self.max_per_namespace {
            return Arrival::Full;
        }
        *count += 1;
        let id = SideId(self.next);
        self.next += 1;
        self.pipes.insert(id, side.connection);
        self.meetings.insert(side.connection, Meeting::Waiting { id, side });
        Arrival::Wait(id)
    }

    /// The side that came first has gone, and with it its pipe. Its connection id is used up.
    pub(super) fn leave(&mut self, now: Instant, id: SideId) {
        let Some(connection) = self.pipes.remove(&id) else { return };
        let over = Meeting::Over { forget: now + self.remember };
        match self.meetings.insert(connection, over) {
            Some(
                Meeting::Waiting { side: Side { namespace, .. }, .. } | Meeting::Streaming { namespace, .. },
            ) => {
                self.release(&namespace);
            }
            Some(Meeting::Over { .. }) | None => {}
        }
    }

    /// The numbers of all pipes that this member is part of.
    pub(super) fn revoke(&mut self, namespace: &NamespaceId, key: &PublicKey) -> Vec<SideId> {
        let of_member = |meeting: &Meeting| match meeting {
            Meeting::Waiting { id, side } => {
                let concerned = side.key == *key || side.dest == peer_hash(key);
                (side.namespace == *namespace && concerned).then_some(*id)
            }
            Meeting::Streaming { id, namespace: of, keys } => {
                (of == namespace && keys.contains(key)).then_some(*id)
            }
            Meeting::Over { .. } => None,
        };
        self.meetings.values().filter_map(of_member).collect()
    }

    fn release(&mut self, namespace: &NamespaceId) {
        if let Some(count) = self.counts.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(namespace);
            }
        }
    }

    fn forget(&mut self, now: Instant) {
        // Used ids are few: at most one for each connection of the last moments.
        self.meetings.retain(|_, meeting| !matches!(meeting, Meeting::Over { forget } if *forget <= now));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REMEMBER: Duration = Duration::from_secs(30);

    fn key(n: u8) -> PublicKey {
        [n; 32].into()
    }

    fn side(namespace: u8, connection: u8, me: u8, other: u8) -> Side {
        Side {
            namespace: [namespace; 32].into(),
            connection: [connection; 32].into(),
            key: key(me),
            dest: peer_hash(&key(other)),
        }
    }

    fn waits(arrival: Arrival) -> SideId {
        match arrival {
            Arrival::Wait(id) => id,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn two_that_name_each_other_meet() {
        let now = Instant::now();
        let mut all = Rendezvous::new(8, REMEMBER);
        let first = waits(all.arrive(now, side(1, 9, 1, 2)));
        assert_eq!(all.arrive(now, side(1, 9, 2, 1)), Arrival::Match(first));
        assert_eq!(all.arrive(now, side(1, 9, 2, 1)), Arrival::Taken);
        all.leave(now, first);
        assert_eq!(all.arrive(now, side(1, 9, 1, 2)), Arrival::Taken, "a connection id is good once");
        waits(all.arrive(now + REMEMBER, side(1, 9, 1, 2)));
    }

    #[test]
    fn who_does_not_belong_takes_the_other_down_too() {
        let now = Instant::now();
        for wrong in [side(1, 9, 3, 1), side(1, 9, 2, 3), side(2, 9, 2, 1), side(1, 9, 1, 2)] {
            let mut all = Rendezvous::new(8, REMEMBER);
            let first = waits(all.arrive(now, side(1, 9, 1, 2)));
            assert_eq!(all.arrive(now, wrong), Arrival::Mismatch(first));
            assert!(all.counts.is_empty());
        }
    }

    #[test]
    fn waiting_and_streaming_pipes_count_against_the_namespace_alone() {
        let now = Instant::now();
        let mut all = Rendezvous::new(2, REMEMBER);
        let first = waits(all.arrive(now, side(1, 1, 1, 2)));
        all.arrive(now, side(1, 1, 2, 1));
        let second = waits(all.arrive(now, side(1, 2, 1, 2)));
        assert_eq!(all.arrive(now, side(1, 3, 1, 2)), Arrival::Full);
        waits(all.arrive(now, side(2, 4, 1, 2)));
        all.leave(now, second);
        waits(all.arrive(now, side(1, 5, 1, 2)));
        all.leave(now, first);
        waits(all.arrive(now, side(1, 6, 1, 2)));
    }

    #[test]
    fn fault_09_a_revoked_member_is_found_in_waiting_and_streaming_pipes() {
        let now = Instant::now();
        let mut all = Rendezvous::new(8, REMEMBER);
        let streaming = waits(all.arrive(now, side(1, 1, 1, 2)));
        all.arrive(now, side(1, 1, 2, 1));
        let own = waits(all.arrive(now, side(1, 2, 2, 1)));
        let towards = waits(all.arrive(now, side(1, 3, 1, 2)));
        waits(all.arrive(now, side(1, 4, 1, 3)));
        waits(all.arrive(now, side(2, 5, 2, 1)));
        let mut found = all.revoke(&[1; 32].into(), &key(2));
        found.sort_by_key(|id| id.0);
        assert_eq!(found, [streaming, own, towards]);
    }

    proptest! {
        /// Whatever comes and goes, in whatever order: the counts are right, the cap holds, and nothing stays behind.
        #[test]
        fn counts_hold_over_any_sequence(steps in prop::collection::vec((0u8..4, 0u8..3, 0u8..6, 0u8..3, 0u8..3), 1..200)) {
            let mut now = Instant::now();
            let mut all = Rendezvous::new(3, REMEMBER);
            let mut open: Vec<SideId> = Vec::new();
            for (what, namespace, connection, me, other) in steps {
                now += Duration::from_secs(3);
                match what {
                    0 | 1 => match all.arrive(now, side(namespace, connection, me, other)) {
                        Arrival::Wait(id) => open.push(id),
                        Arrival::Match(id) => prop_assert!(open.contains(&id)),
                        Arrival::Mismatch(id) => open.retain(|o| *o != id),
                        Arrival::Taken | Arrival::Full => {}
                    },
                    2 => if let Some(id) = open.first().copied() {
                        all.leave(now, id);
                        open.remove(0);
                    },
                    _ => if let Some(id) = open.pop() {
                        all.leave(now, id);
                    },
                }
                prop_assert_eq!(all.pipes.len(), open.len());
                prop_assert_eq!(all.counts.values().sum::<u32>() as usize, open.len());
                prop_assert!(all.counts.values().all(|count| *count <= 3));
            }
            open.into_iter().for_each(|id| all.leave(now, id));
            all.forget(now + REMEMBER);
            prop_assert!(all.meetings.is_empty() && all.counts.is_empty() && all.pipes.is_empty());
        }
    }
}
