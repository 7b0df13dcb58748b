//! Services of the world outside, played over the real protocols: TLS by a private authority, HTTP/2, and signatures that
//! are verified. Each fake answers as the real service documents it, and says of itself what a test needs to know.

mod acme;
pub mod apns;
pub mod fcm;
mod ntfy;
mod server;
mod webpush;

pub use acme::{AcmeFault, FakeAcme};
pub use apns::ApnsFake;
pub use fcm::FcmFake;
pub use ntfy::FakeNtfy;
pub use server::{Act, Alpn, Clock, FakeServer, Handler, Incoming, Reply, system_clock};
pub use webpush::{FakeWebPush, WebPushMessage};
