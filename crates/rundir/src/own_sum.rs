//! The checksum that a JSON file carries as its last member: file and checksum appear together, also where two
//! programs write at the same time, and one can go nowhere without the other.
//!
//! It is the CRC-32 (ISO-HDLC) of the file's bytes with eight zeros in its place: it finds damage, not
//! intent. A file without it is of a version that wrote none, and not covered.

use serde_json::Value;
use taillight_core::{Error, Result};

use crate::names;
use crate::sums::crc32;

/// The member.
pub const KEY: &str = "crc32";
const ZEROS: &str = "00000000";

/// The text of a JSON object with its checksum as the last member, and a line feed.
pub(crate) fn sealed(object: &str) -> String {
    let open = object.trim_end().strip_suffix('}').unwrap_or(object).trim_end();
    let text = |sum: &str| format!("{open},\n  \"{KEY}\": \"{sum}\"\n}}\n");
    text(&crc32(text(ZEROS).as_bytes()))
}

/// Whether the bytes of a file are what its checksum says; one that has none is not covered. Errors:
/// `Corrupt`, with what to do.
pub(crate) fn check(name: &str, bytes: &[u8], value: &Value) -> Result<()> {
    let Some(said) = value.get(KEY) else { return Ok(()) };
    let said = said.as_str().filter(|s| s.len() == ZEROS.len()).map(str::as_bytes);
    let at = said.and_then(|said| bytes.windows(ZEROS.len()).rposition(|w| w == said));
    let zeroed = at.map(|at| [&bytes[..at], ZEROS.as_bytes(), &bytes[at + ZEROS.len()..]].concat());
    if said.is_some() && said == zeroed.map(|bytes| crc32(&bytes)).as_deref().map(str::as_bytes) {
        return Ok(());
    }
    Err(Error::corrupt(format!("{name} was changed: its checksum does not fit")).hint(match name {
        names::SUMMARY => "`taillight report RUN` makes summary.json again from ios.parquet",
        names::MANIFEST => {
            "restore manifest.json from a copy or run the job again; the Parquet files beside it still \
             open in any Parquet reader"
        }
        names::SERIES => "restore series.json from a copy; its run directories can be read one by one",
        _ => "restore the file from a copy of the directory",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each byte of a file with each of its bits the other way.
    #[test]
    fn every_bit_counts() {
        let text = sealed("{\n  \"schema\": 1,\n  \"iops\": 12345.5,\n  \"name\": \"\"\n}\n");
        assert!(text.ends_with("\"\n}\n") && text.contains(",\n  \"crc32\": \""), "{text}");
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes);
        check("a.json", text.as_bytes(), &read(text.as_bytes()).unwrap()).unwrap();
        let mut looked = 0;
        for at in 0..text.len() {
            for bit in 0..8 {
                let mut bytes = text.clone().into_bytes();
                bytes[at] ^= 1 << bit;
                // What is no JSON any more is noticed anyway; without the member nothing else differs.
                if let Ok(value) = read(&bytes).map_err(drop)
                    && value.get(KEY).is_some()
                {
                    looked += 1;
                    assert!(check("a.json", &bytes, &value).is_err(), "byte {at}, bit {bit}");
                }
            }
        }
        assert!(looked > 100, "{looked}");
    }

    #[test]
    fn a_file_that_was_written_again_by_another_program_is_noticed() {
        let text = sealed("{\n  \"schema\": 1,\n  \"iops\": 5.0\n}");
        let value: Value = serde_json::from_str(&text).unwrap();
        let again = value.to_string().replace("5.0", "6.0");
        assert!(check("a.json", again.as_bytes(), &serde_json::from_str(&again).unwrap()).is_err());
        for odd in ["{\"crc32\":7}", "{\"crc32\":\"\"}", "{\"crc32\":\"12\\u00345678\"}"] {
            assert!(check("a.json", odd.as_bytes(), &serde_json::from_str(odd).unwrap()).is_err());
        }
        assert!(check("a.json", b"{}", &serde_json::json!({})).is_ok());
    }
}
