//! One peer's conversation on `/v1/ws`.
//!
//! [`machine::Session`] is the protocol: it takes the time and an event and gives effects, and knows neither socket
//! nor clock. [`delivery::Delivery`] is its part for messages that must not be lost. [`driver`] owns the socket and
//! does what the machine says.

mod admission;
pub(crate) mod delivery;
pub(crate) mod driver;
pub(crate) mod machine;
mod online;
pub(crate) mod rules;
#[cfg(test)]
mod simulation;
mod tally;
#[cfg(test)]
mod tests;
