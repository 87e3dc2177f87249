//! LevelDB's own statistics for the samples: how the series are shown, and the sums of its table of compactions.
//!
//! LevelDB prints whole MiB and seconds, so small runs show little.

use taillight_core::samples::{SampleDisplay, SampleFigure, SamplePanel, SamplePhrase, SampleUnit};

/// How the samples are shown.
pub fn display() -> SampleDisplay {
    let panels = vec![
        SamplePanel::new("Compaction and flush", SampleUnit::BytesPerSecond)
            .line("compaction_written_bytes_total", "compaction writes")
            .line("compaction_read_bytes_total", "compaction reads"),
        SamplePanel::new("Work put off", SampleUnit::Count).line("level0_files", "level-0 files"),
        SamplePanel::new("Memory", SampleUnit::Bytes).line("memory_bytes", "memory"),
    ];
    let phrase = SamplePhrase::new;
    let phrases = vec![
        phrase("compaction_written_bytes_total", SampleFigure::Rise, "compaction wrote {}"),
        phrase("level0_files", SampleFigure::Most, "at most {} level-0 files"),
    ];
    SampleDisplay { panels, phrases }
}

const MIB: f64 = 1_048_576.0;

/// Sums over the levels of the text of `leveldb.stats`.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Compactions {
    /// Table files, all levels.
    pub files: f64,
    pub table_bytes: f64,
    /// Time spent compacting, ns.
    pub time_ns: f64,
    pub read_bytes: f64,
    /// Bytes that compactions and flushes of memtables wrote.
    pub written_bytes: f64,
}

/// Sums the rows like "  0        2        4         0        0         4": level, files, size in
/// MiB, seconds, MiB read, MiB written. Other lines are passed over.
pub fn compactions(stats: &str) -> Compactions {
    let mut sum = Compactions::default();
    for line in stats.lines() {
        let mut row = line.split_whitespace().map(str::parse::<f64>);
        let mut next = || row.next().and_then(Result::ok);
        let numbers = (next(), next(), next(), next(), next(), next());
        if let (Some(_), Some(files), Some(size), Some(time), Some(read), Some(written)) = numbers {
            sum.files += files;
            sum.table_bytes += size * MIB;
            sum.time_ns += time * 1e9;
            sum.read_bytes += read * MIB;
            sum.written_bytes += written * MIB;
        }
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_summed() {
        let text = "                               Compactions\n\
            Level  Files Size(MB) Time(sec) Read(MB) Write(MB)\n\
            --------------------------------------------------\n\
            \x20 0        2        4         1        0         4\n\
            \x20 1        5        9         2       13         9\n";
        let sum = compactions(text);
        assert_eq!((sum.files, sum.table_bytes), (7.0, 13.0 * MIB));
        assert_eq!((sum.time_ns, sum.read_bytes), (3e9, 13.0 * MIB));
        assert_eq!(sum.written_bytes, 13.0 * MIB);
        assert_eq!(compactions("nothing"), Compactions::default());
    }
}
