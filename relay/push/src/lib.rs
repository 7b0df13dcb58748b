//! Wakes absent devices through the push services.
