//! `[target.options]` of driver `kafka`.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use taillight_core::units::{ByteSize, Span};
use taillight_core::{Error, Result};

use super::sys::Setting;
use crate::options::DriverOptions;

/// Where the password comes from.
const PASSWORD: &str = "KAFKA_PASSWORD";
/// Settings of the library that hold secrets, in part of their names.
const SECRETS: [&str; 4] = ["password", ".pem", "secret", "oauthbearer.config"];
const NS_OF_MS: u64 = 1_000_000;
/// Settings of the library that an option of ours decides, by every name that they have; and, without an option, those
/// that the driver needs as it sets them.
const DECIDED: [(&str, &str); 34] = [
    ("bootstrap.servers", "target.path"),
    ("metadata.broker.list", "target.path"),
    ("acks", "options.acks"),
    ("request.required.acks", "options.acks"),
    ("enable.idempotence", "options.idempotence"),
    ("message.timeout.ms", "options.delivery_timeout"),
    ("delivery.timeout.ms", "options.delivery_timeout"),
    ("message.send.max.retries", "options.retries"),
    ("retries", "options.retries"),
    ("linger.ms", "options.linger"),
    ("queue.buffering.max.ms", "options.linger"),
    ("batch.size", "options.batch_size"),
    ("batch.num.messages", "options.batch_records"),
    ("compression.codec", "options.compression"),
    ("compression.type", "options.compression"),
    ("max.in.flight", "options.in_flight"),
    ("max.in.flight.requests.per.connection", "options.in_flight"),
    ("fetch.wait.max.ms", "options.fetch_wait"),
    ("fetch.min.bytes", "options.fetch_min"),
    ("max.partition.fetch.bytes", "options.fetch_size"),
    ("fetch.message.max.bytes", "options.fetch_size"),
    ("fetch.max.bytes", "options.fetch_size"),
    ("message.max.bytes", "the workload's block_size"),
    ("queue.buffering.max.messages", "the workload's queue_depth"),
    ("delivery.report.only.error", ""),
    ("enabled_events", ""),
    ("transactional.id", ""),
    ("enable.auto.commit", ""),
    ("auto.commit.enable", ""),
    ("enable.auto.offset.store", ""),
    ("allow.auto.create.topics", ""),
    ("auto.offset.reset", ""),
    ("enable.partition.eof", ""),
    ("check.crcs", ""),
];

/// Who has a record when its write counts as done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
#[schemars(title = "0 | 1 | all")]
pub enum Acks {
    /// Nobody: it was sent.
    #[serde(rename = "0")]
    None,
    /// The leader of its partition.
    #[serde(rename = "1")]
    Leader,
    /// All replicas in sync.
    #[default]
    All,
}

impl Acks {
    pub fn word(self) -> &'static str {
        match self {
            Acks::None => "0",
            Acks::Leader => "1",
            Acks::All => "all",
        }
    }
}

impl<'de> Deserialize<'de> for Acks {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Acks, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged, expecting = "expected 0, 1 or \"all\"")]
        enum Written {
            Number(i64),
            Word(String),
        }
        let word = match Written::deserialize(d)? {
            Written::Number(-1) => "all".to_owned(),
            Written::Number(n) => n.to_string(),
            Written::Word(word) => word,
        };
        let found = [Acks::None, Acks::Leader, Acks::All].into_iter().find(|a| a.word() == word);
        found.ok_or_else(|| serde::de::Error::custom("expected 0, 1 or \"all\""))
    }
}

/// How batches are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    #[default]
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

impl Compression {
    fn word(self) -> &'static str {
        match self {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
    }
}

/// The options, resolved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KafkaOptions {
    /// Which librdkafka is used; empty = the system's (Debian: librdkafka1).
    #[schemars(title = "file or name of a shared library")]
    pub library: String,
    /// The topic, where the path names none; empty = taillight. One that Taillight did not make is read, and never
    /// written or deleted.
    #[schemars(title = "letters, digits, . _ -")]
    pub topic: String,
    /// Who has a record when its write counts as done: nobody, the leader, or all replicas in sync. Nobody syncs it to a
    /// disk unless topic_config."flush.messages" says so.
    pub acks: Acks,
    /// Longest that a record waits for others to be sent with it: part of its latency. librdkafka's and Java's own is
    /// 5 ms.
    pub linger: Span,
    /// Largest batch. librdkafka's own; Java's is 16 KiB.
    pub batch_size: ByteSize,
    /// Most records in a batch.
    #[schemars(title = "1 to 1000000")]
    pub batch_records: u32,
    /// How batches are compressed.
    pub compression: Compression,
    /// Retries neither double nor reorder records. Needs acks = "all".
    pub idempotence: bool,
    /// How often a record is sent again after a failure, within its latency; without idempotence this may double it.
    /// With idempotence 0 means as often as it takes.
    #[schemars(title = "0 to 1000000")]
    pub retries: u32,
    /// Most requests of a connection in flight.
    #[schemars(title = "1 to 1000000")]
    pub in_flight: u32,
    /// A record that is not acknowledged by then has failed.
    pub delivery_timeout: Span,
    /// Longest that a broker holds a fetch back until it has `fetch_min` for it: it shows in end-to-end times where that is
    /// more than one record.
    pub fetch_wait: Span,
    /// See fetch_wait.
    pub fetch_min: ByteSize,
    /// Most of a partition in one fetch.
    pub fetch_size: ByteSize,
    /// Partitions of a topic that the run makes; records go to them in turn.
    #[schemars(title = "1 to 10000")]
    pub partitions: u32,
    /// Copies of each partition that the run makes.
    #[schemars(title = "1 to 1000")]
    pub replicas: u32,
    /// Settings of a topic that the run makes, as { "flush.messages" = "1", "min.insync.replicas" = "2" }.
    #[schemars(title = "table of texts", with = "BTreeMap<String, String>")]
    pub topic_config: toml::Table,
    /// Further settings of librdkafka, as { "security.protocol" = "SASL_SSL", "sasl.username" = "me" }. Passwords come from
    /// KAFKA_PASSWORD.
    #[schemars(title = "table of texts", with = "BTreeMap<String, String>")]
    pub config: toml::Table,
    /// When the load is over, read what it wrote once and look for every acknowledged record: missing, doubled and damaged
    /// ones are counted. Missing and damaged ones end the run with exit code 5.
    pub read_back: bool,
    /// Leave the topic that this run makes.
    pub keep: bool,
    /// Longest wait for brokers outside the load.
    pub timeout: Span,
}

impl Default for KafkaOptions {
    fn default() -> KafkaOptions {
        KafkaOptions {
            library: String::new(),
            topic: String::new(),
            acks: Acks::All,
            linger: Span(0),
            batch_size: ByteSize(1_000_000),
            batch_records: 10_000,
            compression: Compression::None,
            idempotence: false,
            retries: 0,
            in_flight: 5,
            delivery_timeout: Span(30_000_000_000),
            fetch_wait: Span(500_000_000),
            fetch_min: ByteSize(1),
            fetch_size: ByteSize(1 << 20),
            partitions: 1,
            replicas: 1,
            topic_config: toml::Table::new(),
            config: toml::Table::new(),
            read_back: false,
            keep: false,
            timeout: Span(10_000_000_000),
        }
    }
}

impl KafkaOptions {
    pub fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout.0 / NS_OF_MS).unwrap_or(i32::MAX)
    }

    /// Settings of a topic: nothing of it goes while the run needs it, the mark least, unless the job says so.
    pub fn topic_settings(&self) -> Vec<Setting> {
        const STAYS: [(&str, &str); 3] =
            [("retention.ms", "-1"), ("retention.bytes", "-1"), ("cleanup.policy", "delete")];
        let unsaid = STAYS.iter().filter(|(name, _)| !self.topic_config.contains_key(*name));
        let mut all: Vec<Setting> =
            unsaid.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        all.extend(settings(&self.topic_config));
        all
    }

    /// What every client is told: brokers, some settings of ours, and behind these, so that it wins over them, what
    /// the job passes on; then the password. [`DriverOptions::check`] refuses what must not.
    fn common(&self, servers: &str) -> Vec<Setting> {
        let mut all = vec![
            ("bootstrap.servers".to_owned(), servers.to_owned()),
            ("client.id".to_owned(), "taillight".to_owned()),
            ("log_level".to_owned(), "0".to_owned()),
            // Sent at once; a lost broker is asked again soon.
            ("socket.nagle.disable".to_owned(), "true".to_owned()),
            ("reconnect.backoff.max.ms".to_owned(), "1000".to_owned()),
        ];
        all.extend(settings(&self.config));
        if let Some(password) = std::env::var(PASSWORD).ok().filter(|p| !p.is_empty()) {
            all.push(("sasl.password".to_owned(), password));
        }
        all
    }

    pub fn admin(&self, servers: &str) -> Vec<Setting> {
        let mut all = self.common(servers);
        all.push(("acks".to_owned(), "all".to_owned()));
        all.push(("message.timeout.ms".to_owned(), self.timeout_ms().to_string()));
        // A question for offsets has no other end: a broker that died would be waited for without one.
        let socket = self.timeout_ms().clamp(10, 300_000);
        all.push(("socket.timeout.ms".to_owned(), socket.to_string()));
        all.push(("message.send.max.retries".to_owned(), "0".to_owned()));
        all
    }

    /// `depth`: most records of a worker in flight; `largest`: bytes of one with all that is around it.
    pub fn producer(&self, servers: &str, depth: u32, largest: u64) -> Vec<Setting> {
        let mut all = vec![
            ("acks".to_owned(), self.acks.word().to_owned()),
            ("linger.ms".to_owned(), (self.linger.0 as f64 / NS_OF_MS as f64).to_string()),
            ("batch.size".to_owned(), self.batch_size.0.to_string()),
            ("batch.num.messages".to_owned(), self.batch_records.to_string()),
            ("compression.codec".to_owned(), self.compression.word().to_owned()),
            ("enable.idempotence".to_owned(), self.idempotence.to_string()),
            ("max.in.flight.requests.per.connection".to_owned(), self.in_flight.to_string()),
            ("message.timeout.ms".to_owned(), (self.delivery_timeout.0 / NS_OF_MS).to_string()),
            ("queue.buffering.max.messages".to_owned(), u64::from(depth).max(1000).to_string()),
            ("message.max.bytes".to_owned(), largest.clamp(1_000_000, 1_000_000_000).to_string()),
        ];
        if !(self.idempotence && self.retries == 0) {
            all.push(("message.send.max.retries".to_owned(), self.retries.to_string()));
        }
        all.extend(self.common(servers));
        all
    }

    pub fn consumer(&self, servers: &str, largest: u64) -> Vec<Setting> {
        let fetch = self.fetch_size.0.clamp(largest, 1_000_000_000);
        let mut all = vec![
            ("enable.auto.commit".to_owned(), "false".to_owned()),
            ("enable.auto.offset.store".to_owned(), "false".to_owned()),
            ("allow.auto.create.topics".to_owned(), "false".to_owned()),
            ("auto.offset.reset".to_owned(), "error".to_owned()),
            ("check.crcs".to_owned(), "true".to_owned()),
            ("fetch.wait.max.ms".to_owned(), (self.fetch_wait.0 / NS_OF_MS).to_string()),
            ("fetch.min.bytes".to_owned(), self.fetch_min.0.to_string()),
            ("max.partition.fetch.bytes".to_owned(), fetch.to_string()),
            ("fetch.max.bytes".to_owned(), fetch.saturating_mul(50).min(2_000_000_000).to_string()),
            ("receive.message.max.bytes".to_owned(), "2147483647".to_owned()),
            ("fetch.error.backoff.ms".to_owned(), "20".to_owned()),
        ];
        all.extend(self.common(servers));
        all
    }

    /// What decides how records are collected, where there are writers, and how they are fetched, where there are readers.
    pub fn facts(&self, writers: &[bool]) -> Vec<(String, String)> {
        let writing = [
            ("acks", self.acks.word().to_owned()),
            ("linger", self.linger.to_string()),
            ("batch_size", self.batch_size.to_string()),
            ("batch_records", self.batch_records.to_string()),
            ("compression", self.compression.word().to_owned()),
            ("in_flight", self.in_flight.to_string()),
        ];
        let reading = [
            ("fetch_wait", self.fetch_wait.to_string()),
            ("fetch_min", self.fetch_min.to_string()),
            ("fetch_size", self.fetch_size.to_string()),
        ];
        let of = |does: bool, facts: Vec<(&str, String)>| {
            let facts = facts.into_iter().filter(move |_| does);
            facts.map(|(name, value)| (format!("kafka.{name}"), value)).collect::<Vec<_>>()
        };
        let mut all = of(writers.contains(&true), writing.to_vec());
        all.extend(of(writers.contains(&false), reading.to_vec()));
        all
    }

    /// What a linger does to writes.
    pub fn linger_note(&self) -> Option<String> {
        (self.linger.0 > 0).then(|| {
            format!(
                "linger = {}: a record waits up to that long for others to be sent with it, within its latency",
                self.linger
            )
        })
    }

    /// What fetches that wait for more than one record do to readers.
    pub fn fetch_note(&self) -> Option<String> {
        (self.fetch_min.0 > 1).then(|| {
            format!(
                "fetch_min = {}: a broker holds a fetch back for up to {} until it has so much, which shows in \
                 end-to-end times",
                self.fetch_min, self.fetch_wait
            )
        })
    }

    /// Whether what is acknowledged is to be there later, with so many replicas: with acks = 1 another replica may
    /// take over that does not have it.
    pub fn promised(&self, replicas: i32) -> bool {
        match self.acks {
            Acks::None => false,
            Acks::Leader => replicas <= 1,
            Acks::All => true,
        }
    }

    /// What an acknowledgement promises, in words.
    pub fn promise(&self) -> &'static str {
        match self.acks {
            Acks::None => {
                "acks = 0: a write is done when it was sent; a broker that fails or refuses it loses it, \
                 and nobody is told"
            }
            Acks::Leader => {
                "acks = 1: a write is done when the leader of its partition has it, in memory unless \
                 flush.messages = 1; it is lost with that broker's machine, or when another replica takes over"
            }
            Acks::All => {
                "acks = all: a write is done when every replica in sync has it, in memory unless \
                 flush.messages = 1; it is lost when the machines of all of them fail at once"
            }
        }
    }
}

/// Refuses settings in `config` that an option of ours or the driver decides. Errors: `Usage`, naming the option.
fn undecided(config: &toml::Table) -> Result<()> {
    let Some((name, option)) = DECIDED.iter().find(|(name, _)| config.contains_key(*name)) else {
        return Ok(());
    };
    let hint = match option.is_empty() {
        true => "leave it out: the driver needs it as it sets it".to_owned(),
        false => format!("leave it out, and set {option}"),
    };
    Err(Error::usage(format!("`{name}` is not set in options.config"))
        .of_field("config")
        .hint(hint))
}

/// Refuses more replicas in sync than there are: no write would ever be acknowledged. Errors: `Usage`.
fn enough_replicas(options: &KafkaOptions) -> Result<()> {
    const NAME: &str = "min.insync.replicas";
    let mut given = settings(&options.topic_config).into_iter().filter(|(name, _)| name == NAME);
    let least = given.next().and_then(|(_, value)| value.trim().parse::<u32>().ok());
    match least.filter(|least| *least > options.replicas) {
        None => Ok(()),
        Some(least) => Err(Error::usage(format!("`{NAME}` is above options.replicas"))
            .of_field("topic_config")
            .with("in sync at least", least)
            .with("replicas", options.replicas)
            .hint(format!("raise options.replicas, or lower {NAME}"))),
    }
}

/// A table as settings.
fn settings(table: &toml::Table) -> Vec<Setting> {
    let text = |value: &toml::Value| match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    table.iter().map(|(name, value)| (name.clone(), text(value))).collect()
}

impl DriverOptions for KafkaOptions {
    fn check(&self) -> Result<()> {
        let usage = |field: &str, what: &str, hint: &str| {
            Err(Error::usage(what.to_owned()).of_field(field).hint(hint.to_owned()))
        };
        let plain = |v: &toml::Value| !(v.is_table() || v.is_array() || v.is_datetime());
        for (field, table) in [("topic_config", &self.topic_config), ("config", &self.config)] {
            if !table.values().all(plain) {
                return usage(
                    field,
                    "a setting is a text, a number or true or false",
                    "write \"name\" = \"value\"",
                );
            }
        }
        let secret = |name: &String| SECRETS.iter().any(|part| name.contains(part));
        if let Some(name) = self.config.keys().find(|name| secret(name)) {
            let what = format!("`{name}` may hold a secret, and job files are kept with results");
            return usage(
                "config",
                &what,
                "a password comes from KAFKA_PASSWORD, keys from files (ssl.key.location)",
            );
        }
        undecided(&self.config)?;
        enough_replicas(self)?;
        if self.idempotence && (self.acks != Acks::All || self.in_flight > 5) {
            return usage(
                "idempotence",
                "idempotence needs acks = \"all\" and at most 5 requests in flight",
                "set options.acks = \"all\" and options.in_flight = 5, or leave idempotence out",
            );
        }
        let ranges = [
            ("batch_records", self.batch_records, 1_000_000),
            ("in_flight", self.in_flight, 1_000_000),
            ("partitions", self.partitions, 10_000),
            ("replicas", self.replicas, 1000),
        ];
        if let Some((name, _, most)) = ranges.iter().find(|(_, n, most)| *n == 0 || n > most) {
            return usage(
                name,
                &format!("options.{name} is not between 1 and {most}"),
                "leave it out for its default",
            );
        }
        let spans = [
            ("delivery_timeout", self.delivery_timeout),
            ("fetch_wait", self.fetch_wait),
            ("timeout", self.timeout),
        ];
        match spans.iter().find(|(_, span)| span.0 < NS_OF_MS) {
            Some((name, _)) => usage(
                name,
                &format!("options.{name} is shorter than 1 ms"),
                "leave it out for its default",
            ),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<KafkaOptions> {
        KafkaOptions::parse("kafka", &text.parse().unwrap())
    }

    #[test]
    fn acks_are_numbers_or_words() {
        for (text, acks) in [
            ("", Acks::All),
            ("acks = \"all\"", Acks::All),
            ("acks = -1", Acks::All),
            ("acks = 0", Acks::None),
            ("acks = \"1\"", Acks::Leader),
        ] {
            assert_eq!(parse(text).unwrap().acks, acks, "{text}");
        }
        assert!(parse("acks = 2").is_err() && parse("acks = \"quorum\"").is_err());
    }

    #[test]
    fn wrong_options_are_refused() {
        for text in [
            "partitions = 0",
            "replicas = 1001",
            "timeout = \"0s\"",
            "idempotence = true\nacks = 1",
            "idempotence = true\nin_flight = 6",
            "config = { \"sasl.password\" = \"x\" }",
            "config = { \"ssl.key.pem\" = \"x\" }",
            "topic_config = { a = [1] }",
            "config = { acks = 0 }",
            "config = { \"metadata.broker.list\" = \"h:1\" }",
            "config = { \"delivery.report.only.error\" = true }",
            "topic_config = { \"min.insync.replicas\" = \"2\" }",
            "topic_config = { \"min.insync.replicas\" = 2 }",
        ] {
            let e = parse(text).unwrap_err();
            assert_eq!(e.kind(), taillight_core::ErrorKind::Usage, "{text}");
            assert!(e.hint_text().is_some(), "{text}");
        }
    }

    #[test]
    fn what_a_job_passes_on_wins() {
        let options = parse("config = { \"client.id\" = 7 }").unwrap();
        let all = options.producer("h:1", 4, 100);
        let names: Vec<_> =
            all.iter().filter(|(n, _)| n == "client.id").map(|(_, v)| v.as_str()).collect();
        assert_eq!(names, ["taillight", "7"]);
    }

    #[test]
    fn a_topic_keeps_its_mark_unless_the_job_says_so() {
        let text = "replicas = 2\ntopic_config = { \"retention.ms\" = 5, \"min.insync.replicas\" = \"2\" }";
        let mut all = parse(text).unwrap().topic_settings();
        all.sort();
        let wanted = [
            ("cleanup.policy", "delete"),
            ("min.insync.replicas", "2"),
            ("retention.bytes", "-1"),
            ("retention.ms", "5"),
        ];
        assert_eq!(all, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }
}
