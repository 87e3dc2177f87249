//! How records go to a topic and come from it: what the sessions use of librdkafka.

mod sys;

pub use sys::{Consumer, FetchedRecord, Producer, SlotProducer};
