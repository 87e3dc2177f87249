//! RocksDB's own statistics for the samples: which properties and counters become which series, how the series are
//! shown, and figures parsed out of RocksDB's texts of statistics. The calls that get those texts are in `sys`.

use taillight_core::samples::{
    HELD_BACK, SampleDisplay, SampleFigure, SamplePanel, SamplePhrase, SampleUnit,
};

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    let panels = vec![
        SamplePanel::new("Writes held back", SampleUnit::PercentOfTime)
            .line(HELD_BACK, "slowed down or stopped")
            .line("writes_stopped", "stopped when sampled"),
        SamplePanel::new("Compaction and flush", SampleUnit::BytesPerSecond)
            .line("compaction_written_bytes_total", "compaction writes")
            .line("compaction_read_bytes_total", "compaction reads")
            .line("flush_written_bytes_total", "flush writes")
            .line("wal_bytes_total", "log"),
        SamplePanel::new("Work put off", SampleUnit::Count)
            .line("level0_files", "level-0 files")
            .line("immutable_memtables", "memtables to flush")
            .line("snapshots", "snapshots held")
            .line("running_compactions", "running compactions")
            .line("running_flushes", "running flushes"),
        SamplePanel::new("Pending compaction and memory", SampleUnit::Bytes)
            .line("pending_compaction_bytes", "pending compaction")
            .line("memtable_bytes", "memtables")
            .line("block_cache_bytes", "block cache"),
        SamplePanel::new("Amplification since the store was opened", SampleUnit::Times)
            .line("write_amplification", "write")
            .line("space_amplification", "space, as RocksDB estimates"),
        SamplePanel::new("Events", SampleUnit::PerSecond)
            .line("wal_syncs_total", "log syncs")
            .line("background_errors_total", "background errors"),
        SamplePanel::new("Lookups that hit", SampleUnit::Percent).share(
            "block_cache_hits_total",
            "block_cache_misses_total",
            "block cache hits",
        ),
    ];
    let phrase = SamplePhrase::new;
    let phrases = vec![
        SamplePhrase::held_back(),
        phrase("compaction_written_bytes_total", SampleFigure::Rise, "compaction wrote {}"),
        phrase("pending_compaction_bytes", SampleFigure::Most, "at most {} pending"),
        phrase("level0_files", SampleFigure::Most, "at most {} level-0 files"),
        SamplePhrase::share(
            "block_cache_hits_total",
            "block_cache_misses_total",
            "block cache hits {}",
        ),
        phrase("write_amplification", SampleFigure::Last, "write amplification {}"),
        phrase(
            "space_amplification",
            SampleFigure::Last,
            "space amplification, as RocksDB estimates, {}",
        ),
    ];
    SampleDisplay { panels, phrases }
}

/// Whole-number properties, with the names of their series.
pub const LEVELS: [(&std::ffi::CStr, &str); 13] = [
    (c"rocksdb.is-write-stopped", "writes_stopped"),
    (c"rocksdb.actual-delayed-write-rate", "delayed_write_bytes_per_s"),
    (c"rocksdb.num-running-compactions", "running_compactions"),
    (c"rocksdb.num-running-flushes", "running_flushes"),
    (c"rocksdb.estimate-pending-compaction-bytes", "pending_compaction_bytes"),
    (c"rocksdb.num-files-at-level0", "level0_files"),
    (c"rocksdb.num-immutable-mem-table", "immutable_memtables"),
    (c"rocksdb.num-snapshots", "snapshots"),
    (c"rocksdb.cur-size-all-mem-tables", "memtable_bytes"),
    (c"rocksdb.block-cache-usage", "block_cache_bytes"),
    (c"rocksdb.total-sst-files-size", "sst_bytes"),
    (c"rocksdb.estimate-live-data-size", "live_bytes"),
    (c"rocksdb.background-errors", "background_errors_total"),
];

/// Counters ("tickers"), the names of their series, and the factor from the counter's unit to that of the series.
const COUNTERS: [(&str, &str, f64); 15] = [
    ("rocksdb.block.cache.hit", "block_cache_hits_total", 1.0),
    ("rocksdb.block.cache.miss", "block_cache_misses_total", 1.0),
    ("rocksdb.bloom.filter.useful", "bloom_useful_total", 1.0),
    ("rocksdb.memtable.hit", "memtable_hits_total", 1.0),
    ("rocksdb.memtable.miss", "memtable_misses_total", 1.0),
    ("rocksdb.bytes.written", "user_written_bytes_total", 1.0),
    ("rocksdb.bytes.read", "user_read_bytes_total", 1.0),
    ("rocksdb.wal.bytes", "wal_bytes_total", 1.0),
    ("rocksdb.wal.synced", "wal_syncs_total", 1.0),
    ("rocksdb.flush.write.bytes", "flush_written_bytes_total", 1.0),
    ("rocksdb.compact.read.bytes", "compaction_read_bytes_total", 1.0),
    ("rocksdb.compact.write.bytes", "compaction_written_bytes_total", 1.0),
    ("rocksdb.stall.micros", "counted_stall_ns_total", 1000.0),
    ("rocksdb.db.mutex.wait.micros", "mutex_wait_ns_total", 1000.0),
    ("rocksdb.number.iter.skip", "iterator_skips_total", 1.0),
];

/// Time that writes were held back since the database was opened, ns: "Cumulative stall:
/// 00:00:1.234 H:M:S, 0.1 percent" in the text of `rocksdb.dbstats`.
pub fn stall_ns(dbstats: &str) -> Option<f64> {
    let line = dbstats.lines().find_map(|l| l.strip_prefix("Cumulative stall:"))?;
    let mut parts = line.split_whitespace().next()?.split(':');
    let mut number = || parts.next()?.parse::<f64>().ok();
    let (hours, minutes, seconds) = (number()?, number()?, number()?);
    Some((hours * 3600.0 + minutes * 60.0 + seconds) * 1e9)
}

/// Write amplification since the database was opened: the column W-Amp of the row `Sum` in the text
/// of `rocksdb.cfstats-no-file-histogram`.
pub fn write_amplification(cfstats: &str) -> Option<f64> {
    let heads = cfstats.lines().find(|l| l.trim_start().starts_with("Level"))?;
    // The column "Size" is two words in a row, and one in the heading.
    let column = heads.split_whitespace().position(|h| h == "W-Amp")? + 1;
    let sum = cfstats.lines().find(|l| l.trim_start().starts_with("Sum"))?;
    sum.split_whitespace().nth(column)?.parse().ok()
}

/// Bytes of tables outside the last level: the sum of the sizes of the rows `L0`, `L1`, ... in the text of
/// `rocksdb.cfstats-no-file-histogram`, without the last level that is not empty. Level 0 is never the last one:
/// its files overlap. None for a text without such rows, or with a size that cannot be read.
pub fn above_last_level(cfstats: &str) -> Option<f64> {
    let mut levels = Vec::new();
    for line in cfstats.lines() {
        let mut words = line.split_whitespace();
        let number = words.next().and_then(|w| w.strip_prefix('L'));
        let Some(number) = number.and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let size: f64 = words.nth(1)?.parse().ok()?;
        let unit = match words.next()? {
            "B" => 1.0,
            "KB" => 1024.0,
            "MB" => 1_048_576.0,
            "GB" => 1_073_741_824.0,
            "TB" => 1_099_511_627_776.0,
            _ => return None,
        };
        levels.push((number, size * unit));
    }
    let held = levels.iter().filter(|(n, size)| *n > 0 && *size > 0.0);
    let last = held.map(|(n, _)| *n).max();
    (!levels.is_empty()).then(|| {
        let above = levels.iter().filter(|(n, _)| Some(*n) != last);
        above.map(|(_, size)| size).sum()
    })
}

/// Space amplification: bytes of the tables over the bytes of live data in them that RocksDB estimates.
///
/// The estimate takes records that lie over a lower level's for newer versions of these, and counts
/// one of several overlapping files only. It is right for what the last level holds. Where the other
/// levels hold more than a quarter of the estimate (`above`), the truth may be a quarter off or far more, as
/// after loading, when all is in level 0: then the answer is none.
pub fn space_amplification(sst_bytes: f64, live_bytes: f64, above: f64) -> Option<f64> {
    (live_bytes > 0.0 && above <= live_bytes / 4.0).then(|| sst_bytes / live_bytes)
}

/// Series of the known counters out of RocksDB's statistics text: lines like "rocksdb.wal.bytes COUNT : 12700000".
pub fn counters(statistics: &str, out: &mut dyn FnMut(&str, f64)) {
    for line in statistics.lines() {
        let Some((name, value)) = line.split_once(" COUNT : ") else {
            continue;
        };
        let known = COUNTERS.iter().find(|(counter, ..)| *counter == name);
        if let (Some((_, series, unit)), Ok(value)) = (known, value.trim().parse::<f64>()) {
            out(series, value * unit);
        }
    }
}

/// Keys that gets asked for, one by one or several at once, by the statistics text; none where that lacks the counter.
pub fn keys_read(statistics: &str) -> Option<u64> {
    let counter = |name: &str| {
        let mut lines = statistics.lines().filter_map(|line| line.split_once(" COUNT : "));
        lines.find(|(counter, _)| *counter == name)?.1.trim().parse::<u64>().ok()
    };
    Some(
        counter("rocksdb.number.keys.read")?
            + counter("rocksdb.number.multiget.keys.read").unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stalls_are_read_from_text() {
        let text = "** DB Stats **\nUptime(secs): 9.0 total\nCumulative stall: 01:02:3.250 H:M:S, \
                    1.2 percent\nInterval stall: 00:00:0.000 H:M:S, 0.0 percent";
        assert_eq!(stall_ns(text), Some(3_723.25e9));
        assert_eq!(stall_ns("nothing"), None);
    }

    #[test]
    fn write_amplification_is_read_from_text() {
        let text = "** Compaction Stats [default] **\n\
            Level    Files   Size     Score Read(GB)  Write(GB) W-Amp Rd(MB/s)\n\
            ------------\n  \
            L0      2/0   317.59 KB   0.5      0.0     0.0      1.0  3.0\n \
            Sum      3/0    1.66 MB   0.0      0.0     0.0   2.3     13.3\n";
        assert_eq!(write_amplification(text), Some(2.3));
        assert_eq!(write_amplification(""), None);
    }

    #[test]
    fn space_amplification_needs_a_last_level_that_holds_most() {
        let stats =
            |rows: &str| format!("Level Files Size\n---\n{rows} Sum 9/0 9.00 GB\n Low 1/0 8.00 MB");
        let above = |rows: &str| above_last_level(&stats(rows));
        let row = |level: u32, size: &str| format!("  L{level}      2/0   {size}   0.5  0.0\n");
        // All in level 0: nothing is the last level.
        assert_eq!(above(&row(0, "100.00 MB")), Some(104_857_600.0));
        let loaded = row(0, "64.00 MB") + &row(1, "0.00 KB") + &row(6, "1.00 GB");
        assert_eq!(above(&loaded), Some(67_108_864.0));
        assert_eq!(above(&(loaded.clone() + &row(5, "1.00 KB"))), Some(67_109_888.0));
        assert_eq!(above(""), None);
        assert_eq!(above(&row(0, "1.00 parsec")), None);
        assert_eq!(space_amplification(3.0, 2.0, 0.5), Some(1.5));
        assert_eq!(space_amplification(3.0, 2.0, 0.6), None);
        assert_eq!(space_amplification(3.0, 0.0, 0.0), None);
    }

    #[test]
    fn counters_are_read_from_text() {
        let text = "rocksdb.block.cache.hit COUNT : 12\nrocksdb.stall.micros COUNT : 3\n\
            rocksdb.db.get.micros P50 : 0.0 P95 : 0.0 COUNT : 7 SUM : 9\nunknown COUNT : 5\n";
        let mut seen = Vec::new();
        counters(text, &mut |name, value| seen.push((name.to_owned(), value)));
        assert_eq!(
            seen,
            [
                ("block_cache_hits_total".to_owned(), 12.0),
                ("counted_stall_ns_total".to_owned(), 3000.0)
            ]
        );
    }
}
