//! What a store of limits promises, whatever keeps them: one list of rules, held by every backend.
//!
//! Limits here are slow, so that nothing comes back while a rule is at work.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backend;
mod crowds;
mod faults;
mod rules;
mod sharing;

use backend::Backend;
use tidegate_store::limits::LimitStore;

#[test]
fn the_embedded_table_keeps_the_rules() {
    keeps_the_rules(&Backend::embedded());
}

#[test]
fn redis_keeps_the_rules() {
    keeps_the_rules(&Backend::standalone());
}

#[test]
fn redis_behind_sentinels_keeps_the_rules() {
    keeps_the_rules(&Backend::sentinels());
}

#[test]
fn a_redis_cluster_keeps_the_rules() {
    keeps_the_rules(&Backend::cluster());
}

fn keeps_the_rules(backend: &Backend) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        backend.wait_until_ready().await;
        rules::all(backend).await;
        crowds::all(backend).await;
        if let LimitStore::Redis(limits) = &backend.store {
            sharing::all(limits).await;
        }
    });
}
