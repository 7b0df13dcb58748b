//! The one who breaks things: by the seed, and by how far the messages have come.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use skald_testkit::{Authority, FaultCounts, NetFault, RelayProcess, Rng, Scratch};

use crate::check::{Happening, check};
use crate::home::{self, Member, TTL_SECS};
use crate::journal::now_ms;
use crate::peer::{PeerConfig, Wish};
use crate::progress::{Progress, Tick};
use crate::script::{length_for, stored_in};
use crate::vessel::Vessel;
use crate::{Options, Report};

/// After so long without a single message something that was broken is mended before its time.
const QUIET: Duration = Duration::from_millis(700);
/// After so long without a single message, with nothing left to mend, the run has failed.
const HANGS: Duration = Duration::from_secs(60);
/// How long a relay may take to say goodbye to everybody.
const DRAIN: Duration = Duration::from_secs(11);
/// The rounds in which everybody says a last word to everybody, over fresh connections the second time.
const ROUNDS: u32 = 2;

/// Runs it all. The error holds the seed, the first broken promise, and the history of its message.
pub fn run(options: Options) -> Result<Report> {
    let peers = options.namespaces * (options.devices + 1);
    ensure!(options.namespaces > 0 && options.devices > 0, "there must be a namespace with a device");
    let kept = options.keep.clone().map(|path| std::fs::create_dir_all(&path).map(|()| path)).transpose()?;
    let (slow, fast) = match kept {
        Some(path) => (Scratch::keep(path.join("relay"))?, Scratch::keep(path.join("peers"))?),
        None => (Scratch::new()?, Scratch::within(home::fast_folder().as_deref())?),
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let authority = Authority::open(slow.join("ca"))?;
    let relay = home::relay(&slow.join("relay"), &authority, &options)?;
    let counts = Arc::new(FaultCounts::default());
    let length = length_for(options.messages, peers);
    let members = home::settle(&runtime, fast.path(), &relay, &authority, &options, length, &counts)?;
    let mut conductor = Conductor {
        rng: Rng::new(options.seed),
        vessels: members.iter().map(|_| None).collect(),
        members,
        relay,
        relay_up: true,
        progress: Arc::default(),
        happenings: Vec::new(),
        pending: Vec::new(),
        faults: BTreeMap::new(),
        wish: Wish::default(),
        options,
    };
    let started = Instant::now();
    let played = conductor.play(length).and_then(|()| conductor.end());
    let took = started.elapsed();
    conductor.judge(played, took, &counts)
}

/// Something that was broken, to be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mend {
    Relay,
    Peer(usize),
    Stall(usize),
    Refusal(usize),
}

struct Conductor {
    options: Options,
    rng: Rng,
    members: Vec<Member>,
    vessels: Vec<Option<Vessel>>,
    relay: RelayProcess,
    relay_up: bool,
    progress: Arc<Progress>,
    happenings: Vec<Happening>,
    /// What is broken, and from which step on it is mended.
    pending: Vec<(u64, Mend)>,
    faults: BTreeMap<&'static str, u64>,
    wish: Wish,
}

impl Conductor {
    /// Everything runs and everything breaks, until nearly all of the script has been taken over.
    fn play(&mut self, length: u64) -> Result<()> {
        let wanted = stored_in(length) * self.members.len() as u64;
        for index in 0..self.members.len() {
            self.members[index].proxy.calm(false);
            self.start(index)?;
        }
        // Long runs are broken less often for their length; a short one must still see some of everything.
        let gap = usize::try_from(wanted / 400).unwrap_or(usize::MAX).clamp(60, 400);
        let (mut next, mut shown) = (gap as u64, 0);
        while self.progress.count(Tick::Taken) < wanted - wanted / 30 {
            self.until(next)?;
            self.inflict()?;
            next += 1 + self.rng.below(2 * gap) as u64;
            let tenth = self.progress.count(Tick::Got) * 10 / wanted;
            if self.options.talk && tenth > shown {
                shown = tenth;
                println!("{} of {wanted} messages have arrived", self.progress.count(Tick::Got));
            }
        }
        Ok(())
    }

    /// Waits for a step, mending on the way what is due.
    fn until(&mut self, step: u64) -> Result<()> {
        let mut quiet = Duration::ZERO;
        loop {
            self.all_well()?;
            let due = self.pending.iter().map(|(at, _)| *at).min().unwrap_or(u64::MAX).min(step);
            if self.progress.wait(QUIET, |progress| progress.steps() >= due) {
                quiet = Duration::ZERO;
            } else if self.pending.is_empty() {
                quiet += QUIET;
                ensure!(quiet < HANGS, "nothing moves any more, though everything is mended");
                continue;
            }
            let now = self.progress.steps();
            // Where nothing moves, whatever would be mended first is mended now.
            self.pending.sort_by_key(|(at, _)| *at);
            while let Some((at, mend)) = self.pending.first().copied() {
                if at > now && now >= due {
                    break;
                }
                self.pending.remove(0);
                self.mend(mend)?;
                if at > now {
                    break;
                }
            }
            if self.progress.steps() >= step {
                return Ok(());
            }
        }
    }

    /// A peer that has ended without being asked to has found something wrong.
    fn all_well(&mut self) -> Result<()> {
        for (index, vessel) in self.vessels.iter_mut().enumerate() {
            let Some(running) = vessel else { continue };
            if running.has_ended()? {
                running.ended().with_context(|| format!("peer {index}"))?;
                bail!("peer {index} ended by itself");
            }
        }
        Ok(())
    }

    fn note(&mut self, whom: Option<usize>, what: impl Into<String>) {
        self.happenings.push((now_ms(), whom, what.into()));
    }

    fn count(&mut self, fault: &'static str) {
        *self.faults.entry(fault).or_default() += 1;
    }

    fn is_pending(&self, mend: Mend) -> bool {
        self.pending.iter().any(|(_, waiting)| *waiting == mend)
    }

    /// Breaks one thing.
    fn inflict(&mut self) -> Result<()> {
        let (kind, peer) = (self.rng.below(100), self.rng.below(self.members.len()));
        // Half of what is broken is mended at once, the rest only when others have got on without it.
        let later = if self.rng.one_in(2) { 0 } else { self.rng.below(400) as u64 };
        let at = self.progress.steps() + later;
        match kind {
            0..12 if self.relay_up => self.kill_relay(at),
            12..16 if self.relay_up => self.drain_relay(at),
            16..48 if self.vessels[peer].is_some() => self.kill_peer(peer, at),
            48..54 if self.vessels[peer].is_some() => self.leave_peer(peer, at),
            54..64 => {
                if !self.is_pending(Mend::Stall(peer)) {
                    self.note(Some(peer), format!("the way of peer {peer} stalls"));
                    self.members[peer].proxy.stall(true);
                    self.pending.push((at + 50, Mend::Stall(peer)));
                }
                Ok(())
            }
            64..70 => {
                if !self.is_pending(Mend::Refusal(peer)) {
                    self.note(Some(peer), format!("peer {peer} cannot connect any more"));
                    self.members[peer].proxy.refuse(true);
                    self.members[peer].proxy.inflict(NetFault::Reset);
                    self.pending.push((at + 50, Mend::Refusal(peer)));
                }
                Ok(())
            }
            70..78 => self.wire(peer, NetFault::Reset),
            78..82 => self.wire(peer, NetFault::Closed),
            82..87 => self.wire(peer, NetFault::VanishUp),
            87..92 => self.wire(peer, NetFault::VanishDown),
            92..97 => self.wire(peer, NetFault::Ghost),
            97.. => {
                // A whole home loses its line.
                let home = self.options.devices + 1;
                let first = peer / home * home;
                (first..first + home).try_for_each(|peer| self.wire(peer, NetFault::Ghost))
            }
            _ => Ok(()),
        }
    }

    fn wire(&mut self, peer: usize, fault: NetFault) -> Result<()> {
        self.note(Some(peer), format!("connections of peer {peer}: {}", fault.name()));
        self.members[peer].proxy.inflict(fault);
        Ok(())
    }

    fn server_gone(&self, gone: bool) {
        self.members.iter().for_each(|member| member.proxy.server_gone(gone));
    }

    fn kill_relay(&mut self, at: u64) -> Result<()> {
        self.server_gone(true);
        self.relay.kill()?;
        self.relay_up = false;
        self.note(None, "the relay was killed");
        self.count("relay: SIGKILL");
        self.pending.push((at, Mend::Relay));
        Ok(())
    }

    fn drain_relay(&mut self, at: u64) -> Result<()> {
        self.note(None, "the relay was told to stop");
        self.relay.program().terminate()?;
        let status = self.relay.program().wait_at_most(DRAIN).context("the relay's goodbye")?;
        ensure!(status.success(), "the relay ended with {status} on SIGTERM: {}", self.relay.log());
        self.server_gone(true);
        self.relay_up = false;
        self.note(None, "the relay has stopped");
        self.count("relay: SIGTERM");
        self.pending.push((at, Mend::Relay));
        Ok(())
    }

    fn kill_peer(&mut self, peer: usize, at: u64) -> Result<()> {
        let Some(mut vessel) = self.vessels[peer].take() else { return Ok(()) };
        vessel.kill().with_context(|| format!("peer {peer}"))?;
        self.note(Some(peer), format!("peer {peer} was killed"));
        self.count(if self.members[peer].process { "peer: SIGKILL" } else { "peer: dropped" });
        self.pending.push((at, Mend::Peer(peer)));
        Ok(())
    }

    fn leave_peer(&mut self, peer: usize, at: u64) -> Result<()> {
        let Some(mut vessel) = self.vessels[peer].take() else { return Ok(()) };
        vessel.wish(Wish { leave: true, ..self.wish })?;
        vessel.ended().with_context(|| format!("peer {peer}"))?;
        self.note(Some(peer), format!("peer {peer} left"));
        self.count("peer: left in order");
        self.pending.push((at, Mend::Peer(peer)));
        Ok(())
    }

    fn mend(&mut self, mend: Mend) -> Result<()> {
        match mend {
            Mend::Relay => {
                self.relay.restart().context("the relay does not start again")?;
                self.relay_up = true;
                self.server_gone(false);
                self.note(None, "the relay is up again");
            }
            Mend::Peer(peer) => self.start(peer)?,
            Mend::Stall(peer) => {
                self.note(Some(peer), format!("the way of peer {peer} flows again"));
                self.members[peer].proxy.stall(false);
            }
            Mend::Refusal(peer) => {
                self.note(Some(peer), format!("peer {peer} can connect again"));
                self.members[peer].proxy.refuse(false);
            }
        }
        Ok(())
    }

    fn start(&mut self, peer: usize) -> Result<()> {
        let member = &mut self.members[peer];
        member.config.times += 1;
        let config = member.config.clone();
        let vessel = if member.process {
            Vessel::process(&self.options.program, &config, self.wish, &self.progress)?
        } else {
            Vessel::thread(config, self.wish, &self.progress)?
        };
        self.vessels[peer] = Some(vessel);
        self.note(Some(peer), format!("peer {peer} was started"));
        Ok(())
    }

    /// Everything is mended; what was accepted must come now. Then all say a last word, twice.
    fn end(&mut self) -> Result<()> {
        for (_, mend) in std::mem::take(&mut self.pending) {
            self.mend(mend)?;
        }
        self.members.iter().for_each(|member| member.proxy.calm(true));
        let pairs = 2 * self.options.namespaces * self.options.devices;
        for round in 1..=ROUNDS {
            self.wish.rounds = round;
            self.note(None, format!("closing round {round}"));
            for vessel in self.vessels.iter_mut().flatten() {
                vessel.wish(self.wish)?;
            }
            let wanted = u64::from(round) * pairs as u64;
            let mut quiet = Duration::ZERO;
            while !self.progress.wait(QUIET, |progress| progress.count(Tick::Closing) >= wanted) {
                self.all_well()?;
                quiet += QUIET;
                ensure!(quiet < HANGS, "something that was accepted does not arrive");
            }
            // Whatever the relay still thinks unproved comes again now.
            self.members.iter().for_each(|member| member.proxy.inflict(NetFault::Reset));
        }
        self.wish.leave = true;
        for (index, vessel) in self.vessels.iter_mut().enumerate() {
            let Some(vessel) = vessel else { continue };
            vessel.wish(self.wish)?;
            vessel.ended().with_context(|| format!("peer {index}"))?;
        }
        self.relay.program().terminate()?;
        let status = self.relay.program().wait_at_most(DRAIN)?;
        ensure!(status.success(), "the relay ended with {status}");
        Ok(())
    }

    fn judge(&mut self, played: Result<()>, took: Duration, net: &FaultCounts) -> Result<Report> {
        // Nobody writes any more while the journals are read.
        for vessel in self.vessels.iter_mut().flatten() {
            let _ = vessel.kill();
        }
        let configs: Vec<PeerConfig> = self.members.iter().map(|member| member.config.clone()).collect();
        let stuck = played.as_ref().is_err_and(|error| error.to_string().contains("accepted"));
        let complete = played.is_ok() || stuck;
        let ttl = TTL_SECS * 1000;
        let found = check(&configs, self.wish.rounds, ttl, complete, &self.happenings);
        let again = format!(
            "seed {} broke a promise; the same schedule once more: cargo xtask chaos --seed {} --messages {}",
            self.options.seed, self.options.seed, self.options.messages
        );
        let counts = match (found, played) {
            (Err(broken), _) => return Err(broken.context(again)),
            (Ok(_), Err(error)) => return Err(error.context(self.recently()).context(again)),
            (Ok(counts), Ok(())) => counts,
        };
        if counts.accepted < self.options.messages {
            return Err(anyhow!("only {} messages were accepted", counts.accepted));
        }
        let mut faults = self.faults.clone();
        faults.extend(net.list().into_iter().map(|(fault, count)| (fault.name(), count)));
        let processes = self.members.iter().filter(|member| member.process).count();
        let peers = (self.members.len(), processes);
        Ok(Report { seed: self.options.seed, peers, counts, faults, took })
    }

    fn recently(&self) -> String {
        let skip = self.happenings.len().saturating_sub(30);
        let lines = self.happenings[skip..].iter().map(|(at, _, what)| format!("  {at} {what}\n"));
        format!("what happened last:\n{}", lines.collect::<String>())
    }
}
