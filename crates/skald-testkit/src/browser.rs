//! A real browser, driven from Rust.

use std::cell::Cell;
use std::cell::RefCell;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use serde_json::{Value, json};

use crate::Program;

/// The system's Chromium without a window. Dropped, it is gone.
#[derive(Debug)]
pub struct Browser {
    program: RefCell<Program>,
    next: Cell<u64>,
    read: Cell<usize>,
}

/// One tab of a browser, with cookies of its own.
#[derive(Debug, Clone, Copy)]
pub struct Page<'a> {
    browser: &'a Browser,
    name: &'a str,
}

impl Browser {
    /// Starts Chromium. The driver beside this crate speaks to it through playwright-core, which is in the web
    /// packages.
    pub fn start() -> Result<Self> {
        let mut command = Command::new("node");
        command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("browser/driver.mjs"));
        let program = Program::start("browser", command)?;
        let (read, ()) =
            program.wait_from(0, "its ready line", |line| line.contains(r#""ready":true"#).then_some(()))?;
        Ok(Self { program: RefCell::new(program), next: Cell::new(1), read: Cell::new(read) })
    }

    /// The tab `name`, opened on first use.
    pub fn page<'a>(&'a self, name: &'a str) -> Page<'a> {
        Page { browser: self, name }
    }

    fn ask(&self, mut request: Value) -> Result<Value> {
        let id = self.next.replace(self.next.get() + 1);
        request["id"] = id.into();
        let mut program = self.program.borrow_mut();
        program.write(&format!("{request}\n"))?;
        let answer =
            |line: &str| serde_json::from_str::<Value>(line).ok().filter(|answer| answer["id"] == id);
        let (read, answer) =
            program.wait_from(self.read.get(), &format!("the answer to {request}"), answer)?;
        self.read.set(read);
        match answer.get("error") {
            Some(error) => Err(anyhow!("{request}: {}", error.as_str().unwrap_or_default())),
            None => Ok(answer["value"].clone()),
        }
    }
}

impl Page<'_> {
    /// Any act of the driver, with its arguments in `with`.
    pub fn act(&self, act: &str, with: Value) -> Result<Value> {
        let mut request = json!({ "act": act, "on": self.name });
        if let (Some(request), Value::Object(with)) = (request.as_object_mut(), with) {
            request.extend(with);
        }
        self.browser.ask(request)
    }

    /// Opens an address.
    pub fn goto(&self, url: &str) -> Result<()> {
        self.act("goto", json!({ "url": url })).map(drop)
    }

    /// Presses the button of this name.
    pub fn press(&self, button: &str) -> Result<()> {
        self.act("click", json!({ "role": "button", "name": button, "exact": true })).map(drop)
    }

    /// Follows the first link whose name holds this.
    pub fn follow(&self, link: &str) -> Result<()> {
        self.act("click", json!({ "role": "link", "name": link })).map(drop)
    }

    /// Flips the switch of this name.
    pub fn flip(&self, switch: &str) -> Result<()> {
        self.act("click", json!({ "role": "switch", "name": switch, "exact": true })).map(drop)
    }

    /// Types into the field of this label.
    pub fn fill(&self, label: &str, value: &str) -> Result<()> {
        self.act("fill", json!({ "label": label, "value": value })).map(drop)
    }

    /// Waits until this text is seen.
    pub fn see(&self, text: &str) -> Result<()> {
        self.act("wait", json!({ "text": text })).map(drop)
    }

    /// Waits until this text is no longer seen.
    pub fn see_no_more(&self, text: &str) -> Result<()> {
        self.act("wait", json!({ "text": text, "state": "hidden" })).map(drop)
    }

    /// Waits until something that the selector finds is seen, and gives its text.
    pub fn text(&self, selector: &str) -> Result<String> {
        let text = self.act("text", json!({ "selector": selector }))?;
        text.as_str().map(str::to_owned).context("no text")
    }

    /// A picture of what is seen, or of the first thing that the selector finds.
    pub fn picture(&self, path: &Path, selector: Option<&str>) -> Result<()> {
        let path = path.to_str().context("not a path that JSON can hold")?;
        self.act("screenshot", json!({ "path": path, "selector": selector })).map(drop)
    }

    /// Size and colour scheme (`light` or `dark`).
    pub fn look(&self, width: u32, height: u32, scheme: &str) -> Result<()> {
        self.act("look", json!({ "width": width, "height": height, "scheme": scheme })).map(drop)
    }

    /// The errors that the page has reported since the last call, its own and the browser's.
    pub fn faults(&self) -> Result<Vec<String>> {
        let faults = self.act("faults", json!({}))?;
        Ok(faults.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect())
    }
}
