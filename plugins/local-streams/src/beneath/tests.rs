//! Attempts to get out of a folder, by every way of opening and from many directions.

use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::*;
use crate::path::WirePath;

const SECRET: &[u8] = b"outside";

struct Tree {
    _dir: tempfile::TempDir,
    root: PathBuf,
}

/// A folder with things to find, and beside it what must not be found.
fn tree() -> Tree {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("offered");
    let outside = dir.path().join("outside");
    std::fs::create_dir_all(root.join("sub/deep")).unwrap();
    std::fs::create_dir_all(&outside).unwrap();
    std::fs::write(outside.join("secret"), SECRET).unwrap();
    std::fs::write(root.join("file"), b"inside").unwrap();
    std::fs::write(root.join("sub/file"), b"inside").unwrap();
    std::fs::write(root.join("sub/a\u{1b}[31m"), b"inside").unwrap();
    symlink(outside.join("secret"), root.join("link-file")).unwrap();
    symlink(&outside, root.join("link-dir")).unwrap();
    symlink("../../outside", root.join("sub/link-up")).unwrap();
    symlink("file", root.join("link-inside")).unwrap();
    symlink("/proc/self/fd", root.join("link-magic")).unwrap();
    symlink("/proc/self/root", root.join("link-root")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, root.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    std::mem::forget(std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap());
    Tree { _dir: dir, root }
}

fn parts(path: &str) -> Vec<String> {
    if path.is_empty() { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

fn content(root: &Root, path: &str) -> Result<Vec<u8>, FaultCode> {
    let (mut file, _) = root.file(&parts(path)).map_err(|f| f.code)?;
    let mut read = Vec::new();
    file.read_to_end(&mut read).unwrap();
    Ok(read)
}

#[test]
fn what_is_inside_is_opened_and_everything_else_refused_whichever_way_parts_are_followed() {
    use FaultCode::*;
    let tree = tree();
    for how in [How::Best, How::Steps] {
        let root = Root::open_by(&tree.root, how).unwrap();
        for path in ["file", "sub/file", "sub/a\u{1b}[31m"] {
            assert_eq!(content(&root, path).as_deref(), Ok(&b"inside"[..]), "{how:?} {path}");
        }
        // Parts that a path from outside cannot hold are refused here as well: this is the second of two walls.
        for (path, codes) in [
            ("link-file", &[NotAFile][..]),
            ("link-inside", &[NotAFile]),
            ("link-dir/secret", &[NotAFile, IsAFile]),
            ("sub/link-up/secret", &[NotAFile, IsAFile]),
            ("link-magic/0", &[NotAFile, IsAFile]),
            ("link-root/etc/passwd", &[NotAFile, IsAFile]),
            ("link-root", &[NotAFile]),
            ("fifo", &[NotAFile]),
            ("socket", &[NotAFile]),
            ("sub", &[IsAFolder]),
            ("file/under", &[IsAFile]),
            ("FILE", &[NotFound]),
            ("Sub/file", &[NotFound]),
            ("nothing", &[NotFound]),
            ("sub/nothing/at/all", &[NotFound]),
        ] {
            let code = content(&root, path).expect_err(path);
            assert!(codes.contains(&code), "{how:?} {path}: {code:?}");
        }
        for path in ["link-dir", "sub/link-up", "link-magic", "link-root", "file", "fifo", "nothing"] {
            assert!(root.folder(&parts(path)).is_err(), "{how:?} {path}");
        }
        for path in ["", "sub", "sub/deep"] {
            assert!(root.folder(&parts(path)).is_ok(), "{how:?} {path}");
        }
        let long = "x".repeat(300);
        assert_eq!(content(&root, &long), Err(BadPath), "{how:?}");
    }
}

#[test]
fn a_name_that_leads_upwards_is_never_followed_even_by_one_call() {
    let tree = tree();
    let root = Root::open(&tree.root).unwrap();
    // Only `How::Best` is asked: such parts never come from `WirePath`, and the kernel refuses them as well.
    let up = [String::from(".."), "outside".into()];
    if cfg!(target_os = "linux") && at_once(root.folder.as_fd(), &[]).is_some() {
        assert!(root.folder(&up).is_err());
    }
}

proptest! {
    #[test]
    fn whatever_is_asked_for_nothing_outside_is_ever_opened(
        names in prop::collection::vec(prop::sample::select(vec![
            "sub", "deep", "file", "link-file", "link-dir", "link-up", "link-inside", "link-magic", "link-root", "fifo",
            "secret", "outside", "offered", "..", ".", "", "0", "1", "3", "self", "proc", "etc", "passwd", "a\0b",
        ]), 1..6),
        steps: bool,
    ) {
        let tree = tree();
        let how = if steps { How::Steps } else { How::Best };
        let root = Root::open_by(&tree.root, how).unwrap();
        let text = format!("offered/{}", names.join("/"));
        if let Some(path) = WirePath::parse(&text) {
            let inside = tree.root.canonicalize().unwrap();
            let place = |fd: i32| std::fs::read_link(format!("/proc/self/fd/{fd}"));
            if let Ok((file, _)) = root.file(&path.parts) {
                prop_assert!(!cfg!(target_os = "linux") || place(file.as_raw_fd()).unwrap().starts_with(&inside));
            }
            if let Ok(folder) = root.folder(&path.parts) {
                prop_assert!(!cfg!(target_os = "linux") || place(folder.as_raw_fd()).unwrap().starts_with(&inside));
            }
        }
    }
}

#[test]
fn a_folder_that_becomes_a_link_during_the_walk_leads_nowhere() {
    let tree = tree();
    let outside = tree.root.parent().unwrap().join("outside");
    // `turn/secret` is a harmless file where `turn` is a folder, and the secret where it is a link.
    std::fs::create_dir(tree.root.join("real")).unwrap();
    std::fs::write(tree.root.join("real/secret"), b"inside").unwrap();
    let stop = AtomicBool::new(false);
    let (turn, real) = (tree.root.join("turn"), tree.root.join("real"));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::fs::rename(&real, &turn).unwrap();
                std::fs::rename(&turn, &real).unwrap();
                symlink(&outside, &turn).unwrap();
                std::fs::remove_file(&turn).unwrap();
            }
        });
        let mut found = 0;
        for round in 0..20_000 {
            let how = if round % 2 == 0 { How::Best } else { How::Steps };
            let root = Root::open_by(&tree.root, how).unwrap();
            if let Ok(read) = content(&root, "turn/secret") {
                assert_eq!(read, b"inside", "{how:?}");
                found += 1;
            }
        }
        stop.store(true, Ordering::Relaxed);
        // Otherwise nothing was tried.
        assert!(found > 0);
    });
}

#[test]
fn a_file_that_becomes_a_link_or_a_pipe_is_refused_and_holds_nobody_up() {
    let tree = tree();
    let outside = tree.root.parent().unwrap().join("outside/secret");
    let turn = tree.root.join("turn");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                std::fs::write(&turn, b"inside").unwrap();
                std::fs::remove_file(&turn).unwrap();
                symlink(&outside, &turn).unwrap();
                std::fs::remove_file(&turn).unwrap();
                rustix::fs::mknodat(rustix::fs::CWD, &turn, FileType::Fifo, Mode::RUSR, 0).unwrap();
                std::fs::remove_file(&turn).unwrap();
            }
        });
        let root = Root::open(&tree.root).unwrap();
        for _ in 0..20_000 {
            if let Ok(read) = content(&root, "turn") {
                assert!(read.is_empty() || read == b"inside");
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
}
