//! The one visible list of drivers. Adding a driver: one file or folder, and one line here.

use taillight_core::plan::TargetPlan;
use taillight_core::{Error, Result};

use crate::{BoundDriver, Driver};

/// Every driver, in the order `taillight drivers` shows them.
pub static DRIVERS: &[&dyn Driver] = &[
    &crate::file::File,
    &crate::file::stream::FileStream,
    &crate::metadata::MetadataDriver,
    &crate::memory::MemoryDriver,
    &crate::kv::rocksdb::RocksDbDriver,
    &crate::kv::leveldb::LevelDbDriver,
    &crate::kv::sqlite::SqliteDriver,
    &crate::kv::redis::RedisDriver,
    #[cfg(feature = "postgres")]
    &crate::kv::postgres::PostgresDriver,
    &crate::kafka::KafkaDriver,
    #[cfg(feature = "s3")]
    &crate::s3::S3,
    &crate::plugin::LIBRARY,
    &crate::process::PROGRAM,
    &crate::jvm::JvmDriver,
    &crate::null::NullDriver,
    &crate::sim::SimDriver,
];

/// The driver of a target with its options. Errors: `Usage` when there is none with this name; as [`Driver::bind`].
pub fn bind(target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
    named(&target.driver)?.bind(target)
}

/// The driver with this name. Errors: `Usage` when there is none.
pub fn named(name: &str) -> Result<&'static dyn Driver> {
    find(name).ok_or_else(|| {
        let names: Vec<_> = DRIVERS.iter().map(|d| d.name()).collect();
        Error::usage(format!("there is no driver `{name}`"))
            .hint(taillight_core::suggest::did_you_mean(name, &names))
    })
}

pub fn find(name: &str) -> Option<&'static dyn Driver> {
    DRIVERS.iter().copied().find(|d| d.name() == name)
}
