//! `[target.options]` of driver `leveldb`: names, defaults, docs.

use serde::{Deserialize, Serialize};
use taillight_core::Result;
use taillight_core::units::ByteSize;

use super::sys::LevelDbSettings;
use crate::contract::{OptionDoc, doc};
use crate::kv::options::{self, OrDefault};

/// LevelDbCompression of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LevelDbCompression {
    /// Left to LevelDB (Snappy where it is built in).
    #[default]
    Default,
    None,
    Snappy,
}

/// The options, resolved. Absent ones take the defaults below.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct LevelDbOptions {
    /// File or soname of the library; empty = the system's.
    pub library: String,
    /// Size of the block cache.
    pub block_cache: OrDefault<ByteSize>,
    /// Bits per key of a Bloom filter; 0 = none.
    pub bloom_bits: u32,
    /// See [`LevelDbCompression`].
    pub compression: LevelDbCompression,
    /// Size of a memtable.
    pub write_buffer_size: OrDefault<ByteSize>,
    /// Size of a block before compression.
    pub block_size: OrDefault<ByteSize>,
    /// Size of a table file.
    pub max_file_size: OrDefault<ByteSize>,
    /// Open files at most; 0 = LevelDB's default.
    pub max_open_files: u32,
    /// Scans end where the key numbers say.
    pub bounded_scans: bool,
    /// Reads come from a snapshot that each worker takes.
    pub snapshot: bool,
    /// What the run makes stays.
    pub keep: bool,
}

/// Their docs, in the order of the struct.
pub const DOCS: &[OptionDoc] = &[
    doc(
        "library",
        "file or name of a shared library",
        "",
        "which LevelDB is measured; empty = the system's (Debian: libleveldb1d)",
    ),
    doc(
        "block_cache",
        "size | default",
        "default",
        "uncompressed blocks held in memory, beside the page cache; default = LevelDB's, 8 MiB",
    ),
    doc(
        "bloom_bits",
        "bits per key",
        "0",
        "a Bloom filter per table; 0 = none; 10 gives about 1 % false positives",
    ),
    doc(
        "compression",
        "default | none | snappy",
        "default",
        "of blocks in tables; default = LevelDB's, Snappy where it is built in",
    ),
    doc(
        "write_buffer_size",
        "size | default",
        "default",
        "a memtable is written out when it has this size; default = LevelDB's, 4 MiB",
    ),
    doc(
        "block_size",
        "size | default",
        "default",
        "of a block before compression; default = LevelDB's, 4 KiB",
    ),
    doc(
        "max_file_size",
        "size | default",
        "default",
        "of a table file; default = LevelDB's, 2 MiB",
    ),
    doc(
        "max_open_files",
        "files, 0 = default",
        "0",
        "files that LevelDB holds open; its default is 1,000",
    ),
    doc(
        "bounded_scans",
        "bool",
        "false",
        "scans end at an upper (reverse: lower) key; needs keys in the order of their numbers",
    ),
    doc(
        "snapshot",
        "bool",
        "false",
        "each worker that gets or scans takes a snapshot of the database when it begins (after load, \
         flush and compaction, before the warm-up) and reads from it until it ends: reads of a state \
         that does not change while others write, as backups and analytics make them. They see no \
         write of the run, so it has no insert, put, rmw or check inline; updates of one field read \
         the newest value. LevelDB keeps old versions as long as a snapshot may ask for them",
    ),
    doc(
        "keep",
        "bool",
        "false",
        "leave the database behind; a later run goes on with its records",
    ),
];

impl LevelDbOptions {
    /// Reads them as written.
    ///
    /// # Errors
    /// `Usage` for unknown or mistyped options.
    pub fn parse(table: &toml::Table) -> Result<LevelDbOptions> {
        options::parse("leveldb", DOCS, table)
    }

    /// As a table with every default filled in.
    ///
    /// # Errors
    /// `Internal` if they stop being a table.
    pub fn table(&self) -> Result<toml::Table> {
        options::table(self)
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
    fn docs_and_struct_agree() {
        let table = LevelDbOptions::default().table().unwrap();
        let names: Vec<&str> = table.keys().map(String::as_str).collect();
        let docs: Vec<&str> = DOCS.iter().map(|d| d.name).collect();
        assert_eq!(names, docs);
        for doc in DOCS {
            let shown = match &table[doc.name] {
                toml::Value::String(s) => s.clone(),
                other => other.to_string(),
            };
            assert_eq!(shown, doc.default, "{}", doc.name);
        }
    }

    #[test]
    fn written_options_reach_the_settings() {
        let text = "block_cache = \"1MiB\"\ncompression = \"none\"\nmax_open_files = 20";
        let o = LevelDbOptions::parse(&text.parse().unwrap()).unwrap();
        assert_eq!(LevelDbOptions::parse(&o.table().unwrap()).unwrap(), o);
        let s = o.settings();
        assert_eq!((s.block_cache, s.open_files), (Some(1 << 20), Some(20)));
        assert_eq!((s.compress, s.write_buffer), (Some(false), None));
        let wrong = LevelDbOptions::parse(&"compression = \"lz4\"".parse().unwrap());
        let wrong = format!("{:?}", wrong.unwrap_err());
        assert!(wrong.contains("lz4"), "{wrong}");
    }
}
