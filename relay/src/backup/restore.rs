//! Putting a copy back.

use std::io::{self, Write as _};
use std::path::{Component, Path};

use sqlx::{Connection as _, Executor as _};

use super::{BackupError, Contents, beside, check_integrity, check_version, connect, contents};
use crate::private;
use crate::store::{DATABASE, lock_folder};

/// Puts the copy `from` into the folder `data`. A database that is there already is replaced only if so told, and kept
/// beside it as `relay.db.replaced`. No relay may run on the folder. Until the last step nothing has changed.
pub async fn restore(data: &Path, from: &Path, replace: bool) -> Result<Contents, BackupError> {
    if !from.is_file() {
        return Err(BackupError::File { path: from.to_owned(), cause: io::ErrorKind::NotFound.into() });
    }
    let lock = lock_folder(data)?;
    let database = data.join(DATABASE);
    let occupied = std::fs::metadata(&database).is_ok_and(|about| about.len() > 0);
    if occupied && !replace {
        return Err(BackupError::Occupied(data.to_owned()));
    }
    let unfinished = beside(&database, ".restoring");
    let put = put(data, from, &database, &unfinished, occupied).await;
    if put.is_err() {
        let _ = std::fs::remove_file(&unfinished);
    }
    drop(lock);
    put
}

async fn put(
    data: &Path,
    from: &Path,
    database: &Path,
    unfinished: &Path,
    occupied: bool,
) -> Result<Contents, BackupError> {
    let fail = BackupError::file(unfinished);
    let mut target = private::file(unfinished).map_err(fail)?;
    target.set_len(0).map_err(fail)?;
    let mut source = std::fs::File::open(from).map_err(BackupError::file(from))?;
    io::copy(&mut source, &mut target).and_then(|_| target.flush()).map_err(fail)?;

    // Everything is judged by the copy that will be used; errors name the file that the operator knows.
    let mut copy = connect(unfinished).await.map_err(BackupError::database(from))?;
    check_version(from, &mut copy).await?;
    check_integrity(from, &mut copy).await?;
    let held = contents(from, &mut copy).await?;
    let wrong = BackupError::database(from);
    let files: Vec<(String, Vec<u8>)> =
        sqlx::query_as("SELECT path, content FROM backup_files").fetch_all(&mut copy).await.map_err(wrong)?;
    if let Some((path, _)) = files.iter().find(|(path, _)| !is_ours(path)) {
        let reason = format!("it holds a file {path:?}, which is none of a relay's");
        return Err(BackupError::Damaged { path: from.to_owned(), reason });
    }
    copy.execute("DROP TABLE backup_files").await.map_err(wrong)?;
    copy.close().await.map_err(wrong)?;
    target.sync_all().map_err(fail)?;

    if occupied {
        set_aside(database).await?;
    }
    for ending in ["-wal", "-shm"] {
        let journal = beside(database, ending);
        match std::fs::remove_file(&journal) {
            Err(cause) if cause.kind() != io::ErrorKind::NotFound => {
                return Err(BackupError::File { path: journal, cause });
            }
            _ => {}
        }
    }
    for (path, content) in files {
        write(&data.join(path), &content)?;
    }
    let fail = BackupError::file(database);
    std::fs::rename(unfinished, database).and_then(|()| private::sync_folder_of(database)).map_err(fail)?;
    Ok(held)
}

/// Only what [`super::backup`] puts into a copy is taken out of it.
fn is_ours(path: &str) -> bool {
    let parts: Vec<_> = Path::new(path).components().collect();
    match parts[..] {
        [Component::Normal(_)] => super::FILES.contains(&path),
        [Component::Normal(folder), Component::Normal(_)] => {
            super::FOLDERS.iter().any(|known| *known == folder)
        }
        _ => false,
    }
}

/// Works the journal into the old database and keeps it under another name, without a moment in which there is none.
async fn set_aside(database: &Path) -> Result<(), BackupError> {
    // A database that is broken is kept as it is.
    if let Ok(mut old) = connect(database).await {
        let _ = old.execute("PRAGMA wal_checkpoint(TRUNCATE)").await;
        let _ = old.close().await;
    }
    let kept = beside(database, ".replaced");
    let fail = BackupError::file(&kept);
    match std::fs::remove_file(&kept) {
        Err(cause) if cause.kind() != io::ErrorKind::NotFound => return Err(fail(cause)),
        _ => {}
    }
    std::fs::hard_link(database, &kept).map_err(fail)
}

fn write(path: &Path, content: &[u8]) -> Result<(), BackupError> {
    let fail = BackupError::file(path);
    if let Some(folder) = path.parent() {
        private::folder(folder).map_err(fail)?;
    }
    let unfinished = beside(path, ".new");
    let mut file = private::file(&unfinished).map_err(fail)?;
    file.set_len(0).and_then(|()| file.write_all(content)).and_then(|()| file.sync_all()).map_err(fail)?;
    std::fs::rename(&unfinished, path).and_then(|()| private::sync_folder_of(path)).map_err(fail)
}
