//! The plugin's status line, put together from the link and from what fails here.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use skald_core_api::{PluginState, StatusReporter};

use crate::relay::Link;

/// What can fail beside the link; one sentence of each is remembered until it works again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    /// Reading or answering the Inbox.
    Inbox,
    /// The connector's own tables.
    Store,
    /// The relay client's store.
    Devices,
}

#[derive(Default)]
struct State {
    link: Option<Link>,
    troubles: BTreeMap<Part, String>,
}

/// See the module.
pub(crate) struct Health {
    reporter: StatusReporter,
    state: Mutex<State>,
}

impl Health {
    pub(crate) fn new(reporter: StatusReporter) -> Self {
        Self { reporter, state: Mutex::default() }
    }

    /// The link has changed.
    pub(crate) fn link(&self, link: Link) {
        self.change(|state| state.link = Some(link));
    }

    /// A part fails, for this reason, or works again.
    pub(crate) fn part(&self, part: Part, trouble: Option<String>) {
        self.change(|state| {
            match trouble {
                Some(text) => state.troubles.insert(part, text),
                None => state.troubles.remove(&part),
            };
        });
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut state);
        let (line, message) = line(&state);
        self.reporter.set(line, message);
    }
}

fn line(state: &State) -> (PluginState, Option<String>) {
    if let Some(trouble) = state.troubles.values().next() {
        return (PluginState::Degraded, Some(trouble.clone()));
    }
    match &state.link {
        Some(Link { up: true, .. }) => (PluginState::Running, None),
        Some(Link { last_error: Some(error), .. }) => (PluginState::Degraded, Some(error.clone())),
        _ => (PluginState::Starting, Some("Connecting to the relay.".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skald_core_api::PluginStatus;
    use tokio::sync::watch;

    fn link(up: bool, last_error: Option<&str>) -> Link {
        Link { up, state: "x", last_error: last_error.map(Into::into), since: 0 }
    }

    #[test]
    fn the_line_follows_link_and_troubles() {
        let (sender, status) = watch::channel(PluginStatus::new(PluginState::Starting, None));
        let health = Health::new(StatusReporter::new(sender));
        let now = || (status.borrow().state, status.borrow().message.clone());
        health.link(link(false, None));
        assert_eq!(now().0, PluginState::Starting);
        health.link(link(false, Some("The relay cannot be reached.")));
        assert_eq!(now(), (PluginState::Degraded, Some("The relay cannot be reached.".into())));
        health.link(link(true, None));
        assert_eq!(now(), (PluginState::Running, None));
        health.part(Part::Store, Some("The disk is full.".into()));
        assert_eq!(now(), (PluginState::Degraded, Some("The disk is full.".into())));
        health.link(link(true, None));
        assert_eq!(now().0, PluginState::Degraded, "a working link does not hide a full disk");
        health.part(Part::Store, None);
        assert_eq!(now(), (PluginState::Running, None));
    }
}
