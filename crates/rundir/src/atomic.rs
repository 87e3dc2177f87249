//! JSON files that appear whole and carry their own checksum, over [`taillight_core::atomic`], which is handed on from
//! here.

use std::io;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
pub use taillight_core::atomic::{
    TempFile, cannot, free_name, may_write, place, says, sync_dir, write, write_new,
};
use taillight_core::{Error, Result, regular};

use crate::own_sum;

/// Writes `value` as JSON, whole or not at all. Errors: as [`write`]; `Internal` when it would not
/// read back.
pub(crate) fn write_json<T: Serialize + DeserializeOwned>(
    dir: &Path,
    name: &str,
    value: &T,
) -> Result<()> {
    let bug = |e| Error::internal(format!("{name} cannot be written as JSON")).source(e);
    let text = serde_json::to_string_pretty(value).map_err(bug)?;
    // A NaN becomes null and would make the file unreadable: find out now, not later.
    serde_json::from_str::<T>(&text).map_err(bug)?;
    write(dir, name, own_sum::sealed(&text).as_bytes())
}

/// Reads what [`write_json`] wrote, if it is there. Errors: `Unavailable` when it cannot be read;
/// `Corrupt` when it is damaged or of an unknown version.
pub(crate) fn read_json<T: DeserializeOwned>(dir: &Path, name: &str) -> Result<Option<T>> {
    let path = dir.join(name);
    match regular::read(&path) {
        Ok(text) => {
            crate::dir::parse(name, &text).map(Some).map_err(|e| e.with("path", path.display()))
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(e) => Err(cannot("read", &path, e)),
    }
}
