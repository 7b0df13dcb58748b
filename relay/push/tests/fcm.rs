//! The bridge to Google against a server that speaks Google's protocol and plays every documented failure.

mod common;

use std::time::Duration;

use common::Ground;
use serde_json::{Value, json};
use skald_relay_common::frame::Platform;
use skald_relay_push::fcm::Fcm;
use skald_relay_push::settings::FcmSettings;
use skald_relay_push::{Bridge as _, Fault, Throttled, Verdict};
use skald_testkit::fakes::fcm::FcmFake;
use skald_testkit::fakes::{Act, Reply};

struct Bench {
    ground: Ground,
    fake: FcmFake,
    fcm: Fcm,
}

impl Bench {
    async fn new() -> Self {
        let ground = Ground::new();
        let fake = FcmFake::start(&ground.authority, ground.seconds()).await.unwrap();
        let service_account = ground.scratch.join("service-account.json");
        std::fs::write(&service_account, fake.service_account()).unwrap();
        let settings = FcmSettings { service_account, base_url: Some(fake.url()) };
        let fcm = Fcm::new(&settings, &ground.roots, &ground.wall()).unwrap();
        Self { ground, fake, fcm }
    }

    async fn send(&self) -> Verdict {
        self.fcm.send(&self.ground.push(Platform::ANDROID, "a-device:token")).await
    }

    async fn scripted(&self, act: impl Into<Act>) -> Verdict {
        self.fake.script([act.into()]);
        self.send().await
    }
}

#[tokio::test]
async fn a_push_is_data_alone_with_the_messages_own_time_to_live() {
    let bench = Bench::new().await;
    assert_eq!(bench.send().await, Verdict::Accepted);
    let message = bench.fake.next_push().await.unwrap();
    let hex = |byte: &str, times| byte.repeat(times);
    let expected = json!({
        "token": "a-device:token",
        "data": {
            "ns": hex("01", 32), "from": hex("03", 32), "f": hex("03", 32), "n": hex("04", 12), "c": "c2VhbGVk",
        },
        "android": {"priority": "HIGH", "ttl": "3600s", "collapse_key": "inbox"},
    });
    assert_eq!(message, expected);
    assert_eq!(bench.fake.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn an_access_token_serves_until_five_minutes_before_its_end() {
    let bench = Bench::new().await;
    for _ in 0..11 {
        assert_eq!(bench.send().await, Verdict::Accepted);
        bench.ground.pass_minutes(5);
    }
    assert_eq!(bench.fake.granted(), 1);
    assert_eq!(bench.send().await, Verdict::Accepted);
    assert_eq!(bench.fake.granted(), 2);
    assert_eq!(bench.fake.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_revoked_access_token_is_replaced_once() {
    let bench = Bench::new().await;
    assert_eq!(bench.send().await, Verdict::Accepted);
    bench.fake.revoke();
    assert_eq!(bench.send().await, Verdict::Accepted);
    assert_eq!(bench.fake.granted(), 2);
    let plain = || FcmFake::error(401, "no", "UNAUTHENTICATED", &json!([]));
    bench.fake.script([plain().into(), plain().into()]);
    assert_eq!(bench.send().await, Verdict::operator("UNAUTHENTICATED"));
    assert_eq!(bench.fake.granted(), 3, "it is not tried for ever");
}

#[tokio::test]
async fn every_documented_code_has_its_verdict() {
    let bench = Bench::new().await;
    let dead = || Verdict::TokenDead { since: None };
    let minute = Some(Duration::from_secs(60));
    let partly = Verdict::Refused { fault: Fault::Partly, reason: "THIRD_PARTY_AUTH_ERROR".into() };
    for (status, code, verdict) in [
        (404, "UNREGISTERED", dead()),
        (400, "INVALID_ARGUMENT", dead()),
        (403, "SENDER_ID_MISMATCH", dead()),
        (429, "QUOTA_EXCEEDED", Verdict::Later { after: minute, who: Throttled::Device }),
        (503, "UNAVAILABLE", Verdict::later_for_lane(None)),
        (500, "INTERNAL", Verdict::later_for_lane(None)),
        (401, "THIRD_PARTY_AUTH_ERROR", partly),
    ] {
        assert_eq!(bench.scripted(FcmFake::refusal(status, code)).await, verdict, "{code}");
    }
    let wait = |code, status| FcmFake::refusal(status, code).with_header("retry-after", "90");
    let after = Some(Duration::from_secs(90));
    assert_eq!(bench.scripted(wait("QUOTA_EXCEEDED", 429)).await, Verdict::later_for_device(after));
    assert_eq!(bench.scripted(wait("UNAVAILABLE", 503)).await, Verdict::later_for_lane(after));
    assert_eq!(bench.granted_and_faults(), (1, Vec::new()));
}

impl Bench {
    fn granted_and_faults(&self) -> (usize, Vec<String>) {
        (self.fake.granted(), self.fake.faults())
    }
}

/// `INVALID_ARGUMENT` is the token's fault or ours, and only the details tell.
#[tokio::test]
async fn a_request_that_google_does_not_understand_costs_no_device_its_token() {
    let bench = Bench::new().await;
    let request = |fields: &Value| {
        let details = json!([
            {"@type": "type.googleapis.com/google.firebase.fcm.v1.FcmError", "errorCode": "INVALID_ARGUMENT"},
            {"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": fields},
        ]);
        FcmFake::error(400, "invalid", "INVALID_ARGUMENT", &details)
    };
    let ours = Verdict::ours("INVALID_ARGUMENT");
    assert_eq!(bench.scripted(request(&json!([{"field": "message.android.ttl"}]))).await, ours);
    assert_eq!(bench.scripted(request(&json!([]))).await, ours);
    let dead = Verdict::TokenDead { since: None };
    assert_eq!(bench.scripted(request(&json!([{"field": "message.token"}]))).await, dead);
    let details = json!([{"@type": "type.googleapis.com/google.rpc.BadRequest", "fieldViolations": []}]);
    let bare = FcmFake::error(400, "invalid", "INVALID_ARGUMENT", &details);
    assert_eq!(bench.scripted(bare).await, ours);
    let big = json!([{"@type": "x/google.firebase.fcm.v1.FcmError", "errorCode": "INVALID_ARGUMENT"}]);
    let big = FcmFake::error(400, "Android message is too big", "INVALID_ARGUMENT", &big);
    assert_eq!(bench.scripted(big).await, Verdict::TooLarge);
    let denied = FcmFake::error(403, "no", "PERMISSION_DENIED", &json!([]));
    assert_eq!(bench.scripted(denied).await, Verdict::operator("PERMISSION_DENIED"));
    assert_eq!(bench.scripted(Reply::status(502)).await, Verdict::later_for_lane(None));
}

#[tokio::test]
async fn what_the_token_endpoint_refuses_is_the_operators_and_what_it_delays_passes() {
    let bench = Bench::new().await;
    bench.fake.script_grants([Reply::json(400, &json!({"error": "invalid_grant"})).into()]);
    assert_eq!(bench.send().await, Verdict::operator("invalid_grant"));
    bench.fake.script_grants([Reply::status(503).with_header("retry-after", "9").into()]);
    assert_eq!(bench.send().await, Verdict::later_for_lane(Some(Duration::from_secs(9))));
    bench.fake.script_grants([Reply::json(200, &json!({"nothing": 1})).into()]);
    assert!(matches!(bench.send().await, Verdict::Unreachable { .. }));
    assert_eq!(bench.send().await, Verdict::Accepted);
}

#[tokio::test]
async fn a_connection_that_ends_under_a_push_is_replaced_and_the_push_arrives() {
    let bench = Bench::new().await;
    for act in [Act::Reset, Act::GoAway, Act::ReplyThenGoAway(Reply::status(200))] {
        assert_eq!(bench.scripted(act).await, Verdict::Accepted);
    }
    bench.fake.script_grants([Act::Reset]);
    bench.fake.revoke();
    assert_eq!(bench.send().await, Verdict::Accepted);
    bench.fake.script([Act::Reset, Act::Reset]);
    assert!(matches!(bench.send().await, Verdict::Unreachable { .. }));
}
