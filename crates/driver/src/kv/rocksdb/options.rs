//! `[target.options]` of driver `rocksdb`, and how they become RocksDB's own
//! option strings.
//!
//! Order of precedence, weakest first: RocksDB's defaults, `options_file`, `options`, then the
//! single options here where they differ from their defaults.

use std::io;
use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::ByteSize;
use taillight_core::{Error, Result, regular};

use crate::options::{DriverOptions, OrDefault};

/// Compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RocksDbCompression {
    /// Left to RocksDB (Snappy where it is built in).
    #[default]
    Default,
    None,
    Snappy,
    Zlib,
    /// LZ4.
    Lz4,
    /// LZ4, the slow strong kind.
    Lz4hc,
    Zstd,
}

impl RocksDbCompression {
    /// RocksDB's name for it.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            RocksDbCompression::Default => return None,
            RocksDbCompression::None => "kNoCompression",
            RocksDbCompression::Snappy => "kSnappyCompression",
            RocksDbCompression::Zlib => "kZlibCompression",
            RocksDbCompression::Lz4 => "kLZ4Compression",
            RocksDbCompression::Lz4hc => "kLZ4HCCompression",
            RocksDbCompression::Zstd => "kZSTD",
        })
    }
}

/// The options, resolved. Absent ones take the defaults below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RocksDbOptions {
    /// Which RocksDB is measured; empty = the system's (Debian 12: librocksdb7.8).
    #[schemars(title = "file or name of a shared library")]
    pub library: String,
    /// Any of RocksDB's own options: "max_open_files=100;level0_file_num_compaction_trigger=2".
    /// RocksDB's own LOG keeps to fatal messages (a build with assertions would end the process
    /// on a full disk) unless info_log_level is given here or in options_file, as in
    /// "info_log_level=INFO_LEVEL".
    #[schemars(title = "RocksDB option string")]
    pub options: String,
    /// An OPTIONS file as RocksDB writes it: its `DBOptions`, and the `CFOptions` and
    /// `TableOptions` of the column family; `options` goes on top.
    #[schemars(title = "file")]
    pub options_file: String,
    /// Where the records are; made when it is not there.
    #[schemars(title = "name")]
    pub column_family: String,
    /// Uncompressed blocks held in memory, beside the page cache.
    pub block_cache: OrDefault<ByteSize>,
    /// A Bloom filter per table; 0 adds none; 10 gives about 1 % false positives.
    #[schemars(title = "bits per key")]
    pub bloom_bits: u32,
    /// Of blocks in tables; default = RocksDB's, Snappy where it is built in.
    pub compression: RocksDbCompression,
    /// A memtable is written out when it has this size.
    pub write_buffer_size: OrDefault<ByteSize>,
    /// Flushes and compactions at a time.
    #[schemars(title = "threads, 0 = default")]
    pub max_background_jobs: u32,
    /// Reads bypass the page cache (use_direct_reads).
    pub direct_reads: bool,
    /// Flushes and compactions bypass the page cache (use_direct_io_for_flush_and_compaction);
    /// the write-ahead log never does.
    pub direct_writes: bool,
    /// Writes go to the write-ahead log; false: what is not flushed is lost in a crash. After a
    /// write that failed with an I/O error RocksDB takes none until it is opened again, and a
    /// build with assertions ends the process when it is asked: Taillight refuses later writes
    /// itself (status -7), and the report says how many.
    pub wal: bool,
    /// RocksDB's counters join the samples: cache hits, bytes, write amplification; they cost
    /// every operation some CPU.
    pub statistics: bool,
    /// Scans carry an upper (reverse: lower) bound, so that RocksDB reads no further; needs keys
    /// in the order of their numbers.
    pub bounded_scans: bool,
    /// Open any database without changing it; the plan only reads, and says with keys how many
    /// records there are.
    pub read_only: bool,
    /// Each worker that gets or scans takes a snapshot of the database when it begins (after
    /// load, flush and compaction, before the warm-up), and its gets and scans read from it until
    /// it ends: reads of a state that does not change while others write, as backups and analytics
    /// make them. Gets and scans see no write of the run, so the run has no insert, put or rmw and
    /// no inline verification; an update of one field reads the newest value, not the snapshot.
    /// RocksDB keeps old versions as long as a snapshot may ask for them.
    pub snapshot: bool,
    /// Leave the database behind; a later run goes on with its records.
    pub keep: bool,
}

impl Default for RocksDbOptions {
    fn default() -> Self {
        RocksDbOptions {
            library: String::new(),
            options: String::new(),
            options_file: String::new(),
            column_family: "default".to_owned(),
            block_cache: OrDefault::Default,
            bloom_bits: 0,
            compression: RocksDbCompression::Default,
            write_buffer_size: OrDefault::Default,
            max_background_jobs: 0,
            direct_reads: false,
            direct_writes: false,
            wal: true,
            statistics: false,
            bounded_scans: false,
            read_only: false,
            snapshot: false,
            keep: false,
        }
    }
}

impl DriverOptions for RocksDbOptions {
    fn check(&self) -> Result<()> {
        if self.column_family.is_empty() {
            return Err(Error::usage("`column_family` is empty")
                .of_field("column_family")
                .hint("leave it out, or name one"));
        }
        if self.read_only && self.keep {
            return Err(Error::usage(
                "options contradict each other: read_only = true makes nothing to keep",
            )
            .of_field("read_only")
            .hint("leave one of them out"));
        }
        if self.read_only && self.snapshot {
            return Err(Error::usage(
                "options contradict each other: with read_only = true nothing changes that a \
                 snapshot would hold still",
            )
            .of_field("read_only")
            .hint("leave one of them out"));
        }
        Ok(())
    }
}

impl RocksDbOptions {
    /// RocksDB option strings in the order they are applied, each with where it comes from. Errors: `Unavailable`
    /// when the options file cannot be read, `Usage` when it has no section for the column family.
    pub fn strings(&self) -> Result<Vec<(&'static str, String)>> {
        let mut strings = Vec::new();
        if !self.options_file.is_empty() {
            let text = regular::read_to_string(&self.options_file).map_err(|e| {
                Error::unavailable("cannot read the options file")
                    .with("options_file", &self.options_file)
                    .source(e)
                    .hint(
                        "correct target.options.options_file, or leave it out; paths are relative \
                         to the directory the command is run in",
                    )
            })?;
            let string = from_file(&text, &self.column_family).ok_or_else(|| {
                Error::usage("the options file has no section for this column family")
                    .with("options_file", &self.options_file)
                    .with("wanted", format!("[CFOptions \"{}\"]", self.column_family))
                    .hint("give an OPTIONS-000005 file out of a RocksDB directory, or one like it")
            })?;
            strings.push(("options_file", string));
        }
        strings.push(("options", self.options.trim().to_owned()));
        strings.push(("single options", self.own()));
        strings.retain(|(_, s)| !s.is_empty());
        Ok(strings)
    }

    /// The single options that differ from their defaults, as one option string.
    fn own(&self) -> String {
        let mut table = Vec::new();
        if let Some(size) = self.block_cache.set() {
            table.push(format!("block_cache={}", size.0));
        }
        if self.bloom_bits > 0 {
            table.push(format!("filter_policy=bloomfilter:{}:false", self.bloom_bits));
        }
        let mut all = Vec::new();
        if !table.is_empty() {
            all.push(format!("block_based_table_factory={{{}}}", table.join(";")));
        }
        if let Some(name) = self.compression.name() {
            all.push(format!("compression={name}"));
        }
        if let Some(size) = self.write_buffer_size.set() {
            all.push(format!("write_buffer_size={}", size.0));
        }
        if self.max_background_jobs > 0 {
            all.push(format!("max_background_jobs={}", self.max_background_jobs));
        }
        if self.direct_reads {
            all.push("use_direct_reads=true".to_owned());
        }
        if self.direct_writes {
            all.push("use_direct_io_for_flush_and_compaction=true".to_owned());
        }
        all.join(";")
    }
}

/// Whether some option string, the file's too, sets the level of RocksDB's own `LOG`.
pub fn chooses_its_log(strings: &[(&'static str, String)]) -> bool {
    strings.iter().any(|(_, s)| s.contains("info_log_level="))
}

/// Names and values in an option string, split as RocksDB does it (`StringToMap`, options/options_helper.cc):
/// `;` inside braces belongs to a value, and braces around a value do not.
fn assignments(text: &str) -> Vec<(&str, &str)> {
    let mut text = text.trim();
    while let Some(inside) = text.strip_prefix('{').and_then(|text| text.strip_suffix('}')) {
        text = inside.trim();
    }
    let mut depth = 0_u32;
    let separates = |c: char| {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ';' && depth == 0
    };
    let pairs = text.split(separates).filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.trim(), unbraced(value))).collect()
}

fn unbraced(value: &str) -> &str {
    let value = value.trim();
    let inside = value.strip_prefix('{').and_then(|value| value.strip_suffix('}'));
    inside.map_or(value, str::trim)
}

/// The last value that the option strings give one of RocksDB's options; none where they give none, or an empty one.
pub fn said<'a>(strings: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    let mut all = strings.iter().flat_map(|(_, s)| assignments(s));
    let value = all.rfind(|(n, _)| *n == name)?.1;
    Some(value).filter(|value| !value.is_empty())
}

/// Whether the option strings let RocksDB overwrite values where they are, so that it keeps no older ones.
pub fn updates_in_place(strings: &[(&'static str, String)]) -> bool {
    said(strings, "inplace_update_support").is_some_and(|v| v == "true" || v == "1")
}

/// Whether, by the option strings, some level of the tables may be compressed.
pub fn compresses(strings: &[(&'static str, String)]) -> bool {
    let off = |name| {
        said(strings, name).map(|v| matches!(v, "kNoCompression" | "kDisableCompressionOption"))
    };
    let over = ["compression_per_level", "bottommost_compression"];
    off("compression") != Some(true) || over.into_iter().any(|name| off(name) == Some(false))
}

/// Kind and name of the section of an options file that a line opens.
fn section(line: &str) -> Option<(&str, &str)> {
    let inside = line.strip_prefix('[')?.strip_suffix(']')?;
    let (kind, name) = inside.split_once(' ').unwrap_or((inside, ""));
    Some((kind, name.trim_matches('"')))
}

/// An options file as one option string, for database and `family`; `None` when it has no section for `family`.
fn from_file(text: &str, family: &str) -> Option<String> {
    let (mut all, mut table) = (Vec::new(), Vec::new());
    let mut factory = None;
    let mut found = false;
    // 0: not ours, 1: options, 2: options of the table factory.
    let mut kind = 0;
    for line in text.lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        if let Some((section, name)) = section(line) {
            kind = match section {
                "DBOptions" => 1,
                "CFOptions" if name == family => {
                    found = true;
                    1
                }
                _ => match section.strip_prefix("TableOptions/") {
                    Some("BlockBasedTable") if name == family => {
                        factory = Some("block_based_table_factory");
                        2
                    }
                    Some("PlainTable") if name == family => {
                        factory = Some("plain_table_factory");
                        2
                    }
                    _ => 0,
                },
            };
            continue;
        }
        match (kind, line.split_once('=')) {
            // Names the class of tables whose options are in a section of their own.
            (1, Some(("table_factory", _))) => {}
            (1, Some((name, value))) => all.push(pair(name, value)),
            (2, Some((name, value))) => table.push(pair(name, value)),
            _ => {}
        }
    }
    if let Some(factory) = factory {
        all.push(format!("{factory}={{{}}}", table.join(";")));
    }
    found.then(|| all.join(";"))
}

/// A value that holds `;` is one value only in braces.
fn pair(name: &str, value: &str) -> String {
    let (name, value) = (name.trim(), value.trim());
    match value.contains(';') && !value.starts_with('{') {
        true => format!("{name}={{{value}}}"),
        false => format!("{name}={value}"),
    }
}

/// Options in force that become facts of the run.
const SHOWN: [&str; 19] = [
    "max_background_jobs",
    "use_direct_reads",
    "use_direct_io_for_flush_and_compaction",
    "max_open_files",
    "use_fsync",
    "write_buffer_size",
    "max_write_buffer_number",
    "level0_file_num_compaction_trigger",
    "level0_slowdown_writes_trigger",
    "level0_stop_writes_trigger",
    "target_file_size_base",
    "max_bytes_for_level_base",
    "compaction_style",
    "compression",
    "block_size",
    "filter_policy",
    "cache_index_and_filter_blocks",
    "delayed_write_rate",
    "info_log_level",
];

/// The text of the newest OPTIONS file in `dir`, which RocksDB wrote when it last opened the database or changed
/// options; `None` where there is none. Errors: as open(2) and read(2).
pub fn newest(dir: &Path) -> io::Result<Option<String>> {
    let absent = |e: io::Error| if e.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(e) };
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries.collect::<io::Result<Vec<_>>>()?,
        Err(e) => return absent(e),
    };
    let names = entries.into_iter().filter_map(|e| e.file_name().into_string().ok());
    // Numbers have six digits until they need more.
    let numbered = names.filter_map(|name| {
        let number = name.strip_prefix("OPTIONS-")?.parse::<u64>().ok()?;
        Some((number, name))
    });
    match numbered.max() {
        Some((_, name)) => std::fs::read_to_string(dir.join(name)).map(Some).or_else(absent),
        None => Ok(None),
    }
}

/// Adds version and options in force, by the newest OPTIONS file in `dir`, to the facts, if that can be read.
pub fn in_force(dir: &Path, family: &str, out: &mut Vec<(String, String)>) {
    let text = newest(dir).ok().flatten();
    let mut ours = false;
    for line in text.iter().flat_map(|t| t.lines()).map(str::trim) {
        if let Some((kind, name)) = section(line) {
            ours = match kind {
                "Version" | "DBOptions" => true,
                _ => name == family,
            };
        } else if let Some((name, value)) = line.split_once('=').filter(|_| ours) {
            if name == "rocksdb_version" {
                out.push(("store.version".to_owned(), value.to_owned()));
            } else if SHOWN.contains(&name) {
                out.push((format!("store.{name}"), value.to_owned()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::complete;

    fn parse(text: &str) -> Result<RocksDbOptions> {
        RocksDbOptions::parse("rocksdb", &text.parse().unwrap())
    }

    #[test]
    fn the_newest_options_are_those_of_the_largest_number() {
        let tmp = tempfile::tempdir().unwrap();
        for name in ["OPTIONS-000007", "OPTIONS-999999", "OPTIONS-1000000", "OPTIONS-1000005.dbtmp"]
        {
            std::fs::write(tmp.path().join(name), name).unwrap();
        }
        assert_eq!(newest(tmp.path()).unwrap().as_deref(), Some("OPTIONS-1000000"));
    }

    #[test]
    fn option_strings_are_taken_apart_as_rocksdb_does_it() {
        let found = |text: &'static str, name| {
            said(&[("options", text.to_owned())], name).map(str::to_owned)
        };
        for text in [
            "wal_dir=/a/b",
            " {{ max_open_files = 9 ; wal_dir = { /a/b } }} ",
            "table={x={y=1;z=2};wal_dir=/no};wal_dir=/first;wal_dir=/a/b;",
        ] {
            assert_eq!(found(text, "wal_dir").as_deref(), Some("/a/b"), "{text}");
        }
        assert_eq!(found("table={wal_dir=/no}", "wal_dir"), None);
        assert_eq!(found("wal_dir=;x=1", "wal_dir"), None);
    }

    #[test]
    fn wrong_values_and_unknown_names() {
        for bad in [
            "block_cache = 64",
            "block_cache = \"64\"",
            "compression = \"rar\"",
            "column_family = \"\"",
            "read_only = true\nkeep = true",
            "read_only = true\nsnapshot = true",
        ] {
            let e = parse(bad).unwrap_err();
            assert_eq!(e.kind(), taillight_core::ErrorKind::Usage, "{bad}: {e}");
        }
        let e = parse("blom_bits = 10").unwrap_err();
        assert_eq!(e.hint_text(), Some("did you mean `bloom_bits`?"));
    }

    #[test]
    fn single_options_become_one_string() {
        assert_eq!(parse("").unwrap().strings().unwrap(), []);
        let o = parse(
            "block_cache = \"64MiB\"\nbloom_bits = 10\ncompression = \"none\"\n\
             options = \"max_open_files=9\"",
        );
        let o = o.unwrap();
        assert_eq!(RocksDbOptions::parse("rocksdb", &complete(&o).unwrap()).unwrap(), o);
        assert_eq!(
            o.strings().unwrap(),
            [
                ("options", "max_open_files=9".to_owned()),
                (
                    "single options",
                    "block_based_table_factory={block_cache=67108864;\
                     filter_policy=bloomfilter:10:false};compression=kNoCompression"
                        .to_owned()
                ),
            ]
        );
    }

    #[test]
    fn an_options_file_becomes_one_string() {
        let text = "# made\n[Version]\n  rocksdb_version=7.8.3\n[DBOptions]\n  \
             max_open_files=7\n[CFOptions \"default\"]\n  write_buffer_size=1\n[CFOptions \"a\"]\n  \
             write_buffer_size=2\n  opts={x=1;y=2;}\n  list=p;q\n  \
             table_factory=BlockBasedTable\n[TableOptions/BlockBasedTable \"a\"]\n  \
             block_size=4096\n";
        assert_eq!(
            from_file(text, "a").unwrap(),
            "max_open_files=7;write_buffer_size=2;opts={x=1;y=2;};list={p;q};\
             block_based_table_factory={block_size=4096}"
        );
        assert_eq!(from_file(text, "b"), None);
        assert_eq!(from_file("nonsense", "default"), None);
    }

    #[test]
    fn values_overwritten_in_place_are_found() {
        let found = |text: &str| {
            let o = parse(&format!("options = \"{text}\"\nbloom_bits = 1")).unwrap();
            updates_in_place(&o.strings().unwrap())
        };
        assert!(found("max_open_files=9;inplace_update_support = true"));
        assert!(found("inplace_update_support=1;max_open_files=9"));
        assert!(!found("inplace_update_support=false"));
        assert!(!found("max_open_files=9"));
    }

    #[test]
    fn compression_is_off_where_nothing_turns_it_on() {
        let found = |text: &str| compresses(&parse(text).unwrap().strings().unwrap());
        assert!(!found("compression = \"none\""));
        let off = "compression=kNoCompression;bottommost_compression=";
        assert!(!found(&format!("options = \"{off}kDisableCompressionOption\"")));
        assert!(found(&format!("options = \"{off}kZSTD\"")));
        assert!(found("") && found("compression = \"lz4\""));
    }

    #[test]
    fn the_file_may_say_how_much_is_logged() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("OPTIONS-000005");
        let logs = |level: &str, options: &str| {
            let text = format!("[DBOptions]\n{level}\n[CFOptions \"default\"]\n");
            std::fs::write(&file, text).unwrap();
            let file = file.display();
            let o = parse(&format!("options_file = \"{file}\"\noptions = \"{options}\""));
            chooses_its_log(&o.unwrap().strings().unwrap())
        };
        assert!(logs("info_log_level=INFO_LEVEL", ""));
        assert!(logs("", "info_log_level=INFO_LEVEL"));
        assert!(!logs("max_open_files=7", "max_open_files=9"));
        assert!(SHOWN.contains(&"info_log_level"), "what is in force is told");
    }
}
