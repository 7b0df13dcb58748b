-- When a device last brought its push token: a provider that calls the token dead since an earlier time is out of date.
ALTER TABLE clients ADD COLUMN push_token_at INTEGER NOT NULL DEFAULT 0;
