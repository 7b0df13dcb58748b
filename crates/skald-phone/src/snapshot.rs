//! The Inbox as the host last told it. Items are kept as they were received: what is shown, digested and signed is one
//! and the same value, unknown members included.

use serde_json::Value;
use skald_payloads::{Digest, item_digest};

/// What kind of thing waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// *May I do this?*
    Approval,
    /// *Which one?*
    Clarification,
    /// *What is the password?*
    Elicitation,
}

impl Kind {
    /// For people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Approval => "approval",
            Self::Clarification => "question",
            Self::Elicitation => "prompt",
        }
    }

    /// Which commands answer it.
    pub fn commands(self) -> &'static str {
        match self {
            Self::Approval => "`approve` or `reject`",
            Self::Clarification => "`answer`",
            Self::Elicitation => "`elicit`",
        }
    }

    const ALL: [(Self, &'static str); 3] = [
        (Self::Approval, "approvals"),
        (Self::Clarification, "clarifications"),
        (Self::Elicitation, "elicitations"),
    ];
}

/// One item.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// What it is.
    pub kind: Kind,
    /// Its name, as received.
    pub id: String,
    /// Everything that was received of it.
    pub raw: Value,
}

impl Item {
    /// SHA-256 over the item as received, without its own `digest` (spec crypto, Decisions).
    pub fn digest(&self) -> Option<Digest> {
        item_digest(&self.raw).ok()
    }

    /// Whether the host vouches for another content than what arrived here.
    pub fn contradicts_itself(&self) -> bool {
        let told = self.raw.get("digest").and_then(Value::as_str);
        told.is_some_and(|told| self.digest().is_none_or(|own| !told.eq_ignore_ascii_case(&own.to_string())))
    }

    /// A member that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.raw.get(name).and_then(Value::as_str)
    }

    /// A member that is a time.
    pub fn time(&self, name: &str) -> Option<i64> {
        self.raw.get(name).and_then(Value::as_i64)
    }

    /// A member that is yes or no; absent is no.
    pub fn flag(&self, name: &str) -> bool {
        self.raw.get(name).and_then(Value::as_bool).unwrap_or(false)
    }
}

/// The whole Inbox at one moment.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Snapshot {
    /// How many items wait at the host; more than are listed where one was too large to send.
    pub badge: u64,
    /// What waits: approvals, then questions, then prompts.
    pub items: Vec<Item>,
}

/// How a person's id fits the items.
#[derive(Debug, PartialEq)]
pub enum Named<'a> {
    /// Exactly one.
    One(&'a Item),
    /// None.
    Nothing,
    /// Several begin so.
    Several(usize),
}

impl Snapshot {
    /// Takes the members of an `inbox_update` that was already checked.
    pub fn of(update: &Value) -> Self {
        let mut items = Vec::new();
        for (kind, member) in Kind::ALL {
            for raw in update.get(member).and_then(Value::as_array).into_iter().flatten() {
                if let Some(id) = raw.get("request_id").and_then(Value::as_str) {
                    items.push(Item { kind, id: id.to_owned(), raw: raw.clone() });
                }
            }
        }
        let listed = items.len() as u64;
        Self { badge: update.get("badge").and_then(Value::as_u64).unwrap_or(listed), items }
    }

    /// The reverse of [`Snapshot::of`].
    pub fn to_value(&self) -> Value {
        let mut out = serde_json::Map::new();
        out.insert("badge".into(), self.badge.into());
        for (kind, member) in Kind::ALL {
            let list = self.items.iter().filter(|i| i.kind == kind).map(|i| i.raw.clone()).collect();
            out.insert(member.into(), Value::Array(list));
        }
        Value::Object(out)
    }

    /// The item of that id.
    pub fn get(&self, id: &str) -> Option<&Item> {
        self.items.iter().find(|i| i.id == id)
    }

    /// The item a person means: by its whole id, or by a beginning that only one has.
    pub fn named(&self, prefix: &str) -> Named<'_> {
        if let Some(item) = self.get(prefix) {
            return Named::One(item);
        }
        let wanted = prefix.to_lowercase();
        let mut fits =
            self.items.iter().filter(|i| !wanted.is_empty() && i.id.to_lowercase().starts_with(&wanted));
        match (fits.next(), fits.count()) {
            (None, _) => Named::Nothing,
            (Some(item), 0) => Named::One(item),
            (Some(_), more) => Named::Several(more + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn sample() -> Snapshot {
        Snapshot::of(&json!({"badge": 4,
            "approvals": [{"request_id": "abc1", "summary": "s"}, {"request_id": "abd2"}],
            "clarifications": [{"request_id": "x"}], "elicitations": [{"no": "id"}]}))
    }

    #[test]
    fn an_item_is_found_by_its_id_or_a_unique_beginning() {
        let inbox = sample();
        assert!(matches!(inbox.named("abc1"), Named::One(i) if i.id == "abc1"));
        assert!(matches!(inbox.named("ABC"), Named::One(i) if i.id == "abc1"));
        assert_eq!(inbox.named("ab"), Named::Several(2));
        assert_eq!(inbox.named("q"), Named::Nothing);
        assert_eq!(inbox.named(""), Named::Nothing);
    }

    #[test]
    fn a_whole_id_wins_over_being_the_beginning_of_another() {
        let inbox = Snapshot::of(&json!({"approvals": [{"request_id": "a"}, {"request_id": "ab"}]}));
        assert!(matches!(inbox.named("a"), Named::One(i) if i.id == "a"));
    }

    #[test]
    fn what_was_received_survives_being_kept() {
        let inbox = sample();
        assert_eq!(Snapshot::of(&inbox.to_value()), inbox);
        assert_eq!((inbox.badge, inbox.items.len()), (4, 3));
    }

    #[test]
    fn a_digest_that_is_not_the_items_own_is_noticed() {
        let mut raw = json!({"request_id": "a", "summary": "s"});
        let own = Item { kind: Kind::Approval, id: "a".into(), raw: raw.clone() }.digest().expect("digest");
        raw["digest"] = own.to_string().into();
        assert!(!Item { kind: Kind::Approval, id: "a".into(), raw: raw.clone() }.contradicts_itself());
        raw["summary"] = "changed".into();
        assert!(Item { kind: Kind::Approval, id: "a".into(), raw }.contradicts_itself());
    }
}
