//! What two ends may agree on beyond the first form of a pipe.
//!
//! An initiator lists what it can in the Invite's header [`FEATURES_HEADER`]; a responder that knows the header answers
//! with what it takes of that in the Accept's `headers`, under the same name. A peer that knows neither passes the
//! header to its application, which ignores it, and answers as ever: then nothing was agreed. The words travel inside
//! the end-to-end envelope, so nobody between the two can take one away.

use std::collections::BTreeMap;

/// The header of Invite and Accept: words separated by commas, in any order, unknown ones ignored in an Invite.
pub const FEATURES_HEADER: &str = "skald-features";

const HALF_CLOSE: &str = "half-close";
const STREAMS: &str = "streams-yamux";

/// A set of features.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Features {
    /// `half-close`: an empty sealed frame ends its direction; an end without one is an error.
    pub half_close: bool,
    /// `streams-yamux`: the pipe carries many streams of its type, each flow-controlled by itself.
    pub streams: bool,
}

/// A peer took what it was not offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a feature was taken that was not offered")]
pub struct NotOffered;

impl Features {
    /// None of them.
    pub const NONE: Self = Self { half_close: false, streams: false };

    /// Whether there is anything in it.
    pub fn is_empty(self) -> bool {
        self == Self::NONE
    }

    /// What is in both.
    pub fn and(self, other: Self) -> Self {
        Self { half_close: self.half_close && other.half_close, streams: self.streams && other.streams }
    }

    /// Takes the offer out of an Invite's headers: applications see only their own.
    pub fn take_offer(headers: &mut BTreeMap<String, String>) -> Self {
        let words = headers.remove(FEATURES_HEADER).unwrap_or_default();
        let has = |word| words.split(',').any(|w| w.trim() == word);
        Self { half_close: has(HALF_CLOSE), streams: has(STREAMS) }
    }

    /// Writes an offer into an Invite's headers, in place of what stood there; nothing where nothing is offered.
    pub fn put_offer(self, headers: &mut BTreeMap<String, String>) {
        headers.remove(FEATURES_HEADER);
        headers.extend(self.entry());
    }

    /// The `headers` of an Accept that takes these. `None`, and so the form that every peer knows, where it takes
    /// nothing.
    pub fn answer(self) -> Option<BTreeMap<String, String>> {
        self.entry().map(|entry| BTreeMap::from([entry]))
    }

    /// What an Accept took of `self`, the offer.
    pub fn taken(self, answer: Option<&BTreeMap<String, String>>) -> Result<Self, NotOffered> {
        let mut taken = Self::NONE;
        let words = answer.and_then(|headers| headers.get(FEATURES_HEADER)).map_or("", String::as_str);
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                HALF_CLOSE if self.half_close => taken.half_close = true,
                STREAMS if self.streams => taken.streams = true,
                _ => return Err(NotOffered),
            }
        }
        Ok(taken)
    }

    fn entry(self) -> Option<(String, String)> {
        let words = [(self.half_close, HALF_CLOSE), (self.streams, STREAMS)];
        let words: Vec<_> = words.into_iter().filter_map(|(has, word)| has.then_some(word)).collect();
        (!words.is_empty()).then(|| (FEATURES_HEADER.to_owned(), words.join(",")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Features = Features { half_close: true, streams: true };

    fn headers(words: &str) -> BTreeMap<String, String> {
        BTreeMap::from([(FEATURES_HEADER.to_owned(), words.to_owned()), ("a".to_owned(), "1".to_owned())])
    }

    #[test]
    fn an_offer_is_read_as_it_was_written_and_applications_do_not_see_it() {
        for offer in [Features::NONE, BOTH, Features { streams: false, ..BOTH }] {
            let mut written = BTreeMap::from([("a".to_owned(), "1".to_owned())]);
            offer.put_offer(&mut written);
            assert_eq!(written.contains_key(FEATURES_HEADER), !offer.is_empty());
            assert_eq!(Features::take_offer(&mut written), offer);
            assert_eq!(written.keys().collect::<Vec<_>>(), ["a"]);
        }
    }

    #[test]
    fn unknown_words_of_an_offer_are_ignored() {
        let offered = Features::take_offer(&mut headers(" time-travel , half-close,,STREAMS-YAMUX"));
        assert_eq!(offered, Features { streams: false, ..BOTH });
    }

    #[test]
    fn who_takes_nothing_answers_in_the_first_form() {
        assert_eq!(Features::NONE.answer(), None);
        assert_eq!(BOTH.taken(None), Ok(Features::NONE));
        assert_eq!(BOTH.taken(Some(&BTreeMap::new())), Ok(Features::NONE));
        assert_eq!(BOTH.taken(BOTH.answer().as_ref()), Ok(BOTH));
    }

    #[test]
    fn nobody_takes_what_was_not_offered() {
        let only_ends = Features { streams: false, ..BOTH };
        assert_eq!(only_ends.taken(BOTH.answer().as_ref()), Err(NotOffered));
        assert_eq!(only_ends.taken(Some(&headers("half-close,telepathy"))), Err(NotOffered));
        assert_eq!(Features::NONE.taken(Some(&headers("half-close"))), Err(NotOffered));
    }
}
