//! `[target.options]` of driver `leveldb`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::Result;
use taillight_core::units::ByteSize;

use super::sys::LevelDbSettings;
use crate::options::{self, OrDefault};

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
    /// load, flush and compaction, before the warm-up) and reads from it until it ends: reads of
    /// a state that does not change while others write, as backups and analytics make them. They
    /// see no write of the run, so it has no insert, put, rmw or check inline; updates of one
    /// field read the newest value. LevelDB keeps old versions as long as a snapshot may ask for
    /// them.
    pub snapshot: bool,
    /// Leave the database behind; a later run goes on with its records.
    pub keep: bool,
}

impl LevelDbOptions {
    /// Reads them as written. Errors: `Usage` for unknown or mistyped options.
    pub fn parse(table: &toml::Table) -> Result<LevelDbOptions> {
        options::parse("leveldb", table)
    }

    /// As LevelDB takes them.
    pub fn settings(&self) -> LevelDbSettings {
        let bytes = |size: OrDefault<ByteSize>| size.set().map(|s| s.0 as usize);
        LevelDbSettings {
            block_cache: bytes(self.block_cache),
            bloom_bits: self.bloom_bits,
            compress: match self.compression {
                LevelDbCompression::Default => None,
                LevelDbCompression::None => Some(false),
                LevelDbCompression::Snappy => Some(true),
            },
            write_buffer: bytes(self.write_buffer_size),
            open_files: Some(self.max_open_files).filter(|n| *n > 0),
            block_size: bytes(self.block_size),
            file_size: bytes(self.max_file_size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_options_reach_the_settings() {
        let text = "block_cache = \"1MiB\"\ncompression = \"none\"\nmax_open_files = 20";
        let o = LevelDbOptions::parse(&text.parse().unwrap()).unwrap();
        assert_eq!(LevelDbOptions::parse(&options::complete(&o).unwrap()).unwrap(), o);
        let s = o.settings();
        assert_eq!((s.block_cache, s.open_files), (Some(1 << 20), Some(20)));
        assert_eq!((s.compress, s.write_buffer), (Some(false), None));
        let wrong = LevelDbOptions::parse(&"compression = \"lz4\"".parse().unwrap());
        let wrong = format!("{:?}", wrong.unwrap_err());
        assert!(wrong.contains("lz4"), "{wrong}");
    }
}
