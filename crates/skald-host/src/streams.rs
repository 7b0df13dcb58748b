//! The registry of stream handlers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use skald_core_api::{StreamHandler, StreamRegistration, StreamRegistry, TypeTaken};

type Table = HashMap<String, Arc<dyn StreamHandler>>;

/// Stream handlers by type. Cheap to clone.
#[derive(Clone, Default)]
pub struct Streams(Arc<Mutex<Table>>);

impl StreamRegistry for Streams {
    fn register(&self, handler: Arc<dyn StreamHandler>) -> Result<StreamRegistration, TypeTaken> {
        let name = handler.stream_type().to_owned();
        {
            let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            if table.contains_key(&name) {
                return Err(TypeTaken(name));
            }
            table.insert(name.clone(), handler);
        }
        // Weak: a registration that outlives the host must not keep the table alive.
        let table = Arc::downgrade(&self.0);
        Ok(StreamRegistration::new(move || {
            if let Some(table) = table.upgrade() {
                // Dropped after the lock is released: a handler may run code of its own when it goes.
                let gone = table.lock().unwrap_or_else(PoisonError::into_inner).remove(&name);
                drop(gone);
            }
        }))
    }

    fn find(&self, stream_type: &str) -> Option<Arc<dyn StreamHandler>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(stream_type).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use async_trait::async_trait;
    use skald_core_api::{ByteStream, StreamError, StreamOffer};
    use tokio_util::sync::CancellationToken;

    struct Echo;
    #[async_trait]
    impl StreamHandler for Echo {
        fn stream_type(&self) -> &str {
            "echo"
        }
        async fn serve(
            &self,
            _: StreamOffer,
            _: Box<dyn ByteStream>,
            _: CancellationToken,
        ) -> Result<(), StreamError> {
            Ok(())
        }
    }

    #[test]
    fn a_type_has_one_handler_until_its_registration_is_dropped() {
        let streams = Streams::default();
        let first = streams.register(Arc::new(Echo)).unwrap();
        let taken = streams.register(Arc::new(Echo)).err().unwrap();
        assert_eq!(taken.0, "echo");
        assert!(streams.find("echo").is_some());
        drop(first);
        assert!(streams.find("echo").is_none());
        let _again = streams.register(Arc::new(Echo)).unwrap();
    }
}
