//! Builds the page before it is embedded.
//!
//! `SKALD_WEB_ASSETS=prebuilt` leaves the page as it lies in `web/packages/app/dist`: for package builds without npm.

use std::path::{Path, PathBuf};
use std::process::{Command, exit};

fn main() {
    let Some(manifest) = std::env::var_os("CARGO_MANIFEST_DIR") else {
        fail("Cargo did not say where the crate lies.")
    };
    let web = PathBuf::from(manifest).join("../../web");
    let app = web.join("packages/app");
    let dist = app.join("dist");

    println!("cargo::rerun-if-env-changed=SKALD_WEB_ASSETS");
    println!("cargo::rerun-if-changed=build.rs");
    for path in ["package.json", "package-lock.json", "tsconfig.json", "tsconfig.base.json"] {
        watch(&web.join(path));
    }
    for package in ["packages/app", "packages/protocol"] {
        for path in ["package.json", "index.html", "vite.config.ts", "tsconfig.json", "src", "public"] {
            watch(&web.join(package).join(path));
        }
    }

    if std::env::var_os("SKALD_WEB_ASSETS").is_some_and(|v| v == "prebuilt") {
        if !dist.join("index.html").is_file() {
            fail(
                "SKALD_WEB_ASSETS=prebuilt, but web/packages/app/dist holds no page; build it with `npm run build` first.",
            );
        }
        return;
    }
    if app.join("package.json").is_file() {
        if !installed(&web) {
            npm(&web, &["ci", "--no-audit", "--no-fund"]);
        }
        npm(&web, &["run", "build"]);
        if !dist.join("index.html").is_file() {
            fail("`npm run build` in web/ left no page in web/packages/app/dist; see what it printed.");
        }
    } else if let Err(e) = std::fs::create_dir_all(&dist) {
        // Without the app's sources the program is built without a page, and says so when one is asked for.
        fail(&format!("web/packages/app/dist could not be made: {e}."));
    }
}

/// Cargo would run this script every time for a path that does not exist. What comes later comes with a change of the
/// lock file.
fn watch(path: &Path) {
    if path.exists() {
        println!("cargo::rerun-if-changed={}", path.display());
    }
}

/// Whether what lies in node_modules is as new as the lock file: npm leaves a copy of the lock there.
fn installed(web: &Path) -> bool {
    let modified = |p: PathBuf| std::fs::metadata(p).and_then(|m| m.modified()).ok();
    match (modified(web.join("node_modules/.package-lock.json")), modified(web.join("package-lock.json"))) {
        (Some(installed), Some(locked)) => installed >= locked,
        (Some(_), None) => true,
        _ => false,
    }
}

fn npm(web: &Path, arguments: &[&str]) {
    let program = if cfg!(windows) { "npm.cmd" } else { "npm" };
    match Command::new(program).args(arguments).current_dir(web).output() {
        Ok(output) if output.status.success() => {}
        Ok(output) => {
            // Standard output of a build script is read by Cargo, so what npm said goes to standard error.
            eprintln!("{}", String::from_utf8_lossy(&output.stdout));
            eprintln!("{}", String::from_utf8_lossy(&output.stderr));
            fail(&format!("`npm {}` in web/ failed; what it printed stands above.", arguments.join(" ")));
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => fail(
            "npm is not installed, and Skald's page is built with it; install Node 20 or newer, or set \
             SKALD_WEB_ASSETS=prebuilt and put a built page into web/packages/app/dist.",
        ),
        Err(e) => fail(&format!("npm could not be started: {e}.")),
    }
}

fn fail(text: &str) -> ! {
    println!("cargo::error={text}");
    exit(1)
}
