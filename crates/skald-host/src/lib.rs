//! The host: Inbox, rules, audit, plugins, events and storage.
