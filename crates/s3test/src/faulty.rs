//! Our own small S3 server: a thread a connection, objects in memory, every signature checked; and
//! trouble on purpose, which no real server makes when a test asks for it.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use crate::api::{self, Buckets};
use crate::http::{HttpReply, HttpRequest, RequestReader};
use crate::store::StoredObject;
use crate::{BUCKET, Certs, ID, SECRET, ServerSettings, auth};

/// What it calls itself.
pub const WORD: &str = "TaillightTest";

/// What goes wrong with requests of objects (never of owner marks, listings or deletions of many).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerFault {
    /// The answer comes this much later.
    Slow(Duration),
    /// `503 SlowDown`.
    Busy,
    /// The answer breaks off in its middle, and the connection ends.
    Cut,
    /// The server goes, with all connections.
    Gone,
}

/// When, and what.
#[derive(Debug, Clone, Copy)]
struct FaultPlan {
    fault: ServerFault,
    every: u64,
}

#[derive(Default)]
struct ServerState {
    buckets: Mutex<Buckets>,
    open: Mutex<HashMap<u64, TcpStream>>,
    stopping: AtomicBool,
    port: AtomicU16,
    plan: Mutex<Option<FaultPlan>>,
    objects: AtomicU64,
}

impl ServerState {
    /// No new connections from now on, and an end to those there are.
    fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        // Wakes the accepting thread, which then drops the listener.
        let _ = TcpStream::connect(("127.0.0.1", self.port.load(Ordering::SeqCst)));
        for connection in lock(&self.open).values() {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The server; ends with this value.
pub struct FaultyServer {
    shared: Arc<ServerState>,
    port: u16,
    tls: bool,
    accepting: Option<JoinHandle<()>>,
}

impl Drop for FaultyServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl FaultyServer {
    /// Starts it.
    ///
    /// # Panics
    /// When there is no port, or the certificates cannot be read.
    pub fn start(settings: ServerSettings<'_>) -> FaultyServer {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::new(ServerState::default());
        shared.port.store(port, Ordering::SeqCst);
        lock(&shared.buckets).insert(BUCKET.to_owned(), Default::default());
        let tls = settings.certs.map(config);
        FaultyServer {
            shared: shared.clone(),
            port,
            tls: tls.is_some(),
            accepting: Some(std::thread::spawn(move || accept(&listener, &shared, tls))),
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it speaks TLS.
    pub fn tls(&self) -> bool {
        self.tls
    }

    /// `http(s)://127.0.0.1:PORT/BUCKET/prefix`.
    pub fn path(&self, prefix: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/{BUCKET}/{prefix}", self.port)
    }

    /// Names of the objects whose names begin like this, in order.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let buckets = lock(&self.shared.buckets);
        let names = buckets.values().flat_map(|b| b.objects.keys());
        names.filter(|n| n.starts_with(prefix)).cloned().collect()
    }

    /// Puts an object, as somebody else would: past signatures, faults and the count of requests.
    pub fn put(&self, name: &str, data: &[u8]) {
        let object = StoredObject::new(data.to_vec());
        let mut buckets = lock(&self.shared.buckets);
        buckets.entry(BUCKET.to_owned()).or_default().objects.insert(name.to_owned(), object);
    }

    /// Names of the objects whose uploads are unfinished.
    pub fn unfinished(&self) -> Vec<String> {
        let buckets = lock(&self.shared.buckets);
        buckets.values().flat_map(|b| b.uploads.values()).map(|u| u.key.clone()).collect()
    }

    /// What an object holds.
    pub fn object(&self, name: &str) -> Option<Vec<u8>> {
        let buckets = lock(&self.shared.buckets);
        let object = buckets.get(BUCKET)?.objects.get(name)?;
        Some(object.data.to_vec())
    }

    /// Removes an object, as somebody else would.
    pub fn remove(&self, name: &str) {
        if let Some(bucket) = lock(&self.shared.buckets).get_mut(BUCKET) {
            bucket.objects.remove(name);
        }
    }

    /// From now on, every so-many-th request of an object meets this trouble.
    pub fn inject(&self, fault: ServerFault, every: u64) {
        let every = every.max(1);
        *lock(&self.shared.plan) = Some(FaultPlan { fault, every });
    }

    /// Requests of objects so far.
    pub fn asked(&self) -> u64 {
        self.shared.objects.load(Ordering::Relaxed)
    }

    /// Ends it at once: connections break in the midst of whatever they do.
    pub fn kill(&mut self) {
        let Some(accepting) = self.accepting.take() else {
            return;
        };
        self.shared.stop();
        let _ = accepting.join();
    }
}

fn config(certs: &Certs) -> Arc<ServerConfig> {
    let chain = CertificateDer::pem_file_iter(certs.dir().join("public.crt"));
    let chain = chain.expect("a file").collect::<Result<_, _>>();
    let key = PrivateKeyDer::from_pem_file(certs.dir().join("private.key"));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("TLS")
        .with_no_client_auth()
        .with_single_cert(chain.expect("certificates"), key.expect("a key"));
    Arc::new(config.expect("a certificate and its key"))
}

fn accept(listener: &TcpListener, shared: &Arc<ServerState>, tls: Option<Arc<ServerConfig>>) {
    for number in 0.. {
        let Ok((tcp, _)) = listener.accept() else {
            return;
        };
        let (shared, tls) = (shared.clone(), tls.clone());
        if let Ok(copy) = tcp.try_clone() {
            lock(&shared.open).insert(number, copy);
        }
        // It may have been told to stop since: then nobody else ends this connection.
        if shared.stopping.load(Ordering::SeqCst) {
            lock(&shared.open).remove(&number);
            return;
        }
        std::thread::spawn(move || {
            let _ = tcp.set_nodelay(true);
            // A connection that breaks is the client's business.
            let _ = match tls {
                None => serve(tcp, &shared),
                Some(config) => match ServerConnection::new(config) {
                    Ok(connection) => serve(StreamOwned::new(connection, tcp), &shared),
                    Err(_) => Ok(()),
                },
            };
            if let Some(copy) = lock(&shared.open).remove(&number) {
                let _ = copy.shutdown(Shutdown::Both);
            }
        });
    }
}

fn serve(mut stream: impl Read + Write, shared: &ServerState) -> std::io::Result<()> {
    let mut reader = RequestReader::new();
    while let Some(request) = reader.next(&mut stream)? {
        let met = fault(shared, &request);
        if met == Some(ServerFault::Gone) {
            shared.stop();
        }
        if shared.stopping.load(Ordering::SeqCst) {
            return Ok(());
        }
        let reply = match (auth::check(&request, ID, SECRET), met) {
            (Err(refused), _) => refused,
            (Ok(()), Some(ServerFault::Busy)) => HttpReply::error(503, "SlowDown", "too much"),
            (Ok(()), _) => api::answer(&mut lock(&shared.buckets), &request),
        };
        if let Some(ServerFault::Slow(by)) = met {
            std::thread::sleep(by);
        }
        if met == Some(ServerFault::Cut) {
            return reply.send_half(&mut stream);
        }
        reply.send(&mut stream, request.method == "HEAD")?;
    }
    Ok(())
}

/// What this request meets. Owner marks begin with a dot and are left alone.
fn fault(shared: &ServerState, request: &HttpRequest) -> Option<ServerFault> {
    let (_, key) = api::place(request)?;
    let last = key.rsplit('/').next().unwrap_or_default();
    if last.is_empty() || last.starts_with('.') {
        return None;
    }
    let number = shared.objects.fetch_add(1, Ordering::Relaxed);
    let plan = (*lock(&shared.plan))?;
    (number % plan.every == plan.every - 1).then_some(plan.fault)
}
