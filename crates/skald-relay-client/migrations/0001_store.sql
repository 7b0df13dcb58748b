-- Single facts: the role, the revision of the device list, what a device was paired with.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY NOT NULL,
    value BLOB NOT NULL
) WITHOUT ROWID;

-- An agent's devices, or the one agent of a device.
CREATE TABLE peers (
    ed            BLOB PRIMARY KEY NOT NULL CHECK (length(ed) = 32),
    x             BLOB NOT NULL CHECK (length(x) = 32),
    state         TEXT NOT NULL CHECK (state IN ('pending', 'authorized')),
    platform      INTEGER NOT NULL,
    created_at    INTEGER NOT NULL,
    last_seen     INTEGER,
    -- The highest send counter that may have been used, and the highest receive counter that was accepted.
    send_reserved INTEGER NOT NULL,
    recv_high     INTEGER NOT NULL
) WITHOUT ROWID;

-- Counters live as long as their key, longer than the device's entry: the hash of both keys of a device that was
-- dropped, so that pairing it again repeats no nonce and takes no old message.
CREATE TABLE retired (
    keys          BLOB PRIMARY KEY NOT NULL CHECK (length(keys) = 32),
    send_reserved INTEGER NOT NULL,
    recv_high     INTEGER NOT NULL
) WITHOUT ROWID;

-- Messages on their way out. `body` is the framed plaintext, sealed for this store; `nonce` and `ciphertext` are the
-- envelope once it was sealed for the wire, which at most one row at a time is.
CREATE TABLE outbound (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    peer       BLOB NOT NULL REFERENCES peers (ed) ON DELETE CASCADE,
    slot       TEXT,
    body       BLOB NOT NULL,
    kept       INTEGER NOT NULL DEFAULT 0,
    created_at INTEGER NOT NULL,
    handed_at  INTEGER,
    attempts   INTEGER NOT NULL DEFAULT 0,
    nonce      BLOB,
    ciphertext BLOB
);
CREATE INDEX outbound_waiting ON outbound (peer, seq) WHERE handed_at IS NULL;
CREATE INDEX outbound_slot ON outbound (peer, slot) WHERE slot IS NOT NULL;

-- What the application has not acknowledged yet. Messages stay sealed as they came.
CREATE TABLE inbound (
    seq         INTEGER PRIMARY KEY AUTOINCREMENT,
    kind        TEXT NOT NULL CHECK (kind IN ('message', 'paired')),
    peer        BLOB NOT NULL REFERENCES peers (ed) ON DELETE CASCADE,
    live        INTEGER NOT NULL,
    nonce       BLOB,
    ciphertext  BLOB,
    window      INTEGER,
    received_at INTEGER NOT NULL
);
