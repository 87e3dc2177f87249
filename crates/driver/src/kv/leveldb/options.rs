//! `[target.options]` of driver `leveldb`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::ByteSize;

use crate::options::{DriverOptions, OrDefault};

/// Compression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum LevelDbCompression {
    /// Left to LevelDB (Snappy where it is built in).
    #[default]
    Default,
    None,
    Snappy,
}

/// The options, resolved. Absent ones take the defaults below.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LevelDbOptions {
    /// Which LevelDB is measured; empty = the system's (Debian: libleveldb1d).
    #[schemars(title = "file or name of a shared library")]
    pub library: String,
    /// Uncompressed blocks held in memory, beside the page cache; default = LevelDB's, 8 MiB.
    pub block_cache: OrDefault<ByteSize>,
    /// A Bloom filter per table; 0 = none; 10 gives about 1 % false positives.
    #[schemars(title = "bits per key")]
    pub bloom_bits: u32,
    /// Of blocks in tables; default = LevelDB's, Snappy where it is built in.
    pub compression: LevelDbCompression,
    /// A memtable is written out when it has this size; default = LevelDB's, 4 MiB.
    pub write_buffer_size: OrDefault<ByteSize>,
    /// Of a block before compression; default = LevelDB's, 4 KiB.
    pub block_size: OrDefault<ByteSize>,
    /// Of a table file; default = LevelDB's, 2 MiB.
    pub max_file_size: OrDefault<ByteSize>,
    /// Files that LevelDB holds open; its default is 1,000.
    #[schemars(title = "files, 0 = default")]
    pub max_open_files: u32,
    /// Scans end at an upper (reverse: lower) key; needs keys in the order of their numbers.
    pub bounded_scans: bool,
    /// Each worker that gets or scans takes a snapshot of the database when it begins (after
    /// load, flush and compaction, before the warm-up), and its gets and scans read from it until
    /// it ends: reads of a state that does not change while others write, as backups and analytics
    /// make them. Gets and scans see no write of the run, so the run has no insert, put or rmw and
    /// no inline verification; an update of one field reads the newest value, not the snapshot.
    /// LevelDB keeps old versions as long as a snapshot may ask for them.
    pub snapshot: bool,
    /// Leave the database behind; a later run goes on with its records.
    pub keep: bool,
}

impl DriverOptions for LevelDbOptions {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::complete;

    #[test]
    fn options_resolve_to_themselves() {
        let parse = |table: &toml::Table| LevelDbOptions::parse("leveldb", table);
        let text = "block_cache = \"1MiB\"\ncompression = \"none\"\nmax_open_files = 20";
        let o = parse(&text.parse().unwrap()).unwrap();
        assert_eq!(parse(&complete(&o).unwrap()).unwrap(), o);
        assert_eq!((o.block_cache.set(), o.max_open_files), (Some(ByteSize(1 << 20)), 20));
        let wrong = format!("{:?}", parse(&"compression = \"lz4\"".parse().unwrap()).unwrap_err());
        assert!(wrong.contains("lz4"), "{wrong}");
    }
}
