//! Numbers that can be drawn again from a seed.

/// SplitMix64: small, even enough for choosing what a test does next, and the same everywhere for one seed.
#[derive(Debug, Clone)]
pub struct Rng {
    seed: u64,
    state: u64,
}

impl Rng {
    /// The sequence that `seed` names.
    pub fn new(seed: u64) -> Self {
        Self { seed, state: seed }
    }

    /// The sequence of `SKALD_TEST_SEED`, or of `default` where that is not set. A failing test prints
    /// [`Rng::seed`], so that the run can be had again.
    pub fn from_env(default: u64) -> Self {
        let given = std::env::var("SKALD_TEST_SEED").ok().and_then(|text| text.parse().ok());
        Self::new(given.unwrap_or(default))
    }

    /// What this sequence began with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The next number.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 where `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        // The bias of a remainder is far below what a test could notice.
        usize::try_from(self.next_u64().checked_rem(bound).unwrap_or(0)).unwrap_or(0)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// One of the choices.
    pub fn pick<'a, T>(&mut self, choices: &'a [T]) -> Option<&'a T> {
        choices.get(self.below(choices.len()))
    }

    /// Bytes.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.next_u64().to_le_bytes()).flatten().take(length).collect()
    }

    /// A word of lowercase letters: a canary that no file holds by chance once it has 20 of them.
    pub fn word(&mut self, length: usize) -> String {
        std::iter::repeat_with(|| self.below(26)).take(length).map(|n| char::from(b'a' + n as u8)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_names_one_sequence() {
        let draw = |seed| {
            let mut rng = Rng::new(seed);
            (rng.next_u64(), rng.word(12), rng.bytes(9), rng.below(7))
        };
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
        assert_eq!(Rng::new(1).below(0), 0);
        assert_eq!(Rng::new(1).pick::<u8>(&[]), None);
    }
}
