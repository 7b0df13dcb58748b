//! From a message to Apple's door: the whole relay against a server that speaks Apple's protocol.

mod common;

use common::{Id, Peer, TestRelay};
use skald_relay::Options;
use skald_relay_push::settings::ApnsSettings;
use skald_testkit::fakes::apns::{ApnsFake, KEY_ID, TEAM_ID, TOPIC};
use skald_testkit::fakes::{Act, system_clock};
use skald_testkit::{Authority, Scratch};
use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

struct Bench {
    _scratch: Scratch,
    apple: ApnsFake,
    relay: TestRelay,
    agent: Id,
    phone: Id,
    home: Peer,
}

impl Bench {
    async fn new() -> Self {
        let scratch = Scratch::new().unwrap();
        let authority = Authority::open(scratch.join("ca")).unwrap();
        let apple = ApnsFake::start(&authority, system_clock()).await.unwrap();
        let key = scratch.join("AuthKey.p8");
        std::fs::write(&key, apple.key_file()).unwrap();
        let settings = ApnsSettings {
            key,
            key_id: KEY_ID.to_owned(),
            team_id: TEAM_ID.to_owned(),
            topic: TOPIC.to_owned(),
            sandbox: false,
            base_url: Some(apple.url()),
        };
        let change = |s: &mut skald_relay::Settings| {
            s.push.apns = Some(settings);
            s.push.extra_ca = Some(authority.certificate());
        };
        let relay = TestRelay::with(change, Options::default()).await;
        let (agent, phone) = (Id::new(1), Id::new(2));
        let mut home = Peer::home(relay.addr(), &agent, &[&phone]).await;
        let mut device = Peer::try_device(relay.addr(), agent.namespace(), &phone, "c0ffee")
            .await
            .unwrap_or_else(|e| panic!("{e}"));
        device.ws.close(None).await.unwrap();
        home.presence(&phone, false).await;
        Self { _scratch: scratch, apple, relay, agent, phone, home }
    }
}

#[tokio::test]
async fn a_burst_for_an_absent_phone_is_one_push_with_the_newest_message() {
    let mut bench = Bench::new().await;
    for n in 1..=5 {
        bench.home.message(&bench.phone, [n; 3], n.into(), false).await;
    }
    bench.home.settle().await;
    let push = bench.apple.next_push().await.unwrap();
    assert_eq!(push["token"], "c0ffee");
    let d = &push["body"]["d"];
    assert_eq!(d["ns"], bench.agent.namespace().to_hex());
    assert_eq!(d["from"], bench.agent.public.to_hex());
    assert_eq!(d["c"], "BQUF", "the fifth");
    // The phone opens, gets everything once, and there was no second push.
    let mut phone = Peer::device(bench.relay.addr(), bench.agent.namespace(), &bench.phone).await;
    for n in 1..=5 {
        assert_eq!(common::counter(&phone.recv_message().await), n);
    }
    bench.relay.running.shutdown().await;
    assert_eq!(bench.apple.taken().await, None);
    assert_eq!(bench.apple.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_token_that_apple_calls_dead_is_gone_from_the_database() {
    let mut bench = Bench::new().await;
    // Apple found out after the phone had said its token.
    bench.apple.script([ApnsFake::unregistered(4_000_000_000_000)]);
    bench.home.message(&bench.phone, "hello", 1, false).await;
    let options =
        SqliteConnectOptions::new().filename(bench.relay.dir.path().join("relay.db")).read_only(true);
    let mut db = SqliteConnection::connect_with(&options).await.unwrap();
    let asked = async {
        while sqlx::query_scalar::<_, i64>("SELECT COUNT(push_token) FROM clients")
            .fetch_one(&mut db)
            .await
            .unwrap()
            > 0
        {}
    };
    tokio::time::timeout(common::PATIENCE, asked).await.expect("the token is forgotten");
    assert_eq!(bench.apple.requests(), 1);
}

#[tokio::test]
async fn a_token_that_the_phone_said_again_since_stays() {
    let mut bench = Bench::new().await;
    bench.apple.script([ApnsFake::unregistered(1_000), Act::Reset]);
    bench.home.message(&bench.phone, "one", 1, false).await;
    bench.home.settle().await;
    while bench.apple.requests() == 0 {
        tokio::task::yield_now().await;
    }
    bench.home.message(&bench.phone, [7; 3], 2, false).await;
    // A connection that breaks does not lose it either.
    let push = bench.apple.next_push().await.unwrap();
    assert_eq!((&push["token"], &push["body"]["d"]["c"]), (&"c0ffee".into(), &"BwcH".into()));
}
