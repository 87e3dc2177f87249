//! Servers whose TLS does not hold: each reason has a hint of its own.

use std::io::{Read, Write};
use std::net::TcpListener;

use taillight_s3test::{Certs, FaultyServer, ServerSettings};

use super::bad::{accept, clear};
use super::error;
use super::server::plan;

/// The hint for a server with this certificate, asked as `https://HOST:PORT/...`.
fn hint(names: &str, days: i32, host: &str, addressing: &str) -> Option<String> {
    let Some(certs) = Certs::make_for(names, days) else {
        eprintln!("skipped: no openssl program to make certificates with");
        return None;
    };
    let own = FaultyServer::start(ServerSettings {
        certs: Some(&certs),
        domain: addressing == "virtual",
    });
    let path = format!("https://{host}:{}/bench/p/", own.port());
    let options = format!("ca = \"{}\"\naddressing = \"{addressing}\"", certs.ca().display());
    let e = error(&plan(&path, &options, 10, 1), None);
    clear(&e, "certificate");
    assert!(own.names("p/").is_empty(), "nothing is written");
    e.hint_text().map(str::to_owned)
}

#[test]
fn a_certificate_for_another_name_says_which_to_use() {
    if let Some(hint) = hint("DNS:store.example", 2, "127.0.0.1", "path") {
        assert!(hint.contains("name the server as"), "{hint}");
    }
    // The bucket before the host is not in the certificate, as for buckets with dots.
    if let Some(hint) = hint("IP:127.0.0.1,DNS:localhost", 2, "localhost", "virtual") {
        assert!(hint.contains("options.addressing = \"path\""), "{hint}");
    }
}

#[test]
fn a_certificate_that_expired_is_to_be_renewed() {
    if let Some(hint) = hint("IP:127.0.0.1", -1, "127.0.0.1", "path") {
        assert!(hint.contains("renew"), "{hint}");
    }
}

#[test]
fn a_server_without_tls_is_said_to_have_none() {
    let Some(certs) = Certs::make() else {
        eprintln!("skipped: no openssl program to make certificates with");
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let path = format!("https://{}/bench/p/", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || {
        let mut peer = accept(&listener);
        let _ = peer.read(&mut [0; 4096]);
        peer.write_all(b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n").unwrap();
        let _ = peer.read(&mut [0; 4096]);
    });
    let ca = format!("ca = \"{}\"", certs.ca().display());
    let e = error(&plan(&path, &ca, 10, 1), None);
    clear(&e, "http://");
    assert!(e.hint_text().unwrap().contains("speak no TLS"), "{e}");
    server.join().unwrap();
}
