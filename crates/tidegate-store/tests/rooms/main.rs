//! What a store of waiting rooms promises, whatever keeps them: one list of rules, held by every backend.
//!
//! What has to do with time goes by the store's clock, and is looked for.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backend;
mod crowd;
mod leaders;
mod notices;
mod rules;

use backend::Backend;

#[test]
fn the_embedded_table_keeps_the_rules() {
    keeps_the_rules(&Backend::embedded());
}

#[test]
fn redis_on_its_own_keeps_the_rules() {
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

#[test]
fn a_redis_that_restarts_empty_has_the_line_again_in_its_old_order() {
    let mut backend = Backend::standalone();
    backend::block_on(async { rules::a_restart(&mut backend).await });
}

fn keeps_the_rules(backend: &Backend) {
    backend::block_on(async {
        backend.wait_until_ready().await;
        rules::all(backend).await;
        crowd::all(backend).await;
    });
}
