//! Records on Redis that a killed run left or an earlier run kept, and keys of others among them.

use taillight_core::plan::BlockSize;
use taillight_core::units::ByteSize;
use taillight_core::{ErrorKind, Op, OpKind};
use taillight_driver::conformance::one;

use super::{TemporaryRedis, key_of, open, session, typed, written};

/// In place of kept records stands what somebody else has put there since.
#[test]
fn kept_records_that_somebody_replaced_are_refused() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let mut plan = typed(&server, "keep = true");
    // A run that deletes does not leave its records to later ones.
    plan.workloads[0].mix.retain(|part| part.op != OpKind::Delete);
    let (target, ours) = written(&server, &plan, 5);
    target.keyed().unwrap().loaded(5).unwrap();
    target.close().unwrap();
    // A key that has no record's name is in nobody's way.
    server.cli(&["SET", "taillight:mine", "precious"]);
    open(&plan, None).unwrap().close().unwrap();
    let (later, key) = (key_of(&plan, 1_000_000), ours[2].as_str());
    let mark = "taillight:taillight-owner";
    let list: [&[&str]; 3] = [
        &["SET", key, "precious"],
        &["HSET", key, "a", "b"],
        &["SET", &later, "inserts come here"],
    ];
    for theirs in list {
        server.cli(&["DEL", theirs[1]]);
        server.cli(theirs);
        let now = || {
            ["GET", "TYPE"].map(|ask| server.cli(&[ask, theirs[1]]) + &server.cli(&["GET", mark]))
        };
        let before = now();
        let e = open(&plan, None).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(theirs[1]), "{e}");
        assert_eq!(now(), before);
        let mut reads = plan.clone();
        reads.workloads[0].mix.retain(|part| part.op == OpKind::Get);
        open(&reads, None).unwrap().close().unwrap();
        server.cli(&["DEL", theirs[1]]);
        server.cli(&["SET", key, &"x".repeat(400)]);
    }
    // What a later run writes is Taillight's as well.
    let mut shorter = plan.clone();
    shorter.workloads[0].block_size = BlockSize::Fixed(ByteSize(100));
    let target = open(&shorter, None).unwrap();
    let mut s = session(target.as_ref(), 1);
    assert!(one(s.as_mut(), &Op::keyed(OpKind::Put, 1, 100)).status.is_ok());
    drop(s);
    target.close().unwrap();
    for again in [&plan, &shorter] {
        assert_eq!(open(again, None).unwrap().keyed().unwrap().records(), 5);
    }
    // A mark of an earlier version does not say the lengths of records; their type is known.
    let written = server.cli(&["GET", mark]);
    let mut earlier: serde_json::Value = serde_json::from_str(&written).unwrap();
    earlier.as_object_mut().unwrap().remove("written").unwrap();
    server.cli(&["SET", mark, &earlier.to_string()]);
    server.cli(&["SET", key, "any length"]);
    open(&plan, None).unwrap().close().unwrap();
    server.cli(&["DEL", key]);
    server.cli(&["LPUSH", key, "precious"]);
    assert_eq!(open(&plan, None).err().unwrap().kind(), ErrorKind::Refused);
}

#[test]
fn what_a_killed_run_left_goes_and_nothing_else() {
    let server = or_skip!(TemporaryRedis::start(&[]));
    let plan = typed(&server, "");
    let (target, ours) = written(&server, &plan, 5);
    let mark = server.cli(&["GET", "taillight:taillight-owner"]);
    target.close().unwrap();
    let value = "x".repeat(400);
    let leave = || {
        server.cli(&["FLUSHALL"]);
        server.cli(&["SET", "taillight:taillight-owner", &mark]);
        ours.iter().for_each(|key| drop(server.cli(&["SET", key, &value])));
    };
    let list: [&[&str]; 3] = [
        &["SET", "taillight:mine", "precious"],
        // A record's name with another value, and another type.
        &["SET", &ours[2], "precious"],
        &["HSET", "taillight:user1", "a", "b"],
    ];
    for theirs in list {
        leave();
        server.cli(theirs);
        let before = server.cli(&["DBSIZE"]);
        let e = open(&plan, None).err().unwrap();
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(theirs[1]), "{e}");
        assert_eq!(server.cli(&["DBSIZE"]), before);
    }
    leave();
    // Also when the plan names its keys in another way.
    let other = server.plan("", 1, false);
    let target = open(&other, None).unwrap();
    assert_eq!(server.cli(&["KEYS", "*"]), "taillight:taillight-owner");
    target.close().unwrap();
    assert_eq!(server.cli(&["DBSIZE"]), "0");
}
