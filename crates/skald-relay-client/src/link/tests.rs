//! The link in virtual time.

use std::collections::BTreeMap;

use skald_relay_common::frame::AuthOk;

use super::*;

const NS: NamespaceId = NamespaceId::from_bytes([1; 32]);
const NONCE: ChallengeNonce = ChallengeNonce::from_bytes([2; 32]);

fn s(n: u64) -> Duration {
    Duration::from_secs(n)
}

fn machine(role: Role) -> Machine {
    Machine::new(role, NS, Timings::default(), Box::new(|| 0.0))
}

fn ok() -> Input {
    Input::Frame(FromRelay::AuthOk(AuthOk { namespace: NS, info: RelayInfo::default() }))
}

fn refuse(code: ErrorCode) -> Input {
    Input::Frame(FromRelay::AuthError(Refusal::new(code, "")))
}

/// Through the handshake.
fn go_live(m: &mut Machine, now: Instant) {
    assert_eq!(m.handle(now, Input::Tick), m_dial(m), "the pause is over");
    handshake(m, now);
}

fn m_dial(_: &Machine) -> Vec<Effect> {
    vec![Effect::Dial]
}

fn handshake(m: &mut Machine, now: Instant) {
    assert_eq!(m.handle(now, Input::Opened), vec![]);
    let effects = m.handle(now, Input::Frame(FromRelay::Challenge(NONCE)));
    assert_eq!(effects, vec![Effect::Authenticate(NONCE)]);
    assert_eq!(m.handle(now, ok()), vec![Effect::Up(RelayInfo::default())]);
    assert_eq!(m.state(), LinkState::Connected);
    assert_eq!(m.problem(), None);
}

fn live(now: Instant) -> Machine {
    let mut m = machine(Role::Agent);
    assert_eq!(m.handle(now, Input::Start), vec![Effect::Dial]);
    handshake(&mut m, now);
    m
}

#[test]
fn fault_17_silence_of_75_s_is_death_though_nothing_was_refused() {
    let start = Instant::now();
    let mut m = live(start);
    let mut pings = 0;
    loop {
        let now = m.deadline().unwrap();
        let effects = m.handle(now, Input::Tick);
        if effects == vec![Effect::Ping(KEEPALIVE)] {
            pings += 1;
            continue;
        }
        assert_eq!(effects, vec![Effect::Hangup, Effect::Down]);
        assert_eq!(now - start, s(75));
        break;
    }
    assert_eq!(pings, 2, "it asked before it gave up");
    assert_eq!(m.problem(), Some(&LinkProblem::Silent));
}

#[test]
fn an_answering_relay_is_never_given_up() {
    let mut m = live(Instant::now());
    for _ in 0..100 {
        let now = m.deadline().unwrap();
        assert_eq!(m.handle(now, Input::Tick), vec![Effect::Ping(KEEPALIVE)]);
        m.handle(now + s(1), Input::Pong(Some(KEEPALIVE)));
    }
    assert!(m.is_live());
}

#[test]
fn fault_18_every_step_of_the_handshake_has_a_deadline() {
    let start = Instant::now();
    for steps in 0..3 {
        let mut m = machine(Role::Agent);
        m.handle(start, Input::Start);
        if steps > 0 {
            m.handle(start, Input::Opened);
        }
        if steps > 1 {
            m.handle(start, Input::Frame(FromRelay::Challenge(NONCE)));
        }
        let until = m.deadline().expect("a deadline stands");
        assert!(until <= start + s(75));
        assert_eq!(m.handle(until, Input::Tick), vec![Effect::Hangup]);
        assert_eq!(m.state(), LinkState::Waiting);
    }
}

#[test]
fn fault_18_back_off_grows_to_a_minute_and_begins_anew_after_a_session_that_held() {
    let mut now = Instant::now();
    let mut m = machine(Role::Agent);
    m.handle(now, Input::Start);
    for expected in [1, 2, 4, 8, 16, 32, 60, 60] {
        m.handle(now, Input::Lost(LinkProblem::Closed));
        let until = m.deadline().unwrap();
        assert_eq!(until - now, s(expected));
        now = until;
        assert_eq!(m.handle(now, Input::Tick), vec![Effect::Dial]);
    }
    handshake(&mut m, now);
    now += s(29);
    m.handle(now, Input::Lost(LinkProblem::Closed));
    assert_eq!(m.deadline().unwrap() - now, s(60), "a session that fell at once proves nothing");
    now = m.deadline().unwrap();
    go_live(&mut m, now);
    now += s(31);
    m.handle(now, Input::Lost(LinkProblem::Closed));
    assert_eq!(m.deadline().unwrap() - now, s(1), "without any goodbye");
}

#[test]
fn jitter_only_shortens() {
    let now = Instant::now();
    let mut m = Machine::new(Role::Agent, NS, Timings::default(), Box::new(|| 1.0));
    m.handle(now, Input::Start);
    m.handle(now, Input::Lost(LinkProblem::Closed));
    assert_eq!(m.deadline().unwrap() - now, Duration::from_millis(700));
}

#[test]
fn a_device_waits_for_admission_and_notices_when_it_ends() {
    let mut now = Instant::now();
    let mut m = machine(Role::Device { admitted: false });
    m.handle(now, Input::Start);
    for _ in 0..20 {
        m.handle(now, Input::Opened);
        m.handle(now, Input::Frame(FromRelay::Challenge(NONCE)));
        assert_eq!(m.handle(now, refuse(ErrorCode::Unauthorized)), vec![Effect::Hangup]);
        assert_eq!(m.state(), LinkState::AwaitingAdmission);
        assert!(m.deadline().unwrap() - now <= s(5), "who stands beside it does not wait a minute");
        now = m.deadline().unwrap();
        m.handle(now, Input::Tick);
        assert_eq!(m.state(), LinkState::AwaitingAdmission, "it does not flicker");
    }
    handshake(&mut m, now);
    m.handle(now, Input::Lost(LinkProblem::Closed));
    now = m.deadline().unwrap();
    m.handle(now, Input::Tick);
    m.handle(now, Input::Opened);
    m.handle(now, Input::Frame(FromRelay::Challenge(NONCE)));
    m.handle(now, refuse(ErrorCode::Unauthorized));
    assert_eq!(m.state(), LinkState::Revoked);
    assert!(m.deadline().is_some(), "it goes on asking");
}

#[test]
fn another_namespace_or_protocol_is_not_trusted() {
    let now = Instant::now();
    let handshakes: [fn() -> Input; 3] = [
        || {
            Input::Frame(FromRelay::AuthOk(AuthOk {
                namespace: NamespaceId::from_bytes([9; 32]),
                info: RelayInfo::default(),
            }))
        },
        || Input::Frame(FromRelay::PairingStopOk),
        || Input::Unknown,
    ];
    for input in handshakes {
        let mut m = machine(Role::Agent);
        m.handle(now, Input::Start);
        m.handle(now, Input::Opened);
        m.handle(now, Input::Frame(FromRelay::Challenge(NONCE)));
        assert_eq!(m.handle(now, input()), vec![Effect::Hangup]);
        assert_eq!(m.state(), LinkState::Waiting);
    }
    let mut m = live(now);
    assert_eq!(m.handle(now, Input::Unknown), vec![], "a live session outlasts what it does not know");
    assert_eq!(m.handle(now, ok()), vec![]);
    assert!(m.is_live());
}

#[test]
fn a_proof_covers_what_was_asked_before_and_nothing_else_does() {
    let now = Instant::now();
    let mut m = live(now);
    let (a, ping) = m.ask_proof(now).unwrap();
    assert_eq!(ping, Effect::Ping(a));
    let (b, _) = m.ask_proof(now).unwrap();
    assert_eq!(m.handle(now, Input::Pong(Some(b + 7))), vec![]);
    assert_eq!(m.handle(now, Input::Pong(None)), vec![]);
    assert_eq!(m.handle(now, Input::Pong(Some(b))), vec![Effect::Proved(a), Effect::Proved(b)]);
    assert_eq!(m.handle(now, Input::Pong(Some(b))), vec![], "a doubled Pong proves nothing twice");
    m.ask_proof(now).unwrap();
    for n in 1..30 {
        m.handle(now + s(n), Input::Heard);
    }
    assert_eq!(
        m.handle(now + s(30), Input::Tick),
        vec![Effect::Hangup, Effect::Down],
        "other traffic is no proof"
    );
}

#[test]
fn too_many_connections_is_met_with_a_longer_pause() {
    let now = Instant::now();
    let mut m = machine(Role::Agent);
    m.handle(now, Input::Start);
    m.handle(now, Input::Lost(LinkProblem::Busy));
    assert_eq!(m.deadline().unwrap() - now, BUSY_PAUSE);
    assert_eq!(m.handle(now, Input::Nudge), vec![Effect::Dial]);
}

#[test]
fn stopping_ends_everything() {
    let now = Instant::now();
    let mut m = live(now);
    assert_eq!(m.handle(now, Input::Stop), vec![Effect::Hangup, Effect::Down]);
    assert_eq!((m.state(), m.deadline()), (LinkState::Stopped, None));
    for input in [Input::Start, Input::Tick, Input::Nudge, Input::Lost(LinkProblem::Closed), ok()] {
        assert_eq!(m.handle(now, input), vec![]);
    }
}

/// A small generator, so that a failing seed can be replayed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// The relay's words arrive dropped, doubled and out of order, sockets break at any time. The link never stands still,
/// never reports Up without Auth, and comes alive again once the path is well.
#[test]
fn whatever_the_path_does_the_link_comes_back() {
    for seed in 1..200 {
        let mut rng = Rng(seed);
        let start = Instant::now();
        let mut now = start;
        let mut m = machine(if seed % 2 == 0 { Role::Agent } else { Role::Device { admitted: true } });
        // What is under way to the link, by arrival.
        let mut coming: BTreeMap<(Instant, u64), Input> = BTreeMap::new();
        let mut serial = 0;
        let mut open = false;
        let mut authenticated = false;
        let mut effects = m.handle(now, Input::Start);
        let calm = start + s(3_000);
        while now < start + s(4_000) {
            let healthy = now >= calm;
            for effect in effects.drain(..) {
                let mut say = |rng: &mut Rng, input: Input, again: Option<Input>| {
                    let copies = match rng.below(10) {
                        _ if healthy => 1,
                        0 => 0,
                        1 => 2,
                        _ => 1,
                    };
                    for input in [Some(input), again].into_iter().flatten().take(copies) {
                        serial += 1;
                        let delay = if healthy { 10 } else { rng.below(3_000) };
                        coming.insert((now + Duration::from_millis(delay), serial), input);
                    }
                };
                match effect {
                    Effect::Dial => {
                        assert!(!open, "one socket at a time");
                        if healthy || rng.below(4) > 0 {
                            open = true;
                            say(&mut rng, Input::Opened, None);
                            say(&mut rng, Input::Frame(FromRelay::Challenge(NONCE)), Some(Input::Unknown));
                        } else {
                            say(&mut rng, Input::Lost(LinkProblem::Unreachable("x".into())), None);
                        }
                    }
                    Effect::Hangup => {
                        open = false;
                        authenticated = false;
                        coming.clear();
                    }
                    Effect::Authenticate(_) => {
                        authenticated = true;
                        if healthy || rng.below(5) > 0 {
                            say(&mut rng, ok(), Some(ok()));
                        } else {
                            say(&mut rng, refuse(ErrorCode::Internal), None);
                        }
                    }
                    Effect::Up(_) => assert!(open && authenticated),
                    Effect::Ping(n) => say(&mut rng, Input::Pong(Some(n)), Some(Input::Pong(Some(n)))),
                    Effect::Down | Effect::Deliver(_) | Effect::Proved(_) => {}
                }
            }
            if !healthy && open && rng.below(40) == 0 {
                serial += 1;
                coming.insert((now, serial), Input::Lost(LinkProblem::Closed));
            }
            if m.is_live() && !healthy && rng.below(5) == 0 {
                effects.extend(m.ask_proof(now).map(|(_, e)| e));
                continue;
            }
            let next = coming.keys().next().copied();
            let deadline = m.deadline().expect("the link never stands still");
            match next {
                Some(key) if key.0 <= deadline => {
                    now = now.max(key.0);
                    let input = coming.remove(&key).unwrap();
                    effects = m.handle(now, input);
                }
                _ => {
                    now = now.max(deadline);
                    effects = m.handle(now, Input::Tick);
                }
            }
        }
        assert!(m.is_live(), "seed {seed} did not come back");
    }
}
