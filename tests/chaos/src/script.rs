//! What every peer sends, drawn from the seed alone: a peer that is killed and started again goes on where it was.

use serde_json::json;
use skald_testkit::Rng;

/// How a message travels, and among which others its order counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// Kept until it has arrived: the promise under test.
    Stored,
    /// Kept, and replaced by a newer one of its slot.
    Latest(u8),
    /// Now or not at all.
    Live,
}

impl Stream {
    /// In a word.
    pub fn name(self) -> String {
        match self {
            Self::Stored => "stored".to_owned(),
            Self::Latest(slot) => format!("latest{slot}"),
            Self::Live => "live".to_owned(),
        }
    }
}

/// In every block of 50 messages so many are live, and so many replace one another; the rest is stored.
const BLOCK: u64 = 50;
const LIVE: u64 = 6;
const LATEST: u64 = 3;

/// One peer's part of the script.
#[derive(Debug, Clone)]
pub struct Script {
    /// Of the whole run.
    pub seed: u64,
    /// Who sends.
    pub from: usize,
    /// To whom it may send.
    pub to: Vec<usize>,
    /// How many messages before the closing rounds.
    pub length: u64,
}

/// A message of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// Its number among everything that its sender sends.
    pub number: u64,
    /// Its recipient.
    pub to: usize,
    /// How it travels.
    pub stream: Stream,
    /// Its payload.
    pub body: Vec<u8>,
    /// Whether its sender waits, after it, until everything has been handed on.
    pub breath: bool,
}

/// How long scripts must be so that all of them together have this many stored messages, with some to spare for those of
/// which a kill leaves it open whether they were accepted.
pub fn length_for(messages: u64, peers: usize) -> u64 {
    let stored_per_block = BLOCK - LIVE - LATEST;
    let wanted = messages + messages / 100 + 50;
    (wanted * BLOCK).div_ceil(stored_per_block * peers as u64).div_ceil(BLOCK) * BLOCK
}

/// How many stored messages a script of this length has.
pub fn stored_in(length: u64) -> u64 {
    length / BLOCK * (BLOCK - LIVE - LATEST)
}

impl Script {
    fn rng(&self, number: u64) -> Rng {
        let sender =
            Rng::new(self.seed).next_u64() ^ (self.from as u64 + 1).wrapping_mul(0xd1b5_4a32_d192_ed03);
        Rng::new(Rng::new(sender).next_u64() ^ number.wrapping_mul(0xa24b_aed4_963e_e407))
    }

    /// How the message of this number travels.
    pub fn stream(&self, number: u64) -> Stream {
        if number >= self.length {
            return Stream::Stored;
        }
        // Each block holds the same sorts in another order.
        let turned = (number + self.rng(number / BLOCK).next_u64() % BLOCK).wrapping_mul(7) % BLOCK;
        match turned {
            0..LIVE => Stream::Live,
            LIVE..9 => Stream::Latest((turned % 2) as u8),
            _ => Stream::Stored,
        }
    }

    /// The message of this number. Beyond the script's length come the closing rounds, a stored message to each recipient.
    pub fn message(&self, number: u64) -> Planned {
        let mut rng = self.rng(number);
        let stream = self.stream(number);
        let closing = number >= self.length;
        let to =
            if closing { (number - self.length) as usize % self.to.len() } else { rng.below(self.to.len()) };
        let to = self.to[to];
        let pad = match (closing, stream, rng.below(1000)) {
            (true, ..) => 0,
            (_, Stream::Live, 990..) => 300_000 + rng.below(200_000),
            // Letters shrink when they are packed; this much fills what a stored message may have.
            (_, _, 996..) => 60_000 + rng.below(4_000),
            (_, _, 970..) => 4_000 + rng.below(30_000),
            (_, _, 850..) => 600 + rng.below(4_000),
            _ => rng.below(600),
        };
        let pad = rng.word(pad);
        let body =
            json!({ "from": self.from, "to": to, "number": number, "stream": stream.name(), "pad": pad });
        let breath = rng.one_in(30);
        Planned { number, to, stream, body: body.to_string().into_bytes(), breath }
    }

    /// How many numbers there are with this many closing rounds.
    pub fn end(&self, rounds: u32) -> u64 {
        self.length + u64::from(rounds) * self.to.len() as u64
    }
}

/// Sender and number, as a payload names them.
pub fn named(body: &[u8]) -> Option<(usize, u64)> {
    let body: serde_json::Value = serde_json::from_slice(body).ok()?;
    Some((usize::try_from(body["from"].as_u64()?).ok()?, body["number"].as_u64()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(from: usize) -> Script {
        Script { seed: 9, from, to: vec![4, 5], length: 100 }
    }

    #[test]
    fn a_message_is_the_same_whenever_it_is_asked_for() {
        assert_eq!(script(1).message(17), script(1).message(17));
        assert_ne!(script(1).message(17).body, script(2).message(17).body);
        assert_eq!(named(&script(1).message(17).body), Some((1, 17)));
    }

    #[test]
    fn every_block_has_its_share_of_stored_messages() {
        let stored = (0..100).filter(|n| script(3).stream(*n) == Stream::Stored).count();
        assert_eq!(stored as u64, stored_in(100));
        assert!(stored_in(length_for(3_000, 6)) * 6 >= 3_000);
    }

    #[test]
    fn a_closing_round_reaches_every_recipient() {
        let recipients: Vec<_> = (100..script(1).end(2)).map(|n| script(1).message(n).to).collect();
        assert_eq!(recipients, [4, 5, 4, 5]);
    }
}
