//! The driver `kafka` on a real broker, one for all checks: which topics are written and deleted, and which records
//! count as foreign, doubled, torn or missing. Also plans that are refused without a broker.
#![allow(clippy::unwrap_used)]

use std::sync::atomic::{AtomicBool, Ordering};

use taillight_core::plan::{AccessKind, Plan, Sync};
use taillight_core::{ErrorKind, Op, OpKind, Result, Status};
use taillight_driver::conformance::{one, open, plan, target};
use taillight_driver::kafka::testing::KafkaBroker;
use taillight_driver::{Session, SessionSpec, Target};

/// A plan with a workload for each of these kinds.
fn job(broker: &KafkaBroker, topic: &str, options: &str, kinds: &[OpKind]) -> Plan {
    let target = target("kafka", &format!("{}/{topic}", broker.address()), options);
    let mut plan = plan(target, &[OpKind::Write], 100, 1);
    let mut w = plan.workloads.remove(0);
    w.sync = Sync::None;
    for kind in kinds {
        w.access.kind = if kinds.len() > 1 { AccessKind::Follow } else { AccessKind::Sequential };
        w.mix[0].op = *kind;
        plan.workloads.push(w.clone());
    }
    plan
}

const WRITES: &[OpKind] = &[OpKind::Write];
const READS: &[OpKind] = &[OpKind::Read];
const BOTH: &[OpKind] = &[OpKind::Write, OpKind::Read];

fn session(target: &dyn Target, workload: u16) -> Box<dyn Session> {
    let spec = SessionSpec {
        worker: workload,
        workload,
        index: 0,
        keep: true,
        depth: 1,
        buffer_size: 100,
        seed: 1,
    };
    target.session(&spec).unwrap()
}

/// Appends records of 100 bytes, each filled with its number.
fn append(target: &dyn Target, count: u8) {
    let mut writer = session(target, 0);
    for n in 0..count {
        writer.buffer(0).fill(n);
        let c = one(&mut *writer, &Op::block(OpKind::Write, 0, 0, 100));
        assert_eq!((c.status, c.moved), (Status::OK, 100));
    }
}

fn read(reader: &mut dyn Session) -> (Status, u8) {
    let c = one(reader, &Op::block(OpKind::Read, 0, 0, 100));
    (c.status, reader.buffer(0)[0])
}

fn refused(opened: Result<Box<dyn Target>>, says: &str) {
    let e = opened.err().expect("it is refused");
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert!(e.to_string().contains(says), "{e}");
}

fn fact(facts: &[(String, String)], name: &str) -> String {
    let found = facts.iter().find(|(n, _)| n == name);
    found.unwrap_or_else(|| panic!("no {name} in {facts:?}")).1.clone()
}

/// A topic of others is read, and neither written nor deleted, even when that is confirmed.
fn foreign_topics(broker: &KafkaBroker) {
    broker.make_topic("theirs");
    for filled in [false, true] {
        if filled {
            broker.write("theirs", b"key", &[7; 100]);
        }
        refused(open(&job(broker, "theirs", "", WRITES), None, "r"), "none that Taillight made");
        let mut confirmed = job(broker, "theirs", "", BOTH);
        confirmed.target.destroy = true;
        let name = format!("{}/theirs", broker.address());
        refused(open(&confirmed, Some(&name), "r"), "none that Taillight made");
        assert_eq!(broker.offsets("theirs", 0), (0, i64::from(filled)));
    }
    let target = open(&job(broker, "theirs", "", READS), None, "r").unwrap();
    let mut reader = session(&*target, 0);
    // The topic has one record: reads begin again.
    for _ in 0..3 {
        assert_eq!(read(&mut *reader), (Status::OK, 7));
    }
    drop(reader);
    target.close().unwrap();
    assert_eq!(broker.offsets("theirs", 0), (0, 1));
    let e = open(&job(broker, "absent", "", READS), None, "r").err().unwrap();
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    assert!(broker.left("absent").is_empty(), "asking for a topic must not make it");
}

/// A kept topic is read, added to, and deleted only when that is confirmed.
fn kept_topics(broker: &KafkaBroker) {
    let target = open(&job(broker, "kept", "keep = true", WRITES), None, "first").unwrap();
    append(&*target, 5);
    target.close().unwrap();
    assert_eq!(broker.offsets("kept", 0), (0, 6), "five records and the mark");
    let target = open(&job(broker, "kept", "", READS), None, "second").unwrap();
    assert_eq!(target.geometry().file_size, 500);
    let mut reader = session(&*target, 0);
    let all: Vec<u8> = (0..12).map(|_| read(&mut *reader).1).collect();
    assert_eq!(all, [0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 0, 1]);
    drop(reader);
    target.close().unwrap();
    let target = open(&job(broker, "kept", "", WRITES), None, "third").unwrap();
    append(&*target, 2);
    target.close().unwrap();
    assert_eq!(broker.offsets("kept", 0), (0, 8), "added to, and still there");
    let mut confirmed = job(broker, "kept", "", WRITES);
    confirmed.target.destroy = true;
    let name = format!("{}/kept", broker.address());
    let target = open(&confirmed, Some(&name), "fourth").unwrap();
    assert_eq!(broker.offsets("kept", 0), (0, 1));
    target.close().unwrap();
    assert!(broker.left("kept").is_empty());
}

/// What a killed run left goes when that is confirmed, unless somebody still writes to it.
fn killed_runs(broker: &KafkaBroker) {
    let target = open(&job(broker, "killed", "", WRITES), None, "killed").unwrap();
    append(&*target, 3);
    std::mem::forget(target);
    refused(open(&job(broker, "killed", "", WRITES), None, "next"), "left by a killed run");
    assert_eq!(broker.offsets("killed", 0), (0, 4), "it may go on");
    let mut confirmed = job(broker, "killed", "", WRITES);
    confirmed.target.destroy = true;
    let name = format!("{}/killed", broker.address());
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                broker.write("killed", b"key", b"value");
            }
        });
        let opened = open(&confirmed, Some(&name), "next");
        over.store(true, Ordering::Relaxed);
        refused(opened, "another run writes");
    });
    let target = open(&confirmed, Some(&name), "next").unwrap();
    assert_eq!(broker.offsets("killed", 0), (0, 1), "begun anew");
    target.close().unwrap();
    assert!(broker.left("killed").is_empty());
}

/// Records of others and doubled ones are passed over and counted; a damaged one fails its read.
fn strange_records(broker: &KafkaBroker) {
    let target = open(&job(broker, "mixed", "read_back = true", BOTH), None, "mine").unwrap();
    let mut reader = session(&*target, 1);
    append(&*target, 3);
    broker.write("mixed", b"key", b"value");
    broker.write_torn("mixed", "another", 0, 3);
    broker.write_torn("mixed", "mine", 0, 1);
    broker.write_torn("mixed", "mine", 0, 5);
    let seen: Vec<(Status, u8)> = (0..4).map(|_| read(&mut *reader)).collect();
    assert_eq!(seen[..3], [(Status::OK, 0), (Status::OK, 1), (Status::OK, 2)]);
    assert_eq!(seen[3].0, Status::VERIFY);
    drop(reader);
    let facts = target.end_facts();
    for (name, value) in [
        ("records.acknowledged", "3"),
        ("records.received", "4"),
        ("records.received.foreign", "2"),
        ("records.received.doubled", "1"),
        ("records.received.missing", "0"),
        ("records.received.torn", "1"),
        ("records.read_back.acknowledged", "3"),
        ("records.read_back.found", "3"),
        ("records.read_back.missing", "0"),
        ("records.read_back.doubled", "1"),
        ("records.read_back.foreign", "2"),
    ] {
        assert_eq!(fact(&facts, name), value, "{name} of {facts:?}");
    }
    let e = target.close().unwrap_err();
    assert!(e.kind() == ErrorKind::Target && e.to_string().contains("not what was written"), "{e}");
    assert!(!broker.left("mixed").is_empty(), "evidence is not deleted");
    refused(open(&job(broker, "mixed", "", WRITES), None, "next"), "left by a killed run");
}

/// A topic that another program wrote to is left, whether its records were read or not.
fn shared_topics(broker: &KafkaBroker) {
    // With retries or without acknowledgements counts tell nothing: the records are looked at.
    for options in ["", "read_back = true", "retries = 3", "acks = 0"] {
        let target = open(&job(broker, "shared", options, WRITES), None, "mine").unwrap();
        append(&*target, 2);
        broker.write("shared", b"key", b"value");
        target.end_facts();
        let e = target.close().unwrap_err();
        assert_eq!(e.kind(), ErrorKind::Target, "{e}");
        assert!(e.to_string().contains("another program wrote"), "{e}");
        assert_eq!(broker.offsets("shared", 0), (0, 4), "left as it is");
        broker.delete_topic("shared");
    }
    for options in ["retries = 3", "acks = 0"] {
        let target = open(&job(broker, "alone", options, WRITES), None, "mine").unwrap();
        append(&*target, 2);
        target.close().unwrap();
        assert!(broker.left("alone").is_empty(), "{options}");
    }
}

/// Acknowledged records that are gone afterwards are counted as missing.
fn lost_records(broker: &KafkaBroker) {
    // The topic is deleted and made again: all records are gone.
    let target = open(&job(broker, "lost", "read_back = true", WRITES), None, "mine").unwrap();
    append(&*target, 4);
    broker.delete_topic("lost");
    broker.make_topic("lost");
    let facts = target.end_facts();
    assert_eq!(fact(&facts, "records.read_back.missing"), "4", "{facts:?}");
    let e = target.close().unwrap_err();
    let says = e.to_string();
    assert!(says.contains("acknowledged records are missing"), "{says}");
    assert!(says.contains("acks = all") && says.contains("record 0 of writer 0"), "{says}");
}

#[test]
fn topics_and_records_on_a_real_broker() {
    let broker = match KafkaBroker::start(&[]) {
        Ok(broker) => broker,
        Err(why) => {
            eprintln!("skipped: topics_and_records_on_a_real_broker: {why}");
            return;
        }
    };
    foreign_topics(&broker);
    kept_topics(&broker);
    killed_runs(&broker);
    strange_records(&broker);
    shared_topics(&broker);
    lost_records(&broker);
}

/// Refusals that need no broker.
#[test]
fn plans_that_are_not_for_a_topic_are_refused() {
    let path = "kafka://127.0.0.1:1/t";
    let refused = |change: &dyn Fn(&mut Plan), says: &str| {
        let mut plan = plan(target("kafka", path, ""), &[OpKind::Write], 100, 1);
        plan.workloads[0].access.kind = AccessKind::Sequential;
        change(&mut plan);
        let e = open(&plan, None, "r").err().unwrap();
        assert!(e.kind() == ErrorKind::Usage && e.to_string().contains(says), "{e}");
    };
    refused(&|plan| plan.workloads[0].access.kind = AccessKind::Random, "in order only");
    refused(&|plan| plan.target.path = Some("localhost".to_owned()), "not the address");
    refused(
        &|plan| {
            let mut reader = plan.workloads[0].clone();
            reader.mix[0].op = OpKind::Read;
            plan.workloads.push(reader);
        },
        "what these write",
    );
}
