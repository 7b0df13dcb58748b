//! Plugins that behave and plugins that do not.

mod common;
#[path = "plugins/unruly.rs"]
mod unruly;

use async_trait::async_trait;
use common::*;
use serde_json::{Value, json};
use skald_core_api::*;
use skald_host::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use unruly::*;

#[tokio::test]
async fn a_plugin_starts_with_its_defaults_and_stops_when_disabled() {
    let (f, bad, _) = world().await;
    let before = f.host.plugins().get("bad").unwrap();
    assert_eq!((before.enabled, before.status.state), (false, PluginState::Disabled));
    assert_eq!(before.config, json!({"mode": "run", "size": 3}));
    let mut events = f.host.events().subscribe();
    let info = f.host.plugins().update("bad", Some(true), Some(json!({"size": 5}))).await.unwrap();
    assert_eq!(info.status.state, PluginState::Running);
    assert_eq!(bad.starts.borrow().1, json!({"mode": "run", "size": 5}));
    assert_eq!(soon(events.next()).await, Some(Event::Plugins));
    assert!(f.host.streams().find("bad-stream").is_some());
    let same = f.host.plugins().update("bad", Some(true), Some(json!({"size": 5}))).await.unwrap();
    assert_eq!((same.status.state, bad.starts.borrow().0), (PluginState::Running, 1));
    let info = f.host.plugins().update("bad", Some(false), None).await.unwrap();
    assert_eq!(info.status.state, PluginState::Disabled);
    assert_eq!(*bad.stopped.borrow(), 1);
    assert!(f.host.plugins().http("bad").is_none() && f.host.streams().find("bad-stream").is_none());
    assert!(matches!(f.host.plugins().update("ugly", None, None).await, Err(Error::NotFound(_))));
}

#[tokio::test]
async fn settings_that_do_not_hold_are_told_by_field_and_the_earlier_ones_run_on() {
    let (f, bad, _) = world().await;
    enable(&f, "run").await.unwrap();
    for (config, field) in [
        (json!({"size": 12}), "size"),
        (json!({"size": "geheim"}), "size"),
        (json!({"mode": "run", "sise": 4}), "sise"),
        (json!([1]), "config"),
        (json!({"mode": "unthinkable"}), "mode"),
        (json!({"mode": "panic_check"}), "config"),
    ] {
        let result = f.host.plugins().update("bad", None, Some(config.clone())).await;
        assert!(!format!("{result:?}").contains("geheim"));
        assert_eq!(fields(result), [field], "{config}");
    }
    let info = f.host.plugins().get("bad").unwrap();
    assert_eq!((info.status.state, bad.starts.borrow().0), (PluginState::Running, 1));
    assert_eq!(info.config, json!({"mode": "run", "size": 3}));
}

#[tokio::test]
async fn a_refused_start_is_shown_with_its_cause_and_not_repeated() {
    let (f, bad, good) = world().await;
    let info = enable(&f, "refuse").await.unwrap();
    assert_eq!(info.status.state, PluginState::Failed);
    assert_eq!(info.status.message.as_deref(), Some("The door is shut: open it."));
    f.clock.advance(Duration::from_secs(3600));
    unharmed(&f, &good).await;
    assert_eq!(bad.starts.borrow().0, 1);
    // The settings were saved, and new ones end the failure.
    assert_eq!(f.host.plugins().get("bad").unwrap().config["mode"], "refuse");
    assert_eq!(enable(&f, "run").await.unwrap().status.state, PluginState::Running);
}

#[tokio::test]
async fn a_start_that_panics_or_hangs_fails_and_is_tried_again() {
    let (f, bad, good) = world().await;
    let info = enable(&f, "panic_start").await.unwrap();
    assert_eq!(info.status.state, PluginState::Failed);
    f.clock.advance(Duration::from_secs(1));
    started(&bad, 2).await;
    let host = f.host.clone();
    let hanging = tokio::spawn(async move {
        host.plugins().update("bad", None, Some(json!({"mode": "hang_start"}))).await.unwrap()
    });
    soon(bad.starts.subscribe().wait_for(|s| s.1["mode"] == "hang_start")).await.unwrap();
    assert_eq!(state(&f, "bad"), PluginState::Starting);
    unharmed(&f, &good).await;
    f.clock.advance(Duration::from_secs(30));
    let info = soon(hanging).await.unwrap();
    assert_eq!(info.status.state, PluginState::Failed);
    assert_eq!(info.status.message.as_deref(), Some("It did not start within 30 seconds."));
}

#[tokio::test]
async fn a_plugin_that_dies_is_shown_and_started_again_with_growing_pauses() {
    let (f, bad, good) = world().await;
    enable(&f, "run").await.unwrap();
    for (i, pause) in [1, 2, 4, 8].into_iter().enumerate() {
        bad.kill.notify_one();
        let status = until(&f, "bad", PluginState::Failed).await;
        assert_eq!(status.message.as_deref(), Some("The line was cut."));
        assert!(f.host.plugins().http("bad").is_none());
        unharmed(&f, &good).await;
        f.clock.advance(Duration::from_secs(pause) - Duration::from_millis(1));
        assert_eq!(state(&f, "bad"), PluginState::Failed);
        f.clock.advance(Duration::from_millis(1));
        started(&bad, i + 2).await;
        until(&f, "bad", PluginState::Running).await;
    }
    // One that lived for a minute begins anew.
    f.clock.advance(Duration::from_secs(60));
    bad.kill.notify_one();
    until(&f, "bad", PluginState::Failed).await;
    f.clock.advance(Duration::from_secs(1));
    started(&bad, 6).await;
    assert_eq!(bad.most_alive.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_plugin_that_panics_at_work_fails_alone() {
    let (f, bad, good) = world().await;
    enable(&f, "panic_run").await.unwrap();
    let status = until(&f, "bad", PluginState::Failed).await;
    assert!(status.message.unwrap().contains("fault in the plugin"));
    unharmed(&f, &good).await;
    assert_eq!(bad.alive.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_route_that_panics_answers_500_and_the_plugin_lives_on() {
    let (f, _, good) = world().await;
    enable(&f, "panic_http").await.unwrap();
    for _ in 0..2 {
        let answer = f.host.plugins().http("bad").unwrap().handle(request()).await;
        assert_eq!((answer.status, answer.content_type.as_str()), (500, "application/problem+json"));
    }
    assert_eq!(state(&f, "bad"), PluginState::Running);
    unharmed(&f, &good).await;
}

#[tokio::test]
async fn a_plugin_that_hangs_on_stop_is_cut_off() {
    let (f, bad, good) = world().await;
    enable(&f, "hang_stop").await.unwrap();
    let host = f.host.clone();
    let update =
        tokio::spawn(async move { host.plugins().update("bad", None, Some(json!({"mode": "run"}))).await });
    soon(bad.stopping.subscribe().wait_for(|n| *n == 1)).await.unwrap();
    unharmed(&f, &good).await;
    f.clock.advance(Duration::from_secs(10));
    let info = soon(update).await.unwrap().unwrap();
    assert_eq!(info.status.state, PluginState::Running);
    assert_eq!(bad.most_alive.load(Ordering::SeqCst), 1, "the old one ended before the new one began");
}

#[tokio::test]
async fn shutdown_stops_every_plugin_even_one_that_hangs() {
    let (f, bad, good) = world().await;
    enable(&f, "hang_stop").await.unwrap();
    let host = f.host.clone();
    let shutdown = tokio::spawn(async move { host.shutdown().await });
    soon(bad.stopping.subscribe().wait_for(|n| *n == 1)).await.unwrap();
    f.clock.advance(Duration::from_secs(10));
    soon(shutdown).await.unwrap();
    assert_eq!((bad.alive.load(Ordering::SeqCst), *good.stopped.borrow()), (0, 1));
    let stopped = f.host.plugins().update("good", Some(false), None).await;
    assert!(matches!(stopped, Err(Error::Store(StoreError::Stopping))));
}

#[tokio::test]
async fn shutdown_interrupts_a_start() {
    let (f, bad, _) = world().await;
    let host = f.host.clone();
    let update = tokio::spawn(async move {
        host.plugins().update("bad", Some(true), Some(json!({"mode": "hang_start"}))).await
    });
    started(&bad, 1).await;
    soon(f.host.shutdown()).await;
    let _ = soon(update).await.unwrap();
}

#[tokio::test]
async fn a_plugins_own_word_on_its_status_is_shown() {
    let (f, bad, _) = world().await;
    let info = enable(&f, "degraded").await.unwrap();
    assert_eq!(info.status.state, PluginState::Degraded);
    assert_eq!(info.status.message.as_deref(), Some("The relay cannot be reached."));
    enable(&f, "late_status").await.unwrap();
    bad.kill.notify_one();
    assert_eq!(until(&f, "bad", PluginState::Degraded).await.message.as_deref(), Some("Later."));
}

#[tokio::test]
async fn parallel_changes_take_their_turns() {
    let (f, bad, _) = world().await;
    let changes: Vec<_> = (0..12u64)
        .map(|i| {
            let host = f.host.clone();
            tokio::spawn(async move {
                let config = Some(json!({"size": 1 + i % 9}));
                host.plugins().update("bad", Some(i % 3 != 0), config).await.unwrap()
            })
        })
        .collect();
    for change in changes {
        soon(change).await.unwrap();
    }
    f.host.plugins().update("bad", Some(false), None).await.unwrap();
    assert_eq!((bad.most_alive.load(Ordering::SeqCst), bad.alive.load(Ordering::SeqCst)), (1, 0));
}

#[tokio::test]
async fn what_was_enabled_starts_again_with_the_host() {
    let (f, _, _) = world().await;
    enable(&f, "degraded").await.unwrap();
    f.host.shutdown().await;
    let control = Arc::new(Control::default());
    let plugins: Vec<Arc<dyn Plugin>> = vec![Arc::new(Unruly { id: "bad", control: control.clone() })];
    let host = open(f.dir.path(), &f.clock, plugins).await.unwrap();
    assert_eq!(control.starts.borrow().0, 0);
    host.start(Arc::new(NoWeb)).await;
    started(&control, 1).await;
    assert_eq!(control.starts.borrow().1["mode"], "degraded");
    host.shutdown().await;
}

#[tokio::test]
async fn fault_20_stored_settings_that_cannot_be_read_are_a_fault_and_stay() {
    let (f, _, _) = world().await;
    enable(&f, "run").await.unwrap();
    f.host.shutdown().await;
    let url = format!("sqlite://{}", f.dir.path().join("skald.db").display());
    let pool = sqlx::SqlitePool::connect(&url).await.unwrap();
    for (stored, told) in [("not json", "cannot be read"), ("{\"size\": 99}", "`size` must be at most 9.")] {
        sqlx::query("UPDATE plugins SET config = ? WHERE id = 'bad'")
            .bind(stored)
            .execute(&pool)
            .await
            .unwrap();
        let (bad, good) = (Arc::new(Control::default()), Arc::new(Control::default()));
        let plugins: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(Unruly { id: "bad", control: bad.clone() }),
            Arc::new(Unruly { id: "good", control: good.clone() }),
        ];
        let host = open(f.dir.path(), &f.clock, plugins).await.unwrap();
        host.start(Arc::new(NoWeb)).await;
        let mut status = host.plugins().status("bad").unwrap();
        let status = soon(status.wait_for(|s| s.state == PluginState::Failed)).await.unwrap().clone();
        assert!(status.message.as_deref().unwrap().contains(told), "{status:?}");
        started(&good, 1).await;
        assert_eq!(bad.starts.borrow().0, 0);
        host.shutdown().await;
        let kept: String =
            sqlx::query_scalar("SELECT config FROM plugins WHERE id = 'bad'").fetch_one(&pool).await.unwrap();
        assert_eq!(kept, stored);
    }
}

#[tokio::test]
async fn plugins_that_share_an_id_or_bring_a_broken_schema_stop_the_start() {
    struct Other(Manifest);
    #[async_trait]
    impl Plugin for Other {
        fn manifest(&self) -> Manifest {
            self.0.clone()
        }
        async fn start(&self, _: Value, _: PluginContext) -> Result<Box<dyn Running>, StartError> {
            Err(StartError("never".into()))
        }
    }
    let plugin = |id: &str, config_schema: Value| -> Arc<dyn Plugin> {
        Arc::new(Other(Manifest {
            id: id.into(),
            name: String::new(),
            description: String::new(),
            config_schema,
        }))
    };
    for plugins in [
        vec![plugin("a", json!({})), plugin("a", json!({}))],
        vec![plugin("A b", json!({}))],
        vec![plugin("a", json!({"type": 7}))],
        vec![plugin("a", json!({"properties": {"n": {"type": "integer", "default": "x"}}}))],
    ] {
        let dir = tempfile::tempdir().unwrap();
        let result = open(dir.path(), &ManualClock::new(NOW), plugins).await;
        assert!(matches!(result, Err(OpenError::Plugin { .. })));
        // Nothing is left behind that would lock the folder.
        open(dir.path(), &ManualClock::new(NOW), Vec::new()).await.unwrap();
    }
}
