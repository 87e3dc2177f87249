//! JSON files of the layout: one trait for writing, reading and describing them.

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;
use taillight_core::Result;

use crate::{atomic, names};

/// A file that is one JSON object and begins with the version of the layout.
pub trait JsonFile: Serialize + DeserializeOwned + JsonSchema {
    /// Its name in the directory.
    const NAME: &'static str;

    /// Writes it into `dir`, whole or not at all. Errors: `Unavailable` when it cannot be written; `Internal` when it
    /// would not read back.
    fn write(&self, dir: &Path) -> Result<()> {
        atomic::write_json(dir, Self::NAME, self)
    }

    /// Reads it from `dir`, if it is there. Errors: `Unavailable` when it cannot be read; `Corrupt` when it is damaged
    /// or of an unknown version.
    fn read(dir: &Path) -> Result<Option<Self>> {
        atomic::read_json(dir, Self::NAME)
    }

    /// Its JSON Schema.
    fn schema() -> serde_json::Value {
        schemars::schema_for!(Self).to_value()
    }
}

macro_rules! json_files {
    ($($name:ident: $file:ty,)*) => {
        $(impl JsonFile for $file {
            const NAME: &'static str = names::$name;
        })*
    };
}
json_files! {
    MANIFEST: crate::Manifest,
    SUMMARY: crate::Summary,
    NVME: crate::nvme::NvmeFile,
    BUS_INFO: crate::bus::BusInfo,
    VERIFY: crate::verify::VerifyReport,
    IMPORTED: crate::origin::ImportedFile,
    SCALE: crate::scale::ScaleFile,
    WATCHED: crate::watched::WatchedFile,
    SERIES: crate::series::SeriesFile,
    SEARCH: crate::search::SearchReport,
    REPEAT: crate::repeat::RepeatReport,
    COMPARE: crate::compare::CompareFile,
    CHANGES: crate::history::HistoryFile,
    SLC_PAPER: crate::slc_paper::SlcPaperReport,
}
