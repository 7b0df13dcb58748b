//! What the operating system knows of this process, read when somebody asks.

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric as _};
use prometheus_client::metrics::TypedMetric;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Unit;

/// Memory and open files. Where the system does not tell, nothing is shown.
#[derive(Debug)]
pub(super) struct Process;

impl Collector for Process {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), std::fmt::Error> {
        let mut show = |name: &str, help: &str, unit: Option<&Unit>, value: Option<i64>| {
            let Some(value) = value else { return Ok(()) };
            let gauge = ConstGauge::new(value);
            let kind = ConstGauge::<i64>::TYPE;
            gauge.encode(encoder.encode_descriptor(name, help, unit, kind)?)
        };
        let resident = resident_bytes();
        show(
            "process_resident_memory",
            "Memory of this process that is in RAM",
            Some(&Unit::Bytes),
            resident,
        )?;
        show("process_open_files", "Open files and sockets of this process", None, open_files())?;
        show("process_max_files", "Files and sockets that this process may have open", None, max_files())
    }
}

#[cfg(target_os = "linux")]
fn resident_bytes() -> Option<i64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib * 1024)
}

#[cfg(target_os = "linux")]
fn open_files() -> Option<i64> {
    // The folder itself is open while it is read.
    let count = std::fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1);
    i64::try_from(count).ok()
}

#[cfg(target_os = "linux")]
fn max_files() -> Option<i64> {
    let limits = std::fs::read_to_string("/proc/self/limits").ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(not(target_os = "linux"))]
fn resident_bytes() -> Option<i64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn open_files() -> Option<i64> {
    None
}

#[cfg(not(target_os = "linux"))]
fn max_files() -> Option<i64> {
    None
}
