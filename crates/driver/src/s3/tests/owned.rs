//! Whose objects are: what a run deletes is what it wrote, by name and maker.

use std::sync::atomic::{AtomicBool, Ordering};

use taillight_core::{ErrorKind, Op, OpKind};
use taillight_s3test::ObjectServer;

use super::endpoints::store_at;
use super::server::{open, plan_on};
use super::{error, one, put, session};
use crate::contract::{AdminAction, Target};
use crate::ownership::SIDECAR;
use crate::s3::client::{ListedObject, S3Client};

/// Somebody else at the same bucket.
fn somebody(store: &ObjectServer) -> S3Client {
    let at = ([127, 0, 0, 1], store.port()).into();
    store_at(&store.path("p/"), vec![at])
}

/// A target with the objects of `keys` keys written, 10 bytes in each object; and the names of the objects.
fn written(store: &ObjectServer, options: &str, keys: u64) -> (Box<dyn Target>, Vec<String>) {
    let target = open(&plan_on(store, options, "p/", 10, 1), None).unwrap();
    let mut s = session(target.as_ref(), 10, 1);
    (0..keys).for_each(|key| assert!(put(s.as_mut(), key, 10).status.is_ok()));
    drop(s);
    let mut names = store.names("p/");
    names.retain(|name| !name.ends_with(SIDECAR));
    assert_eq!(names.len(), keys as usize);
    (target, names)
}

#[test]
fn what_others_put_under_the_prefix_stays() {
    let store = ObjectServer::start();
    let (target, ours) = written(&store, "", 5);
    let other = somebody(&store);
    for name in ["p/theirs", "p/deep/user1"] {
        other.put(name, b"precious").unwrap();
    }
    let next = ours[0].replace(|c: char| c.is_ascii_digit(), "7");
    other.put(&next, b"named alike").unwrap();
    target.close().unwrap();
    let mut left = store.names("p/");
    left.retain(|name| !name.contains("theirs") && !name.contains("deep"));
    assert_eq!(left, [next]);
}

#[test]
fn an_object_of_anothers_under_a_name_of_the_run_stays_and_is_told() {
    let store = ObjectServer::start();
    let (target, ours) = written(&store, "", 3);
    somebody(&store).put(&ours[1], b"precious").unwrap();
    let e = target.close().unwrap_err();
    assert!(e.kind() == ErrorKind::Target && e.to_string().contains(&ours[1]), "{e}");
    assert_eq!(store.names("p/"), [ours[1].as_str()]);
    assert_eq!(somebody(&store).get(&ours[1]).unwrap().unwrap(), "precious");
}

/// A put whose answer was lost, or two at once: the tag is not known, but the object names its run.
#[test]
fn objects_with_another_tag_go_when_they_name_the_run() {
    let store = ObjectServer::start();
    let (target, ours) = written(&store, "", 3);
    let run = somebody(&store);
    run.maker.set("test".to_owned()).unwrap();
    run.put(&ours[2], b"a later one").unwrap();
    target.admin(AdminAction::Purge).unwrap();
    target.close().unwrap();
    assert_eq!(store.names("p/"), [""; 0]);
}

#[test]
fn what_a_killed_run_left_goes_and_nothing_else() {
    let store = ObjectServer::start();
    let (killed, ours) = written(&store, "", 4);
    std::mem::forget(killed);
    let plan = plan_on(&store, "", "p/", 10, 1);
    let before = store.names("p/");
    // Named as a record would be, but nobody's of the run.
    let next = ours[0].replace(|c: char| c.is_ascii_digit(), "7");
    let other = somebody(&store);
    for name in [next.as_str(), "p/other"] {
        other.put(name, b"precious").unwrap();
        let e = error(&plan, None);
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(name), "{e}");
        assert_eq!(store.names("p/").len(), before.len() + 1, "nothing went");
        let gone = ListedObject { name: name.to_owned(), etag: String::new() };
        assert!(other.delete(&[gone]).unwrap().is_empty());
    }
    let again = open(&plan, None).unwrap();
    assert_eq!(store.names("p/").len(), 1, "only the owner mark");
    again.close().unwrap();
    assert_eq!(store.names("p/"), [""; 0]);
}

/// Objects that were kept, and that somebody has put another one in the place of since.
#[test]
fn kept_objects_that_somebody_replaced_are_refused() {
    let store = ObjectServer::start();
    let (target, ours) = written(&store, "keep = true", 20);
    target.close().unwrap();
    let plan = plan_on(&store, "", "p/", 10, 1);
    let other = somebody(&store);
    // Names that no record has are nobody's to overwrite.
    other.put("p/theirs", b"precious").unwrap();
    open(&plan, None).unwrap().close().unwrap();
    let later = ours[0].replace(|c: char| c.is_ascii_digit(), "7");
    for name in [&later, &ours[17]] {
        other.put(name, b"0123456789").unwrap();
        let mark = || other.get(&format!("p/{SIDECAR}")).unwrap();
        let before = mark();
        let e = error(&plan, None);
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(name.as_str()), "{e}");
        assert_eq!((mark(), other.get(name).unwrap().unwrap().as_str()), (before, "0123456789"));
        let mut reads = plan.clone();
        reads.workloads[0].mix.retain(|part| part.op == OpKind::Get);
        open(&reads, None).unwrap().close().unwrap();
        let gone = ListedObject { name: name.clone(), etag: String::new() };
        assert!(other.delete(&[gone]).unwrap().is_empty());
    }
    open(&plan, None).unwrap().close().unwrap();
}

#[test]
fn a_prefix_that_another_run_took_over_is_left_alone() {
    let store = ObjectServer::start();
    let (target, ours) = written(&store, "", 3);
    let (other, name) = (somebody(&store), format!("p/{SIDECAR}"));
    let mark = other.get(&name).unwrap().unwrap();
    let theirs = mark.replace("\"test\"", "\"theirs\"");
    assert_ne!(mark, theirs);
    other.put(&name, theirs.as_bytes()).unwrap();
    let e = target.close().unwrap_err();
    assert_eq!(e.kind(), ErrorKind::Target, "{e}");
    assert_eq!(store.names("p/").len(), ours.len() + 1);
    assert_eq!(other.get(&name).unwrap().unwrap(), theirs);
}

#[test]
fn without_its_mark_nothing_under_a_prefix_goes() {
    let store = ObjectServer::start();
    let (target, ours) = written(&store, "", 3);
    let mark = ListedObject { name: format!("p/{SIDECAR}"), etag: String::new() };
    assert!(somebody(&store).delete(&[mark]).unwrap().is_empty());
    let e = target.admin(AdminAction::Purge).unwrap_err();
    assert!(e.kind() == ErrorKind::Target && e.to_string().contains("is gone"), "{e}");
    assert_eq!(target.close().unwrap_err().kind(), ErrorKind::Target);
    assert_eq!(store.names("p/").len(), ours.len());
    // Where somebody deleted all, nothing is left.
    let store = ObjectServer::start();
    let (target, _) = written(&store, "", 3);
    let gone = |name| ListedObject { name, etag: String::new() };
    let all: Vec<_> = store.names("p/").into_iter().map(gone).collect();
    assert!(somebody(&store).delete(&all).unwrap().is_empty());
    target.close().unwrap();
}

#[test]
fn prefixes_inside_each_other_clash() {
    let store = ObjectServer::start();
    for (there, asked) in [("x/", "x/y/"), ("x/", "x/y/z/"), ("x/y/", "x/")] {
        let first = open(&plan_on(&store, "", there, 10, 1), None).unwrap();
        let e = error(&plan_on(&store, "", asked, 10, 1), None);
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(&format!("{there}.taillight")), "{e}");
        first.close().unwrap();
        open(&plan_on(&store, "", asked, 10, 1), None).unwrap().close().unwrap();
    }
    let beside = open(&plan_on(&store, "", "x/", 10, 1), None).unwrap();
    open(&plan_on(&store, "", "xx/", 10, 1), None).unwrap().close().unwrap();
    beside.close().unwrap();
}

#[test]
fn an_owner_object_that_is_none_is_refused_and_stays() {
    let store = ObjectServer::start();
    let name = "p/.taillight-owner.json";
    let mut plan = plan_on(&store, "", "p/", 10, 1);
    plan.target.destroy = true;
    let path = plan.target.path.clone().unwrap();
    let large = vec![b'x'; 9 << 20];
    for body in [&large[..], &large[..65 << 10], b"\xff\xfe no text"] {
        somebody(&store).put(name, body).unwrap();
        let e = error(&plan, Some(&path));
        assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
        assert!(e.to_string().contains(name), "{e}");
        let there = somebody(&store).head(name).unwrap().unwrap();
        assert_eq!(there.size, body.len() as u64);
    }
}

/// Objects that appear at any moment of a run that begins and ends: none is lost. Each round has a prefix
/// of its own, since one with something in it is refused.
#[test]
fn two_hundred_races_lose_no_object() {
    let store = ObjectServer::start();
    for round in 0..200 {
        let prefix = format!("race/{round}/");
        let ended = AtomicBool::new(false);
        let made = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                let (client, mut made) = (somebody(&store), Vec::new());
                while !ended.load(Ordering::Relaxed) && made.len() < 20_000 {
                    made.push(format!("{prefix}theirs-{}", made.len()));
                    client.put(&made[made.len() - 1], b"precious").unwrap();
                }
                made
            });
            // Refused when the other was faster.
            if let Ok(target) = open(&plan_on(&store, "", &prefix, 10, 1), None) {
                let mut s = session(target.as_ref(), 10, 1);
                assert!(one(s.as_mut(), &Op::keyed(OpKind::Put, 1, 10)).status.is_ok());
                drop(s);
                target.close().unwrap();
            }
            ended.store(true, Ordering::Relaxed);
            other.join().unwrap()
        });
        let mut there = store.names(&prefix);
        there.sort();
        let mut made = made;
        made.sort();
        assert_eq!(there, made, "round {round}");
    }
}
