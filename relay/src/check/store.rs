//! The database: whether it is whole, and of a version that this program knows.

use std::path::Path;
use std::time::Duration;

use sqlx::Connection as _;
use sqlx::sqlite::{SqliteConnectOptions, SqliteConnection};

use super::Findings;
use crate::store::{DATABASE, schema};

const ABOUT: &str = "database";

pub(super) async fn check(data: &Path, findings: &mut Findings) {
    let path = data.join(DATABASE);
    if !path.exists() {
        return findings.fine(ABOUT, "There is no database yet: the first start makes it.");
    }
    if let Err(error) = look(&path, findings).await {
        let text = format!(
            "The database {} cannot be read ({error}): run this as the relay's user; if it is damaged, restore a backup.",
            path.display()
        );
        findings.problem(ABOUT, text);
    }
}

async fn look(path: &Path, findings: &mut Findings) -> Result<(), sqlx::Error> {
    let options =
        SqliteConnectOptions::new().filename(path).read_only(true).busy_timeout(Duration::from_secs(5));
    let mut db = SqliteConnection::connect_with(&options).await?;
    let (shown, newest) = (path.display(), schema::newest());
    match schema::version(&mut db).await? {
        None => {
            findings.problem(ABOUT, format!("{shown} is not a relay's database: name another data folder."));
            return Ok(());
        }
        Some(found) if found > newest => {
            let text = format!(
                "The database {shown} was written by a newer relay (its version is {found}, this program knows \
                 {newest}): install that relay again, or restore the backup that was made before the upgrade."
            );
            findings.problem(ABOUT, text);
            return Ok(());
        }
        Some(found) if found < newest => {
            let text = format!(
                "The database {shown} has version {found}; the next start makes it {newest}. Make a backup first."
            );
            findings.warning(ABOUT, text);
        }
        Some(_) => {}
    }
    let said: Vec<String> = sqlx::query_scalar("PRAGMA quick_check(3)").fetch_all(&mut db).await?;
    if said != ["ok"] {
        let text = format!("The database {shown} is damaged ({}): restore a backup.", said.join("; "));
        findings.problem(ABOUT, text);
        return Ok(());
    }
    let (namespaces, devices, messages): (i64, i64, i64) = sqlx::query_as(
        "SELECT (SELECT COUNT(*) FROM namespaces), (SELECT COUNT(*) FROM clients), (SELECT COUNT(*) FROM queue)",
    )
    .fetch_one(&mut db)
    .await?;
    let text = format!(
        "The database is whole: namespaces {namespaces}, devices {devices}, waiting messages {messages}."
    );
    findings.fine(ABOUT, text);
    db.close().await
}
