//! Servers for tests of object stores: MinIO where it is there, else a small one of our own, with
//! the bucket [`BUCKET`] and the credentials [`ID`] and [`SECRET`]. A development dependency
//! (`docs/design/` says why it is here), and no store for anybody's data.
//!
//! Tests and comparisons start one each, on loopback, with data that goes with it.
//! [`ObjectServer::start`] says on standard error which it took. `TAILLIGHT_MINIO` names a MinIO; empty, it
//! hides the one that is cached.

mod api;
mod auth;
mod certs;
mod faulty;
mod http;
mod minio;
mod store;
mod text;

use std::net::TcpListener;
use std::path::PathBuf;

pub use auth::hmac;
pub use certs::Certs;
pub use faulty::{FaultyServer, ServerFault};
pub use minio::MinioServer;

/// Access key id that all of them know.
pub const ID: &str = "taillight-tester";
/// Its secret.
pub const SECRET: &str = "not-to-be-printed-anywhere";
/// The bucket that is there.
pub const BUCKET: &str = "bench";

/// How a server is started.
#[derive(Debug, Default, Clone, Copy)]
pub struct ServerSettings<'a> {
    /// Certificates: it speaks TLS.
    pub certs: Option<&'a Certs>,
    /// Serves `BUCKET.localhost` as well as paths.
    pub domain: bool,
}

/// A running server.
pub enum ObjectServer {
    /// A MinIO in a process of its own.
    Minio(Box<MinioServer>),
    /// Our own, in threads of this process.
    Faulty(Box<FaultyServer>),
}

impl ObjectServer {
    /// MinIO if it is there, else our own.
    ///
    /// # Panics
    /// When it does not start: a test cannot go on.
    pub fn start() -> ObjectServer {
        ObjectServer::start_with(ServerSettings::default())
    }

    /// [`ObjectServer::start`] with settings.
    ///
    /// # Panics
    /// As there.
    pub fn start_with(settings: ServerSettings<'_>) -> ObjectServer {
        match minio::program() {
            Some(program) => {
                eprintln!("S3 server: MinIO ({})", shown(&program));
                ObjectServer::Minio(Box::new(MinioServer::start(&program, settings)))
            }
            None => {
                eprintln!("S3 server: our own, there is no MinIO (see docs/s3.md)");
                ObjectServer::Faulty(Box::new(FaultyServer::start(settings)))
            }
        }
    }

    /// Where it listens on 127.0.0.1.
    pub fn port(&self) -> u16 {
        match self {
            ObjectServer::Minio(minio) => minio.port(),
            ObjectServer::Faulty(faulty) => faulty.port(),
        }
    }

    /// `http(s)://127.0.0.1:PORT/BUCKET/prefix`.
    pub fn path(&self, prefix: &str) -> String {
        let tls = match self {
            ObjectServer::Minio(minio) => minio.tls(),
            ObjectServer::Faulty(faulty) => faulty.tls(),
        };
        let scheme = if tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/{BUCKET}/{prefix}", self.port())
    }

    /// Names of the objects whose names begin like this, in order.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        match self {
            ObjectServer::Minio(minio) => minio.names(prefix),
            ObjectServer::Faulty(faulty) => faulty.names(prefix),
        }
    }

    /// Whether an object is there whose name begins like this.
    pub fn holds(&self, prefix: &str) -> bool {
        !self.names(prefix).is_empty()
    }

    /// What it calls itself in answers.
    pub fn word(&self) -> &'static str {
        match self {
            ObjectServer::Minio(_) => "MinIO",
            ObjectServer::Faulty(_) => faulty::WORD,
        }
    }

    /// Ends it at once, in the midst of whatever it does.
    pub fn kill(&mut self) {
        match self {
            ObjectServer::Minio(minio) => minio.kill(),
            ObjectServer::Faulty(faulty) => faulty.kill(),
        }
    }
}

/// A MinIO that is there: `TAILLIGHT_MINIO`, or what `cargo xtask setup` keeps under the home
/// folder.
pub fn minio_program() -> Option<PathBuf> {
    minio::program()
}

/// A port that nobody listens on, at this moment.
///
/// # Panics
/// When the system gives none.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The last two parts of a path: its version and name, and nothing of the machine.
fn shown(program: &std::path::Path) -> String {
    let parts: Vec<_> = program.iter().rev().take(2).collect();
    let parts = parts.iter().rev().map(|p| p.to_string_lossy());
    parts.collect::<Vec<_>>().join("/")
}
