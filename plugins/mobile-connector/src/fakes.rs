//! An Inbox and a relay in memory, for the tests of what stands between them.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use skald_core_api::*;
use skald_payloads::{Envelope, Payload};
use tokio::sync::{mpsc, watch};
use zeroize::Zeroizing;

use crate::DeviceKey;
use crate::relay::{How, Link, Opened, Peer, Relay, RelayError};

pub(crate) const NAMESPACE: [u8; 32] = [9; 32];
pub(crate) const TOKEN: &str = "canary-pairing-token";

/// An Inbox whose store can be made to fail.
pub(crate) struct FakeInbox {
    pub state: Mutex<InboxSnapshot>,
    pub log: Mutex<Vec<Notification>>,
    pub answers: Mutex<Vec<(RequestId, Answer, Actor)>>,
    pub broken: Mutex<bool>,
    revisions: watch::Sender<u64>,
    head: watch::Sender<i64>,
}

impl FakeInbox {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::default(),
            log: Mutex::default(),
            answers: Mutex::default(),
            broken: Mutex::default(),
            revisions: watch::Sender::new(0),
            head: watch::Sender::new(0),
        })
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut InboxSnapshot)) {
        let mut state = self.state.lock().unwrap();
        change(&mut state);
        state.revision += 1;
        self.revisions.send_replace(state.revision);
    }

    pub(crate) fn notify(&self, title: &str) {
        let mut log = self.log.lock().unwrap();
        let seq = log.len() as i64 + 1;
        log.push(Notification { seq, title: title.into(), body: String::new(), created_at: 0 });
        self.head.send_replace(seq);
    }

    fn works(&self) -> Result<(), InboxError> {
        if *self.broken.lock().unwrap() { Err(InboxError::Store("disk full".into())) } else { Ok(()) }
    }
}

#[async_trait]
impl Inbox for FakeInbox {
    async fn snapshot(&self) -> Result<InboxSnapshot, InboxError> {
        self.works()?;
        Ok(self.state.lock().unwrap().clone())
    }
    async fn answer(&self, id: RequestId, answer: Answer, by: &Actor) -> Result<AnswerOutcome, InboxError> {
        self.works()?;
        let mut answers = self.answers.lock().unwrap();
        let fits = {
            let state = self.state.lock().unwrap();
            let approval = state.approvals.iter().any(|i| i.request_id == id);
            let clarification = state.clarifications.iter().any(|i| i.request_id == id);
            let elicitation = state.elicitations.iter().any(|i| i.request_id == id);
            match &answer {
                _ if answers.iter().any(|(known, ..)| *known == id) => {
                    return Ok(AnswerOutcome::Late { standing: None, state: "resolved".into() });
                }
                _ if !(approval || clarification || elicitation) => return Ok(AnswerOutcome::Unknown),
                Answer::Approval { .. } => approval,
                Answer::Clarification { .. } => clarification,
                Answer::Elicitation { .. } => elicitation,
            }
        };
        if !fits {
            return Err(InboxError::Invalid("another kind".into()));
        }
        answers.push((id, answer, by.clone()));
        drop(answers);
        self.change(|s| {
            s.approvals.retain(|i| i.request_id != id);
            s.clarifications.retain(|i| i.request_id != id);
            s.elicitations.retain(|i| i.request_id != id);
        });
        Ok(AnswerOutcome::Resolved)
    }
    fn revisions(&self) -> watch::Receiver<u64> {
        self.revisions.subscribe()
    }
    async fn notifications_after(&self, seq: i64, limit: u32) -> Result<Vec<Notification>, InboxError> {
        self.works()?;
        Ok(self.log.lock().unwrap().iter().filter(|n| n.seq > seq).take(limit as usize).cloned().collect())
    }
    fn notification_head(&self) -> watch::Receiver<i64> {
        self.head.subscribe()
    }
}

/// A relay client that hands what it is sent to the test.
pub(crate) struct FakeRelay {
    pub peers: Mutex<Vec<Peer>>,
    pub revoked: Mutex<Vec<DeviceKey>>,
    pub refuse: Mutex<Option<String>>,
    windows: std::sync::atomic::AtomicU64,
    sent: mpsc::UnboundedSender<(DeviceKey, How, Payload)>,
    link: watch::Sender<Link>,
}

pub(crate) type Sent = mpsc::UnboundedReceiver<(DeviceKey, How, Payload)>;

pub(crate) fn peer(key: DeviceKey, admitted: bool) -> Peer {
    Peer {
        key,
        platform: "ios",
        admitted,
        verification_code: "123 456".into(),
        created_at: 1,
        last_seen: None,
        online: true,
    }
}

impl FakeRelay {
    pub(crate) fn new(peers: Vec<Peer>) -> (Arc<Self>, Sent) {
        let (sent, received) = mpsc::unbounded_channel();
        let link = Link { up: true, state: "connected", last_error: None, since: 1 };
        let relay = Self {
            peers: Mutex::new(peers),
            revoked: Mutex::default(),
            refuse: Mutex::default(),
            windows: Default::default(),
            sent,
            link: watch::Sender::new(link),
        };
        (Arc::new(relay), received)
    }

    fn works(&self) -> Result<(), RelayError> {
        self.refuse.lock().unwrap().clone().map_or(Ok(()), |text| Err(RelayError(text)))
    }
}

#[async_trait]
impl Relay for FakeRelay {
    async fn send(&self, to: DeviceKey, json: &[u8], how: How) -> Result<(), RelayError> {
        self.works()?;
        let payload = Envelope::parse(json, PluginStatus::now_ms()).unwrap().payload;
        let _ = self.sent.send((to, how, payload));
        Ok(())
    }
    async fn devices(&self) -> Result<Vec<Peer>, RelayError> {
        self.works()?;
        Ok(self.peers.lock().unwrap().clone())
    }
    async fn authorize(&self, key: DeviceKey) -> Result<bool, RelayError> {
        self.works()?;
        let mut peers = self.peers.lock().unwrap();
        let found = peers.iter_mut().find(|p| p.key == key);
        Ok(found.map(|p| p.admitted = true).is_some())
    }
    async fn revoke(&self, key: DeviceKey) -> Result<bool, RelayError> {
        self.works()?;
        self.revoked.lock().unwrap().push(key);
        let mut peers = self.peers.lock().unwrap();
        let before = peers.len();
        peers.retain(|p| p.key != key);
        Ok(peers.len() < before)
    }
    async fn open_pairing(&self, ttl: u32) -> Result<Opened, RelayError> {
        self.works()?;
        let expires_at = PluginStatus::now_ms() + i64::from(ttl) * 1_000;
        Ok(Opened {
            id: self.windows.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1,
            qr: Zeroizing::new(format!(r#"{{"pairing_token":"{TOKEN}"}}"#)),
            expires_at,
        })
    }
    fn link(&self) -> watch::Receiver<Link> {
        self.link.subscribe()
    }
    fn namespace(&self) -> [u8; 32] {
        NAMESPACE
    }
}

/// Counts what was announced to pages.
#[derive(Default)]
pub(crate) struct Pages(pub Mutex<Vec<Event>>);

impl Events for Pages {
    fn publish(&self, event: Event) {
        self.0.lock().unwrap().push(event);
    }
}

/// A registry without handlers.
pub(crate) struct NoHandlers;

impl StreamRegistry for NoHandlers {
    fn register(&self, _: Arc<dyn StreamHandler>) -> Result<StreamRegistration, TypeTaken> {
        Ok(StreamRegistration::new(|| ()))
    }
    fn find(&self, _: &str) -> Option<Arc<dyn StreamHandler>> {
        None
    }
}
