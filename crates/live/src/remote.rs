//! Sends a finished run to a Prometheus by remote write: version 1 of the protocol, which one with
//! `--web.enable-remote-write-receiver` takes (2.33 and newer; native histograms from 2.40), as protobuf in Snappy
//! blocks over plain HTTP. Nothing is tried again: the run directory stays, and what was sent twice is stored once.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

use prost::{Message, Oneof};
use taillight_core::{Error, Result};
use taillight_rundir::RunDir;

use crate::export::replay;
use crate::metrics::{Family, HistogramValue, SampleValue};
use crate::native::{SCHEMA, ZERO_THRESHOLD};
use crate::openmetrics::number;

/// An answer is read until it has so many bytes, or ends.
const ANSWER_MAX: usize = 1 << 20;
/// Plain samples after which a request is sent: those of the interval that reaches it are among them.
const BATCH: usize = 20_000;
/// For a whole request, from connecting to the end of its answer, however it drips.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, PartialEq, Message)]
struct WriteRequest {
    #[prost(message, repeated, tag = "1")]
    series: Vec<Series>,
}

#[derive(Clone, PartialEq, Message)]
struct Series {
    #[prost(message, repeated, tag = "1")]
    labels: Vec<Label>,
    #[prost(message, repeated, tag = "2")]
    samples: Vec<PlainSample>,
    #[prost(message, repeated, tag = "4")]
    histograms: Vec<Native>,
}

#[derive(Clone, PartialEq, Message)]
struct Label {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(string, tag = "2")]
    value: String,
}

#[derive(Clone, PartialEq, Message)]
struct PlainSample {
    #[prost(double, tag = "1")]
    value: f64,
    #[prost(int64, tag = "2")]
    at_ms: i64,
}

#[derive(Clone, PartialEq, Message)]
struct Native {
    #[prost(oneof = "Count", tags = "1")]
    count: Option<Count>,
    #[prost(double, tag = "3")]
    sum: f64,
    #[prost(sint32, tag = "4")]
    schema: i32,
    #[prost(double, tag = "5")]
    zero_threshold: f64,
    #[prost(oneof = "ZeroCount", tags = "6")]
    zero: Option<ZeroCount>,
    #[prost(message, repeated, tag = "11")]
    spans: Vec<BucketSpan>,
    #[prost(sint64, repeated, tag = "12")]
    deltas: Vec<i64>,
    #[prost(int64, tag = "15")]
    at_ms: i64,
}

#[derive(Clone, PartialEq, Oneof)]
enum Count {
    #[prost(uint64, tag = "1")]
    Int(u64),
}

#[derive(Clone, PartialEq, Oneof)]
enum ZeroCount {
    #[prost(uint64, tag = "6")]
    Int(u64),
}

#[derive(Clone, PartialEq, Message)]
struct BucketSpan {
    #[prost(sint32, tag = "1")]
    offset: i32,
    #[prost(uint32, tag = "2")]
    length: u32,
}

/// What a server took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemoteWritten {
    pub samples: u64,
    pub native: u64,
    /// The first request of native histograms failed, and no more were sent: percentiles come from classic buckets.
    pub native_refused: bool,
}

/// Sends the intervals of a run to `url` (`http://HOST:PORT/api/v1/write`), with `job="taillight"` and the
/// run as `instance`. Errors: `Usage` for a URL that is none or a run without intervals; `Corrupt` for damaged files;
/// `Unavailable` when the server cannot be reached or refuses.
pub fn remote_write(dir: &RunDir, url: &str) -> Result<RemoteWritten> {
    let endpoint = RemoteServer::of(url)?;
    let own = [("job", "taillight"), ("instance", dir.manifest().run_id.as_str())];
    let (mut batch, mut done, mut failed) = (RunBatch::default(), RemoteWritten::default(), None);
    replay(dir, &mut |families, at_s| {
        if failed.is_some() {
            return;
        }
        let at_ms = (at_s * 1e3).round() as i64;
        families.iter().for_each(|family| batch.put(family, &own, at_ms));
        if batch.samples >= BATCH {
            failed = std::mem::take(&mut batch).send(&endpoint, &mut done).err();
        }
    })?;
    match failed {
        Some(e) => Err(e),
        None => batch.send(&endpoint, &mut done).map(|()| done),
    }
}

type LabelSet = BTreeMap<String, String>;

/// Samples of some intervals, by series.
#[derive(Default)]
struct RunBatch {
    samples: usize,
    plain: BTreeMap<LabelSet, Vec<PlainSample>>,
    native: BTreeMap<LabelSet, Vec<Native>>,
}

impl RunBatch {
    fn put(&mut self, family: &Family, own: &[(&str, &str)], at_ms: i64) {
        for sample in &family.samples {
            let labels = |name: &str, le: Option<String>| -> LabelSet {
                let of = sample.labels.iter().map(|(k, v)| (*k, v.as_str()));
                let all = of.chain(own.iter().copied()).chain([("__name__", name)]);
                let all = all.map(|(k, v)| (k.to_owned(), v.to_owned()));
                all.chain(le.map(|le| ("le".to_owned(), le))).collect()
            };
            let mut plain = |labels, value| {
                self.samples += 1;
                self.plain.entry(labels).or_default().push(PlainSample { value, at_ms });
            };
            match &sample.value {
                SampleValue::Number(value) => plain(labels(&family.sample_name(), None), *value),
                SampleValue::Histogram(h) => {
                    let of = |what: &str| format!("{}_{what}", family.name);
                    let edges = h.classic.iter().map(|(edge, n)| (number(*edge), *n));
                    for (le, count) in edges.chain([("+Inf".to_owned(), h.count)]) {
                        plain(labels(&of("bucket"), Some(le)), count as f64);
                    }
                    plain(labels(&of("count"), None), h.count as f64);
                    plain(labels(&of("sum"), None), h.sum);
                    let series = self.native.entry(labels(family.name, None)).or_default();
                    series.push(native(h, at_ms));
                }
            }
        }
    }

    /// Native histograms go by themselves: a server without them refuses the whole request.
    fn send(self, endpoint: &RemoteServer, done: &mut RemoteWritten) -> Result<()> {
        let plain = self.plain.into_iter().map(|(labels, samples)| Series {
            labels: in_order(labels),
            samples,
            ..Series::default()
        });
        let plain = WriteRequest { series: plain.collect() };
        done.samples += plain.series.iter().map(|s| s.samples.len() as u64).sum::<u64>();
        endpoint.post(&plain)?;
        if done.native_refused {
            return Ok(());
        }
        let native = self.native.into_iter().map(|(labels, histograms)| Series {
            labels: in_order(labels),
            histograms,
            ..Series::default()
        });
        let native = WriteRequest { series: native.collect() };
        let count: u64 = native.series.iter().map(|s| s.histograms.len() as u64).sum();
        match endpoint.post(&native) {
            Ok(()) => done.native += count,
            Err(e) if done.native > 0 => return Err(e),
            Err(_) => done.native_refused = true,
        }
        Ok(())
    }
}

/// Sorted by name, as the protocol wants them.
fn in_order(labels: LabelSet) -> Vec<Label> {
    labels.into_iter().map(|(name, value)| Label { name, value }).collect()
}

fn native(h: &HistogramValue, at_ms: i64) -> Native {
    let (spans, deltas) = h.native.spans();
    Native {
        count: Some(Count::Int(h.count)),
        sum: h.sum,
        schema: SCHEMA,
        zero_threshold: ZERO_THRESHOLD,
        zero: Some(ZeroCount::Int(h.native.zero)),
        spans: spans.into_iter().map(|(offset, length)| BucketSpan { offset, length }).collect(),
        deltas,
        at_ms,
    }
}

/// Where samples go.
struct RemoteServer {
    /// With a port.
    host: String,
    path: String,
    /// For a whole request but looking up the name.
    patience: Duration,
}

impl RemoteServer {
    fn of(url: &str) -> Result<RemoteServer> {
        let wrong = || {
            Error::usage("this is no address to write metrics to")
                .with("url", url)
                .hint("give http://HOST:PORT/api/v1/write; for https put a proxy in between")
        };
        let rest = url.strip_prefix("http://").ok_or_else(wrong)?;
        let (host, path) = rest.split_once('/').ok_or_else(wrong)?;
        let clean = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_graphic());
        if !clean(host) || !clean(path) || host.contains('@') {
            return Err(wrong());
        }
        let port = if host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok()) {
            String::new()
        } else {
            ":80".to_owned()
        };
        let (host, path) = (format!("{host}{port}"), format!("/{path}"));
        Ok(RemoteServer { host, path, patience: PATIENCE })
    }

    /// Sends a request and reads its answer, within one deadline for all but looking up the name. Errors: `TimedOut`
    /// at the deadline, or why the connection ended.
    fn exchange(&self, request: &[u8]) -> std::io::Result<Vec<u8>> {
        let until = Instant::now() + self.patience;
        let late = |e: std::io::Error| match e.kind() {
            ErrorKind::WouldBlock => ErrorKind::TimedOut.into(),
            _ => e,
        };
        let addresses: Vec<_> = self.host.to_socket_addrs()?.collect();
        let mut stream = connect(&addresses, until)?;
        let mut sent = 0;
        while sent < request.len() {
            stream.set_write_timeout(Some(left(until)?))?;
            match stream.write(&request[sent..]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => sent += n,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(late(e)),
            }
        }
        let (mut answer, mut bytes) = (Vec::new(), [0; 4096]);
        while answer.len() < ANSWER_MAX {
            stream.set_read_timeout(Some(left(until)?))?;
            match stream.read(&mut bytes) {
                Ok(0) => break,
                Ok(n) => answer.extend_from_slice(&bytes[..n]),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(late(e)),
            }
        }
        Ok(answer)
    }

    /// Errors: `Unavailable` unless the server says that it took it.
    fn post(&self, request: &WriteRequest) -> Result<()> {
        let no = |what: &str| Error::unavailable(what).with("server", &self.host);
        let body = snap::raw::Encoder::new()
            .compress_vec(&request.encode_to_vec())
            .map_err(|e| Error::internal("the samples cannot be packed").source(e))?;
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/x-protobuf\r\n\
             Content-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n\
             User-Agent: taillight\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            self.path,
            self.host,
            body.len()
        );
        let request = [head.into_bytes(), body].concat();
        let answer = self.exchange(&request).map_err(|e| {
            no("the server of metrics cannot be reached")
                .source(e)
                .hint("is it running, with --web.enable-remote-write-receiver?")
        })?;
        let answer = String::from_utf8_lossy(&answer);
        let (head, said) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status.starts_with('2') {
            return Ok(());
        }
        Err(no("the server of metrics refused the samples")
            .with("status", status)
            .with("it said", said.trim())
            .hint(
                "it needs --web.enable-remote-write-receiver; for times before its newest samples also \
                 out_of_order_time_window",
            ))
    }
}

/// Connects to the first address that answers. Each has its share of the time: where one answers nothing at all
/// (IPv6 of a host that has none) the others are tried as well. Errors: that of the last one.
fn connect(addresses: &[SocketAddr], until: Instant) -> std::io::Result<TcpStream> {
    let mut made = Err(ErrorKind::AddrNotAvailable.into());
    for (address, rest) in addresses.iter().zip((1..=addresses.len() as u32).rev()) {
        made = TcpStream::connect_timeout(address, left(until)? / rest);
        if made.is_ok() {
            break;
        }
    }
    made
}

/// What is left until then. Errors: `TimedOut` when nothing is.
fn left(until: Instant) -> std::io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever drips bytes, or takes none, holds an export for one deadline and no longer.
    #[test]
    fn a_server_that_drips_does_not_hold_the_request() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let host = listener.local_addr().unwrap().to_string();
        std::thread::spawn(move || {
            for client in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    while (&client).write_all(b"x").is_ok() {
                        std::thread::sleep(Duration::from_millis(20));
                    }
                });
            }
        });
        for size in [10, 64 << 20] {
            let (done, waits) = std::sync::mpsc::channel();
            let patience = Duration::from_millis(300);
            let server = RemoteServer { host: host.clone(), path: "/w".to_owned(), patience };
            std::thread::spawn(move || done.send(server.exchange(&vec![0; size])));
            let said = waits.recv_timeout(Duration::from_secs(20)).expect("it ends");
            assert_eq!(said.unwrap_err().kind(), ErrorKind::TimedOut, "{size} bytes sent");
        }
    }

    /// An address that swallows everything leaves the others their time.
    #[test]
    fn the_second_address_is_reached_behind_one_that_answers_nothing() {
        let deaf = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let deaf = (deaf.local_addr().unwrap(), deaf);
        // Nobody accepts: once its queue is full, the kernel drops what comes.
        let brief = Duration::from_millis(200);
        let queued: Vec<_> =
            (0..10_000).map_while(|_| TcpStream::connect_timeout(&deaf.0, brief).ok()).collect();
        assert!(queued.len() < 10_000, "its queue has an end");
        let good = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let there = good.local_addr().unwrap();
        let soon = || Instant::now() + Duration::from_secs(2);
        assert_eq!(connect(&[deaf.0, there], soon()).unwrap().peer_addr().unwrap(), there);
        assert_eq!(connect(&[deaf.0], soon()).unwrap_err().kind(), ErrorKind::TimedOut);
        assert!(connect(&[], soon()).is_err());
    }

    #[test]
    fn an_endpoint_is_a_plain_http_url() {
        let of = |url: &str| RemoteServer::of(url).map(|e| (e.host, e.path)).ok();
        let there = |host: &str, path: &str| Some((host.to_owned(), path.to_owned()));
        assert_eq!(of("http://a:9090/api/v1/write"), there("a:9090", "/api/v1/write"));
        assert_eq!(of("http://a/w"), there("a:80", "/w"));
        assert_eq!(of("http://[::1]:9090/w"), there("[::1]:9090", "/w"));
        for url in
            ["https://a/w", "a:9090/w", "http://a", "http:///w", "http://u@a/w", "http://a/\r\nb"]
        {
            assert_eq!(of(url), None, "{url}");
        }
    }
}
