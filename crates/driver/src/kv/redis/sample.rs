//! A Redis server's own statistics: the samples out of the text of INFO and how they are shown, and the counts of
//! commands that stand beside the run's own counts of operations.

use taillight_core::OpKind;
use taillight_core::samples::{SampleDisplay, SamplePanel, SamplePhrase, SampleUnit};
use taillight_core::witness::{WitnessCount, WitnessUnit};

/// The samples: name of the field of INFO, name of the series.
const SAMPLES: [(&str, &str); 8] = [
    ("used_memory", "used_memory_bytes"),
    ("used_memory_rss", "used_memory_rss_bytes"),
    ("keyspace_hits", "keyspace_hits_total"),
    ("keyspace_misses", "keyspace_misses_total"),
    ("evicted_keys", "evicted_keys_total"),
    ("expired_keys", "expired_keys_total"),
    ("total_commands_processed", "commands_total"),
    ("connected_clients", "connected_clients"),
];

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    let panels = vec![
        SamplePanel::new("Memory", SampleUnit::Bytes)
            .line("used_memory_bytes", "used for data")
            .line("used_memory_rss_bytes", "of the process"),
        SamplePanel::new("Events", SampleUnit::PerSecond)
            .line("evicted_keys_total", "evicted keys")
            .line("expired_keys_total", "expired keys"),
        SamplePanel::new("Lookups that hit", SampleUnit::Percent).share(
            "keyspace_hits_total",
            "keyspace_misses_total",
            "keys found",
        ),
    ];
    let found =
        SamplePhrase::share("keyspace_hits_total", "keyspace_misses_total", "keys found {}");
    SampleDisplay { panels, phrases: vec![found] }
}

/// Commands by which the driver looks records up, stores and deletes them.
const LOOKUPS: [&str; 4] = ["get", "mget", "hmget", "hgetall"];
const STORES: [&str; 3] = ["set", "mset", "hset"];
const DELETES: [&str; 1] = ["del"];

/// Calls of the commands, by the text of INFO commandstats. `scans`: the load has scans, which look records up as well.
pub fn commands(stats: &str, scans: bool) -> Vec<WitnessCount> {
    let calls = |names: &[&str]| -> u64 {
        let lines = stats.lines().filter_map(|line| line.strip_prefix("cmdstat_")?.split_once(':'));
        let known = lines.filter(|(name, _)| names.contains(name));
        let calls = known.filter_map(|(_, all)| {
            all.split(',').find_map(|part| part.strip_prefix("calls="))?.trim().parse::<u64>().ok()
        });
        calls.sum()
    };
    let of = |names: &[&str], ops: &[OpKind]| {
        let source = format!("INFO commandstats, calls of {}", names.join(", "));
        let count = WitnessCount::new(source, WitnessUnit::Operations, ops, calls(names));
        WitnessCount { shared: true, ..count }
    };
    let gets = [OpKind::Get, OpKind::RmwGet, OpKind::Scan];
    let empty = scans.then_some("a scan that finds no key looks nothing up");
    vec![
        WitnessCount { less: empty, ..of(&LOOKUPS, &gets) },
        of(&STORES, &crate::kv::PUTS),
        of(&DELETES, &[OpKind::Delete]),
    ]
}

/// The samples in the text of INFO; counters are since the server's start, of all its clients.
pub fn numbers(info: &str, out: &mut dyn FnMut(&str, f64)) {
    for (name, value) in info.lines().filter_map(|l| l.split_once(':')) {
        let ours = SAMPLES.iter().find(|(theirs, _)| *theirs == name);
        if let (Some((_, ours)), Ok(value)) = (ours, value.trim().parse()) {
            out(ours, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_commands_are_summed_by_kind_of_operation() {
        let stats = "# Commandstats\r\ncmdstat_get:calls=5,usec=9,usec_per_call=1.80\r\n\
                     cmdstat_mget:calls=2,usec=1\r\ncmdstat_hset:calls=3,usec=1\r\n\
                     cmdstat_getrange:calls=70,usec=1\r\n";
        let found = commands(stats, false);
        assert_eq!(found.iter().map(|c| c.value).collect::<Vec<_>>(), [7, 3, 0]);
        assert!(found.iter().all(|c| c.less.is_none()));
        assert!(commands(stats, true)[0].less.is_some());
    }
}
