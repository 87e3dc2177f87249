//! A server's own statistics for the samples: numbers out of the text of INFO, and how they are shown.

use taillight_core::samples::{SampleDisplay, SamplePanel, SamplePhrase, SampleUnit};

/// What of INFO goes beside the latencies: its name there, ours.
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

/// The numbers in the text of INFO.
pub fn numbers(info: &str, out: &mut dyn FnMut(&str, f64)) {
    for (name, value) in info.lines().filter_map(|l| l.split_once(':')) {
        let ours = SAMPLES.iter().find(|(theirs, _)| *theirs == name);
        if let (Some((_, ours)), Ok(value)) = (ours, value.trim().parse()) {
            out(ours, value);
        }
    }
}
