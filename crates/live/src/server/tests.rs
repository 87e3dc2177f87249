//! Clients that want to hold the view up, on loopback.

use super::*;

/// Far more than an answer takes, far less than it would wait behind so many idle connections.
const HANG: Duration = Duration::from_secs(4);

fn server() -> LiveServer {
    let address = Some("127.0.0.1:0".to_owned());
    LiveServer::start(&LiveOptions { address, linger: Duration::ZERO }).unwrap()
}

fn ask(server: &LiveServer, path: &str) -> TcpStream {
    let mut client = TcpStream::connect(server.address()).unwrap();
    client.set_read_timeout(Some(HANG)).unwrap();
    write!(client, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    client
}

/// The first bytes of an answer.
fn status(client: &mut TcpStream) -> String {
    let mut bytes = [0; 12];
    client.read_exact(&mut bytes).unwrap();
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn scraped(server: &LiveServer) {
    assert_eq!(status(&mut ask(server, "/metrics")), "HTTP/1.1 200");
}

#[test]
fn streams_of_events_leave_room_for_a_scrape() {
    let server = server();
    let mut pages: Vec<_> = (0..STREAMS).map(|_| ask(&server, "/events")).collect();
    assert!(pages.iter_mut().all(|page| status(page) == "HTTP/1.1 200"));
    let mut refused = ask(&server, "/events");
    let mut said = String::new();
    refused.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.1 503") && said.contains("close one of them"), "{said}");
    scraped(&server);
    // One that closes gives its place to the next.
    drop(pages.pop());
    scraped(&server);
    assert_eq!(status(&mut ask(&server, "/events")), "HTTP/1.1 200");
    server.finish(|| true);
}

#[test]
fn idle_connections_do_not_make_a_scrape_wait() {
    let server = server();
    let connect = |_| TcpStream::connect(server.address()).unwrap();
    let idle: Vec<_> = (0..3 * CONNECTIONS).map(connect).collect();
    scraped(&server);
    // Nor do heads that never end.
    let mut slow: Vec<_> = (0..2 * CONNECTIONS).map(connect).collect();
    for client in &mut slow {
        // The server may have closed it for another one.
        let _ = client.write_all(b"GET / HTTP/1.1\r\nX: ");
    }
    scraped(&server);
    drop((idle, slow));
    server.finish(|| true);
}

#[test]
fn a_client_that_never_stops_sending_holds_nobody_up() {
    let server = server();
    let mut page = ask(&server, "/events");
    assert_eq!(status(&mut page), "HTTP/1.1 200");
    let flood = page.try_clone().unwrap();
    let floods = std::thread::spawn(move || {
        let bytes = vec![b'x'; 1 << 20];
        while (&flood).write_all(&bytes).is_ok() {}
    });
    for _ in 0..20 {
        scraped(&server);
    }
    page.shutdown(std::net::Shutdown::Both).unwrap();
    floods.join().unwrap();
    server.finish(|| true);
}
