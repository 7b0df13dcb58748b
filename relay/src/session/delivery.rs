//! Delivery of stored messages: everything in order, nothing lost, deleted on proof.
//!
//! The wire has no acknowledgement. After each batch the relay therefore sends a native WebSocket Ping whose payload
//! is the position of the last message, and a Pong with that payload proves that everything up to it arrived
//! (relay-server "Delivery" 3). Positions only rise, so a later Pong proves earlier batches too.
//!
//! While the queue is being read the outbox is not touched. What comes meanwhile waits there, so nothing newer, live
//! messages included, can pass what is older (relay-server "Delivery" 2). And only that part of the queue is read which
//! was offered before the outbox took over, so that the queue cannot pass what lies in the outbox either.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use bytes::Bytes;

use crate::hub::outbox::{Item, Taken};
use crate::store::Position;

/// What the delivery wants done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Step {
    /// Write this frame.
    Write(Bytes),
    /// Send a Ping that bears this position.
    Probe(Position),
    /// Read what waits after the first position, through the second.
    Read(Position, Position),
    /// Delete everything up to this position.
    Confirm(Position),
    /// The peer confirms nothing (or again does): it counts as absent for push (or no more).
    Suspect(bool),
}

/// The state of one connection's delivery.
#[derive(Debug)]
pub(crate) struct Delivery {
    mode: Mode,
    /// The last position that was written to this connection.
    sent: Position,
    /// The last position that the peer has proved.
    proved: Position,
    /// Positions that were sent and not proved, with when.
    probes: VecDeque<(Position, Instant)>,
    patience: Duration,
    suspect: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Mode {
    /// A batch from the database is awaited, of what waits through this position.
    Reading { through: Position },
    /// The queue is empty as far as this connection knows; the outbox flows.
    Flowing,
}

impl Delivery {
    /// Begins with whatever waits from before, which is what was offered through this position.
    pub(crate) fn begin(through: Position, patience: Duration) -> (Self, Step) {
        let delivery = Self {
            mode: Mode::Reading { through },
            sent: 0,
            proved: 0,
            probes: VecDeque::new(),
            patience,
            suspect: false,
        };
        (delivery, Step::Read(0, through))
    }

    /// Whether something was written, or was about to be, of which the peer has proved nothing.
    pub(crate) fn owes(&self) -> bool {
        self.sent > self.proved || !self.is_flowing()
    }

    /// Whether the outbox may be taken from.
    pub(crate) fn is_flowing(&self) -> bool {
        self.mode == Mode::Flowing
    }

    /// A batch was read.
    pub(crate) fn batch(&mut self, now: Instant, messages: Vec<(Position, Bytes)>, more: bool) -> Vec<Step> {
        let mut steps = Vec::with_capacity(messages.len() + 2);
        let before = self.sent;
        for (position, frame) in messages {
            self.write_stored(position, frame, &mut steps);
        }
        self.probe_if_advanced(now, before, &mut steps);
        match self.mode {
            Mode::Reading { through } if more => steps.push(Step::Read(self.sent, through)),
            Mode::Reading { .. } | Mode::Flowing => self.mode = Mode::Flowing,
        }
        steps
    }

    /// The outbox was taken from. Only while [flowing](Self::is_flowing).
    pub(crate) fn taken(&mut self, now: Instant, taken: Taken) -> Vec<Step> {
        let mut steps = Vec::with_capacity(taken.items.len() + 1);
        let before = self.sent;
        for item in taken.items {
            match item {
                Item::Stored(position, frame) => self.write_stored(position, frame, &mut steps),
                Item::Passing(frame) => steps.push(Step::Write(frame)),
            }
        }
        self.probe_if_advanced(now, before, &mut steps);
        if let Some(through) = taken.behind {
            self.mode = Mode::Reading { through };
            steps.push(Step::Read(self.sent, through));
        }
        steps
    }

    /// A Pong came. Anything but a position that was sent on this connection proves nothing.
    pub(crate) fn pong(&mut self, payload: &[u8]) -> Vec<Step> {
        let Ok(payload) = payload.try_into() else { return Vec::new() };
        let position = Position::from_be_bytes(payload);
        if position <= self.proved || position > self.sent {
            return Vec::new();
        }
        self.proved = position;
        while self.probes.front().is_some_and(|(probe, _)| *probe <= position) {
            self.probes.pop_front();
        }
        let mut steps = vec![Step::Confirm(position)];
        if std::mem::take(&mut self.suspect) {
            steps.push(Step::Suspect(false));
        }
        steps
    }

    /// The last position that was sent, which every Ping bears: a peer may answer only the latest of several.
    pub(crate) fn position(&self) -> Position {
        self.sent
    }

    /// When patience with the oldest unproved batch ends.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let (_, since) = self.probes.front().filter(|_| !self.suspect)?;
        Some(*since + self.patience)
    }

    /// Time has passed.
    pub(crate) fn tick(&mut self, now: Instant) -> Option<Step> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        self.suspect = true;
        Some(Step::Suspect(true))
    }

    fn write_stored(&mut self, position: Position, frame: Bytes, steps: &mut Vec<Step>) {
        // What was read from the database may lie in the outbox as well.
        if position > self.sent {
            self.sent = position;
            steps.push(Step::Write(frame));
        }
    }

    fn probe_if_advanced(&mut self, now: Instant, before: Position, steps: &mut Vec<Step>) {
        if self.sent > before {
            self.probes.push_back((self.sent, now));
            // A peer that proves nothing for long must not make this grow: the oldest alone has a deadline.
            if self.probes.len() > 64 {
                self.probes.remove(1);
            }
            steps.push(Step::Probe(self.sent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn frame(text: &'static str) -> Bytes {
        Bytes::from_static(text.as_bytes())
    }

    fn flowing(now: Instant) -> Delivery {
        let (mut delivery, _) = Delivery::begin(9, PATIENCE);
        assert!(delivery.batch(now, Vec::new(), false).is_empty());
        delivery
    }

    fn taken(items: Vec<Item>) -> Taken {
        Taken { items, behind: None }
    }

    #[test]
    fn fault_03_the_outbox_waits_until_the_queue_is_read() {
        let now = Instant::now();
        let (mut delivery, first) = Delivery::begin(9, PATIENCE);
        assert_eq!(first, Step::Read(0, 9));
        assert!(!delivery.is_flowing());
        let steps = delivery.batch(now, vec![(1, frame("a")), (2, frame("b"))], true);
        assert_eq!(
            steps,
            [Step::Write(frame("a")), Step::Write(frame("b")), Step::Probe(2), Step::Read(2, 9)]
        );
        assert!(!delivery.is_flowing());
        delivery.batch(now, vec![(3, frame("c"))], false);
        assert!(delivery.is_flowing());
        // Message 3 was offered to the outbox as well, and a live one came behind it.
        let steps =
            delivery.taken(now, taken(vec![Item::Stored(3, frame("c")), Item::Passing(frame("live"))]));
        assert_eq!(steps, [Step::Write(frame("live"))]);
    }

    #[test]
    fn fault_02_nothing_is_deleted_before_the_peer_has_proved_it() {
        let now = Instant::now();
        let mut delivery = flowing(now);
        let steps = delivery.taken(now, taken(vec![Item::Stored(7, frame("x"))]));
        assert_eq!(steps, [Step::Write(frame("x")), Step::Probe(7)]);
        for nothing in [&b""[..], b"1234567", &8u64.to_be_bytes(), &0u64.to_be_bytes()] {
            assert!(delivery.pong(nothing).is_empty());
        }
        assert_eq!(delivery.pong(&7u64.to_be_bytes()), [Step::Confirm(7)]);
        assert!(delivery.pong(&7u64.to_be_bytes()).is_empty(), "it is deleted once");
    }

    #[test]
    fn a_later_pong_proves_earlier_batches() {
        let now = Instant::now();
        let mut delivery = flowing(now);
        for position in 1..=3 {
            delivery.taken(now, taken(vec![Item::Stored(position, frame("x"))]));
        }
        assert_eq!(delivery.pong(&3u64.to_be_bytes()), [Step::Confirm(3)]);
        assert_eq!(delivery.deadline(), None);
    }

    #[test]
    fn a_peer_that_confirms_nothing_becomes_suspect_once_and_recovers() {
        let now = Instant::now();
        let mut delivery = flowing(now);
        delivery.taken(now, taken(vec![Item::Stored(1, frame("x"))]));
        let late = now + PATIENCE;
        assert_eq!(delivery.tick(late - Duration::from_millis(1)), None);
        assert_eq!(delivery.tick(late), Some(Step::Suspect(true)));
        assert_eq!(delivery.tick(late), None);
        assert_eq!(delivery.pong(&1u64.to_be_bytes()), [Step::Confirm(1), Step::Suspect(false)]);
    }

    #[test]
    fn what_was_left_in_the_database_is_read_when_the_outbox_is_empty() {
        let now = Instant::now();
        let mut delivery = flowing(now);
        let steps = delivery.taken(now, Taken { items: vec![Item::Stored(4, frame("d"))], behind: Some(6) });
        assert_eq!(steps.last(), Some(&Step::Read(4, 6)));
        assert!(!delivery.is_flowing());
    }

    #[test]
    fn unproved_probes_stay_few() {
        let now = Instant::now();
        let mut delivery = flowing(now);
        for position in 1..1000 {
            delivery.taken(now, taken(vec![Item::Stored(position, frame("x"))]));
        }
        assert!(delivery.probes.len() <= 64);
        assert_eq!(delivery.deadline(), Some(now + PATIENCE));
    }
}
