//! Connects the Inbox with phones through a relay.
