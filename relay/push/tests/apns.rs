//! The bridge to Apple against a server that speaks Apple's protocol and plays every documented failure.

mod common;

use std::sync::Arc;
use std::time::Duration;

use common::Ground;
use skald_relay_common::frame::Platform;
use skald_relay_push::apns::Apns;
use skald_relay_push::settings::ApnsSettings;
use skald_relay_push::{Bridge as _, Push, Throttled, UnixMillis, Verdict};
use skald_testkit::fakes::apns::{ApnsFake, KEY_ID, TEAM_ID, TOPIC};
use skald_testkit::fakes::{Act, Reply};

const TOKEN: &str = "00fc13adff785122b4ad28809a3420982341241421348097878e577c991de8f0";

struct Bench {
    ground: Ground,
    fake: ApnsFake,
    apns: Arc<Apns>,
}

impl Bench {
    async fn new() -> Self {
        let ground = Ground::new();
        let fake = ApnsFake::start(&ground.authority, ground.seconds()).await.unwrap();
        let key = ground.scratch.join("AuthKey.p8");
        std::fs::write(&key, fake.key_file()).unwrap();
        let settings = ApnsSettings {
            key,
            key_id: KEY_ID.to_owned(),
            team_id: TEAM_ID.to_owned(),
            topic: TOPIC.to_owned(),
            sandbox: false,
            base_url: Some(fake.url()),
        };
        let apns = Arc::new(Apns::new(&settings, &ground.roots, &ground.wall()).unwrap());
        Self { ground, fake, apns }
    }

    fn push(&self) -> Push {
        self.ground.push(Platform::IOS, TOKEN)
    }

    async fn send(&self) -> Verdict {
        self.apns.send(&self.push()).await
    }

    async fn scripted(&self, act: Act) -> Verdict {
        self.fake.script([act]);
        self.send().await
    }
}

#[tokio::test]
async fn a_push_arrives_with_every_header_and_many_share_one_connection_and_token() {
    let bench = Bench::new().await;
    let mut all = tokio::task::JoinSet::new();
    for _ in 0..20 {
        let (apns, push) = (Arc::clone(&bench.apns), bench.push());
        all.spawn(async move { apns.send(&push).await });
    }
    while let Some(verdict) = all.join_next().await {
        assert_eq!(verdict.unwrap(), Verdict::Accepted);
    }
    let push = bench.fake.next_push().await.unwrap();
    assert_eq!(push["token"], TOKEN);
    assert_eq!(push["priority"], "10");
    assert_eq!(push["expiration"], (bench.ground.now().0 + 3_600_000) / 1000);
    assert_eq!(push["collapse"].as_str().unwrap().len(), 32);
    assert_eq!(push["body"]["d"]["c"], "c2VhbGVk");
    assert_eq!((bench.fake.connections(), bench.fake.tokens()), (1, 1));
    assert_eq!(bench.fake.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn provider_tokens_are_renewed_in_time_and_not_more_often() {
    let bench = Bench::new().await;
    for _ in 0..12 {
        assert_eq!(bench.send().await, Verdict::Accepted);
        bench.ground.pass_minutes(10);
    }
    assert_eq!(bench.fake.tokens(), 3, "two hours of use, renewed every forty minutes");
    assert_eq!(bench.fake.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn an_expired_provider_token_is_signed_again_once_and_only_when_it_may_be() {
    let bench = Bench::new().await;
    assert_eq!(bench.send().await, Verdict::Accepted);
    bench.ground.pass_minutes(25);
    let expired = || ApnsFake::refusal(403, "ExpiredProviderToken");
    assert_eq!(bench.scripted(expired()).await, Verdict::Accepted);
    assert_eq!(bench.fake.tokens(), 2);
    // A fresh one that is called expired means that a clock is wrong: no third token within twenty minutes.
    assert_eq!(bench.scripted(expired()).await, Verdict::operator("ExpiredProviderToken"));
    assert_eq!(bench.fake.tokens(), 2);
    assert_eq!(bench.fake.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn every_documented_refusal_has_its_verdict() {
    let bench = Bench::new().await;
    let dead = |since: Option<i64>| Verdict::TokenDead { since: since.map(UnixMillis) };
    for (status, reason, verdict) in [
        (400, "BadDeviceToken", dead(None)),
        (400, "DeviceTokenNotForTopic", dead(None)),
        (400, "BadTopic", Verdict::ours("BadTopic")),
        (400, "PayloadEmpty", Verdict::ours("PayloadEmpty")),
        (400, "InvalidPushType", Verdict::ours("InvalidPushType")),
        (400, "IdleTimeout", Verdict::later_for_lane(None)),
        (403, "InvalidProviderToken", Verdict::operator("InvalidProviderToken")),
        (403, "BadEnvironmentKeyIdInToken", Verdict::operator("BadEnvironmentKeyIdInToken")),
        (403, "Forbidden", Verdict::operator("Forbidden")),
        (404, "BadPath", Verdict::ours("BadPath")),
        (405, "MethodNotAllowed", Verdict::ours("MethodNotAllowed")),
        (410, "ExpiredToken", dead(None)),
        (413, "PayloadTooLarge", Verdict::TooLarge),
        (429, "TooManyRequests", Verdict::later_for_device(None)),
        (500, "InternalServerError", Verdict::later_for_lane(None)),
        (503, "ServiceUnavailable", Verdict::later_for_lane(None)),
        (503, "Shutdown", Verdict::later_for_lane(None)),
        (400, "a text that quotes what was sent", Verdict::ours("refused")),
    ] {
        assert_eq!(bench.scripted(ApnsFake::refusal(status, reason)).await, verdict, "{status} {reason}");
    }
    assert_eq!(bench.scripted(ApnsFake::unregistered(1234)).await, dead(Some(1234)));
    let wait = Reply::json(429, &serde_json::json!({"reason": "TooManyRequests"}));
    let wait = wait.with_header("retry-after", "77");
    let after = Some(Duration::from_secs(77));
    assert_eq!(bench.scripted(wait.into()).await, Verdict::later_for_device(after));
    let updates = bench.scripted(ApnsFake::refusal(429, "TooManyProviderTokenUpdates")).await;
    let twenty = Some(Duration::from_secs(20 * 60));
    assert_eq!(updates, Verdict::Later { after: twenty, who: Throttled::Lane });
    assert_eq!(bench.send().await, Verdict::Accepted);
    assert_eq!(bench.fake.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_connection_that_ends_under_a_push_is_replaced_and_the_push_arrives() {
    let bench = Bench::new().await;
    assert_eq!(bench.scripted(Act::Reset).await, Verdict::Accepted);
    assert_eq!(bench.scripted(Act::GoAway).await, Verdict::Accepted);
    let connections = bench.fake.connections();
    assert_eq!(bench.scripted(Act::ReplyThenGoAway(Reply::status(200))).await, Verdict::Accepted);
    // The last push may still go over the old connection, for a server says that it leaves before it does.
    while bench.fake.connections() == connections {
        assert_eq!(bench.send().await, Verdict::Accepted);
    }
    assert_eq!(bench.fake.faults(), Vec::<String>::new());
    // It does not go on for ever.
    bench.fake.script([Act::Reset, Act::Reset]);
    assert!(matches!(bench.send().await, Verdict::Unreachable { .. }));
}

#[tokio::test]
async fn a_server_that_shuts_down_is_left_and_so_is_one_bound_to_another_key() {
    let bench = Bench::new().await;
    bench.scripted(ApnsFake::refusal(503, "Shutdown")).await;
    assert_eq!(bench.send().await, Verdict::Accepted);
    assert_eq!(bench.fake.connections(), 2);
    let unrelated = || ApnsFake::refusal(403, "UnrelatedKeyIdInToken");
    assert_eq!(bench.scripted(unrelated()).await, Verdict::Accepted);
    assert_eq!(bench.fake.connections(), 3);
    bench.fake.script([unrelated(), unrelated()]);
    assert_eq!(bench.send().await, Verdict::operator("UnrelatedKeyIdInToken"));
}

#[tokio::test]
async fn what_is_no_token_never_makes_an_address() {
    let bench = Bench::new().await;
    for odd in ["", "../../admin", "00fc?x=1", "zz", &"0".repeat(1000)] {
        let push = bench.ground.push(Platform::IOS, odd);
        assert_eq!(bench.apns.send(&push).await, Verdict::TokenDead { since: None }, "{odd}");
    }
    assert_eq!(bench.fake.requests(), 0);
}

#[tokio::test]
async fn a_server_that_nobody_vouches_for_gets_nothing() {
    let bench = Bench::new().await;
    let stranger = Ground::new();
    let fake = ApnsFake::start(&stranger.authority, stranger.seconds()).await.unwrap();
    let key = bench.ground.scratch.join("AuthKey.p8");
    let settings = ApnsSettings {
        key,
        key_id: KEY_ID.to_owned(),
        team_id: TEAM_ID.to_owned(),
        topic: TOPIC.to_owned(),
        sandbox: false,
        base_url: Some(fake.url()),
    };
    let apns = Apns::new(&settings, &bench.ground.roots, &bench.ground.wall()).unwrap();
    assert_eq!(apns.send(&bench.push()).await, Verdict::unreachable("no connection"));
    assert_eq!(fake.requests(), 0);
}
