//! The promise, checked against every journal: what was accepted arrived once, in order, before its expiry.

use std::collections::{BTreeMap, HashMap};

use anyhow::{Result, bail};

use crate::journal::{Entry, read};
use crate::peer::PeerConfig;
use crate::script::{Script, Stream};

/// What is known of one message of one sender.
#[derive(Debug, Default, Clone)]
struct Fate {
    tried: Option<u64>,
    taken: Option<u64>,
    refused: bool,
    got: Vec<u64>,
}

/// How many of each.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Counts {
    /// Stored messages that the sender's client took over, closing rounds left out.
    pub accepted: u64,
    /// Stored messages whose sender was killed before it knew; of these some arrived.
    pub unknown: u64,
    /// Of the unknown ones.
    pub unknown_arrived: u64,
    /// Stored messages that arrived.
    pub arrived: u64,
    /// Messages of slots that were taken over, and that arrived.
    pub latest: (u64, u64),
    /// Live messages that were taken over, and that arrived.
    pub live: (u64, u64),
    /// Events handed over again, for their acknowledgement had been cut off.
    pub again: u64,
    /// The longest way of a stored message, milliseconds.
    pub slowest_ms: u64,
}

/// What happened beside the messages: when, to which peer (or to everybody), and what.
pub type Happening = (u64, Option<usize>, String);

/// Checks everything. The error names the first broken promise with the history of its message.
pub fn check(
    configs: &[PeerConfig],
    rounds: u32,
    ttl_ms: u64,
    complete: bool,
    happenings: &[Happening],
) -> Result<Counts> {
    let mut counts = Counts::default();
    let scripts: Vec<Script> = configs.iter().map(PeerConfig::script).collect();
    let mut fates: HashMap<(usize, u64), Fate> = HashMap::new();
    let mut arrivals: BTreeMap<(usize, usize), Vec<(u64, u64)>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for config in configs {
        for (at, entry) in read(&config.journal)? {
            let own = |number| (config.index, number);
            match entry {
                Entry::Try(number) => fates.entry(own(number)).or_default().tried = Some(at),
                Entry::Taken(number) => fates.entry(own(number)).or_default().taken = Some(at),
                Entry::Refused(number, _) => fates.entry(own(number)).or_default().refused = true,
                Entry::Got(from, number) => {
                    fates.entry((from, number)).or_default().got.push(at);
                    arrivals.entry((from, config.index)).or_default().push((number, at));
                }
                Entry::Again(..) => counts.again += 1,
                Entry::Wrong(what) => wrong.push((at, config.index, what)),
                Entry::Up(_) | Entry::Acked(..) | Entry::Failed(_) => {}
            }
        }
    }
    let history = |from: usize, number: u64| history(configs, from, number, happenings);
    if let Some((at, index, what)) = wrong.into_iter().min() {
        // The message it is about is the first two numbers of the text, where it names one.
        let numbers: Vec<u64> =
            what.split(|c: char| !c.is_ascii_digit()).filter_map(|n| n.parse().ok()).collect();
        let named = match numbers[..] {
            [number, from, ..] => history(usize::try_from(from).unwrap_or(index), number),
            _ => history(index, 0),
        };
        bail!("at {at} peer {index} says: {what}\n{named}");
    }
    for (&(from, to), list) in &arrivals {
        let mut last: HashMap<Stream, u64> = HashMap::new();
        for &(number, _) in list {
            let stream = scripts[from].stream(number);
            if let Some(before) = last.insert(stream, number).filter(|before| *before >= number) {
                bail!(
                    "{} {number} of {from} came to {to} after {before}\n{}",
                    stream.name(),
                    history(from, number)
                );
            }
        }
    }
    let mut numbers: Vec<_> = fates.keys().copied().collect();
    numbers.sort_unstable();
    // The last one of each slot that was surely taken over, and the last one that arrived.
    type Slot = (Option<u64>, Option<u64>);
    let mut slots: BTreeMap<(usize, usize, Stream), Slot> = BTreeMap::new();
    for (from, number) in numbers {
        let fate = &fates[&(from, number)];
        let script = &scripts[from];
        let stream = script.stream(number);
        let tell =
            |what: &str| format!("{} {number} of {from} {what}\n{}", stream.name(), history(from, number));
        if fate.got.len() > 1 {
            bail!(tell("was seen twice"));
        }
        if let Some(got) = fate.got.first() {
            let Some(tried) = fate.tried else { bail!(tell("was seen and never sent")) };
            if fate.refused {
                bail!(tell("was refused and arrived all the same"));
            }
            if *got > tried + ttl_ms {
                bail!(tell("arrived after its expiry"));
            }
            if stream == Stream::Stored {
                counts.slowest_ms = counts.slowest_ms.max(got.saturating_sub(tried));
            }
        }
        let (taken, got) = (fate.taken.is_some(), !fate.got.is_empty());
        match stream {
            Stream::Stored if taken && !got && complete => bail!(tell("was accepted and never arrived")),
            Stream::Stored if number >= script.length => {}
            Stream::Stored => {
                counts.accepted += u64::from(taken);
                counts.arrived += u64::from(got);
                counts.unknown += u64::from(!taken && !fate.refused);
                counts.unknown_arrived += u64::from(!taken && got);
            }
            Stream::Latest(_) => {
                counts.latest.0 += u64::from(taken);
                counts.latest.1 += u64::from(got);
                let slot = slots.entry((from, script.message(number).to, stream)).or_default();
                slot.0 = if taken { Some(number) } else { slot.0 };
                slot.1 = if got { Some(number) } else { slot.1 };
            }
            Stream::Live => {
                counts.live.0 += u64::from(taken);
                counts.live.1 += u64::from(got);
            }
        }
    }
    for ((from, to, stream), (taken, got)) in slots {
        if complete && taken > got {
            let number = taken.unwrap_or(0);
            bail!(
                "{} {number} of {from}, the last of its slot for {to}, never arrived\n{}",
                stream.name(),
                history(from, number)
            );
        }
    }
    let rounds_taken = |script: &Script| {
        (script.length..script.end(rounds))
            .all(|n| fates.get(&(script.from, n)).is_some_and(|f| f.tried.is_some()))
    };
    if complete && !scripts.iter().all(rounds_taken) {
        bail!("a closing round is not complete");
    }
    Ok(counts)
}

/// Everything that the journals say of one message, and what befell those it concerns while it was on its way.
fn history(configs: &[PeerConfig], from: usize, number: u64, happenings: &[Happening]) -> String {
    let Some(sender) = configs.get(from) else { return String::new() };
    let planned = sender.script().message(number);
    let mut lines: Vec<(u64, String)> = Vec::new();
    for config in configs.iter().filter(|config| config.index == from || config.index == planned.to) {
        let Ok(entries) = read(&config.journal) else { continue };
        for (at, entry) in entries {
            let concerns = match &entry {
                Entry::Try(n) | Entry::Taken(n) | Entry::Refused(n, _) => {
                    config.index == from && *n == number
                }
                Entry::Got(f, n) | Entry::Again(f, n) | Entry::Acked(f, n) => *f == from && *n == number,
                Entry::Up(_) | Entry::Wrong(_) | Entry::Failed(_) => true,
            };
            if concerns {
                lines.push((at, format!("peer {}: {entry:?}", config.index)));
            }
        }
    }
    for (at, whom, what) in happenings {
        if whom.is_none_or(|whom| whom == from || whom == planned.to) {
            lines.push((*at, what.clone()));
        }
    }
    lines.sort();
    let sent = lines.iter().position(|(_, line)| line.contains(&format!("Try({number})"))).unwrap_or(0);
    let begin = sent.saturating_sub(10);
    let shown = lines.iter().skip(begin).take(120).map(|(at, line)| format!("  {at} {line}\n"));
    let bytes = planned.body.len();
    format!("its history ({} bytes from {from} to {}):\n{}", bytes, planned.to, shown.collect::<String>())
}
