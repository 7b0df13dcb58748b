//! What a person sees who types something that cannot work: one sentence, and the exit code that scripts rely on.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

const QR: &str = r#"{"v":1,"relay_url":"ws://127.0.0.1:9/v1/ws","namespace_id":"f7d340d3c3f0b0052fa904ba60ebd38a0f7e7d10672ac80648991a2c632c9e58","agent_ed25519_pub":"b3e202f4ac99fd9929da47df20adedd5b2598411a466a229f086eda3467ffa7b","agent_x25519_pub":"4fcb9922300372851653f0d8a0d48855674b6f6095e3770273d212bcaf51bc64","pairing_token":"c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"}"#;

fn run(home: &Path, args: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_skald-phone"))
        .env_remove("SKALD_PHONE_HOME")
        .arg("--home")
        .arg(home)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    child.stdin.take().expect("stdin").write_all(input.as_bytes()).expect("written");
    child.wait_with_output().expect("ended")
}

fn refused(home: &Path, args: &[&str], input: &str, code: i32) -> String {
    let output = run(home, args, input);
    let error = String::from_utf8(output.stderr).expect("text");
    assert_eq!(output.status.code(), Some(code), "{args:?}: {error}");
    assert!(output.stdout.is_empty(), "{args:?} wrote to standard output");
    let line = error.strip_suffix('\n').expect("a line");
    assert!(!line.contains('\n') && line.ends_with('.'), "{args:?}: {error:?}");
    assert!(line.starts_with(|c: char| !c.is_lowercase()), "{args:?}: {error:?}");
    line.to_owned()
}

#[test]
fn commands_on_a_device_that_is_not_paired_say_so_and_leave_no_trace() {
    let dir = tempfile::tempdir().expect("folder");
    let home = dir.path().join("home");
    for args in [
        &["inbox"][..],
        &["inbox", "--watch"],
        &["approve", "abc"],
        &["reject", "abc"],
        &["answer", "abc", "text"],
        &["elicit", "abc", "--decline"],
        &["proxy", "--listen", "127.0.0.1:0"],
        &["logout"],
    ] {
        assert!(refused(&home, args, "", 2).contains("not paired"));
    }
    assert!(!home.exists());
}

#[test]
fn the_status_of_a_device_that_is_not_paired_can_be_read_by_both() {
    let dir = tempfile::tempdir().expect("folder");
    let output = run(dir.path(), &["status"], "");
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8_lossy(&output.stdout).contains("not paired"));
    let output = run(dir.path(), &["status", "--json"], "");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "{\"paired\":false}\n");
}

#[test]
fn mistakes_on_the_command_line_are_usage_errors() {
    let dir = tempfile::tempdir().expect("folder");
    for args in [
        &[][..],
        &["dance"],
        &["pair"],
        &["pair", "--qr", "a.png", "--payload", "{}"],
        &["approve"],
        &["approve", "a", "--bypass", "for ever"],
        &["answer", "a"],
        &["elicit", "a", "--decline", "--cancel"],
        &["proxy", "--listen", "0.0.0.0:0"],
        &["proxy", "--listen", "192.0.2.1:50001"],
        &["inbox", "--wait", "0s"],
    ] {
        refused(dir.path(), args, "", 2);
    }
    assert_eq!(run(dir.path(), &["--help"], "").status.code(), Some(0));
    assert_eq!(run(dir.path(), &["--version"], "").status.code(), Some(0));
}

#[test]
fn pairing_codes_that_cannot_be_used_are_told_apart_without_repeating_them() {
    let dir = tempfile::tempdir().expect("folder");
    let home = dir.path().join("home");
    let token = "c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf";
    for (payload, says) in [
        ("", "not a Skald pairing code"),
        ("https://example.org", "not a Skald pairing code"),
        (&QR.replace("\"v\":1", "\"v\":2"), "newer version"),
        (&QR.replace("c0c1", "c0"), "pairing_token"),
        (&QR.replace("f7d3", "f7d4"), "namespace"),
        (&QR.replace("ws://", "http://"), "relay_url"),
    ] {
        for input in [true, false] {
            let (args, stdin) = if input {
                (["pair", "--payload", "-"], payload)
            } else {
                (["pair", "--payload", payload], "")
            };
            if args[2].is_empty() {
                continue;
            }
            let error = refused(&home, &args, stdin, 2);
            assert!(error.contains(says), "{payload}: {error}");
            assert!(!error.contains(&token[8..]), "{error}");
        }
    }
    assert!(!home.exists(), "a code that cannot be used makes no device");
}

#[test]
fn pictures_without_a_usable_code_are_usage_errors() {
    let dir = tempfile::tempdir().expect("folder");
    let home = dir.path().join("home");
    let text = dir.path().join("a.png");
    std::fs::write(&text, "no picture").expect("written");
    let blank = dir.path().join("blank.png");
    image::GrayImage::from_pixel(300, 300, image::Luma([255])).save(&blank).expect("saved");
    for path in [dir.path().join("absent.png"), text, blank, dir.path().to_path_buf()] {
        refused(&home, &["pair", "--qr", path.to_str().expect("path")], "", 2);
    }
}

#[test]
fn a_relay_that_cannot_be_reached_is_exit_code_four_and_leaves_no_pairing() {
    let dir = tempfile::tempdir().expect("folder");
    let home = dir.path().join("home");
    // Port 9 of the loopback is the discard service, which nobody runs.
    refused(&home, &["pair", "--payload", QR, "--wait", "5s"], "", 4);
    assert!(refused(&home, &["inbox"], "", 2).contains("not paired"));
    let mode = std::fs::metadata(&home).expect("made").permissions().mode();
    assert_eq!(mode & 0o777, 0o700);
}

#[test]
fn folders_that_are_somebody_elses_are_left_alone() {
    let dir = tempfile::tempdir().expect("folder");
    let used = dir.path().join("used");
    std::fs::create_dir(&used).expect("made");
    std::fs::write(used.join("letter.txt"), "x").expect("written");
    std::fs::set_permissions(&used, std::fs::Permissions::from_mode(0o755)).expect("mode");
    assert!(refused(&used, &["pair", "--payload", QR], "", 2).contains("holds other things"));
    let mode = std::fs::metadata(&used).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o755);
    refused(&used.join("letter.txt"), &["pair", "--payload", QR], "", 2);
    refused(&dir.path().join("home"), &["--ca", "/nowhere/ca.pem", "pair", "--payload", QR], "", 2);
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let dir = tempfile::tempdir().expect("folder");
    let mut child = Command::new(env!("CARGO_BIN_EXE_skald-phone"))
        .args(["--home".as_ref(), dir.path().as_os_str(), "status".as_ref()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    drop(child.stdout.take());
    let output = child.wait_with_output().expect("ended");
    assert!(!String::from_utf8_lossy(&output.stderr).contains("panicked"));
}

#[test]
fn a_damaged_pairing_is_said_and_can_be_cleared() {
    let dir = tempfile::tempdir().expect("folder");
    let home = dir.path().join("home");
    std::fs::create_dir(&home).expect("made");
    std::fs::write(home.join("lock"), "").expect("written");
    std::fs::write(home.join("pairing.json"), "{\"name\":").expect("written");
    assert!(refused(&home, &["inbox"], "", 2).contains("damaged"));
    assert!(refused(&home, &["status"], "", 2).contains("--force"));
    assert_eq!(run(&home, &["logout", "--force"], "").status.code(), Some(0));
    assert!(refused(&home, &["inbox"], "", 2).contains("not paired"));
}
