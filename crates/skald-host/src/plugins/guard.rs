//! Panics of plugins stay theirs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use skald_core_api::{PluginHttp, PluginRequest, PluginResponse};

/// Calls into a plugin; `None` where it panicked.
pub(super) fn calm<T>(call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).ok()
}

/// A plugin's routes, with panics turned into answers.
pub(super) struct Guarded {
    pub plugin: String,
    pub http: Arc<dyn PluginHttp>,
}

#[async_trait]
impl PluginHttp for Guarded {
    async fn handle(&self, request: PluginRequest) -> PluginResponse {
        match AssertUnwindSafe(async { self.http.handle(request).await }).catch_unwind().await {
            Ok(response) => response,
            Err(_) => {
                tracing::error!(plugin = self.plugin, "a plugin panicked while it answered a request");
                PluginResponse::problem(500, "internal", "The plugin failed over this request: try again.")
            }
        }
    }
}
