//! What a run asks brokers beside the load: whether they answer, the topic, its mark, its offsets, its settings;
//! and making, marking and deleting the topic. Topic, mark and offsets are asked for again until they are told,
//! `options.timeout` is over or the run is to stop.
//!
//! A topic is Taillight's when the first record of its partition 0, at offset 0, is a mark. No other topic is
//! written or deleted, but one that was made just now and has nothing in it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use taillight_core::{Error, Result, StopFlag};

use super::address::KafkaAddress;
use super::options::KafkaOptions;
use super::questions::{AdminClient, TopicShape};
use super::record::MARK;
use super::sys::{KafkaFault, KafkaLibrary, code};
use super::transfer::{Consumer, Producer};
use crate::ownership::{NamedTarget, OwnershipMark};
use crate::patience;

/// Longest single wait for a topic's description, offset or record, ms: between two of them the
/// stop flag is looked at.
const SLICE_MS: i32 = 500;
/// How long the topic of another run, which was not to keep it, must stand still before it is deleted.
const STILL: Duration = Duration::from_secs(1);

/// What a mark says of its place: the topic that it was written to. In another topic it is only a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TopicIdentity {
    pub topic: String,
}

pub type TopicMark = OwnershipMark<TopicIdentity>;

/// The line to the brokers outside the load; about one topic, that of the address.
pub struct TopicAdmin {
    pub library: Arc<KafkaLibrary>,
    pub address: KafkaAddress,
    pub options: KafkaOptions,
    pub stop: StopFlag,
    client: AdminClient,
}

impl TopicAdmin {
    /// Errors: as for a setting that the library does not take.
    pub fn new(
        library: Arc<KafkaLibrary>,
        address: KafkaAddress,
        options: KafkaOptions,
        stop: &StopFlag,
    ) -> Result<TopicAdmin> {
        let client = AdminClient::new(&library, &options.admin(&address.servers))?;
        Ok(TopicAdmin { library, address, options, stop: stop.clone(), client })
    }

    /// The topic as refusals name it.
    pub fn named(&self) -> NamedTarget {
        NamedTarget { instead: "another options.topic", ..NamedTarget::of(self.address.to_text()) }
    }

    /// Whether to ask no more: the run is to stop, or `options.timeout` is over since then.
    fn over(&self, since: Instant) -> bool {
        self.stop.stopped() || since.elapsed() >= Duration::from_nanos(self.options.timeout.0)
    }

    /// What the brokers refuse, with what their connections complained of.
    fn unavailable(&self, what: &str, fault: &KafkaFault, complaint: Option<KafkaFault>) -> Error {
        let told = complaint.as_ref().unwrap_or(fault);
        let hint = match told.code {
            code::AUTHENTICATION => {
                "the user is options.config.\"sasl.username\", the password KAFKA_PASSWORD; \
                 \"sasl.mechanism\" must be one that the broker takes"
            }
            code::SSL => "look at options.config: \"security.protocol\", \"ssl.ca.location\"",
            _ => {
                "is the broker running, and does it advertise an address that this machine reaches? A broker \
                  that wants TLS or a password needs options.config.\"security.protocol\""
            }
        };
        Error::unavailable(what.to_owned())
            .with("brokers", &self.address.servers)
            .with("librdkafka says", &told.text)
            .hint(hint)
    }

    /// The topic as it is now, `None` where there is none, and how many brokers there are. Errors: `Unavailable` when
    /// none answers in time, or one refuses us, which is told at once.
    pub fn topic(&self) -> Result<(Option<TopicShape>, usize)> {
        let since = Instant::now();
        let mut complaint = None;
        loop {
            let fault = match self
                .client
                .topic(&self.address.topic, SLICE_MS.min(self.options.timeout_ms()))
            {
                Ok(found) => return Ok(found),
                Err(fault) => fault,
            };
            // "All brokers are down" only counts what the others say.
            let said = self.client.complaints();
            let definite = |f: &&KafkaFault| [code::AUTHENTICATION, code::SSL].contains(&f.code);
            let refused = said.iter().find(definite).cloned();
            let over = refused.is_some() || self.over(since);
            complaint = refused.or(said.into_iter().find(|f| f.code != -187)).or(complaint);
            if over {
                return Err(self.unavailable("no broker answers", &fault, complaint));
            }
        }
    }

    /// First and next offset of each of the first `partitions` partitions. Errors: `Unavailable` when one does not
    /// answer.
    pub fn offsets(&self, partitions: i32) -> Result<Vec<(i64, i64)>> {
        // Asked first, since this ends in time where no broker answers.
        self.topic()?;
        let ask = |partition| {
            let since = Instant::now();
            loop {
                match self.client.offsets(&self.address.topic, partition, SLICE_MS) {
                    Ok(found) => return Ok(found),
                    Err(fault) if self.over(since) => {
                        let e = self.unavailable("a partition does not answer", &fault, None);
                        return Err(e.with("partition", partition));
                    }
                    // The topic may have been made anew since: librdkafka keeps what it was told before.
                    Err(_) => self.topic().map(drop)?,
                }
            }
        };
        (0..partitions).map(ask).collect()
    }

    /// The mark of a topic that is there; `None` where partition 0 is empty or begins with another record, or with the
    /// mark of another topic. Errors: `Unavailable` when its first record cannot be read.
    pub fn mark(&self) -> Result<Option<TopicMark>> {
        let [(low, high)] = self.offsets(1)?[..] else { return Ok(None) };
        if low == high {
            return Ok(None);
        }
        let settings = self.options.consumer(&self.address.servers, 1 << 20);
        let mut consumer =
            Consumer::new(&self.library, &settings, &self.address.topic, &[(0, low)])?;
        let since = Instant::now();
        loop {
            let found = consumer.next(SLICE_MS, |record| {
                let ours = record.code == 0 && record.offset == 0 && record.key == MARK;
                let mark = ours.then(|| TopicMark::parse(record.value).ok()).flatten();
                (record.code, mark.filter(|mark| mark.identity.topic == self.address.topic))
            });
            match found {
                Some((0, mark)) => return Ok(mark),
                other if self.over(since) => {
                    let code = other.map_or(code::TIMED_OUT, |(code, _)| code);
                    let fault = self.library.fault(code);
                    return Err(self.unavailable("the topic cannot be read", &fault, None));
                }
                _ => {}
            }
        }
    }

    /// From here on no wish to end early is looked at: what tidies up has the time of `options.timeout`. Errors:
    /// `Unavailable` when the run was asked to end and no broker answers within a moment.
    pub fn detach_from_stop(&mut self) -> Result<()> {
        if self.stop.stopped() {
            self.topic()?;
        }
        self.stop = StopFlag::default();
        Ok(())
    }

    /// Makes the topic and marks it, and reads the mark back; where that fails the topic goes again. Errors:
    /// `Refused` when another program was faster, `Unavailable` when the brokers refuse it.
    pub fn create(&mut self, mark: &TopicMark) -> Result<TopicShape> {
        self.make()?;
        let begun = self.begin(mark);
        begun.map_err(|e| self.undo(mark, e))
    }

    /// Deletes the topic that could not be begun, unless another program wrote to it; `e` is why it could not.
    fn undo(&mut self, mark: &TopicMark, e: Error) -> Error {
        let gone = self.detach_from_stop().and_then(|()| match self.holds_only(mark)? {
            true => self.delete().map(|()| true),
            false => Ok(false),
        });
        match gone {
            Ok(true) => e,
            _ => e.with("leftovers", format!("topic {}", self.address.topic)),
        }
    }

    /// Whether there is nothing in the topic but this mark; so it is with an empty topic and with none. Errors:
    /// `Unavailable`.
    fn holds_only(&self, mark: &TopicMark) -> Result<bool> {
        let Some(shape) = self.topic()?.0 else { return Ok(true) };
        let offsets = self.offsets(shape.partitions)?;
        match offsets.iter().map(|(low, high)| high - low).sum::<i64>() {
            0 => Ok(true),
            1 => Ok(self.mark()?.as_ref() == Some(mark)),
            _ => Ok(false),
        }
    }

    /// Makes the topic as the options say. Errors: as [`TopicAdmin::create`].
    fn make(&self) -> Result<()> {
        let options = &self.options;
        let made = self.client.create(
            &self.address.topic,
            options.partitions,
            options.replicas,
            &options.topic_settings(),
            options.timeout_ms(),
        );
        match made {
            Err(fault) if fault.code == code::TOPIC_EXISTS => {
                Err(Error::refused("another program made the topic just now")
                    .with("topic", &self.address.topic)
                    .hint("choose another options.topic"))
            }
            Err(fault) => {
                let e = self.unavailable("the brokers do not make the topic", &fault, None);
                // Without an answer it may be made all the same.
                let unsure = fault.code == code::TIMED_OUT;
                let perhaps = unsure.then(|| format!("perhaps topic {}", self.address.topic));
                let hint = "look at options.partitions, replicas and topic_config, and at the user's rights";
                Err(e
                    .with("partitions", options.partitions)
                    .with("replicas", options.replicas)
                    .with_some("leftovers", perhaps)
                    .hint(hint))
            }
            Ok(()) => Ok(()),
        }
    }

    /// Waits for the topic that was made, marks it, and reads the mark back. Errors: `Unavailable`.
    fn begin(&self, mark: &TopicMark) -> Result<TopicShape> {
        let partitions = i32::try_from(self.options.partitions).unwrap_or(0);
        let shape = self.wait_for("the topic does not begin", |shape| {
            shape.filter(|s| s.led && s.partitions == partitions)
        })?;
        self.write_mark(mark)?;
        match self.mark()? {
            Some(read) if read == *mark => Ok(shape),
            _ => Err(Error::unavailable("the mark that was written is not what the topic holds")
                .with("topic", &self.address.topic)
                .hint("delete the topic, and look whether another program writes to it")),
        }
    }

    /// Asks for the topic until `wanted` gives something of it, and returns that. Errors: `Unavailable` with `what`
    /// when time is over.
    fn wait_for<T>(
        &self,
        what: &str,
        wanted: impl Fn(Option<TopicShape>) -> Option<T>,
    ) -> Result<T> {
        let most = Duration::from_nanos(self.options.timeout.0);
        let found = patience::wait(most, Duration::from_millis(20), &self.stop, || {
            self.topic().map(|(shape, _)| wanted(shape)).transpose()
        });
        found.unwrap_or_else(|| {
            Err(Error::unavailable(what.to_owned())
                .with("topic", &self.address.topic)
                .hint("raise options.timeout, or look at the brokers' logs"))
        })
    }

    /// Writes the mark to partition 0 and waits for the acknowledgement. Errors: `Unavailable`.
    fn write_mark(&self, mark: &TopicMark) -> Result<()> {
        let settings = self.options.admin(&self.address.servers);
        let producer = Producer::new(&self.library, &settings, &self.address.topic)?;
        let value = mark.bytes()?;
        let (since, mut came) = (Instant::now(), None);
        let sent = producer.one(MARK, &value, SLICE_MS, |report| {
            came = report;
            came.is_some() || self.over(since)
        });
        match sent.and(came.ok_or(code::TIMED_OUT)) {
            Ok(0) => Ok(()),
            Ok(code) | Err(code) => {
                let fault = self.library.fault(code);
                Err(self.unavailable("the topic takes no record", &fault, None))
            }
        }
    }

    /// Whether no offset of the topic changes within a second, which it waits: a run that goes on adds to it. Errors:
    /// `Unavailable`.
    pub fn stands_still(&self, partitions: i32) -> Result<bool> {
        let before = self.offsets(partitions)?;
        std::thread::sleep(STILL);
        Ok(before == self.offsets(partitions)?)
    }

    /// Deletes the topic, which the caller knows to be ours, and waits until it is gone; one that is not there is gone.
    /// Errors: `Unavailable`.
    pub fn delete(&self) -> Result<()> {
        match self.client.delete(&self.address.topic, self.options.timeout_ms()) {
            Ok(()) => {}
            Err(fault) if fault.code == code::UNKNOWN_TOPIC => {}
            Err(fault) => {
                return Err(self.unavailable("the brokers do not delete the topic", &fault, None));
            }
        }
        self.wait_for("the topic is not gone", |shape| shape.is_none().then_some(()))
    }

    /// The settings of the topic that decide what figures mean, as facts (name, value); none where they are not shown
    /// to us.
    pub fn settings(&self) -> Vec<(String, String)> {
        const SHOWN: [&str; 9] = [
            "flush.messages",
            "flush.ms",
            "min.insync.replicas",
            "cleanup.policy",
            "retention.ms",
            "retention.bytes",
            "segment.bytes",
            "compression.type",
            "message.timestamp.type",
        ];
        let all = self.client.settings(&self.address.topic, self.options.timeout_ms());
        let shown =
            all.unwrap_or_default().into_iter().filter(|(n, _)| SHOWN.contains(&n.as_str()));
        shown.map(|(name, value)| (format!("kafka.{name}"), value)).collect()
    }
}
