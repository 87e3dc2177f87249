//! A bare client of an object store: hyper on a current-thread tokio, a connection for each request
//! in flight, every request signed. The least that a usual client library costs; no request is timed
//! alone, and nothing is kept.

mod sign;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use http_body_util::{BodyExt, Full};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use serde_json::json;
use tokio::net::TcpStream;
use tokio::task::LocalSet;

use crate::{bare, sys};
use sign::BareSigner;

type Sender = SendRequest<Full<Bytes>>;

/// What all connections share.
struct BareClient {
    signer: RefCell<BareSigner>,
    host: String,
    /// `/bucket/prefix/`.
    root: String,
    bytes: usize,
    /// Objects there are to get.
    objects: u64,
    end: Instant,
    random: RefCell<u64>,
    made: RefCell<u64>,
}

/// `bare-s3 http://HOST:PORT/BUCKET/PREFIX/ get|put BYTES CONCURRENCY SECONDS OBJECTS`, credentials
/// from the environment. Gets read `o00000000` and so on; puts make new objects, which are deleted
/// afterwards, outside of the measured time.
pub fn main(args: &[&str]) -> Result<()> {
    let [url, what, bytes, concurrency, seconds, objects] = args else {
        bail!("bare-s3 URL get|put BYTES CONCURRENCY SECONDS OBJECTS");
    };
    let rest = url.strip_prefix("http://").context("http:// only")?;
    let (host, root) = rest.split_once('/').context("no bucket")?;
    let (put, bytes) = (*what == "put", bytes.parse()?);
    ensure!(put || *what == "get", "get or put");
    let concurrency: usize = concurrency.parse()?;
    let seconds: u64 = seconds.parse()?;
    let env = |name: &str| std::env::var(name).with_context(|| name.to_owned());
    let (id, secret) = (env("AWS_ACCESS_KEY_ID")?, env("AWS_SECRET_ACCESS_KEY")?);
    let mut client = BareClient {
        signer: RefCell::new(BareSigner::new(&id, &secret, host)),
        host: host.to_owned(),
        root: format!("/{root}"),
        bytes,
        objects: objects.parse()?,
        end: Instant::now(),
        random: RefCell::new(0x2545_F491_4F6C_DD1D),
        made: RefCell::new(0),
    };
    let mut runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = runtime.enable_io().build()?;
    let (ios, took, cpu) = LocalSet::new().block_on(&runtime, async {
        let mut senders = Vec::new();
        for _ in 0..concurrency {
            senders.push(connect(host).await?);
        }
        let data = data(concurrency, if put { bytes } else { 0 });
        let (start, cpu) = (Instant::now(), sys::process_cpu_s()?);
        client.end = start + Duration::from_secs(seconds);
        let client = Rc::new(client);
        let turn = if put { NextRequest::Put } else { NextRequest::Get };
        let (ios, senders) = all(&client, senders, turn, &data).await?;
        let (took, cpu) = (start.elapsed().as_secs_f64(), sys::process_cpu_s()? - cpu);
        if put {
            all(&client, senders, NextRequest::Delete, &data).await?;
        }
        anyhow::Ok((ios, took, cpu))
    })?;
    let iops = ios as f64 / took;
    println!("{}", json!({"ios": ios, "seconds": took, "iops": iops, "cpu_s": cpu}));
    Ok(())
}

/// Bytes that do not compress, others for each `seed`.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut random = 0x9E37_79B9_7F4A_7C15 ^ seed;
    (0..bytes).map(|_| bare::next(&mut random) as u8).collect()
}

/// What each connection sends. Objects in flight at a time are different ones: one buffer for all
/// would stay in the CPU's caches, where nobody's data is.
fn data(connections: usize, bytes: usize) -> Vec<Bytes> {
    let of = |n| Bytes::from(noise(bytes, n));
    (0..connections as u64).map(of).collect()
}

async fn connect(host: &str) -> Result<Sender> {
    let stream = TcpStream::connect(host).await.with_context(|| host.to_owned())?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::task::spawn_local(connection);
    Ok(sender)
}

#[derive(Clone, Copy, PartialEq)]
enum NextRequest {
    Get,
    Put,
    Delete,
}

/// Lets every connection work until the end; requests made, and the connections.
async fn all(
    client: &Rc<BareClient>,
    senders: Vec<Sender>,
    turn: NextRequest,
    data: &[Bytes],
) -> Result<(u64, Vec<Sender>)> {
    let work = |(sender, data): (_, &Bytes)| {
        tokio::task::spawn_local(work(client.clone(), sender, turn, data.clone()))
    };
    let tasks: Vec<_> = senders.into_iter().zip(data).map(work).collect();
    let (mut ios, mut senders) = (0, Vec::new());
    for task in tasks {
        let (made, sender) = task.await??;
        ios += made;
        senders.push(sender);
    }
    Ok((ios, senders))
}

async fn work(
    client: Rc<BareClient>,
    mut sender: Sender,
    turn: NextRequest,
    data: Bytes,
) -> Result<(u64, Sender)> {
    let mut ios = 0;
    loop {
        let name = match turn {
            NextRequest::Delete => {
                let mut made = client.made.borrow_mut();
                if *made == 0 {
                    return Ok((ios, sender));
                }
                *made -= 1;
                format!("{}bare{:08}", client.root, *made)
            }
            _ if Instant::now() >= client.end => return Ok((ios, sender)),
            NextRequest::Put => {
                let mut made = client.made.borrow_mut();
                *made += 1;
                format!("{}bare{:08}", client.root, *made - 1)
            }
            NextRequest::Get => {
                let number = bare::below(&mut client.random.borrow_mut(), client.objects);
                format!("{}o{number:08}", client.root)
            }
        };
        one(&client, &mut sender, turn, name, &data).await?;
        ios += 1;
    }
}

/// One request, its answer read to the end.
async fn one(
    client: &BareClient,
    sender: &mut Sender,
    turn: NextRequest,
    name: String,
    data: &Bytes,
) -> Result<()> {
    let (method, body) = match turn {
        NextRequest::Get => ("GET", Bytes::new()),
        NextRequest::Put => ("PUT", data.clone()),
        NextRequest::Delete => ("DELETE", Bytes::new()),
    };
    let payload = match turn {
        NextRequest::Put => sign::UNSIGNED,
        _ => sign::EMPTY,
    };
    let request = {
        let mut signer = client.signer.borrow_mut();
        let (date, authorization) = signer.sign(method, &name, payload);
        Request::builder()
            .method(method)
            .uri(name)
            .header("host", client.host.as_str())
            .header("x-amz-content-sha256", payload)
            .header("x-amz-date", date)
            .header("authorization", authorization)
            .body(Full::new(body))?
    };
    sender.ready().await?;
    let mut answer = sender.send_request(request).await?;
    ensure!(answer.status().is_success(), "{}", answer.status());
    let mut moved = 0;
    while let Some(frame) = answer.frame().await {
        moved += frame?.data_ref().map_or(0, Bytes::len);
    }
    ensure!(turn != NextRequest::Get || moved == client.bytes, "{moved} bytes");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use taillight_s3test::{FaultyServer, SECRET, ServerSettings};

    /// The whole client against a server that checks every signature.
    #[test]
    fn the_client_is_let_in() {
        let store = FaultyServer::start(ServerSettings::default());
        let host = format!("127.0.0.1:{}", store.port());
        let client = |secret: &str, root: &str| BareClient {
            signer: RefCell::new(BareSigner::new(taillight_s3test::ID, secret, &host)),
            host: host.clone(),
            root: root.to_owned(),
            bytes: 100,
            objects: 1,
            end: Instant::now(),
            random: RefCell::new(1),
            made: RefCell::new(0),
        };
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_io().build().unwrap();
        LocalSet::new().block_on(&runtime, async {
            let mut sender = connect(&host).await.unwrap();
            let good = client(SECRET, "/bench/p/");
            let name = || "/bench/p/k".to_owned();
            let data = Bytes::from(noise(100, 1));
            for turn in [NextRequest::Put, NextRequest::Get] {
                one(&good, &mut sender, turn, name(), &data).await.unwrap();
            }
            assert_eq!(store.names("p/"), ["p/k"]);
            let bad = client("other", "/bench/p/");
            assert!(one(&bad, &mut sender, NextRequest::Get, name(), &data).await.is_err());
            let mut sender = connect(&host).await.unwrap();
            one(&good, &mut sender, NextRequest::Delete, name(), &data).await.unwrap();
            assert_eq!(store.names("p/"), [""; 0]);
        });
    }
}
