//! Settings from whatever environment, a `NAME=value` a line: in their ranges, or refused by name.

#![no_main]

use libfuzzer_sys::fuzz_target;
use std::collections::HashMap;
use std::time::Duration;
use taffrail::Error;
use taffrail::fuzzing::read_settings;

fuzz_target!(|lines: &str| {
    let set: HashMap<&str, &str> = lines.split('\n').filter_map(|l| l.split_once('=')).collect();
    let settings = read_settings(|name| match name {
        "TAFFRAIL_TUNING" => Some("off".to_owned()),
        _ => set.get(name).map(|&value| value.to_owned()),
    });
    match settings {
        Ok(settings) => {
            assert!(settings.eager_max <= 1 << 20, "{settings:?}");
            assert!(settings.outbox <= 1 << 40, "{settings:?}");
            assert!(settings.unexpected <= 1 << 50, "{settings:?}");
            assert!(settings.unexpected_max.is_none_or(|n| n <= 1 << 50), "{settings:?}");
            assert!(settings.piece.is_none_or(|n| (256..=1 << 20).contains(&n)), "{settings:?}");
            assert!(settings.spin.is_none_or(|n| n <= u32::MAX / 2), "{settings:?}");
            assert!(settings.patience <= Duration::from_secs(365 * 24 * 3600), "{settings:?}");
        }
        Err(Error::Setting { name, got, .. }) => {
            assert_eq!(set.get(name), Some(&got.as_str()));
        }
        Err(other) => panic!("{other:?}"),
    }
});
