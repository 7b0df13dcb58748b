//! Both ends' networking: the agent and device roles, the reconnecting link, pairing, pipes and the peer store.
