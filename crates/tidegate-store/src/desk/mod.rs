//! What the gateway and the sidecar talk to.
