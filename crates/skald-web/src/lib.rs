//! The host's web server: pages, API, sign-in and embedded assets.
