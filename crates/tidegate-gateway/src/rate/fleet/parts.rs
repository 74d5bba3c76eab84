//! Who else there is, and which part of a limit is this node's: renewed with the store several times in a lease.
//! With the same call comes the secret that keys are hashed with, which has to be the same on all nodes.

use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};
use std::time::Duration;

use tidegate_core::rate::Tick;
use tidegate_core::rate::key::Part as KeyPart;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::share::Life;
use tidegate_core::rate::share::following::{Following, Part};
use tidegate_store::limits::{Dividing, RedisLimits};
use tidegate_store::{Call, RateKeys, RateSecret, StoreError};

use super::super::who::KeyHash;

/// How long a node is a member after it has said so.
pub(super) const LEASE: Duration = Duration::from_secs(3);
/// How often it says so.
pub(super) const RENEW_INTERVAL: Duration = Duration::from_secs(1);
/// How often while it is no member yet.
pub(super) const JOIN_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait for the answer. Nobody waits for it, so it may take longer than a request's.
const CALL: Call = Call::within(Duration::from_millis(250));

/// This node among the others.
pub(super) struct Parts {
    pub(super) life: Life,
    following: RwLock<Following>,
    keys: RwLock<Arc<Keys>>,
}

/// By what keys of limits are hashed.
pub(super) struct Keys {
    secret: [u8; 16],
    /// Whether all nodes have it. Until the store has said so, nobody is asked.
    pub(super) are_shared: bool,
    /// By what API keys are, before that.
    pub(super) key_hash: KeyHash,
    /// By limit: enforced, and in the shadow.
    limits: Vec<[RateKeys; 2]>,
}

impl Parts {
    /// A node that is no member yet, with a secret of its own.
    pub(super) fn new(life: Life, secret: [u8; 16], names: &[[String; 2]]) -> Self {
        let lease_us = u64::try_from(LEASE.as_micros()).expect("a lease is a few seconds");
        Self {
            life,
            following: RwLock::new(Following::new(life, lease_us)),
            keys: RwLock::new(Arc::new(Keys::new(secret, false, names))),
        }
    }

    /// What is followed now.
    pub(super) fn following(&self) -> RwLockReadGuard<'_, Following> {
        self.following
            .read()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// The keys of now.
    pub(super) fn keys(&self) -> Arc<Keys> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// The node's part at `now`: one in so many, or 0 for none.
    pub(super) fn part(&self, now: Tick) -> u32 {
        match self.following().part(now) {
            Part::OneIn(parts) => parts,
            Part::Joining { .. } | Part::Out => 0,
        }
    }

    /// Renews. `clock` is this node's.
    pub(super) async fn renew(
        &self,
        store: &RedisLimits,
        clock: impl Fn() -> Tick,
        names: &[[String; 2]],
    ) -> Result<(), StoreError> {
        let follows = self.following().follows();
        let (asked, secret) = (clock(), self.keys().secret);
        let said = store
            .divide(self.life, follows, LEASE, secret, CALL)
            .await?;
        let Dividing { membership, secret } = said;
        let mut following = self
            .following
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        // One that is not taken renews nothing, and shows as soon as the lease is over.
        let _ = following.take(asked, clock(), &membership);
        drop(following);
        self.adopt(secret, names);
        Ok(())
    }

    /// Says goodbye, having stopped.
    pub(super) async fn leave(&self, store: &RedisLimits) {
        self.following
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .leave();
        let secret = self.keys().secret;
        // Who is not heard is waited for until its lease is over.
        let _ = store.divide_no_more(self.life, secret, CALL).await;
    }

    fn adopt(&self, secret: [u8; 16], names: &[[String; 2]]) {
        let known = self.keys();
        if known.secret == secret && known.are_shared {
            return;
        }
        let keys = Arc::new(Keys::new(secret, true, names));
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
    }
}

impl Keys {
    fn new(secret: [u8; 16], are_shared: bool, names: &[[String; 2]]) -> Self {
        let hashed = RateSecret::new(secret);
        Self {
            secret,
            are_shared,
            key_hash: KeyHash::new(secret),
            limits: names
                .iter()
                .map(|names| names.each_ref().map(|name| hashed.limit(name)))
                .collect(),
        }
    }

    /// The key of limit number `at` for what a request is counted by.
    pub(super) fn key(&self, at: u16, standing: Standing, parts: &[KeyPart<'_>]) -> u128 {
        let which = match standing {
            Standing::Enforced => 0,
            Standing::Shadow => 1,
        };
        self.limits[usize::from(at)][which].key(parts)
    }
}
