//! `kill -9` of the relay, the host and the device at many points of a seeded sequence: no item, answer or device is
//! lost, and nothing is acted upon twice.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use skald_testkit::{Phone, Program, Rng};
use skald_tests::Home;

/// What the person decided, by request.
type Decided = BTreeMap<String, &'static str>;

struct Run {
    home: Home,
    phone: Phone,
    rng: Rng,
    /// Everything that was asked and not withdrawn.
    asked: Vec<String>,
    decided: Decided,
}

impl Run {
    fn start(seed: u64) -> Result<Self> {
        let (home, phone) = Home::paired()?;
        Ok(Self { home, phone, rng: Rng::from_env(seed), asked: Vec::new(), decided: Decided::new() })
    }

    fn step(&mut self) -> Result<()> {
        match self.rng.below(8) {
            0..3 => self.ask(),
            3..6 => self.decide(),
            6 => self.kill_relay(),
            _ => self.kill_host(),
        }
    }

    /// A script asks. Sometimes the host dies right after it has said 201: the item must stand all the same.
    fn ask(&mut self) -> Result<()> {
        let number = self.asked.len();
        let body = json!({ "tool_name": format!("tool{number}"), "summary": format!("Item number {number}"),
            "expires_in": 3600 });
        self.asked.push(self.home.ask("approvals", &body)?);
        if self.rng.one_in(3) { self.kill_host() } else { Ok(()) }
    }

    /// The person answers the oldest open item, and something dies while the answer is on its way.
    fn decide(&mut self) -> Result<()> {
        let Some(id) = self.asked.iter().find(|id| !self.decided.contains_key(*id)).cloned() else {
            return Ok(());
        };
        let verdict = if self.rng.one_in(2) { "approved" } else { "rejected" };
        let act = if verdict == "approved" { "approve" } else { "reject" };
        self.decided.insert(id.clone(), verdict);
        self.phone.run(&["inbox", "--wait", "20s"])?;
        let mut answering = self.phone.start(&[act, &id, "--wait", "5s"])?;
        self.dither()?;
        match self.rng.below(4) {
            // Before, while or after it writes the answer down, or sends it.
            0 => answering.kill()?,
            1 => self.kill_relay()?,
            2 => self.kill_host()?,
            _ => {}
        }
        answering.wait()?;
        Ok(())
    }

    /// Lets a seeded amount of work pass, so that a kill hits another moment each time.
    fn dither(&mut self) -> Result<()> {
        let anybody = self.home.host.anonymous()?;
        (0..self.rng.below(150)).try_for_each(|_| anybody.get("/healthz").map(drop))
    }

    fn kill_relay(&mut self) -> Result<()> {
        self.home.relay.kill()?;
        self.home.relay.restart()
    }

    fn kill_host(&mut self) -> Result<()> {
        self.home.host.kill()?;
        self.home.host.restart()
    }

    /// Everything is up again. What the person decided and the device forgot (it was killed before it could write it down)
    /// is done again, as a person does who sees the item still waiting.
    fn settle(&mut self) -> Result<()> {
        self.home.until_connected()?;
        for (id, verdict) in &self.decided {
            let act = if *verdict == "approved" { "approve" } else { "reject" };
            let mut tries = 0;
            while self.home.request(id)?["state"] == "pending" {
                self.phone.run(&[act, id])?;
                tries += 1;
                ensure!(tries < 5, "the answer to {id} does not get through");
            }
        }
        Ok(())
    }

    fn check(&self) -> Result<()> {
        for id in &self.asked {
            let request = self.home.request(id)?;
            match self.decided.get(id) {
                Some(verdict) => {
                    ensure!(request["state"] == "resolved", "{request}");
                    ensure!(request["outcome"]["decision"] == *verdict, "decided {verdict}, but {request}");
                }
                None => ensure!(request["state"] == "pending", "nobody answered, but {request}"),
            }
        }
        let history = self.home.api.get("/api/v1/inbox/history?limit=200")?.expect(200)?;
        let ended = history["items"].as_array().context("no history")?;
        for id in self.decided.keys() {
            let times = ended.iter().filter(|item| item["request_id"] == **id).count();
            ensure!(times == 1, "{id} ended {times} times");
        }
        let devices = self.home.devices()?;
        ensure!(devices.len() == 1 && devices[0]["state"] == "authorized", "{devices:?}");
        // Both directions still work: no counter went back, and no nonce stands in the way.
        let last = self.home.ask_approval("last", "The last item")?;
        self.phone.run(&["approve", &last])?.ok()?;
        ensure!(self.home.outcome(&last)?["outcome"]["decision"] == "approved");
        Ok(())
    }
}

fn run(seed: u64, steps: usize) -> Result<()> {
    let mut run = Run::start(seed)?;
    let seed = run.rng.seed();
    for step in 0..steps {
        run.step().with_context(|| format!("step {step} of SKALD_TEST_SEED={seed}"))?;
    }
    run.settle().and_then(|()| run.check()).with_context(|| format!("SKALD_TEST_SEED={seed}"))
}

#[test]
fn nothing_is_lost_or_done_twice_through_kill_9_first_sequence() -> Result<()> {
    run(1, 14)
}

#[test]
fn nothing_is_lost_or_done_twice_through_kill_9_second_sequence() -> Result<()> {
    run(20_026, 14)
}

#[test]
fn what_a_script_runs_is_run_once_though_everything_is_killed_meanwhile() -> Result<()> {
    let (mut home, phone) = Home::paired()?;
    let file = home.scratch.join("ran");
    let script = format!("echo once >> {}", file.display());
    let mut running = home.host.skald_waiting(&["run", "--", "sh", "-c", &script])?;
    let id = home.until_pending(1)?["approvals"][0]["request_id"].as_str().context("no id")?.to_owned();
    home.relay.kill()?;
    home.host.kill()?;
    home.relay.restart()?;
    home.host.restart()?;
    home.until_connected()?;
    phone.run(&["approve", &id])?.ok()?;
    ensure!(home.outcome(&id)?["outcome"]["decision"] == "approved");
    finished(&mut running)?;
    ensure!(fs::read_to_string(&file)? == "once\n", "run more than once");
    // The device says it again; what was done stays done once.
    phone.run(&["approve", &id])?;
    ensure!(fs::read_to_string(&file)? == "once\n", "run more than once");
    Ok(())
}

fn finished(running: &mut Program) -> Result<()> {
    let finished = running.finished()?;
    match finished.code {
        Some(0) => Ok(()),
        other => {
            bail!("`skald run` gave up on a host that was away for a moment: {other:?} {}", finished.stderr)
        }
    }
}

#[test]
fn a_pairing_survives_kill_9_of_relay_and_host_before_the_device_is_admitted() -> Result<()> {
    let mut home = Home::connected()?;
    let phone = home.phone("phone");
    let (mut pairing, device) = home.begin_pairing(&phone, "phone")?;
    home.relay.kill()?;
    home.relay.restart()?;
    home.host.kill()?;
    home.host.restart()?;
    home.until_connected()?;
    let key = device["key"].as_str().context("no key")?;
    home.api
        .post(&home.connector(&format!("devices/{key}/authorize")), &json!({}))?
        .expect_any(&[200, 204])?;
    pairing.finished()?.ok()?;
    let id = home.ask_approval("t", "After all that")?;
    phone.run(&["approve", &id])?.ok()?;
    ensure!(home.outcome(&id)?["outcome"]["decision"] == "approved");
    Ok(())
}

#[test]
fn a_relay_that_lost_its_state_heals_when_the_host_comes_back() -> Result<()> {
    let (mut home, phone) = Home::paired()?;
    home.relay.kill()?;
    fs::remove_dir_all(home.relay.data())?;
    home.relay.restart()?;
    home.until_connected()?;
    let id = home.ask_approval("t", "On a new disk")?;
    phone.run(&["approve", &id])?.ok()?;
    ensure!(home.outcome(&id)?["outcome"]["decision"] == "approved");
    Ok(())
}
