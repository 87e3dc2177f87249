//! `[target.options]` of driver `redis`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use taillight_core::units::Span;
use taillight_core::{Error, Result};

use crate::options::DriverOptions;

/// Longest prefix of keys, bytes.
const PREFIX_MAX: usize = 128;

/// The options, resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RedisOptions {
    /// Only keys that begin with this and a colon are touched. One inside another run's prefix, or around
    /// it, is refused.
    #[schemars(title = "letters, digits, _ - . :")]
    pub prefix: String,
    /// Connections of each worker. Its queue depth is divided over them: depth 32 over 32 connections is
    /// one command in flight on each, depth 32 over 2 a pipeline of 16 on each.
    #[schemars(title = "1 to the queue depth")]
    pub connections: u32,
    /// Keep a sorted set of all keys: makes scans possible, and costs a ZADD with every insert
    /// (O(log n), in its latency) and the memory of every key again.
    pub index: bool,
    /// Leave the records this run makes. Otherwise they are deleted at the end, by name, where type and
    /// length are still what the run wrote; a server keeps nothing else that says who wrote a value.
    /// Before a later run writes, it asks each of them for the same (a STRLEN or HLEN, 256 at a time),
    /// and is refused where somebody has replaced one.
    pub keep: bool,
    /// Longest wait to connect, and for an answer outside the measured loop.
    pub timeout: Span,
}

impl Default for RedisOptions {
    fn default() -> RedisOptions {
        RedisOptions {
            prefix: "taillight".to_owned(),
            connections: 1,
            index: false,
            keep: false,
            timeout: Span(5_000_000_000),
        }
    }
}

impl DriverOptions for RedisOptions {
    fn check(&self) -> Result<()> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "_-.:".contains(c);
        let prefix = &self.prefix;
        if prefix.is_empty() || prefix.len() > PREFIX_MAX || !prefix.chars().all(plain) {
            return Err(Error::usage("wrong prefix of keys")
                .of_field("prefix")
                .with("options.prefix", prefix)
                .hint("1 to 128 of the characters a-z A-Z 0-9 _ - . :"));
        }
        if self.connections == 0 {
            return Err(Error::usage("options.connections is zero")
                .of_field("connections")
                .hint("1 is the default"));
        }
        if self.timeout.0 == 0 {
            return Err(Error::usage("options.timeout is zero")
                .of_field("timeout")
                .hint("5s is the default"));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_cannot_be_patterns() {
        for bad in ["", "a*", "a b", "[a]"] {
            let table = toml::Table::from_iter([("prefix".to_owned(), bad.into())]);
            assert!(RedisOptions::parse("redis", &table).is_err(), "{bad}");
        }
        let table = toml::Table::from_iter([("prefix".to_owned(), "team-a:x_1".into())]);
        assert!(RedisOptions::parse("redis", &table).is_ok());
    }
}
