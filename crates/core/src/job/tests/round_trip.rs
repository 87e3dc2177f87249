//! A plan written as TOML is a job file that resolves to the same plan, for random jobs; names with dots stay one name.

use proptest::prelude::*;

use super::*;

fn again(plan: &Plan) -> Plan {
    let text = plan.to_toml().unwrap();
    Job::from_toml(&text, "plan.toml")
        .and_then(|job| job.resolve(&FakeDrivers, machine(), &no_file))
        .unwrap_or_else(|e| panic!("{e}\n{text}"))
}

#[test]
fn names_with_dots_stay_one_name() {
    let text =
        "[targets.\"db.log\"]\ndriver = \"file\"\n[targets.\"db.log\".options]\n\"a.b\" = 1\n";
    let job: JobFile = toml::from_str(text).unwrap();
    let written = job.to_toml().unwrap();
    let again: JobFile = toml::from_str(&written).unwrap();
    assert_eq!(again.targets.keys().collect::<Vec<_>>(), ["db.log"], "{written}");
    assert!(written.contains("\"a.b\" = 1"), "{written}");
}

fn block_size() -> impl Strategy<Value = String> {
    prop_oneof![
        (0u32..8).prop_map(|k| format!("\"{}KiB\"", 1u32 << k)),
        proptest::collection::vec((1u32..64, 1u32..9), 1..4).prop_map(|parts| {
            let parts: Vec<_> = parts
                .into_iter()
                .map(|(k, w)| format!("{{ size = \"{k}KiB\", weight = {w} }}"))
                .collect();
            format!("[{}]", parts.join(", "))
        }),
        (1u32..8, 0u32..8).prop_map(|(a, b)| format!(
            "{{ min = \"{}KiB\", max = \"{}KiB\", step = \"4KiB\" }}",
            4 * a,
            4 * (a + b)
        )),
    ]
}

fn access() -> impl Strategy<Value = &'static str> {
    prop_oneof![
        Just("\"sequential\""),
        Just("\"random\""),
        Just("{ kind = \"strided\", stride = \"15GiB\" }"),
        Just("{ kind = \"reverse\", offset = \"15GiB\" }"),
        Just("{ length = \"15GiB\" }"),
    ]
}

proptest! {
    #[test]
    fn a_plan_is_a_job_file_that_gives_the_same_plan(
        block_size in block_size(),
        access in access(),
        rate in proptest::option::of((1u64..1_000_000, 0u32..1000, 0usize..3)),
        mix in (0u32..100, 1u32..100),
        sync in 0usize..5,
        (workers, depth, cpus) in (1u32..9, 1u32..65, proptest::collection::vec(0u32..8, 0..3)),
        end in 0usize..3,
    ) {
        let sync = ["none", "fdatasync:4", "fsync", "dsync", "sync"][sync];
        let end = ["duration = \"90s\"", "operations = 1000", "bytes = \"5GB\""][end];
        let arrival = rate.map_or("\"burst\"".to_owned(), |(n, part, unit)| {
            let unit = ["", "kB", "MiB"][unit];
            format!("{{ rate = \"{n}.{part:03}{unit}/ms\" }}")
        });
        let text = format!(
            "[run]\n{end}\n[target]\ndriver = \"null\"\n[[workload]]\n\
             block_size = {block_size}\naccess = {access}\narrival = {arrival}\n\
             mix = {{ read = {}, write = {} }}\nsync = \"{sync}\"\nworkers = {workers}\n\
             queue_depth = {depth}\ncpus = {cpus:?}\n[[workload]]\n\
             [qos]\nceilings = [{{ ceiling = \"5ms\", at = \"99.9\" }}]\n\
             [capture]\nmode = \"outliers\"",
            mix.0, mix.1
        );
        // Some combinations are refused (extents that do not divide); those that pass repeat.
        if let Ok(plan) = resolve(&text) {
            prop_assert_eq!(&again(&plan), &plan);
            let json = serde_json::to_string(&plan).unwrap();
            prop_assert_eq!(&serde_json::from_str::<Plan>(&json).unwrap(), &plan);
        }
    }
}
