-- Times are unix milliseconds by the wall clock. Actors are JSON (`skald_core_api::Actor`).

CREATE TABLE counters (
    name  TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO counters (name, value) VALUES ('inbox_revision', 0), ('history', 0);

CREATE TABLE items (
    seq             INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id      TEXT NOT NULL UNIQUE,
    kind            TEXT NOT NULL CHECK (kind IN ('approval', 'clarification', 'elicitation')),
    state           TEXT NOT NULL CHECK (state IN ('pending', 'resolved', 'expired', 'cancelled')),
    source          TEXT NOT NULL,
    idempotency_key TEXT,
    asked_digest    BLOB,
    body            TEXT NOT NULL,
    created_at      INTEGER NOT NULL,
    expires_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    ended_seq       INTEGER UNIQUE,
    ended_by        TEXT,
    outcome         TEXT,
    -- Whether there was content for the source. The content itself is never stored.
    had_content     INTEGER NOT NULL DEFAULT 0,
    late_count      INTEGER NOT NULL DEFAULT 0,
    CHECK ((state = 'pending') = (ended_at IS NULL)),
    CHECK ((state = 'pending') = (ended_seq IS NULL)),
    CHECK ((state = 'pending') = (ended_by IS NULL)),
    CHECK ((state = 'resolved') = (outcome IS NOT NULL))
) STRICT;
CREATE INDEX items_pending ON items (expires_at) WHERE state = 'pending';
CREATE INDEX items_ended ON items (ended_at) WHERE state <> 'pending';
CREATE UNIQUE INDEX items_idempotency ON items (source, idempotency_key) WHERE idempotency_key IS NOT NULL;

-- An item ends once. The program sees to it; the database makes sure.
CREATE TRIGGER items_end_once BEFORE UPDATE OF state, outcome, ended_by, ended_at ON items
WHEN OLD.state <> 'pending'
BEGIN SELECT RAISE(ABORT, 'an item ends once'); END;

CREATE TABLE late_answers (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    request_id  TEXT NOT NULL REFERENCES items (request_id) ON DELETE CASCADE,
    answered_by TEXT NOT NULL,
    at          INTEGER NOT NULL,
    outcome     TEXT NOT NULL
) STRICT;
CREATE INDEX late_answers_of ON late_answers (request_id);

CREATE TABLE notifications (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    source     TEXT NOT NULL,
    title      TEXT NOT NULL,
    body       TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;

CREATE TABLE bypasses (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    tool_name   TEXT NOT NULL,
    source      TEXT NOT NULL,
    agent_label TEXT NOT NULL,
    session     TEXT,
    created_at  INTEGER NOT NULL,
    created_by  TEXT NOT NULL,
    expires_at  INTEGER,
    -- Granted "for the session" of a source that names none: it ends when the host stops.
    this_run    INTEGER NOT NULL DEFAULT 0,
    uses        INTEGER NOT NULL DEFAULT 0,
    last_used   INTEGER,
    ended_at    INTEGER
) STRICT;
CREATE INDEX bypasses_in_force ON bypasses (tool_name, source) WHERE ended_at IS NULL;

CREATE TABLE audit (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    at         INTEGER NOT NULL,
    actor      TEXT NOT NULL,
    action     TEXT NOT NULL,
    request_id TEXT,
    subject    TEXT,
    digest     TEXT,
    sig        TEXT
) STRICT;
CREATE TRIGGER audit_is_never_changed BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the record of decisions is append-only'); END;
CREATE TRIGGER audit_is_never_deleted BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the record of decisions is append-only'); END;

CREATE TABLE signin_links (
    hash       BLOB PRIMARY KEY,
    created_at INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE sessions (
    id         TEXT PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    last_used  INTEGER NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE tokens (
    name       TEXT PRIMARY KEY,
    hash       BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    last_used  INTEGER
) STRICT, WITHOUT ROWID;

CREATE TABLE settings (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE plugins (
    id      TEXT PRIMARY KEY,
    enabled INTEGER NOT NULL,
    config  TEXT NOT NULL
) STRICT, WITHOUT ROWID;
