//! A MinIO of the test's own, on loopback, with temporary data; stopped by its id.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use taillight_core::plan::{Plan, TargetPlan};
use taillight_core::progress::OnProgress;
use taillight_core::{OpKind, Result};

use crate::conformance;
use crate::contract::{Driver, OpenSpec, OptionDoc, Target};
use crate::s3::credentials::Credentials;
use crate::s3::{S3, options, target::S3Target};

pub const ID: &str = "taillight-tester";
pub const SECRET: &str = "not-to-be-printed-anywhere";

/// A running server with the bucket `bench`.
pub struct Minio {
    child: Child,
    pub port: u16,
    pub data: tempfile::TempDir,
    pub tls: bool,
}

impl Drop for Minio {
    fn drop(&mut self) {
        self.kill();
    }
}

/// The program: `TAILLIGHT_MINIO`, or what setup cached under the home folder.
fn program() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os("TAILLIGHT_MINIO") {
        return Some(named.into());
    }
    let cache = PathBuf::from(std::env::var_os("HOME")?).join(".cache/taillight/minio");
    let versions = std::fs::read_dir(cache).ok()?.flatten();
    let mut found: Vec<_> = versions.map(|v| v.path().join("minio")).collect();
    found.retain(|p| p.is_file());
    found.sort();
    found.pop()
}

impl Minio {
    /// Starts one, or says why not.
    pub fn start() -> Option<Minio> {
        Minio::start_with(None)
    }

    /// With certificates from a directory.
    pub fn start_with(certs: Option<&Path>) -> Option<Minio> {
        let Some(program) = program() else {
            eprintln!(
                "skipped: no MinIO; go install github.com/minio/minio into \
                 ~/.cache/taillight/minio/VERSION/, or set TAILLIGHT_MINIO"
            );
            return None;
        };
        let data = tempfile::tempdir().unwrap();
        // A directory is a bucket.
        std::fs::create_dir(data.path().join("bench")).unwrap();
        let port = free_port();
        let mut command = Command::new(program);
        command.args([
            "server",
            "--quiet",
            "--address",
            &format!("127.0.0.1:{port}"),
        ]);
        if let Some(certs) = certs {
            command.arg("--certs-dir").arg(certs);
        }
        let child = command
            .arg(data.path())
            .env_clear()
            .env("HOME", data.path())
            .env("MINIO_ROOT_USER", ID)
            .env("MINIO_ROOT_PASSWORD", SECRET)
            .env("MINIO_BROWSER", "off")
            .env("MINIO_UPDATE", "off")
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let tls = certs.is_some();
        let minio = Minio {
            child,
            port,
            data,
            tls,
        };
        minio.wait();
        Some(minio)
    }

    fn wait(&self) {
        let patience = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            assert!(Instant::now() < patience, "MinIO does not start");
            std::thread::sleep(Duration::from_millis(50));
        }
        if self.tls {
            std::thread::sleep(Duration::from_secs(2));
            return;
        }
        // It listens before its storage is ready.
        let plan = self.plan("", "ready/", 16, 1);
        loop {
            match open(&plan, None) {
                Ok(target) => return target.close().unwrap(),
                Err(e) if Instant::now() > patience => panic!("MinIO is not ready: {e}"),
                Err(_) => std::thread::sleep(Duration::from_millis(100)),
            }
        }
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub fn path(&self, prefix: &str) -> String {
        let scheme = if self.tls { "https" } else { "http" };
        format!("{scheme}://127.0.0.1:{}/bench/{prefix}", self.port)
    }

    pub fn plan(&self, options: &str, prefix: &str, size: u64, depth: u32) -> Plan {
        plan(&self.path(prefix), options, size, depth)
    }

    /// Whether the store holds an object: a directory of its data.
    pub fn holds(&self, name: &str) -> bool {
        self.data.path().join("bench").join(name).exists()
    }
}

pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

pub fn plan(path: &str, options: &str, size: u64, depth: u32) -> Plan {
    let target = TargetPlan {
        driver: "s3".to_owned(),
        path: Some(path.to_owned()),
        size: None,
        destroy: false,
        options: options.parse().unwrap(),
    };
    let mut plan = conformance::keyed_plan(target, size, depth, false);
    // A run that deletes does not leave its records to later ones.
    plan.workloads[0].mix.retain(|m| m.op != OpKind::Delete);
    plan
}

pub fn open_as(plan: &Plan, destroy: Option<&str>, secret: &str) -> Result<Box<dyn Target>> {
    let spec = OpenSpec {
        plan,
        run_id: "test",
        destroy,
    };
    let credentials = (Credentials::new(ID, secret, None), "test".to_owned());
    let options = options::parse(&plan.target.options)?;
    Ok(Box::new(S3Target::open_as(&spec, options, credentials)?))
}

pub fn open(plan: &Plan, destroy: Option<&str>) -> Result<Box<dyn Target>> {
    open_as(plan, destroy, SECRET)
}

/// The driver with the tests' credentials.
pub struct Known;

impl Driver for Known {
    fn name(&self) -> &'static str {
        S3.name()
    }
    fn about(&self) -> &'static str {
        S3.about()
    }
    fn options(&self) -> Vec<OptionDoc> {
        S3.options()
    }
    fn resolve(&self, target: &TargetPlan) -> Result<toml::Table> {
        S3.resolve(target)
    }
    fn capabilities(
        &self,
        target: &TargetPlan,
    ) -> Result<taillight_core::capability::Capabilities> {
        S3.capabilities(target)
    }
    fn open(&self, spec: &OpenSpec<'_>, _: &mut OnProgress<'_>) -> Result<Box<dyn Target>> {
        open(spec.plan, spec.destroy)
    }
}
