//! What a process has used.

use std::fs;

use anyhow::{Context as _, Result};

/// CPU and memory of a process at one moment.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    /// Seconds of CPU since it began.
    pub cpu: f64,
    /// Resident memory in KiB.
    pub resident_kib: u64,
}

/// What the process has used so far. The 10 ms steps of the clock are small beside what is measured.
pub fn of(process: u32) -> Result<Usage> {
    let cpu = ticks(&format!("/proc/{process}/stat"))?;
    let status = fs::read_to_string(format!("/proc/{process}/status")).context("a process has gone")?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident_kib = resident
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|kib| kib.parse().ok())
        .context("the kernel does not tell a process's memory")?;
    Ok(Usage { cpu, resident_kib })
}

/// Seconds of CPU of this process's threads whose names begin so.
pub fn of_threads(prefix: &str) -> Result<f64> {
    let mut cpu = 0.0;
    for thread in fs::read_dir("/proc/self/task").context("the kernel does not list threads")? {
        let folder = thread.context("the kernel does not list threads")?.path();
        // A thread that has just ended is not listed any more.
        let Ok(name) = fs::read_to_string(folder.join("comm")) else { continue };
        if name.starts_with(prefix) {
            cpu += ticks(&folder.join("stat").to_string_lossy())?;
        }
    }
    Ok(cpu)
}

fn ticks(file: &str) -> Result<f64> {
    let stat = fs::read_to_string(file).context("a process has gone")?;
    // The name in parentheses may hold anything; what follows does not.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    let field = |at: usize| fields.get(at).and_then(|text| text.parse::<f64>().ok());
    let (user, system) = field(11).zip(field(12)).context("the kernel does not tell a process's CPU")?;
    Ok((user + system) / 100.0)
}

/// The machine in a few words.
pub fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, model)| model.trim());
    format!("{cores} cores, {model}")
}
