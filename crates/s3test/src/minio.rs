//! A MinIO in a process of its own, on loopback, with data that goes with it; killed on drop.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

use crate::{BUCKET, Certs, ID, SECRET, ServerSettings, free_port};

/// Longest wait until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// The server; ends with this value.
pub struct MinioServer {
    child: Child,
    port: u16,
    tls: bool,
    data: tempfile::TempDir,
}

impl Drop for MinioServer {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program, if there is one.
pub fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TAILLIGHT_MINIO") {
        return Some(PathBuf::from(named)).filter(|p| !p.as_os_str().is_empty());
    }
    let cache = PathBuf::from(std::env::var_os("HOME")?).join(".cache/taillight/minio");
    let versions = std::fs::read_dir(cache).ok()?.flatten();
    let mut found: Vec<_> = versions.map(|v| v.path().join("minio")).collect();
    found.retain(|p| p.is_file());
    found.sort();
    found.pop()
}

impl MinioServer {
    /// Starts it and waits until it is ready.
    ///
    /// # Panics
    /// When it does not start.
    pub fn start(program: &Path, settings: ServerSettings<'_>) -> MinioServer {
        // It syncs every object: in memory that costs nothing.
        let memory = Path::new("/dev/shm");
        let data = match memory.is_dir() {
            true => tempfile::tempdir_in(memory),
            false => tempfile::tempdir(),
        };
        let data = data.expect("a directory");
        // A directory is a bucket.
        std::fs::create_dir(data.path().join(BUCKET)).expect("a bucket");
        let port = free_port();
        let mut command = Command::new(program);
        let address = format!("127.0.0.1:{port}");
        command.args(["server", "--quiet", "--address", &address]);
        if let Some(certs) = settings.certs {
            command.arg("--certs-dir").arg(certs.dir());
        }
        command.arg(data.path()).env_clear();
        command.env("HOME", data.path());
        if settings.domain {
            command.env("MINIO_DOMAIN", "localhost");
        }
        command.env("MINIO_ROOT_USER", ID);
        command.env("MINIO_ROOT_PASSWORD", SECRET);
        command.env("MINIO_BROWSER", "off");
        command.env("MINIO_UPDATE", "off");
        let quiet = command.stdin(Stdio::null()).stdout(Stdio::null());
        let child = quiet.stderr(Stdio::null()).spawn();
        let mut minio = MinioServer {
            child: child.unwrap_or_else(|e| panic!("{} does not start: {e}", program.display())),
            port,
            tls: settings.certs.is_some(),
            data,
        };
        minio.wait(settings.certs);
        minio
    }

    /// It listens before its storage is ready; its health says when.
    fn wait(&mut self, certs: Option<&Certs>) {
        let end = Instant::now() + PATIENCE;
        loop {
            let said = match TcpStream::connect(("127.0.0.1", self.port)) {
                Ok(tcp) => match certs {
                    None => healthy(tcp),
                    Some(certs) => encrypted(tcp, certs).and_then(healthy),
                },
                Err(e) => Err(e),
            };
            match said {
                Ok(true) => return,
                Ok(false) | Err(_) if Instant::now() < end => {}
                said => panic!("MinIO is not ready after {PATIENCE:?}: {said:?}"),
            }
            let ended = self.child.try_wait().ok().flatten();
            assert!(ended.is_none(), "MinIO has ended: {ended:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether it speaks TLS.
    pub fn tls(&self) -> bool {
        self.tls
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Names of the objects whose names begin like this, in order: directories with an `xl.meta`.
    pub fn names(&self, prefix: &str) -> Vec<String> {
        let root = self.data.path().join(BUCKET);
        let mut names = Vec::new();
        walk(&root, &root, &mut names);
        names.retain(|n| n.starts_with(prefix));
        names.sort();
        names
    }

    /// Ends it at once.
    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn walk(root: &Path, dir: &Path, names: &mut Vec<String>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for path in entries.flatten().map(|e| e.path()) {
        if path.join("xl.meta").is_file() {
            let name = path.strip_prefix(root).unwrap_or(&path);
            names.push(name.to_string_lossy().into_owned());
        } else if path.is_dir() {
            walk(root, &path, names);
        }
    }
}

/// Whether it says that it can write.
fn healthy(mut stream: impl Read + Write) -> io::Result<bool> {
    stream.write_all(
        b"GET /minio/health/cluster HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n",
    )?;
    let mut head = [0; 12];
    stream.read_exact(&mut head)?;
    Ok(&head[9..] == b"200")
}

fn encrypted(
    tcp: TcpStream,
    certs: &Certs,
) -> io::Result<StreamOwned<ClientConnection, TcpStream>> {
    let mut roots = RootCertStore::empty();
    let ca = CertificateDer::from_pem_file(certs.ca()).map_err(io::Error::other)?;
    roots.add(ca).map_err(io::Error::other)?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(io::Error::other)?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let name = ServerName::try_from("127.0.0.1").map_err(io::Error::other)?;
    let client = ClientConnection::new(Arc::new(config), name).map_err(io::Error::other)?;
    Ok(StreamOwned::new(client, tcp))
}
