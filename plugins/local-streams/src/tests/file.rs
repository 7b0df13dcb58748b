//! Files: what is asked, what is refused, and what is found again after a break.

use std::path::PathBuf;

use skald_payloads::streams::{FILE, FaultCode, FileReply, FileRequest, Prefix, Span};

use super::*;
use crate::access::Allowed;
use crate::file::{FileHandler, Quota};
use crate::lines::Folder;
use crate::settings::Files;

struct Place {
    dir: tempfile::TempDir,
    handler: Arc<FileHandler>,
}

async fn place(max_file: u64, daily: u64) -> Place {
    let dir = tempfile::tempdir().unwrap();
    let folder = |name: &str, write| {
        let path = dir.path().join(name);
        std::fs::create_dir(&path).unwrap();
        Folder { name: name.into(), write, max_file, daily, path }
    };
    let folders = vec![folder("photos", false), folder("inbox", true)];
    let quota = Quota::open(database(dir.path()).await).await.unwrap();
    let files = Files { folders, devices: Allowed::default(), streams: 4 };
    Place { handler: Arc::new(FileHandler::new(files, quota, CancellationToken::new())), dir }
}

impl Place {
    fn at(&self, path: &str) -> PathBuf {
        self.dir.path().join(path)
    }

    fn open(&self) -> Device {
        Device::open(self.handler.clone(), offer(FILE, &[]))
    }

    /// Everything in the folder for uploads.
    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.at("inbox")).unwrap();
        entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }
}

fn get(path: &str, have: Option<Prefix>) -> FileRequest {
    FileRequest::Get { path: path.into(), have, range: None }
}

fn put(path: &str, content: &[u8]) -> FileRequest {
    let (size, sha256) = (content.len() as u64, digest(content));
    FileRequest::Put { path: path.into(), size, sha256, overwrite: false }
}

async fn refusal(device: &mut Device, asked: &FileRequest) -> FaultCode {
    device.say(asked).await;
    match device.hear().await {
        FileReply::Error(fault) => fault.code,
        other => panic!("{asked:?}: {other:?}"),
    }
}

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|n| (n * 7 + n / 251) as u8).collect()
}

#[tokio::test]
async fn a_file_comes_whole_from_where_it_broke_or_in_part_and_its_hash_comes_with_it() {
    let place = place(1 << 30, 1 << 30).await;
    let all = content(300_000);
    std::fs::write(place.at("photos/a"), &all).unwrap();
    let mut device = place.open();
    for at in [0, 1, 200_000, 300_000] {
        let have = (at > 0).then(|| Prefix { at: at as u64, sha256: digest(&all[..at]) });
        device.say(&get("photos/a", have)).await;
        let FileReply::File { size, at: begins, len, .. } = device.hear().await else { panic!() };
        assert_eq!((size, begins, len), (300_000, at as u64, 300_000 - at as u64));
        assert_eq!(device.data(len).await, all[at..]);
        assert_eq!(
            device.hear::<FileReply>().await,
            FileReply::End { sha256: Some(digest(&all)), more: false }
        );
    }
    let range = Some(Span { at: 299_990, len: 100 });
    device.say(&FileRequest::Get { path: "photos/a".into(), have: None, range }).await;
    let FileReply::File { len, .. } = device.hear().await else { panic!() };
    assert_eq!((len, device.data(len).await), (10, all[299_990..].to_vec()));
    let sha256 = Some(digest(&all[299_990..]));
    assert_eq!(device.hear::<FileReply>().await, FileReply::End { sha256, more: false });
    device.leave().await;
}

#[tokio::test]
async fn a_file_that_is_another_by_now_is_told_and_not_continued() {
    let place = place(1 << 30, 1 << 30).await;
    let (old, new) = (content(1000), content(1000).into_iter().rev().collect::<Vec<_>>());
    std::fs::write(place.at("photos/a"), &new).unwrap();
    let mut device = place.open();
    for at in [500, 1000, 2000] {
        let have = Prefix { at: at as u64, sha256: digest(&old[..at.min(1000)]) };
        assert_eq!(refusal(&mut device, &get("photos/a", Some(have))).await, FaultCode::Changed, "{at}");
    }
}

#[tokio::test]
async fn what_cannot_be_had_is_refused_in_a_word_and_the_stream_goes_on() {
    use FaultCode::*;
    let place = place(1000, 1 << 30).await;
    std::fs::write(place.at("photos/a"), b"a").unwrap();
    std::fs::create_dir(place.at("photos/sub")).unwrap();
    std::os::unix::fs::symlink("/etc/passwd", place.at("photos/link")).unwrap();
    std::os::unix::fs::symlink("/etc", place.at("photos/etc")).unwrap();
    std::fs::write(place.at("inbox/there"), b"there").unwrap();
    std::os::unix::fs::symlink("/tmp", place.at("inbox/tmp")).unwrap();
    std::os::unix::fs::symlink(place.at("photos/a"), place.at("inbox/link")).unwrap();
    let mut device = place.open();
    let mut tried = 0;
    for (asked, code) in [
        (get("photos/nothing", None), NotFound),
        (get("photos/link", None), NotAFile),
        (get("photos/etc/passwd", None), IsAFile),
        (get("photos/sub", None), IsAFolder),
        (get("photos", None), IsAFolder),
        (get("photos/../photos/a", None), BadPath),
        (get("/etc/passwd", None), BadPath),
        (get("photos/a/", None), BadPath),
        (get("photos/a\0", None), BadPath),
        (get("PHOTOS/a", None), NotOffered),
        (get("secrets/a", None), NotOffered),
        (get("inbox/.skald-upload-0", None), BadPath),
        (FileRequest::List { path: "photos/etc".into() }, IsAFile),
        (FileRequest::List { path: "photos/a".into() }, IsAFile),
        (FileRequest::List { path: "photos/gone".into() }, NotFound),
        (FileRequest::From { at: 0 }, BadRequest),
        (put("photos/b", b"b"), ReadOnly),
        (put("inbox/there", b"other"), Exists),
        (put("inbox/link", b"other"), NotAFile),
        (put("inbox/tmp/x", b"x"), IsAFile),
        (put("inbox/tmp", b"x"), NotAFile),
        (put("inbox/no/such", b"x"), NotFound),
        (put("inbox", b"x"), IsAFolder),
        (put("inbox/big", &content(1001)), TooLarge),
        (put("inbox/../x", b"x"), BadPath),
    ] {
        assert_eq!(refusal(&mut device, &asked).await, code, "{asked:?}");
        tried += 1;
    }
    assert_eq!(tried, 25);
    device.say(&FileRequest::Folders).await;
    let FileReply::Folders { folders } = device.hear().await else { panic!() };
    assert_eq!(
        folders.iter().map(|f| (f.name.as_str(), f.write)).collect::<Vec<_>>(),
        [("photos", false), ("inbox", true)]
    );
}

async fn upload(device: &mut Device, path: &str, all: &[u8]) -> (u64, FileReply) {
    device.say(&put(path, all)).await;
    let at = match device.hear().await {
        FileReply::Have { at, sha256 } => {
            assert_eq!(sha256, digest(&all[..at as usize]));
            at
        }
        other => return (0, other),
    };
    device.say(&FileRequest::From { at }).await;
    device.send(&all[at as usize..]).await;
    loop {
        match device.hear().await {
            FileReply::Got { .. } => {}
            other => return (at, other),
        }
    }
}

#[tokio::test]
async fn an_upload_that_broke_is_continued_and_nothing_is_seen_under_its_name_before_it_is_whole() {
    let place = place(1 << 30, 1 << 30).await;
    let all = content(3_000_000);
    let mut device = place.open();
    device.say(&put("inbox/a", &all)).await;
    assert_eq!(device.hear::<FileReply>().await, FileReply::Have { at: 0, sha256: digest(&[]) });
    device.say(&FileRequest::From { at: 0 }).await;
    device.send(&all[..1_500_000]).await;
    let FileReply::Got { at: got } = device.hear().await else { panic!() };
    device.leave().await;
    assert!(!place.at("inbox/a").exists());
    assert_eq!(place.names().len(), 1);
    // Nobody else sees it, and another device's upload of the same file is another.
    let mut device = place.open();
    device.say(&FileRequest::List { path: "inbox".into() }).await;
    assert_eq!(device.hear::<FileReply>().await, FileReply::End { sha256: None, more: false });
    let (at, ended) = upload(&mut device, "inbox/a", &all).await;
    assert!(at >= got, "{at} {got}");
    assert_eq!(ended, FileReply::End { sha256: Some(digest(&all)), more: false });
    assert_eq!(std::fs::read(place.at("inbox/a")).unwrap(), all);
    assert_eq!(place.names(), ["a"]);
    // The word that it is done may be lost: asking again finds it done.
    assert_eq!(upload(&mut device, "inbox/a", &all).await, (0, ended));
    let other = content(10);
    let FileRequest::Put { path, size, sha256, .. } = put("inbox/a", &other) else { panic!() };
    device.say(&FileRequest::Put { path, size, sha256, overwrite: true }).await;
    let FileReply::Have { .. } = device.hear().await else { panic!() };
    device.say(&FileRequest::From { at: 0 }).await;
    device.send(&other).await;
    assert!(matches!(device.hear().await, FileReply::End { .. }));
    assert_eq!(std::fs::read(place.at("inbox/a")).unwrap(), other);
    let (_, empty) = upload(&mut device, "inbox/empty", &[]).await;
    assert!(matches!(empty, FileReply::End { .. }));
    assert_eq!(std::fs::read(place.at("inbox/empty")).unwrap(), b"");
}

#[tokio::test]
async fn a_stream_that_hangs_is_overtaken_by_the_next_one_for_the_same_file() {
    let place = place(1 << 30, 1 << 30).await;
    let all = content(2_000_000);
    let mut hung = place.open();
    hung.say(&put("inbox/a", &all)).await;
    let FileReply::Have { .. } = hung.hear().await else { panic!() };
    hung.say(&FileRequest::From { at: 0 }).await;
    hung.send(&all[..1_200_000]).await;
    let FileReply::Got { .. } = hung.hear().await else { panic!() };
    let (at, ended) = upload(&mut place.open(), "inbox/a", &all).await;
    assert!(at > 0 && matches!(ended, FileReply::End { .. }), "{at} {ended:?}");
    hung.serving.await.unwrap();
    assert_eq!(std::fs::read(place.at("inbox/a")).unwrap(), all);
}

#[tokio::test]
async fn what_is_not_what_was_announced_never_gets_its_name() {
    let place = place(1 << 30, 1 << 30).await;
    for sent in [content(1000).into_iter().rev().collect::<Vec<_>>(), content(1001)] {
        let mut device = place.open();
        device.say(&put("inbox/a", &content(1000))).await;
        let FileReply::Have { at: 0, .. } = device.hear().await else { panic!() };
        device.say(&FileRequest::From { at: 0 }).await;
        device.send(&sent).await;
        let FileReply::Error(fault) = device.hear().await else { panic!() };
        assert_eq!(fault.code, FaultCode::Mismatch);
        assert_eq!(device.from.hear::<FileReply>().await.unwrap(), None);
        assert!(!place.at("inbox/a").exists());
    }
}

#[tokio::test]
async fn a_days_room_is_kept_to_and_one_file_too_many_is_refused() {
    let place = place(1 << 30, 1500).await;
    let mut device = place.open();
    assert!(matches!(upload(&mut device, "inbox/a", &content(1000)).await.1, FileReply::End { .. }));
    let (_, second) = upload(&mut device, "inbox/b", &content(600)).await;
    assert!(matches!(second, FileReply::Error(f) if f.code == FaultCode::Quota));
    assert!(matches!(upload(&mut place.open(), "inbox/c", &content(500)).await.1, FileReply::End { .. }));
}

#[tokio::test]
async fn who_may_not_is_told_before_the_pipe_is_joined_and_too_many_streams_are_told_at_once() {
    let place = place(1 << 30, 1 << 30).await;
    let quota = Quota::open(database(place.dir.path()).await).await.unwrap();
    let devices = Allowed::read(&["b".repeat(64)]).unwrap();
    let strict =
        FileHandler::new(Files { folders: Vec::new(), devices, streams: 4 }, quota, CancellationToken::new());
    assert!(strict.check(&offer(FILE, &[])).is_err());
    assert!(place.handler.check(&offer(FILE, &[])).is_ok());
    let mut open = Vec::new();
    for _ in 0..3 {
        let mut device = place.open();
        device.say(&FileRequest::Folders).await;
        assert!(matches!(device.hear().await, FileReply::Folders { .. }));
        open.push(device);
    }
    let FileReply::Error(fault) = place.open().hear().await else { panic!() };
    assert_eq!(fault.code, FaultCode::Busy);
}
