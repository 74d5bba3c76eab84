//! What a store of sessions promises, whatever keeps them: one list of rules, held by every backend.
//!
//! Rules share a backend and run at the same time, as gateways do. None asserts how long something
//! takes on this machine; what has to do with time goes by the store's clock.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod backend;
mod births;
mod blobs;
mod ends;
mod janitors;
mod lifetimes;
mod model;
mod patches;
mod races;
mod rotations;
mod users;
mod world;

use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;

use tokio::task::{JoinSet, LocalSet};

use backend::Backend;
use world::World;

/// A rule at work.
type Rule = Pin<Box<dyn Future<Output = ()>>>;

#[test]
fn the_embedded_store_keeps_the_rules() {
    keeps_the_rules(&Backend::file());
}

#[test]
fn the_embedded_store_without_a_file_keeps_the_rules() {
    keeps_the_rules(&Backend::memory());
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

fn keeps_the_rules(backend: &Backend) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let world = World::new(backend.store.clone());
    let rules = LocalSet::new();
    let broken = rules.block_on(&runtime, async {
        backend.wait_until_ready(&world).await;
        let mut broken = broken_rules(together(&world)).await;
        broken.extend(broken_rules(janitors::rules(&world)).await);
        broken
    });
    assert!(broken.is_empty(), "broken: {}", broken.join(", "));
}

/// The rules that get along with each other.
fn together(world: &World) -> Vec<(&'static str, Rule)> {
    let rules = [
        births::rules(world),
        patches::rules(world),
        races::rules(world),
        lifetimes::rules(world),
        rotations::rules(world),
        users::rules(world),
        blobs::rules(world),
        ends::rules(world),
        model::rules(world),
    ];
    rules.into_iter().flatten().collect()
}

async fn broken_rules(rules: Vec<(&'static str, Rule)>) -> Vec<&'static str> {
    let mut running = JoinSet::new();
    let mut names = HashMap::new();
    for (name, rule) in rules {
        names.insert(running.spawn_local(rule).id(), name);
    }
    let mut broken = Vec::new();
    while let Some(ended) = running.join_next().await {
        if let Err(panicked) = ended {
            broken.push(names[&panicked.id()]);
        }
    }
    broken
}
