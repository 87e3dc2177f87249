//! The one visible list of drivers. Adding a driver: one file or folder, and one line here.

use crate::Driver;

/// Every driver, in the order `taillight drivers` shows them.
pub static DRIVERS: &[&dyn Driver] = &[
    &crate::file::File,
    &crate::file::stream::FileStream,
    &crate::memory::MemoryDriver,
    &crate::kv::rocksdb::RocksDbDriver,
    &crate::kv::leveldb::LevelDbDriver,
    &crate::kv::redis::RedisDriver,
    #[cfg(feature = "s3")]
    &crate::s3::S3,
    &crate::plugin::LIBRARY,
    &crate::process::PROGRAM,
    &crate::jvm::JvmDriver,
    &crate::null::NullDriver,
    &crate::sim::SimDriver,
];

pub fn find(name: &str) -> Option<&'static dyn Driver> {
    DRIVERS.iter().copied().find(|d| d.name() == name)
}
