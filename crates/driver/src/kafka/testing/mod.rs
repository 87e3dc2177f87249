//! A broker for tests, and what tests do to its topics as somebody else.
#![allow(clippy::unwrap_used)]

pub mod broker;

use std::time::Duration;

pub use broker::KafkaBroker;

use super::options::KafkaOptions;
use super::questions::AdminClient;
use super::record::{RecordKey, run_number, sum};
use super::sys::KafkaLibrary;
use super::transfer::Producer;

impl KafkaBroker {
    fn admin(&self) -> AdminClient {
        let library = KafkaLibrary::load("").unwrap();
        let settings = KafkaOptions::default().admin(&format!("127.0.0.1:{}", self.port));
        AdminClient::new(&library, &settings).unwrap()
    }

    /// The name of the topic, if it is there.
    pub fn left(&self, topic: &str) -> Vec<String> {
        let found = self.admin().topic(topic, 10_000).unwrap().0;
        found.map(|_| topic.to_owned()).into_iter().collect()
    }

    /// Makes a topic that is nobody's.
    pub fn make_topic(&self, topic: &str) {
        self.admin().create(topic, 1, 1, &[], 10_000).unwrap();
    }

    pub fn delete_topic(&self, topic: &str) {
        let admin = self.admin();
        admin.delete(topic, 10_000).unwrap();
        while admin.topic(topic, 10_000).unwrap().0.is_some() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes a record to partition 0 of a topic, as somebody else.
    pub fn write(&self, topic: &str, key: &[u8], value: &[u8]) {
        let library = KafkaLibrary::load("").unwrap();
        let settings = KafkaOptions::default().admin(&format!("127.0.0.1:{}", self.port));
        let producer = Producer::new(&library, &settings, topic).unwrap();
        let mut code = None;
        let sent = producer.one(key, value, 10_000, |came| {
            code = came;
            came.is_some()
        });
        sent.unwrap();
        assert_eq!(code, Some(0));
    }

    /// Writes a record of a run whose value is not what the writer summed up.
    pub fn write_torn(&self, topic: &str, run_id: &str, writer: u32, sequence: u64) {
        let run = run_number(run_id);
        let key = RecordKey { run, writer, sequence, sum: sum(b"whole") };
        self.write(topic, &key.write(), b"torn ");
    }

    /// First and next offset of a partition, as the broker has them.
    pub fn offsets(&self, topic: &str, partition: i32) -> (i64, i64) {
        self.admin().offsets(topic, partition, 10_000).unwrap()
    }
}
