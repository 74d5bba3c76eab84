//! What an adaptive limit has learnt, from one process to the next.

use std::time::Duration;

use serde_json::Value;
use tidegate_lab::load::{self, Kind, LoadPlan, Phase};
use tidegate_lab::shop::{Shop, ShopPlan};

use crate::client::get;
use crate::process::{TempDir, Tidegate};

#[test]
fn a_limit_begins_where_the_process_before_left_off() {
    let plan = ShopPlan {
        slots: 40,
        service: Duration::from_millis(20),
        ..ShopPlan::default()
    };
    let shop = Shop::open("127.0.0.1:0".parse().unwrap(), plan).unwrap();
    let directory = TempDir::new();
    let file = directory.path().join("shop.json");
    let configuration = format!(
        "[drain]\ndelay = \"0s\"\n[[app]]\nupstream = \"http://{}\"\nwarm_start = \"{}\"\n",
        shop.address(),
        file.display()
    );
    let limit = |tidegate: &Tidegate| -> Value {
        let status = get(tidegate.admin, "/status.json");
        let status: Value = serde_json::from_slice(&status.body).unwrap();
        status["apps"][0].clone()
    };

    let first = Tidegate::start(&directory, &configuration);
    assert_eq!(limit(&first)["limit"], 20);
    // Twice what the 20 can do that it begins with.
    let phases = vec![Phase::new("busy", 2000.0, Duration::from_secs(2))];
    let kinds = vec![Kind::get("browse", "/browse/1")];
    load::run(LoadPlan::new(first.clients, kinds, phases)).unwrap();
    let changes = limit(&first)["limit_changes"].clone();
    assert_eq!(changes[0]["verdict"], "grown", "{changes}");
    first.terminate();
    assert_eq!(first.wait().code(), Some(0));

    let kept: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let second = Tidegate::start(&directory, &configuration);

    let kept_limit = kept["limit"].as_f64().unwrap().floor();
    assert!(kept_limit > 20.0, "{kept}");
    assert_eq!(limit(&second)["limit"].as_f64(), Some(kept_limit));
}
