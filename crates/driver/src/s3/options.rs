//! `[target.options]` of driver `s3`. No option holds a secret.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};

use crate::options::DriverOptions;

/// How the bucket is named in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// `host/bucket/key`.
    #[default]
    Path,
    /// `bucket.host/key`.
    Virtual,
}

/// A checksum sent with every upload, for the store to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Checksum {
    #[default]
    None,
    /// CRC-32C.
    Crc32c,
    /// SHA-256.
    Sha256,
}

/// The options, resolved. Absent ones take the defaults below.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct S3Options {
    /// Further servers of the same store; connections take turns over all of them.
    #[schemars(title = "list of HOST[:PORT]")]
    pub endpoints: Vec<String>,
    /// The region that signatures name.
    #[schemars(title = "name")]
    pub region: String,
    /// Host/bucket/key, or bucket.host/key as AWS prefers.
    pub addressing: Addressing,
    /// Profile of the AWS credentials file; empty = the environment, else AWS_PROFILE or default.
    #[schemars(title = "name")]
    pub profile: String,
    /// The only certificates trusted by https; empty = the system's.
    #[schemars(title = "PEM file")]
    pub ca: String,
    /// A request without an answer by then is a time-out, and its connection is closed.
    pub timeout: Span,
    /// Get a random range of this size of each object; 0B = whole objects.
    pub range: ByteSize,
    /// Larger objects are uploaded in parts, one after the other, as one operation.
    #[schemars(title = "size, at least 5MiB")]
    pub part_size: ByteSize,
    /// Keys that a listing asks for; it starts behind the key drawn.
    #[schemars(title = "1 to 1000")]
    pub max_keys: u32,
    /// Sent with every upload, for the store to check.
    pub checksum: Checksum,
    /// Upload bodies are hashed into the signature; false = UNSIGNED-PAYLOAD.
    pub signed_payload: bool,
    /// Objects stay for later runs; false = what the run wrote is deleted at the end. Before a later run
    /// writes, it asks each of them who made it (a HEAD, 32 at a time), and is refused where somebody
    /// has replaced one.
    pub keep: bool,
}

impl Default for S3Options {
    fn default() -> S3Options {
        S3Options {
            endpoints: Vec::new(),
            region: "us-east-1".to_owned(),
            addressing: Addressing::Path,
            profile: String::new(),
            ca: String::new(),
            timeout: Span(30_000_000_000),
            range: ByteSize(0),
            part_size: ByteSize(64 << 20),
            max_keys: 1000,
            checksum: Checksum::None,
            signed_payload: false,
            keep: false,
        }
    }
}

/// Smallest part that S3 takes, except for the last.
const PART_MIN: u64 = 5 << 20;
/// Parts of one object at most.
pub const PARTS_MAX: u64 = 10_000;

impl DriverOptions for S3Options {
    fn check(&self) -> Result<()> {
        let wrong = |option: &str, what: &str, hint: &str| {
            let what = format!("options.{option} {what}");
            Err(Error::usage(what).of_field(option).hint(hint))
        };
        if self.part_size.0 < PART_MIN {
            return wrong("part_size", "is too small", "S3 takes parts from 5MiB on");
        }
        if !(1..=1000).contains(&self.max_keys) {
            return wrong("max_keys", "is out of range", "S3 lists 1 to 1000 keys at a time");
        }
        if self.timeout.0 < 1_000_000 {
            return wrong("timeout", "is too short", "give at least 1ms");
        }
        let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
        if self.region.is_empty() || !self.region.bytes().all(plain) {
            return wrong("region", "is no region", "for example region = \"us-east-1\"");
        }
        Ok(())
    }
}
