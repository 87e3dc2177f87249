//! What is asked of brokers, and made and deleted there.

mod sys;

pub use sys::{AdminClient, TopicShape};
