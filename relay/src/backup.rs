//! Copies of the store: made while the relay runs, and put back while it does not.
//!
//! A copy is one SQLite file. Beside the relay's tables it has `backup_files` with what else makes this relay the one that
//! it is: the key that browsers know it by, and what it keeps of its certificate authority. Settings, certificates
//! from files and push providers' keys are not in it: they are the operator's own files.

mod restore;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};
use sqlx::{Connection as _, Executor as _};

pub use restore::restore;

use crate::private;
use crate::store::{DATABASE, OpenError, schema};

/// Files of the data folder, beside the database, that a copy holds.
const FILES: [&str; 1] = ["vapid.pem"];
/// Folders of which it holds every file.
const FOLDERS: [&str; 1] = ["acme"];
/// None of them is larger than this.
const LARGEST: u64 = 1024 * 1024;

/// What a copy holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Contents {
    /// The version of the database.
    pub version: i64,
    /// How many namespaces.
    pub namespaces: i64,
    /// How many devices.
    pub devices: i64,
    /// How many waiting messages.
    pub messages: i64,
    /// Which files beside the database, by their paths in the data folder.
    pub files: Vec<String>,
}

/// Why a copy was not made or not put back. Nothing was changed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The data folder holds no database.
    #[error("there is no database in {0}: name the folder that the relay is started with")]
    NoDatabase(PathBuf),
    /// Something is there already.
    #[error("{0} exists already: name another file, or remove it first")]
    Exists(PathBuf),
    /// A database is there already.
    #[error(
        "{0} holds a database already: to replace it, say --replace; it is then kept as relay.db.replaced"
    )]
    Occupied(PathBuf),
    /// The file is no copy.
    #[error("{0} is no copy of a relay's database")]
    NotACopy(PathBuf),
    /// The copy is damaged.
    #[error("{path} is damaged ({reason}): use another copy")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What SQLite says.
        reason: String,
    },
    /// The folder is in use or unusable, or the copy is of a newer version.
    #[error(transparent)]
    Store(#[from] OpenError),
    /// A file cannot be read or written.
    #[error("cannot use {path}: {cause}")]
    File {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: io::Error,
    },
    /// SQLite failed.
    #[error("cannot work with the database {path}: {cause}")]
    Database {
        /// Which file.
        path: PathBuf,
        /// Why not.
        cause: sqlx::Error,
    },
}

impl BackupError {
    fn file(path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |cause| Self::File { path: path.to_owned(), cause }
    }

    fn database(path: &Path) -> impl Fn(sqlx::Error) -> Self + Copy {
        move |cause| Self::Database { path: path.to_owned(), cause }
    }
}

/// Copies the store in `data` to the file `to`, which must not exist. The relay may run meanwhile: the copy is one moment
/// of it, and nobody waits for it.
pub async fn backup(data: &Path, to: &Path) -> Result<Contents, BackupError> {
    let database = data.join(DATABASE);
    if !database.is_file() {
        return Err(BackupError::NoDatabase(data.to_owned()));
    }
    if to.exists() {
        return Err(BackupError::Exists(to.to_owned()));
    }
    let unfinished = beside(to, ".unfinished");
    let made = copy(data, &database, &unfinished).await;
    match made {
        Ok(contents) => {
            std::fs::rename(&unfinished, to).map_err(BackupError::file(to))?;
            private::sync_folder_of(to).map_err(BackupError::file(to))?;
            Ok(contents)
        }
        Err(error) => {
            // Half a copy is worse than none.
            let _ = std::fs::remove_file(&unfinished);
            Err(error)
        }
    }
}

async fn copy(data: &Path, database: &Path, unfinished: &Path) -> Result<Contents, BackupError> {
    // Made first, for the mode; it must be empty for SQLite to write there.
    let file = private::file(unfinished).map_err(BackupError::file(unfinished))?;
    file.set_len(0).map_err(BackupError::file(unfinished))?;

    let fail = BackupError::database(database);
    let mut connection = connect(database).await.map_err(fail)?;
    check_version(database, &mut connection).await?;
    let target = unfinished.to_str().ok_or_else(|| BackupError::File {
        path: unfinished.to_owned(),
        cause: io::Error::new(io::ErrorKind::InvalidInput, "the path is not valid UTF-8"),
    })?;
    sqlx::query("VACUUM INTO ?").bind(target).execute(&mut connection).await.map_err(fail)?;
    connection.close().await.map_err(fail)?;

    let fail = BackupError::database(unfinished);
    let mut copy = connect(unfinished).await.map_err(fail)?;
    copy.execute("CREATE TABLE backup_files (path TEXT NOT NULL PRIMARY KEY, content BLOB NOT NULL) STRICT")
        .await
        .map_err(fail)?;
    for path in files(data)? {
        let full = data.join(&path);
        let content = std::fs::read(&full).map_err(BackupError::file(&full))?;
        sqlx::query("INSERT INTO backup_files VALUES (?, ?)")
            .bind(path)
            .bind(content)
            .execute(&mut copy)
            .await
            .map_err(fail)?;
    }
    check_integrity(unfinished, &mut copy).await?;
    let contents = contents(unfinished, &mut copy).await?;
    copy.close().await.map_err(fail)?;
    file.sync_all().map_err(BackupError::file(unfinished))?;
    Ok(contents)
}

/// The files beside the database that belong to this relay's identity, as paths in the data folder.
fn files(data: &Path) -> Result<Vec<String>, BackupError> {
    let mut found: Vec<String> =
        FILES.iter().filter(|file| data.join(file).is_file()).map(|file| (*file).to_owned()).collect();
    for folder in FOLDERS {
        let path = data.join(folder);
        if !path.is_dir() {
            continue;
        }
        for entry in std::fs::read_dir(&path).map_err(BackupError::file(&path))? {
            let entry = entry.map_err(BackupError::file(&path))?;
            let usual = entry.metadata().is_ok_and(|about| about.is_file() && about.len() <= LARGEST);
            // What a crash left half written is none.
            if let Some(name) = entry.file_name().to_str().filter(|name| usual && !name.ends_with(".new")) {
                found.push(format!("{folder}/{name}"));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Opens a database that exists.
async fn connect(path: &Path) -> Result<SqliteConnection, sqlx::Error> {
    let options = SqliteConnectOptions::new().filename(path).busy_timeout(Duration::from_secs(10));
    SqliteConnection::connect_with(&options).await
}

async fn check_version(path: &Path, db: &mut SqliteConnection) -> Result<i64, BackupError> {
    let found = match schema::version(db).await {
        Ok(found) => found,
        Err(sqlx::Error::Database(error)) if error.message().contains("not a database") => None,
        Err(error) => return Err(BackupError::database(path)(error)),
    };
    match found {
        Some(found) if found > schema::newest() => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: schema::newest() }.into())
        }
        Some(found) if found > 0 => Ok(found),
        _ => Err(BackupError::NotACopy(path.to_owned())),
    }
}

async fn check_integrity(path: &Path, db: &mut SqliteConnection) -> Result<(), BackupError> {
    let said: Vec<String> = sqlx::query_scalar("PRAGMA integrity_check(3)")
        .fetch_all(db)
        .await
        .unwrap_or_else(|error| vec![error.to_string()]);
    if said == ["ok"] {
        return Ok(());
    }
    Err(BackupError::Damaged { path: path.to_owned(), reason: said.join("; ") })
}

async fn contents(path: &Path, db: &mut SqliteConnection) -> Result<Contents, BackupError> {
    let fail = BackupError::database(path);
    let version = check_version(path, db).await?;
    let (namespaces, devices, messages) = sqlx::query_as(
        "SELECT (SELECT COUNT(*) FROM namespaces), (SELECT COUNT(*) FROM clients), (SELECT COUNT(*) FROM queue)",
    )
    .fetch_one(&mut *db)
    .await
    .map_err(fail)?;
    let files = sqlx::query_scalar("SELECT path FROM backup_files ORDER BY path")
        .fetch_all(db)
        .await
        .map_err(fail)?;
    Ok(Contents { version, namespaces, devices, messages, files })
}

/// A path with something behind its name.
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(ending);
    path.with_file_name(name)
}
