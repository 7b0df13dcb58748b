//! `cargo xtask up`: from a clone to a running Skald, in one command.

use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use skald_testkit::{Authority, Program, Stream};

use crate::{cargo, checks, needs, root};

/// Where things go.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The folder that everything is kept in.
    #[arg(long, default_value = "data", value_name = "FOLDER")]
    data: PathBuf,
    /// The host's port [default: 8787, or the next one that is free].
    #[arg(long, value_name = "PORT")]
    host_port: Option<u16>,
    /// The relay's port [default: 8443, or the next one that is free].
    #[arg(long, value_name = "PORT")]
    relay_port: Option<u16>,
    /// Also set the mobile connector to this relay and enable it, instead of leaving that to the settings page.
    #[arg(long)]
    connect: bool,
}

const HOST_PORT: u16 = 8787;
const RELAY_PORT: u16 = 8443;
/// Both programs promise to be gone within 10 s of being told to stop.
const STOPPING: Duration = Duration::from_secs(15);
const PLUGIN: &str = "mobile-connector";

/// What can end the wait.
enum News {
    Signal,
    Ended(&'static str),
}

/// Builds, starts and stays until it is told to stop.
pub fn run(options: &Options) -> Result<ExitCode> {
    // Before the build, which takes minutes: a wish that cannot be met is told at once.
    let relay_port = port("relay", options.relay_port, RELAY_PORT)?;
    let host_port = port("host", options.host_port, HOST_PORT)?;
    needs::to_build()?;
    let binaries = build()?;
    std::fs::create_dir_all(&options.data)
        .with_context(|| format!("{} cannot be made.", options.data.display()))?;
    let data =
        options.data.canonicalize().with_context(|| format!("{} is not there.", options.data.display()))?;
    let authority = Authority::open(data.join("ca"))?;
    let certificate = authority.issue("relay")?;

    // From here on a signal is ours to pass on. The children are in process groups of their own, or a Ctrl-C in the
    // terminal would reach them twice.
    let (tell, news) = channel();
    watch_signals(tell.clone())?;

    let mut relay = Command::new(binaries.join("skald-relay"));
    relay.arg("--listen").arg(format!("127.0.0.1:{relay_port}")).arg("--data").arg(data.join("relay"));
    relay.env("RELAY_TLS_CERT", &certificate.certificate).env("RELAY_TLS_KEY", &certificate.key);
    let mut relay = Service::start("relay", relay, tell.clone())?;
    let found = relay.ready(&news, "its URL", |line| line.find("wss://").map(|_| ()))?;
    if found.is_none() {
        return stop(vec![relay]);
    }

    let mut host = Command::new(binaries.join("skald"));
    host.args(["serve", "--listen"])
        .arg(format!("127.0.0.1:{host_port}"))
        .arg("--data")
        .arg(data.join("host"));
    let mut host = Service::start("host", host, tell)?;
    let link = host.ready(&news, "its sign-in link", |line| {
        line.split_whitespace().find(|word| word.contains("#signin=")).map(str::to_owned)
    })?;
    let Some(link) = link else { return stop(vec![host, relay]) };

    let relay_url = format!("wss://localhost:{relay_port}/v1/ws");
    if options.connect {
        connect(&binaries, &data, &relay_url, &authority.certificate())?;
    }
    greet(options, &binaries, &data, &link, &relay_url, &authority.certificate());

    let ended = match news.recv() {
        Ok(News::Ended(name)) => Some(name),
        Ok(News::Signal) | Err(_) => None,
    };
    match ended {
        None => {
            println!("\nstopping");
            stop(vec![host, relay])
        }
        Some(name) => {
            stop(vec![host, relay])?;
            bail!("The {name} has ended by itself; what it said last stands above.")
        }
    }
}

fn build() -> Result<PathBuf> {
    println!("building (a few minutes the first time)");
    let packages = ["skald-relay", "skald", "skald-phone"].map(|name| ["--package", name]).concat();
    let mut build = Command::new(cargo());
    build.args(["build", "--locked", "--release", "--bins"]).args(packages).current_dir(root());
    let status = build.status().context("cargo cannot be run")?;
    if !status.success() {
        bail!("The build failed; the compiler's words stand above.");
    }
    Ok(checks::target_folder(root())?.join("release"))
}

/// The wished port, or the first free one from the usual on. The usual one is kept as long as it can be, for devices
/// remember the relay by it.
fn port(whose: &str, wished: Option<u16>, usual: u16) -> Result<u16> {
    let is_free = |port: u16| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
    if let Some(wished) = wished {
        if !is_free(wished) {
            bail!("Port {wished} is taken: stop what uses it, or choose another with --{whose}-port.");
        }
        return Ok(wished);
    }
    let free = (usual..=usual.saturating_add(50)).find(|port| is_free(*port));
    let free =
        free.with_context(|| format!("No port from {usual} on is free: choose one with --{whose}-port."))?;
    if free != usual {
        println!(
            "Port {usual} is taken, so the {whose} uses {free}. What was set up for {usual} will not find it."
        );
    }
    Ok(free)
}

fn watch_signals(tell: Sender<News>) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).context("signals cannot be watched")?;
    std::thread::spawn(move || signals.forever().try_for_each(|_| tell.send(News::Signal)));
    Ok(())
}

/// One of the two programs, its words shown under its name.
struct Service {
    program: Program,
    shown: Arc<AtomicBool>,
}

impl Service {
    fn start(name: &'static str, mut command: Command, tell: Sender<News>) -> Result<Self> {
        command.process_group(0);
        let shown = Arc::new(AtomicBool::new(false));
        let show = Arc::clone(&shown);
        let outlives = Arc::new(Farewell { name, tell });
        let program = Program::start_with(name, command, move |stream, line| {
            // Held until both outputs have ended, which is when the program has.
            let _alive = &outlives;
            // What a start prints for people is printed below in one piece.
            if stream == Stream::Err || show.load(Ordering::Relaxed) {
                println!("{name} | {line}");
            }
        })?;
        Ok(Self { program, shown })
    }

    /// Waits for the ready line; nothing where a signal came first.
    fn ready<T>(
        &mut self,
        news: &Receiver<News>,
        what: &str,
        find: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>> {
        let found = self.program.wait_for(what, find);
        if matches!(news.try_recv(), Ok(News::Signal)) {
            return Ok(None);
        }
        self.shown.store(true, Ordering::Relaxed);
        found.map(Some)
    }
}

/// Says that a program has ended once the last reader of its output lets go.
struct Farewell {
    name: &'static str,
    tell: Sender<News>,
}

impl Drop for Farewell {
    fn drop(&mut self) {
        // Nobody listens any more where the chore itself is on its way out.
        self.tell.send(News::Ended(self.name)).ok();
    }
}

/// Tells all of them to stop, then joins them.
fn stop(services: Vec<Service>) -> Result<ExitCode> {
    for service in &services {
        service.program.terminate()?;
    }
    let mut clean = true;
    for mut service in services {
        if let Err(error) = service.program.wait_at_most(STOPPING) {
            eprintln!("{error:#}");
            clean = false;
        }
    }
    Ok(if clean { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn connect(binaries: &Path, data: &Path, relay_url: &str, authority: &Path) -> Result<()> {
    let skald = |words: &[String]| -> Result<()> {
        let mut command = Command::new(binaries.join("skald"));
        command.args(words).arg("--data").arg(data.join("host"));
        Program::run("skald plugins", command, "")?
            .ok()
            .context("The mobile connector could not be enabled.")?;
        Ok(())
    };
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let mut config = words(&["plugins", "config", PLUGIN]);
    config.extend([format!("relay_url={relay_url}"), format!("relay_ca={}", authority.display())]);
    skald(&config)?;
    skald(&words(&["plugins", "enable", PLUGIN]))
}

fn greet(options: &Options, binaries: &Path, data: &Path, link: &str, relay_url: &str, authority: &Path) {
    let phone = format!(
        "{} --home {} --ca {}",
        binaries.join("skald-phone").display(),
        data.join("phone").display(),
        authority.display()
    );
    println!("\nSkald is running. Sign in here (the link works once):\n\n    {link}\n");
    if options.connect {
        println!("The mobile connector is enabled and uses the relay at {relay_url}.");
    } else {
        println!("Then enable the mobile connector on the Plugins page with these settings:\n");
        println!("    Relay address                   {relay_url}");
        println!("    Relay's certificate authority   {}\n", authority.display());
    }
    println!("Pair a device on the Devices page. The one in this terminal takes a picture of the QR:\n");
    println!("    {phone} pair --qr PICTURE.png\n");
    println!("Ask for something, in another terminal:\n");
    println!("    {} approve --tool demo --summary 'Say hello'\n", binaries.join("skald").display());
    println!("Ctrl-C stops both.");
}
