//! `kafka`: Apache Kafka and what speaks its protocol (Redpanda), through librdkafka, any build of it, loaded at run
//! time. A topic as a queue: writers append, readers take records in the order in which they come.
//!
//! A write ends with its delivery report. Every record says which run and worker wrote it and which one it is, with
//! a sum over its value: readers beside writers count foreign, doubled, late and missing ones, and all readers fail
//! on damaged ones. Readers are in no group: each reads all partitions.

mod address;
mod admin;
mod consumer;
mod options;
mod producer;
mod questions;
mod read_back;
mod record;
mod sys;
mod tally;
mod target;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
mod transfer;

use taillight_core::capability::{Capabilities, DriverFacts, TargetKind};
use taillight_core::plan::{Plan, TargetPlan, WorkloadPlan, rank_name};
use taillight_core::progress::OnProgress;
use taillight_core::samples::SampleDisplay;
use taillight_core::{OpKind, Result};

use crate::contract::{BoundDriver, Driver, OpenSpec, Target};
use crate::options::{DriverOptions, OptionSet, complete};
#[cfg(any(test, feature = "testing"))]
use crate::test_target::{TestSetup, TestTarget};
use address::KafkaAddress;
use options::KafkaOptions;
use sys::KafkaLibrary;

/// Most operations of a worker in flight.
const MAX_DEPTH: u32 = 4096;

/// The driver.
pub struct KafkaDriver;

impl Driver for KafkaDriver {
    fn name(&self) -> &'static str {
        "kafka"
    }
    fn about(&self) -> &'static str {
        "Kafka or Redpanda through librdkafka, loaded at run time; a topic as a queue"
    }
    fn library(&self) -> Option<&'static str> {
        Some("librdkafka")
    }
    /// Its file has the number of an interface, 1 since 2013.
    fn library_version(&self) -> Option<String> {
        Some(KafkaLibrary::load("").ok()?.version())
    }
    fn option_set(&self) -> OptionSet {
        OptionSet::of::<KafkaOptions>()
    }
    fn bind(&self, target: &TargetPlan) -> Result<Box<dyn BoundDriver>> {
        Ok(Box::new(KafkaOptions::parse(self.name(), &target.options)?))
    }
    /// A topic of its own.
    fn rank_path(&self, path: &str, rank: u32) -> Result<String> {
        KafkaAddress::of_rank(path, &rank_name(rank))
    }
    #[cfg(any(test, feature = "testing"))]
    fn test_target(&self, _: &std::path::Path) -> TestSetup {
        KafkaLibrary::load("").map_err(|e| e.to_string())?;
        let broker = testing::KafkaBroker::start(&[])?;
        let path = format!("{}/conformance", broker.address());
        Ok(TestTarget {
            path,
            options: vec![
                "idempotence = true\nread_back = true".to_owned(),
                "acks = 1\npartitions = 3\nlinger = \"2ms\"\ncompression = \"lz4\"".to_owned(),
            ],
            reverse: false,
            leftovers: Box::new(move || broker.left("conformance")),
        })
    }
}

impl BoundDriver for KafkaOptions {
    fn options(&self) -> Result<toml::Table> {
        complete(self)
    }
    fn samples(&self) -> SampleDisplay {
        tally::display()
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            ops: vec![OpKind::Read, OpKind::Write],
            max_depth: MAX_DEPTH,
            stores_data: true,
            guarded: true,
            facts: DriverFacts { kind: TargetKind::Queue, ..DriverFacts::default() },
            ..Capabilities::default()
        }
    }
    fn plan_notes(&self, plan: &Plan) -> Vec<String> {
        let writes = |w: &WorkloadPlan| w.mix.iter().any(|part| part.op.writes());
        let writes = plan.workloads.iter().any(writes);
        Some(self.promise().to_owned()).filter(|_| writes).into_iter().collect()
    }
    fn check(&self, spec: &OpenSpec<'_>) -> Result<()> {
        target::check(self, spec)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        Ok(Box::new(target::KafkaTarget::open(self, spec)?))
    }
}
