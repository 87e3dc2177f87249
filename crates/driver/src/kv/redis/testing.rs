//! For tests: a Redis server on a unix socket in a directory of the test, killed on drop; listeners that are no server,
//! and a check that waits for them end in time.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use taillight_core::{Error, Result, StopFlag};

/// Listens on loopback in a thread; sends `first` to each client, then `more` after each `pause`, and reads nothing.
pub fn peer(first: &'static [u8], more: &'static [u8], pause: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut client in listener.incoming().flatten() {
            std::thread::spawn(move || {
                let mut told = client.write_all(first);
                while told.is_ok() {
                    std::thread::sleep(pause);
                    told = client.write_all(more);
                }
            });
        }
    });
    address
}

/// Calls `open` with a time-out of 60 s and stops it after 600 ms, then with one of 300 ms; asserts that both fail long
/// before the first time-out is over, and gives the errors.
pub fn cut_short(open: impl Fn(&str, &StopFlag) -> Result<()>) -> [Error; 2] {
    ["60s", "300ms"].map(|timeout| {
        let (stop, began) = (StopFlag::default(), Instant::now());
        let stops = stop.clone();
        let signal = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(600));
            stops.stop();
        });
        let e = open(timeout, &stop).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(10), "{timeout}: {:?} {e}", began.elapsed());
        signal.join().unwrap();
        e
    })
}

/// A running server without persistence.
pub struct RedisServer {
    process: Child,
    socket: PathBuf,
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}

impl RedisServer {
    /// Starts a server with the arguments `more` besides those of socket and directory, and waits until it listens.
    /// Err: why not, for the line of a skipped test.
    pub fn start(dir: &Path, more: &[&str]) -> Result<RedisServer, String> {
        let socket = dir.join("s");
        let process = Command::new("redis-server")
            .args(["--port", "0", "--save", "", "--unixsocket"])
            .arg(&socket)
            .arg("--dir")
            .arg(dir)
            .args(more)
            .stdout(Stdio::null())
            .spawn()
            .map_err(|_| "no redis-server (Debian: redis-server)".to_owned())?;
        let server = RedisServer { process, socket };
        for _ in 0..500 {
            if UnixStream::connect(&server.socket).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Err("redis-server does not listen".to_owned())
    }

    /// Its address for `target.path`.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Sends the server the signal of this name, such as STOP or CONT.
    pub fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// The server's answer to a command, by redis-cli, without white space around it.
    pub fn cli(&self, args: &[&str]) -> String {
        let out =
            Command::new("redis-cli").arg("-s").arg(&self.socket).args(args).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
}
