//! `[target.options]` of driver `s3`: names, defaults, docs. No option holds a secret.

use serde::{Deserialize, Serialize};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};

use crate::contract::{OptionDoc, doc};
use crate::kv::options;

/// How the bucket is named in a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Addressing {
    /// `host/bucket/key`.
    #[default]
    Path,
    /// `bucket.host/key`.
    Virtual,
}

/// A checksum sent with every upload, for the store to check.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct S3Options {
    /// Further servers of the same store, `HOST[:PORT]`.
    pub endpoints: Vec<String>,
    pub region: String,
    /// See [`Addressing`].
    pub addressing: Addressing,
    /// Profile of the credentials file.
    pub profile: String,
    /// PEM file of trusted roots.
    pub ca: String,
    /// Longest wait for an answer, connecting included.
    pub timeout: Span,
    /// Bytes of a range get; 0 = whole objects.
    pub range: ByteSize,
    /// Larger objects are uploaded in parts of this size.
    pub part_size: ByteSize,
    /// Keys asked of a listing at most.
    pub max_keys: u32,
    /// See [`Checksum`].
    pub checksum: Checksum,
    /// Bodies are part of the signature.
    pub signed_payload: bool,
    /// What the run makes stays.
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

/// Their docs, in the order of the struct.
pub const DOCS: &[OptionDoc] = &[
    doc(
        "endpoints",
        "list of HOST[:PORT]",
        "[]",
        "further servers of the same store; connections take turns over all of them",
    ),
    doc(
        "region",
        "name",
        "us-east-1",
        "the region that signatures name",
    ),
    doc(
        "addressing",
        "path | virtual",
        "path",
        "host/bucket/key, or bucket.host/key as AWS prefers",
    ),
    doc(
        "profile",
        "name",
        "",
        "profile of the AWS credentials file; empty = the environment, else AWS_PROFILE or default",
    ),
    doc(
        "ca",
        "PEM file",
        "",
        "the only certificates trusted by https; empty = the system's",
    ),
    doc(
        "timeout",
        "time",
        "30s",
        "a request without an answer by then is a time-out, and its connection is closed",
    ),
    doc(
        "range",
        "size",
        "0B",
        "get a random range of this size of each object; 0B = whole objects",
    ),
    doc(
        "part_size",
        "size, at least 5MiB",
        "64MiB",
        "larger objects are uploaded in parts, one after the other, as one operation",
    ),
    doc(
        "max_keys",
        "1 to 1000",
        "1000",
        "keys that a listing asks for; it starts behind the key drawn",
    ),
    doc(
        "checksum",
        "none | crc32c | sha256",
        "none",
        "sent with every upload, for the store to check",
    ),
    doc(
        "signed_payload",
        "bool",
        "false",
        "upload bodies are hashed into the signature; false = UNSIGNED-PAYLOAD",
    ),
    doc(
        "keep",
        "bool",
        "false",
        "objects stay for later runs; false = what the run wrote is deleted at the end",
    ),
];

/// Smallest part that S3 takes, except for the last.
const PART_MIN: u64 = 5 << 20;
/// Parts of one object at most.
pub const PARTS_MAX: u64 = 10_000;

/// Reads options as written.
///
/// # Errors
/// `Usage` for unknown or impossible ones.
pub fn parse(table: &toml::Table) -> Result<S3Options> {
    let o: S3Options = options::parse("s3", DOCS, table)?;
    let wrong = |what: &str, hint: &str| Err(Error::usage(what).hint(hint));
    if o.part_size.0 < PART_MIN {
        return wrong(
            "options.part_size is too small",
            "S3 takes parts from 5MiB on",
        );
    }
    if !(1..=1000).contains(&o.max_keys) {
        return wrong(
            "options.max_keys is out of range",
            "S3 lists 1 to 1000 keys at a time",
        );
    }
    if o.timeout.0 < 1_000_000 {
        return wrong("options.timeout is too short", "give at least 1ms");
    }
    let plain = |b: u8| b.is_ascii_alphanumeric() || b == b'-';
    if o.region.is_empty() || !o.region.bytes().all(plain) {
        return wrong(
            "options.region is no region",
            "for example region = \"us-east-1\"",
        );
    }
    Ok(o)
}
