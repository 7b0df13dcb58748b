//! Sweeping a large backlog, and databases of other versions.

use super::tests::*;
use super::{OpenError, schema, sweep};

#[tokio::test]
async fn a_large_backlog_is_swept_in_batches_of_bounded_size() {
    let f = Fixture::new().await;
    f.sql(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 2999) \
         INSERT INTO queue (namespace, recipient, sender, nonce, ciphertext, created_at) \
         SELECT randomblob(32), randomblob(32), randomblob(32), randomblob(12), randomblob(100), 0 FROM n",
    )
    .await;
    // Namespaces that nobody uses, one of them with more in it than a batch may take.
    f.sql(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1199) \
         INSERT INTO namespaces (id, agent_key, created_at, last_active, pairing_hash, pairing_expires) \
         SELECT unhex(printf('%064x', i)), randomblob(32), 0, 0, randomblob(32), 0 FROM n",
    )
    .await;
    f.sql(
        "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 1999) \
         INSERT INTO queue (namespace, recipient, sender, nonce, ciphertext, created_at) \
         SELECT unhex(printf('%064x', 7)), randomblob(32), randomblob(32), randomblob(12), randomblob(100), \
         9000000000000 FROM n",
    )
    .await;
    f.pass(400 * DAY);
    let rows =
        async || f.count("SELECT (SELECT COUNT(*) FROM queue) + (SELECT COUNT(*) FROM namespaces)").await;
    let mut before = rows().await;
    assert!(before >= 6_200);
    let mut batches = 0;
    while f.store.sweep().await.unwrap() {
        let left = rows().await;
        assert!(before - left <= sweep::BATCH, "a batch took {} rows", before - left);
        before = left;
        batches += 1;
    }
    assert_eq!(rows().await, 0);
    assert!(batches >= 13, "{batches}");
}

#[tokio::test]
async fn the_database_of_the_first_version_is_upgraded_and_nothing_in_it_is_lost() {
    let f = Fixture::over(include_str!("../../tests/data/first_schema.sql")).await.unwrap();
    assert_eq!(f.count("SELECT MAX(version) FROM _sqlx_migrations").await, schema::newest());
    for (what, expected) in [
        ("SELECT COUNT(*) FROM queue WHERE ciphertext IN (X'7365616c65642031', X'7365616c65642032')", 2),
        ("SELECT COUNT(*) FROM clients WHERE push_token = 'a push token' AND authorized = 1", 1),
        ("SELECT COUNT(*) FROM clients WHERE authorized = 0", 1),
        ("SELECT COUNT(*) FROM namespaces WHERE pairing_expires = 3000", 1),
        ("SELECT seq FROM sqlite_sequence WHERE name = 'queue'", 3),
    ] {
        assert_eq!(f.count(what).await, expected, "{what}");
    }
    f.store.open_for_agent(ns(), agent(), true).await.unwrap();
    f.store.enqueue(envelope(1, "new")).await.unwrap();
    assert_eq!(f.count("SELECT MAX(id) FROM queue").await, 4, "no position is given twice");
}

#[tokio::test]
async fn a_newer_database_and_a_foreign_one_are_refused_with_what_to_do() {
    let newer = Fixture::over(concat!(
        include_str!("../../tests/data/first_schema.sql"),
        "INSERT INTO _sqlx_migrations VALUES (999, 'later', '2030-01-01', 1, X'00', 1);"
    ))
    .await;
    let error = newer.err().unwrap();
    assert!(matches!(error, OpenError::Newer { found: 999, .. }), "{error}");
    assert!(error.to_string().contains("newer relay"), "{error}");

    let foreign = Fixture::over("CREATE TABLE recipes (name TEXT);").await;
    assert!(matches!(foreign.err().unwrap(), OpenError::Foreign(_)));
}
