//! A CA and a server certificate, for 127.0.0.1 and localhost or for other names, made by the
//! `openssl` program, in files named as MinIO wants them.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A directory with `ca.crt`, `public.crt`, `private.key` and what `openssl` needed for them; goes with this value.
#[derive(Debug)]
pub struct Certs(tempfile::TempDir);

impl Certs {
    /// Makes both, each good for two days; `None` when there is no `openssl` program, or it fails.
    ///
    /// # Panics
    /// When no temporary directory can be made or written to.
    pub fn make() -> Option<Certs> {
        Certs::make_for("IP:127.0.0.1,DNS:localhost", 2)
    }

    /// [`Certs::make`] with the server's names as `openssl` writes them; the server's certificate is
    /// good for so many days from now, and has expired where the number is negative.
    ///
    /// # Panics
    /// As [`Certs::make`].
    pub fn make_for(names: &str, days: i32) -> Option<Certs> {
        let dir = tempfile::tempdir().expect("a directory");
        let names = format!("subjectAltName={names}\n");
        std::fs::write(dir.path().join("names"), names).expect("written");
        let key = "-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes";
        let steps = [
            format!("req -x509 {key} -keyout ca.key -out ca.crt -subj /CN=testca -days 2"),
            format!("req {key} -keyout private.key -out server.csr -subj /CN=test"),
            format!(
                "x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial \
                 -out public.crt -days {days} -extfile names"
            ),
        ];
        let all = steps.iter().all(|words| {
            let mut openssl = Command::new("openssl");
            let done = openssl.args(words.split_whitespace()).current_dir(&dir);
            done.output().is_ok_and(|d| d.status.success())
        });
        all.then_some(Certs(dir))
    }

    pub fn dir(&self) -> &Path {
        self.0.path()
    }

    /// What a client must trust.
    pub fn ca(&self) -> PathBuf {
        self.0.path().join("ca.crt")
    }
}
