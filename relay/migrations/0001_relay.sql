-- What outlives a restart: namespaces, their clients, and messages that wait. Nothing here is readable content.

CREATE TABLE namespaces (
    id              BLOB    NOT NULL PRIMARY KEY,
    agent_key       BLOB    NOT NULL,
    created_at      INTEGER NOT NULL,
    last_active     INTEGER NOT NULL,
    -- SHA-256 of the open window's token: the token itself is never written down.
    pairing_hash    BLOB,
    pairing_expires INTEGER,
    pairing_spent   INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE clients (
    namespace  BLOB    NOT NULL REFERENCES namespaces (id) ON DELETE CASCADE,
    key        BLOB    NOT NULL,
    -- Absent where the agent named a key that never paired here.
    x_key      BLOB,
    push_token TEXT,
    platform   INTEGER NOT NULL DEFAULT 0,
    authorized INTEGER NOT NULL,
    last_seen  INTEGER NOT NULL,
    PRIMARY KEY (namespace, key)
) STRICT, WITHOUT ROWID;

-- AUTOINCREMENT, so that a queue position is never given twice, not even after everything was deleted.
CREATE TABLE queue (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    namespace  BLOB    NOT NULL,
    recipient  BLOB    NOT NULL,
    sender     BLOB    NOT NULL,
    nonce      BLOB    NOT NULL,
    ciphertext BLOB    NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE INDEX queue_by_recipient ON queue (namespace, recipient, id);
CREATE INDEX namespaces_by_activity ON namespaces (last_active);
