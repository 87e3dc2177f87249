//! Bad input and bad servers: one clear error before the run, a status in it.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use taillight_core::{Error, ErrorKind, Op, OpKind, Status};

use taillight_s3test::{Own, Server, Settings, Trouble};

use super::server::{ID, SECRET, free_port, open, open_as, plan, plan_on};
use super::{error, one, put, session};

/// One clear error that says what to do, without secrets.
fn clear(e: &Error, says: &str) {
    assert_eq!(e.kind(), ErrorKind::Unavailable, "{e}");
    let all = format!("{e} | {:?} | {e:?}", e.hint_text());
    assert!(all.contains(says), "{all}");
    assert!(e.hint_text().is_some(), "{all}");
    assert!(!all.contains(SECRET) && !all.contains(ID), "{all}");
}

#[test]
fn wrong_credentials_and_missing_buckets() {
    let store = Server::start();
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
        let (mut peer, _) = strange.accept().unwrap();
        peer.write_all(b"SSH-2.0-OpenSSH_9.2\r\n\r\n").unwrap();
        let _ = peer.read(&mut [0; 4096]);
    });
    clear(&error(&plan(&path, "", 10, 1), None), "http or https");
    speaker.join().unwrap();
}

#[test]
fn a_server_killed_in_the_run_gives_errors_not_an_end() {
    let mut store = Server::start();
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
    assert!(
        seen.contains(&("s3_broken_total".to_owned(), 4.0)),
        "{seen:?}"
    );
    drop(s);
    // Its objects cannot be deleted any more: said, not hidden.
    clear(&target.close().unwrap_err(), "cannot be reached");
}

/// What a stand-in answers: enough to open a prefix, then `answer` to everything else.
fn stand_in(answer: &'static [u8]) -> (String, std::thread::JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("http://{}/bench/p/", listener.local_addr().unwrap());
    let serve = move || {
        // Housekeeping's connection, then the session's.
        for n in 0..2 {
            let (mut peer, _) = listener.accept().unwrap();
            peer.set_read_timeout(Some(Duration::from_secs(10)))
                .unwrap();
            if n == 0 {
                let empty = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
                for _ in 0..3 {
                    read_request(&mut peer);
                    peer.write_all(empty).unwrap();
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

fn read_request(peer: &mut std::net::TcpStream) {
    let mut all = Vec::new();
    let mut some = [0; 4096];
    while !all.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = peer.read(&mut some).unwrap();
        if n == 0 {
            return;
        }
        all.extend_from_slice(&some[..n]);
    }
}

#[test]
fn bad_answers_become_statuses() {
    let cases: [(&'static [u8], Status); 5] = [
        (
            b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\n\r\n",
            Status::STORE,
        ),
        (
            b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n",
            Status::NOT_FOUND,
        ),
        // Ends before its length.
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nshort",
            Status::TIMEOUT,
        ),
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

/// Trouble in the midst of a run, which only our own server makes on demand.
#[test]
fn trouble_in_the_run_is_counted_and_passes() {
    let store = Own::start(Settings::default());
    let late = Duration::from_secs(3);
    for (trouble, kind, wanted, counter) in [
        (
            Trouble::Busy,
            OpKind::Put,
            Status::STORE,
            "s3_http_503_total",
        ),
        (Trouble::Cut, OpKind::Get, Status(104), "s3_broken_total"),
        (
            Trouble::Slow(late),
            OpKind::Get,
            Status::TIMEOUT,
            "s3_timeouts_total",
        ),
    ] {
        let plan = plan(&store.path("p/"), "timeout = \"300ms\"", 1000, 1);
        let target = open(&plan, None).unwrap();
        let mut s = session(target.as_ref(), 1000, 1);
        assert!(put(s.as_mut(), 1, 1000).status.is_ok());
        // The third from now on.
        store.trouble(trouble, store.asked() + 3);
        let op = Op::keyed(kind, 1, 1000);
        let seen: Vec<_> = (0..4).map(|_| one(s.as_mut(), &op).status).collect();
        assert_eq!(
            seen,
            [Status::OK, Status::OK, wanted, Status::OK],
            "{trouble:?}"
        );
        let mut samples = Vec::new();
        target.sample(&mut |name, value| samples.push((name.to_owned(), value)));
        assert!(samples.contains(&(counter.to_owned(), 1.0)), "{samples:?}");
        drop(s);
        target.close().unwrap();
        assert_eq!(store.names("p/"), [""; 0], "left by {trouble:?}");
    }
}
