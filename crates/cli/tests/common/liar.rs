//! A server that speaks as much of Redis's protocol as a run needs, keeps every version of every
//! value, and lies about chosen keys at chosen moments: storage that is wrong on purpose.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// One lie about a key. Reads and writes of the key are counted from 1.
#[derive(Debug, Clone, Copy)]
pub enum Lie {
    /// A read returns a changed byte.
    Flip { read: usize, byte: usize },
    /// A write is acknowledged and forgotten.
    Forget { write: usize },
    /// A read returns the value from so many writes before.
    Old { read: usize, back: usize },
    /// A read returns another key's value.
    Other { read: usize, key: &'static str },
    /// A read finds nothing.
    Gone { read: usize },
}

#[derive(Default)]
struct StoredVersions {
    versions: Vec<Vec<u8>>,
    reads: usize,
    writes: usize,
}

struct LyingStore {
    records: HashMap<String, StoredVersions>,
    lies: HashMap<String, Lie>,
}

impl LyingStore {
    fn set(&mut self, key: &str, value: &[u8]) {
        let record = self.records.entry(key.to_owned()).or_default();
        record.writes += 1;
        match self.lies.get(key) {
            Some(Lie::Forget { write }) if *write == record.writes => {}
            _ => record.versions.push(value.to_vec()),
        }
    }

    fn get(&mut self, key: &str) -> Option<Vec<u8>> {
        let record = self.records.get_mut(key)?;
        record.reads += 1;
        let (now, lie) = (record.reads, self.lies.get(key));
        let mut value = record.versions.last()?.clone();
        match lie {
            Some(Lie::Flip { read, byte }) if *read == now => value[*byte] ^= 1,
            Some(Lie::Old { read, back }) if *read == now => {
                let versions = &record.versions;
                value = versions[versions.len() - 1 - back].clone();
            }
            Some(Lie::Other { read, key }) if *read == now => {
                let other = self.records.get(&full(key))?;
                value = other.versions.last()?.clone();
            }
            Some(Lie::Gone { read }) if *read == now => return None,
            _ => {}
        }
        Some(value)
    }

    /// The answer to one command.
    fn answer(&mut self, parts: &[Vec<u8>]) -> Vec<u8> {
        let text = |i: usize| String::from_utf8_lossy(&parts[i]).into_owned();
        let bulk = |b: &[u8]| [format!("${}\r\n", b.len()).as_bytes(), b, b"\r\n"].concat();
        match text(0).as_str() {
            "SET" => {
                self.set(&text(1), &parts[2]);
                b"+OK\r\n".to_vec()
            }
            "GET" => self.get(&text(1)).map_or(b"$-1\r\n".to_vec(), |value| bulk(&value)),
            "GETRANGE" => bulk(&self.get(&text(1)).unwrap_or_default()),
            "STRLEN" => {
                let record = self.records.get(&text(1)).and_then(|r| r.versions.last());
                format!(":{}\r\n", record.map_or(0, Vec::len)).into_bytes()
            }
            "DBSIZE" => format!(":{}\r\n", self.records.len()).into_bytes(),
            "EXISTS" => {
                format!(":{}\r\n", u8::from(self.records.contains_key(&text(1)))).into_bytes()
            }
            "TYPE" => b"+string\r\n".to_vec(),
            "WATCH" => b"-ERR unknown command\r\n".to_vec(),
            "SCAN" => {
                let keys: Vec<Vec<u8>> = self.records.keys().map(|k| bulk(k.as_bytes())).collect();
                let head = format!("*2\r\n$1\r\n0\r\n*{}\r\n", keys.len());
                [head.into_bytes(), keys.concat()].concat()
            }
            "DEL" | "UNLINK" => {
                let gone = (1..parts.len()).filter(|i| self.records.remove(&text(*i)).is_some());
                format!(":{}\r\n", gone.count()).into_bytes()
            }
            "INFO" => bulk(b"redis_version:liar\r\n"),
            "CLIENT" if text(1) == "LIST" => bulk(b""),
            _ => b"+OK\r\n".to_vec(),
        }
    }
}

/// A key of a run, with the prefix that runs have unless told otherwise.
fn full(key: &str) -> String {
    format!("taillight:{key}")
}

/// The server; its threads end with their connections.
pub struct LyingServer {
    pub port: u16,
}

impl LyingServer {
    /// Listens on a free port of loopback.
    pub fn start(lies: &[(&'static str, Lie)]) -> LyingServer {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let store = Arc::new(Mutex::new(LyingStore {
            records: HashMap::new(),
            lies: lies.iter().map(|(key, lie)| (full(key), *lie)).collect(),
        }));
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let store = Arc::clone(&store);
                std::thread::spawn(move || serve(connection, &store));
            }
        });
        LyingServer { port }
    }
}

fn serve(mut connection: TcpStream, store: &Mutex<LyingStore>) -> Option<()> {
    let _ = connection.set_nodelay(true);
    let mut input = BufReader::new(connection.try_clone().ok()?);
    loop {
        let count = number(&mut input)?;
        let mut parts = Vec::new();
        for _ in 0..count {
            let mut part = vec![0; number(&mut input)? + 2];
            input.read_exact(&mut part).ok()?;
            part.truncate(part.len() - 2);
            parts.push(part);
        }
        let answer = store.lock().ok()?.answer(&parts);
        connection.write_all(&answer).ok()?;
    }
}

/// The number after `*` or `$`.
fn number(input: &mut impl BufRead) -> Option<usize> {
    let mut line = String::new();
    input.read_line(&mut line).ok()?;
    line.get(1..)?.trim().parse().ok()
}
