//! A Redis server for tests: on a unix socket in a directory of the test, ended on drop; and peers that
//! are no server.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use taillight_core::{Error, Result, StopFlag};

/// Listens on loopback; says `first` to whoever connects, then `more` after each `pause`, whatever it hears.
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

/// Ends the wait of `open` for a peer by a stop, then by its time-out; neither may take long. The errors.
pub fn cut_short(open: impl Fn(&str, &StopFlag) -> Result<()>) -> [Error; 2] {
    ["60s", "300ms"].map(|timeout| {
        let (stop, began) = (StopFlag::default(), Instant::now());
        let stops = stop.clone();
        let signal = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(600));
            stops.stop();
        });
        let e = open(timeout, &stop).unwrap_err();
        assert!(began.elapsed() < Duration::from_secs(2), "{timeout}: {:?} {e}", began.elapsed());
        signal.join().unwrap();
        e
    })
}

/// A running server.
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
    /// Starts one with these further arguments.
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

    /// As `target.path`.
    pub fn address(&self) -> String {
        format!("unix:{}", self.socket.display())
    }

    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Sends the server a signal: STOP or CONT.
    pub fn signal(&self, name: &str) {
        let id = self.process.id().to_string();
        let sent = Command::new("kill").args(["-s", name, &id]).status();
        assert!(sent.unwrap().success());
    }

    /// Answer of the server to a command, by its own client.
    pub fn cli(&self, args: &[&str]) -> String {
        let out =
            Command::new("redis-cli").arg("-s").arg(&self.socket).args(args).output().unwrap();
        String::from_utf8(out.stdout).unwrap().trim().to_owned()
    }
}
