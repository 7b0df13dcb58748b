-- Windows that have ended are found without looking at every namespace.
CREATE INDEX namespaces_by_window ON namespaces (pairing_expires) WHERE pairing_expires IS NOT NULL;
