//! What a key of a bucket takes in the embedded table: 64 bytes at most, however many there are; and what asking takes
//! while a request has few limits: nothing.

use std::sync::Arc;

use allocation_counter::measure;
use tidegate_core::rate::set::Standing;
use tidegate_core::rate::{Algorithm, Rate, Spec, Tick};
use tidegate_core::session::SlotTag;
use tidegate_store::limits::{Asked, Few, LimitTable, LimitTablePlan};

const BYTES_MAX: i64 = 64;

#[test]
fn a_key_of_a_bucket_takes_64_bytes_at_most() {
    let rate = Rate {
        tokens: 10,
        period_us: 60_000_000,
    };
    let spec = Arc::new(Spec::new(Algorithm::Bucket, rate, None).expect("a limit"));
    let table = LimitTable::new(LimitTablePlan {
        keys_max: 1 << 20,
        shards: 8,
    });
    let (mut keys, mut bytes, mut worst) = (0i64, 0, 0.0f64);

    while keys < 400_000 {
        let more = 5_000;
        let counted = measure(|| {
            for n in keys..keys + more {
                let asked = Asked {
                    key: key(n as u64),
                    tag: SlotTag::from_bits(0),
                    spec: &spec,
                    cost: 1,
                    standing: Standing::Enforced,
                };
                assert!(table.take(&[asked], Tick(0)).passes());
            }
        });
        keys += more;
        bytes += counted.bytes_current;
        if keys >= 20_000 {
            worst = worst.max(bytes as f64 / keys as f64);
            assert!(bytes <= keys * BYTES_MAX, "{bytes} bytes for {keys} keys");
        }
    }

    println!(
        "{:.1} bytes a key, {worst:.1} at most on the way",
        bytes as f64 / keys as f64
    );
    assert_eq!(table.stats().keys, keys as u64);
}

#[test]
fn a_request_with_few_limits_allocates_nothing() {
    let rate = Rate {
        tokens: 1_000,
        period_us: 1_000_000,
    };
    let specs: Vec<_> = (0..4)
        .map(|_| Arc::new(Spec::new(Algorithm::Bucket, rate, None).expect("a limit")))
        .collect();
    let table = LimitTable::counting(LimitTablePlan::for_keys(1_000), &specs);
    let asked = |cost| {
        let asked = |(spec, n): (_, u64)| Asked {
            key: key(n),
            tag: SlotTag::from_bits(0),
            spec,
            cost,
            standing: Standing::Enforced,
        };
        let asked: Few<Asked<'_>> = specs.iter().zip(0..).map(asked).collect();
        asked
    };
    assert!(table.take(&asked(1), Tick(0)).passes());

    let counted = measure(|| {
        for _ in 0..100 {
            assert!(table.take(&asked(1), Tick(0)).passes());
            assert!(!table.take(&asked(1_000), Tick(0)).passes());
        }
    });

    assert_eq!(counted.count_total, 0);
}

/// A key that looks like a hash.
fn key(n: u64) -> u128 {
    let mix = |n: u64| {
        let n = (n ^ n >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let n = (n ^ n >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        n ^ n >> 31
    };
    u128::from(mix(n + 1)) << 64 | u128::from(mix(!n))
}
