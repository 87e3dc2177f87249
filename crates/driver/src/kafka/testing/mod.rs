//! What tests do to topics of a broker as somebody else, and what they ask it. The broker itself is `broker`'s.
//! Every call panics where the broker does not do it.
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

    /// What is left of a topic: its name, or nothing where the broker has none of this name.
    pub fn left(&self, topic: &str) -> Vec<String> {
        let found = self.admin().topic(topic, 10_000).unwrap().0;
        found.map(|_| topic.to_owned()).into_iter().collect()
    }

    /// Makes a topic of one partition without an ownership mark, as another program would.
    pub fn make_topic(&self, topic: &str) {
        self.admin().create(topic, 1, 1, &[], 10_000).unwrap();
    }

    /// Deletes a topic, and waits until the broker no longer has it.
    pub fn delete_topic(&self, topic: &str) {
        let admin = self.admin();
        admin.delete(topic, 10_000).unwrap();
        while admin.topic(topic, 10_000).unwrap().0.is_some() {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Writes a record to partition 0 of a topic, and waits until the broker has acknowledged it.
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

    /// Writes a record to partition 0 with the key of a run's record, and a value that is not what its checksum is of.
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
