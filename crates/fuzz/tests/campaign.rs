//! Every target under damaged input. Under `cargo test` a property test of a moment; a campaign with
//! `BOLERO_RANDOM_TEST_TIME_MS=600000 cargo test -p taillight-fuzz -- --nocapture`, or guided by
//! coverage with `cargo bolero test TARGET`.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bolero::{check, generator::TypeGenerator};
use taillight_fuzz::{InputDamage, Seeds, damaged, targets};

/// How long each target takes under `cargo test`.
const MOMENT: Duration = Duration::from_millis(200);

/// A seed, and what is done to it.
#[derive(Debug, Clone, TypeGenerator)]
struct Damage {
    seed: u8,
    edits: Vec<(u8, u16, u16, u8)>,
}

impl Damage {
    fn of(&self, seeds: &Seeds) -> Vec<u8> {
        let edits = self.edits.iter().take(12);
        let edits: Vec<InputDamage> =
            edits.map(|&(kind, at, to, value)| InputDamage { kind, at, to, value }).collect();
        damaged(seeds.nth(self.seed), &edits)
    }
}

macro_rules! campaigns {
    ($($name:ident: $read:ident, $seeds:expr;)*) => {$(
        #[test]
        fn $name() {
            let (seeds, inputs) = ($seeds, AtomicU64::new(0));
            check!().with_test_time(MOMENT).with_type::<Damage>().for_each(|damage| {
                inputs.fetch_add(1, Ordering::Relaxed);
                taillight_fuzz::$read(&damage.of(&seeds));
            });
            println!("{}: {} inputs", stringify!($name), inputs.load(Ordering::Relaxed));
        }
    )*};
}

targets!(campaigns);
