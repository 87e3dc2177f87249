//! Several endpoints and several addresses: which of them are used, and that an endpoint of another store is refused.
//! Also when housekeeping uses its connection again.

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use taillight_core::{Error, ErrorKind};
use taillight_s3test::{FaultyServer, ObjectServer, ServerSettings};

use super::bad::{EMPTY, accept, clear, read_request};
use super::server::{ID, SECRET, free_port, open, plan, plan_on};
use super::{error, put, session};
use crate::options::DriverOptions;
use crate::s3::client::S3Client;
use crate::s3::credentials::Credentials;
use crate::s3::{location::PrefixLocation, options::S3Options};

/// Asserts that the error refuses the endpoint at this port as one of another store.
fn elsewhere(e: &Error, port: u16) {
    assert_eq!(e.kind(), ErrorKind::Refused, "{e}");
    assert!(e.message().contains("another store"), "{e}");
    assert!(e.to_string().contains(&format!("127.0.0.1:{port}")), "{e}");
    assert!(e.hint_text().unwrap().contains("options.endpoints"));
}

fn with(port: u16, keep: bool) -> String {
    format!("endpoints = [\"127.0.0.1:{port}\"]\nkeep = {keep}")
}

#[test]
fn an_endpoint_of_another_store_is_refused_and_not_written_to() {
    let (first, second) = (ObjectServer::start(), ObjectServer::start());
    let e = error(&plan_on(&first, &with(second.port(), false), "p/", 10, 1), None);
    elsewhere(&e, second.port());
    assert!(!first.holds("p/"), "the mark goes again");
    assert!(!second.holds("p/"));
}

#[test]
fn objects_that_only_a_further_endpoint_has_are_told_before_anything_is_written() {
    let (first, second) = (ObjectServer::start(), ObjectServer::start());
    let theirs = plan_on(&second, "keep = true", "p/theirs/", 10, 1);
    open(&theirs, None).unwrap().close().unwrap();
    let before = second.names("p/");
    let mut asked = plan_on(&first, &with(second.port(), false), "p/", 10, 1);
    let e = error(&asked, None);
    elsewhere(&e, second.port());
    assert!(e.to_string().contains(&before[0]), "{e}");
    // `destroy` gives up what the named place holds, and not the objects of another store: refused all the same.
    asked.target.destroy = true;
    let path = asked.target.path.clone().unwrap();
    elsewhere(&error(&asked, Some(&path)), second.port());
    assert!(!first.holds("p/"));
    assert_eq!(second.names("p/"), before);
}

/// What is there stays as it was: records of an earlier run, and objects the user would give up.
#[test]
fn a_refused_endpoint_changes_nothing_on_the_first() {
    let (first, second) = (ObjectServer::start(), ObjectServer::start());
    let kept = plan_on(&first, "keep = true", "p/", 10, 1);
    let target = open(&kept, None).unwrap();
    let mut s = session(target.as_ref(), 10, 1);
    assert!(put(s.as_mut(), 1, 10).status.is_ok());
    drop(s);
    target.keyed().unwrap().loaded(1).unwrap();
    target.close().unwrap();
    let before = first.names("p/");
    let mut asked = plan_on(&first, &with(second.port(), true), "p/", 10, 1);
    elsewhere(&error(&asked, None), second.port());
    asked.target.destroy = true;
    let path = asked.target.path.clone().unwrap();
    elsewhere(&error(&asked, Some(&path)), second.port());
    assert_eq!(first.names("p/"), before);
    assert!(!second.holds("p/"));
    let again = open(&kept, None).unwrap();
    assert_eq!(again.keyed().unwrap().records(), 1, "its mark is as it was");
    again.close().unwrap();
}

pub fn store_at(path: &str, addresses: Vec<SocketAddr>) -> S3Client {
    let options = S3Options::parse("s3", &"timeout = \"5s\"".parse().unwrap()).unwrap();
    let location = PrefixLocation::parse(Some(path), &[]).unwrap();
    let credentials = Credentials::new(ID, SECRET, None);
    S3Client::at(
        location,
        options,
        credentials,
        vec![addresses],
        &taillight_core::StopFlag::default(),
    )
    .unwrap()
}

#[test]
fn every_address_of_a_name_is_tried_and_the_first_that_takes_it_stays() {
    let own = FaultyServer::start(ServerSettings::default());
    let dead: SocketAddr = ([127, 0, 0, 1], free_port()).into();
    let live: SocketAddr = ([127, 0, 0, 1], own.port()).into();
    let store = store_at(&own.path("p/"), vec![dead, live]);
    store.list(&mut |_| Ok(true)).unwrap();
    assert_eq!(store.address(0), live);
    let none = store_at(&own.path("p/"), vec![dead, dead]);
    let e = none.list(&mut |_| Ok(true)).unwrap_err();
    clear(&e, "Connection refused");
}

/// Housekeeping uses its connection for the next request, unless the connection was idle for longer than
/// `S3Client::idle`.
#[test]
fn housekeeping_does_not_use_what_was_idle() {
    for (idle, connections) in [(Duration::ZERO, 3), (Duration::from_secs(60), 1)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let server = std::thread::spawn(move || {
            for _ in 0..connections {
                let mut peer = accept(&listener);
                for _ in 0..3 / connections {
                    read_request(&mut peer);
                    peer.write_all(EMPTY).unwrap();
                }
            }
        });
        let mut store = store_at(&format!("http://{at}/bench/p/"), vec![at]);
        store.idle = idle;
        for _ in 0..3 {
            store.list(&mut |_| Ok(true)).unwrap();
        }
        server.join().unwrap();
    }
}

/// Housekeeping, too, does not send a request again that was answered with garbage.
#[test]
fn housekeeping_is_not_sent_twice() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listener.local_addr().unwrap();
    let server = std::thread::spawn(move || {
        let mut peer = accept(&listener);
        for answer in [EMPTY, b"garbage\r\n\r\n"] {
            read_request(&mut peer);
            peer.write_all(answer).unwrap();
        }
        // Both answers were sent; the garbage is an error, and no second connection comes.
        (peer, listener)
    });
    let store = store_at(&format!("http://{at}/bench/p/"), vec![at]);
    store.list(&mut |_| Ok(true)).unwrap();
    clear(&store.list(&mut |_| Ok(true)).unwrap_err(), "http or https");
    let (_peer, listener) = server.join().unwrap();
    let more = listener.accept().map(|_| ()).unwrap_err();
    assert_eq!(more.kind(), std::io::ErrorKind::WouldBlock);
}

/// The run connects to the address that took housekeeping's connection.
#[test]
fn a_name_in_the_run_leads_where_housekeeping_went() {
    let own = FaultyServer::start(ServerSettings::default());
    let path = format!("http://localhost:{}/bench/p/", own.port());
    let target = open(&plan(&path, "", 10, 1), None).unwrap();
    let mut s = session(target.as_ref(), 10, 1);
    assert!(put(s.as_mut(), 1, 10).status.is_ok());
    let at = target.facts().into_iter().find(|(k, _)| k == "s3.addresses");
    assert_eq!(at.unwrap().1, format!("127.0.0.1:{}", own.port()));
    drop(s);
    target.close().unwrap();
    assert_eq!(own.names("p/"), [""; 0]);
}
