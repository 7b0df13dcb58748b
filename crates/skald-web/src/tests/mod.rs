//! Tests of the router and of its connections.
