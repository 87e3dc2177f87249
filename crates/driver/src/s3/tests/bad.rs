//! Bad input and bad servers: before the run they give one clear error, during the run a status. `ObjectServer` is MinIO
//! where that is there and can only be killed; `FaultyServer`, our own, also makes single faults.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use taillight_core::{Error, ErrorKind, Op, OpKind, Status};

use taillight_s3test::{FaultyServer, ObjectServer, ServerFault, ServerSettings};

use super::server::{ID, SECRET, free_port, open, open_as, open_until, plan, plan_on};
use super::{error, one, put, session};
use crate::kv::redis::testing::{cut_short, peer};

/// Asserts that the error is `Unavailable`, has these words and a hint, and shows no secret.
pub fn clear(e: &Error, says: &str) {
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    let all = format!("{e} | {:?} | {e:?}", e.hint_text());
    assert!(all.contains(says), "{all}");
    assert!(e.hint_text().is_some(), "{all}");
    assert!(!all.contains(SECRET) && !all.contains(ID), "{all}");
}

#[test]
fn wrong_credentials_and_missing_buckets() {
    let store = ObjectServer::start();
    let plan_ = plan_on(&store, "", "p/", 10, 1);
    let wrong = "wrong-and-not-to-be-shown";
    let e = open_as(&plan_, None, wrong).err().unwrap();
    clear(&e, "SignatureDoesNotMatch");
    assert!(!e.to_string().contains(wrong));
    let path = store.path("p/").replace("/bench/", "/nothere/");
    clear(&error(&plan(&path, "", 10, 1), None), "NoSuchBucket");
}

#[test]
fn endpoints_that_are_not_there_or_slow() {
    let dead = format!("http://127.0.0.1:{}/bench/p/", free_port());
    clear(&error(&plan(&dead, "", 10, 1), None), "Connection refused");
    // Accepts, and never says a word.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("http://{}/bench/p/", silent.local_addr().unwrap());
    let e = error(&plan(&path, "timeout = \"200ms\"", 10, 1), None);
    clear(&e, "does not answer in time");
    // Speaks something else.
    let strange = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("http://{}/bench/p/", strange.local_addr().unwrap());
    let speaker = std::thread::spawn(move || {
        let mut peer = accept(&strange);
        peer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").unwrap();
        let _ = peer.read(&mut [0; 4096]);
    });
    clear(&error(&plan(&path, "", 10, 1), None), "http or https");
    speaker.join().unwrap();
}

#[test]
fn no_peer_holds_up_the_opening() {
    let slow = Duration::from_millis(100);
    let endless = b"HTTP/1.1 200 OK\r\nContent-Length: 500000\r\n\r\n";
    let chunk = &[b'x'; 4096][..];
    for (first, more, pause) in [
        (&b""[..], &b""[..], slow),
        (endless, b"x", slow),
        (b"HTTP/1.1 200 OK\r\n\r\n", chunk, Duration::ZERO),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n", Duration::ZERO),
    ] {
        let path = format!("http://{}/bench/p/", peer(first, more, pause));
        let errors = cut_short(|timeout, stop| {
            let plan = plan(&path, &format!("timeout = \"{timeout}\""), 10, 1);
            open_until(&plan, None, SECRET, stop).map(drop)
        });
        errors.iter().for_each(|e| assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}"));
    }
}

#[test]
fn a_server_killed_in_the_run_gives_errors_not_an_end() {
    let mut store = ObjectServer::start();
    let target = open(&plan_on(&store, "timeout = \"2s\"", "p/", 1000, 1), None).unwrap();
    let mut s = session(target.as_ref(), 1000, 1);
    assert!(put(s.as_mut(), 1, 1000).status.is_ok());
    store.kill();
    for key in 2..6 {
        let c = put(s.as_mut(), key, 1000);
        assert!(c.status > Status::OK && c.moved == 0, "{c:?}");
        assert_eq!(c.retries, 0);
    }
    let mut seen = Vec::new();
    target.sample(&mut |name, value| seen.push((name.to_owned(), value)));
    assert!(seen.contains(&("s3_broken_total".to_owned(), 4.0)), "{seen:?}");
    drop(s);
    // Its objects cannot be deleted any more: said, not hidden.
    clear(&target.close().unwrap_err(), "cannot be reached");
}

/// An answer that lists nothing of the bucket.
pub const EMPTY: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 59\r\n\r\n\
    <ListBucketResult><Name>bench</Name></ListBucketResult>    ";

/// What a stand-in answers: enough to open a prefix, then `answer` to everything else.
fn stand_in(answer: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("http://{}/bench/p/", listener.local_addr().unwrap());
    let serve = move || {
        // Housekeeping's connection (the driver's own, beside the load: a list and the owner mark), then the session's.
        for n in 0..2 {
            let mut peer = accept(&listener);
            if n == 0 {
                for _ in 0..2 {
                    read_request(&mut peer);
                    peer.write_all(EMPTY).unwrap();
                }
                continue;
            }
            read_request(&mut peer);
            peer.write_all(answer).unwrap();
            let _ = peer.read(&mut [0; 64]);
        }
    };
    (path, std::thread::spawn(serve))
}

/// The next connection; both it and what comes on it are waited for 10 s at most.
pub fn accept(listener: &TcpListener) -> TcpStream {
    let until = Instant::now() + Duration::from_secs(10);
    listener.set_nonblocking(true).unwrap();
    loop {
        match listener.accept() {
            Ok((peer, _)) => {
                peer.set_nonblocking(false).unwrap();
                peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
                return peer;
            }
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                assert!(Instant::now() < until, "no connection came");
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(e) => panic!("{e}"),
        }
    }
}

/// A request; gives its body, nothing where the other end hung up.
pub fn read_request(peer: &mut TcpStream) -> Vec<u8> {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    loop {
        let head = all.windows(4).position(|w| w == b"\r\n\r\n");
        let body = head.map(|at| {
            let text = String::from_utf8_lossy(&all[..at]).to_lowercase();
            let length = text.lines().find_map(|line| line.strip_prefix("content-length:"));
            (at + 4, length.and_then(|n| n.trim().parse().ok()).unwrap_or(0))
        });
        if let Some((from, length)) = body
            && all.len() >= from + length
        {
            return all.split_off(from);
        }
        let n = peer.read(&mut some).unwrap();
        if n == 0 {
            return Vec::new();
        }
        all.extend_from_slice(&some[..n]);
    }
}

#[test]
fn bad_answers_become_statuses() {
    let cases: [(&'static [u8], Status); 5] = [
        (b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n", Status::STORE),
        (b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", Status::NOT_FOUND),
        // Ends before its length.
        (b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort", Status::TIMEOUT),
        (b"", Status::TIMEOUT),
        (b"garbage\r\n\r\n", Status(71)),
    ];
    for (answer, wanted) in cases {
        let (path, server) = stand_in(answer);
        let target = open(&plan(&path, "timeout = \"300ms\"", 10, 1), None).unwrap();
        let mut s = session(target.as_ref(), 10, 1);
        let c = one(s.as_mut(), &Op::keyed(OpKind::Get, 1, 0));
        assert_eq!(c.status, wanted, "{:?}", String::from_utf8_lossy(answer));
        drop(s);
        server.join().unwrap();
        // Housekeeping cannot clean up: the stand-in is gone.
        let _ = target.close();
    }
}

/// Faults in the midst of a run, which only our own server makes on demand.
#[test]
fn trouble_in_the_run_is_counted_and_passes() {
    let store = FaultyServer::start(ServerSettings::default());
    let late = Duration::from_secs(3);
    for (fault, kind, wanted, counter) in [
        (ServerFault::Busy, OpKind::Put, Status::STORE, "s3_http_503_total"),
        (ServerFault::Cut, OpKind::Get, Status(104), "s3_broken_total"),
        (ServerFault::Slow(late), OpKind::Get, Status::TIMEOUT, "s3_timeouts_total"),
    ] {
        let plan = plan(&store.path("p/"), "timeout = \"300ms\"", 1000, 1);
        let target = open(&plan, None).unwrap();
        let mut s = session(target.as_ref(), 1000, 1);
        assert!(put(s.as_mut(), 1, 1000).status.is_ok());
        // Only the third of the following requests; the fourth is served again.
        store.inject(fault, store.asked() + 3);
        let op = Op::keyed(kind, 1, 1000);
        let seen: Vec<_> = (0..4).map(|_| one(s.as_mut(), &op).status).collect();
        assert_eq!(seen, [Status::OK, Status::OK, wanted, Status::OK], "{fault:?}");
        let mut samples = Vec::new();
        target.sample(&mut |name, value| samples.push((name.to_owned(), value)));
        assert!(samples.contains(&(counter.to_owned(), 1.0)), "{samples:?}");
        drop(s);
        target.close().unwrap();
        assert_eq!(store.names("p/"), [""; 0], "left by {fault:?}");
    }
}

/// Stores hang up on connections without requests: no request of the run may meet such a one.
#[test]
fn connections_that_ended_while_idle_are_not_used() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("http://{}/bench/p/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let answer = |peer: &mut TcpStream, requests: u32| {
            for _ in 0..requests {
                read_request(peer);
                peer.write_all(EMPTY).unwrap();
            }
        };
        // A list and the owner mark; a put on each of two connections; the mark, a list and a deletion.
        let mut kept = accept(&listener);
        answer(&mut kept, 1);
        let mark = read_request(&mut kept);
        kept.write_all(EMPTY).unwrap();
        for _ in 0..2 {
            answer(&mut accept(&listener), 1);
        }
        read_request(&mut kept);
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", mark.len());
        kept.write_all(&[head.as_bytes(), &mark].concat()).unwrap();
        answer(&mut kept, 2);
    });
    let target = open(&plan(&path, "timeout = \"5s\"", 10, 1), None).unwrap();
    let mut s = session(target.as_ref(), 10, 1);
    for key in 0..2 {
        assert_eq!(put(s.as_mut(), key, 10).status, Status::OK);
        std::thread::sleep(Duration::from_millis(300));
    }
    drop(s);
    target.close().unwrap();
    server.join().unwrap();
}

/// Where the target cannot be cleaned up, the error says what is left: the owner mark alone, or objects.
#[test]
fn leftovers_are_told_apart() {
    for (key, wanted) in [(None, "only the owner mark"), (Some(1), "objects under")] {
        let mut store = ObjectServer::start();
        let target = open(&plan_on(&store, "timeout = \"2s\"", "p/", 10, 1), None).unwrap();
        let mut s = session(target.as_ref(), 10, 1);
        if let Some(key) = key {
            assert!(put(s.as_mut(), key, 10).status.is_ok());
        }
        drop(s);
        store.kill();
        let e = target.close().unwrap_err();
        let all = e.to_string();
        let left = all.split("leftovers").nth(1).unwrap_or_else(|| panic!("{all}"));
        assert!(left.contains(wanted) && left.contains("/bench/p/"), "{all}");
    }
}

/// A listing goes upwards and has at most 1000 keys: scans in reverse or of more are refused before anybody is asked.
#[test]
fn scans_that_no_listing_gives_are_refused() {
    for scan in ["reverse", "max"] {
        let mut plan = plan("http://127.0.0.1:1/bench/p/", "", 10, 1);
        let mut asked = taillight_core::plan::Scan::default();
        match scan {
            "max" => asked.max = 1001,
            _ => asked.reverse = true,
        }
        let w = &mut plan.workloads[0];
        w.scan = Some(asked);
        w.mix.push(taillight_core::plan::MixPart { op: OpKind::Scan, weight: 1 });
        let e = error(&plan, None);
        assert_eq!(e.kind(), ErrorKind::Usage, "{e}");
        assert!(e.hint_text().unwrap().contains("1000"), "{e}");
    }
}

#[test]
fn a_further_endpoint_that_is_dead_is_named() {
    let store = ObjectServer::start();
    let dead = free_port();
    let options = format!("endpoints = [\"127.0.0.1:{dead}\"]");
    let e = error(&plan_on(&store, &options, "p/", 10, 1), None);
    clear(&e, &format!("127.0.0.1:{dead}"));
    assert!(!store.holds("p"), "nothing was written");
}

/// A server that does not know its domain takes the first part of the prefix for the bucket.
#[test]
fn a_server_without_virtual_hosts_is_not_written_to() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let server = std::thread::spawn(move || {
        let mut peer = accept(&listener);
        read_request(&mut peer);
        let body = "<ListAllMyBucketsResult><Buckets><Bucket><Name>p</Name></Bucket></Buckets>\
                    </ListAllMyBucketsResult>";
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        peer.write_all((head + body).as_bytes()).unwrap();
        peer.read(&mut [0; 64]).unwrap_or(0)
    });
    let path = format!("http://localhost:{port}/bench/p/");
    let e = error(&plan(&path, "addressing = \"virtual\"", 10, 1), None);
    clear(&e, "something else than the bucket");
    assert!(e.hint_text().unwrap().contains("MINIO_DOMAIN"));
    assert_eq!(server.join().unwrap(), 0, "nothing is asked after the list");
}

/// An upload in parts whose answer never comes, at the first, the second or the last of its
/// requests.
#[test]
fn uploads_that_were_lost_are_aborted_at_the_end() {
    let size = 11 << 20;
    for keep in [false, true] {
        for (fault, every) in [
            (ServerFault::Slow(Duration::from_millis(900)), 1),
            (ServerFault::Cut, 2),
            (ServerFault::Cut, 5),
        ] {
            let server = FaultyServer::start(ServerSettings::default());
            let options = format!("timeout = \"500ms\"\npart_size = \"5MiB\"\nkeep = {keep}");
            let target = open(&plan(&server.path("p/"), &options, size, 1), None).unwrap();
            let mut s = session(target.as_ref(), size, 1);
            server.inject(fault, every);
            let c = put(s.as_mut(), 1, size);
            server.inject(fault, u64::MAX);
            assert!(!c.status.is_ok(), "{c:?}");
            if let ServerFault::Slow(by) = fault {
                std::thread::sleep(2 * by);
            }
            // The last answer was lost when all was done.
            let left = server.unfinished().len();
            assert_eq!(left, usize::from(every < 5), "{fault:?} at {every}");
            drop(s);
            target.close().unwrap();
            assert!(server.unfinished().is_empty(), "{fault:?} at {every}, keep {keep}");
        }
    }
}

#[test]
fn uploads_that_a_killed_run_left_go_with_its_objects() {
    let server = FaultyServer::start(ServerSettings::default());
    let size = 11 << 20;
    let options = "timeout = \"500ms\"\npart_size = \"5MiB\"";
    let plan = plan(&server.path("p/"), options, size, 1);
    let target = open(&plan, None).unwrap();
    let mut s = session(target.as_ref(), size, 1);
    server.inject(ServerFault::Cut, 2);
    assert!(put(s.as_mut(), 1, size).status > Status::OK);
    server.inject(ServerFault::Cut, u64::MAX);
    drop(s);
    // Killed: nothing of its end happens.
    std::mem::forget(target);
    assert_eq!(server.unfinished().len(), 1);
    let target = open(&plan, None).unwrap();
    assert!(server.unfinished().is_empty());
    target.close().unwrap();
    assert!(server.names("p/").is_empty());
}
