//! The requests of S3 that clients here make, over the store: objects, ranges, listings, deletions
//! of many, uploads in parts. Anything else is answered `NotImplemented`.

use std::collections::BTreeMap;

use crate::http::{HttpReply, HttpRequest};
use crate::store::{BodyChecksum, Bucket, NamedPart, PartUpload, StoredObject};
use crate::text;

/// Keys of a listing at most.
const KEYS_MAX: usize = 1000;

/// Buckets by name.
pub type Buckets = BTreeMap<String, Bucket>;

/// A request as S3 reads it.
struct S3Call<'a> {
    request: &'a HttpRequest,
    key: String,
    query: Vec<(String, String)>,
}

impl S3Call<'_> {
    fn has(&self, name: &str) -> bool {
        self.query.iter().any(|(n, _)| n == name)
    }
    fn value(&self, name: &str) -> Option<&str> {
        let found = self.query.iter().find(|(n, _)| n == name);
        found.map(|(_, v)| v.as_str())
    }
    fn number(&self, name: &str) -> Option<usize> {
        self.value(name)?.parse().ok()
    }
}

/// Bucket and key of a request: from the path, or the bucket from `BUCKET.localhost`.
pub fn place(request: &HttpRequest) -> Option<(String, String)> {
    let path = text::decoded(request.path.strip_prefix('/')?)?;
    let host = request.header("host").unwrap_or_default();
    let host = host.split(':').next().unwrap_or_default();
    if let Some(bucket) = host.strip_suffix(".localhost") {
        return Some((bucket.to_owned(), path));
    }
    let (bucket, key) = path.split_once('/').unwrap_or((&path, ""));
    Some((bucket.to_owned(), key.to_owned()))
}

/// Answers a request that was let in.
pub fn answer(buckets: &mut Buckets, request: &HttpRequest) -> HttpReply {
    let (Some((bucket, key)), Some(query)) = (place(request), text::query(&request.query)) else {
        return HttpReply::error(400, "InvalidURI", "it cannot be read");
    };
    let Some(bucket) = buckets.get_mut(&bucket) else {
        return HttpReply::error(404, "NoSuchBucket", "there is no such bucket");
    };
    let ask = S3Call { request, key, query };
    match (request.method.as_str(), ask.key.is_empty()) {
        ("GET", true) if ask.value("list-type") == Some("2") => list(bucket, &ask),
        ("GET", true) if ask.has("uploads") => list_uploads(bucket, &ask),
        ("POST", true) if ask.has("delete") => delete_many(bucket, request),
        ("GET" | "HEAD", false) if ask.query.is_empty() => get(bucket, &ask),
        ("PUT", false) if ask.has("uploadId") => put_part(bucket, &ask),
        ("PUT", false) if ask.query.is_empty() => put(bucket, &ask),
        ("POST", false) if ask.has("uploads") => begin(bucket, &ask),
        ("POST", false) if ask.has("uploadId") => complete(bucket, &ask),
        ("DELETE", false) if ask.has("uploadId") => abort(bucket, &ask),
        ("DELETE", false) if ask.query.is_empty() => {
            bucket.objects.remove(&ask.key);
            HttpReply::empty(204)
        }
        _ => HttpReply::error(501, "NotImplemented", "this server does not know it"),
    }
}

fn get(bucket: &Bucket, ask: &S3Call<'_>) -> HttpReply {
    let Some(object) = bucket.objects.get(&ask.key) else {
        return HttpReply::error(404, "NoSuchKey", "there is no such object");
    };
    let mut whole = HttpReply::data(200, object.data.clone()).with("etag", &object.etag);
    whole.headers.extend(object.metadata.iter().cloned());
    let Some(range) = ask.request.header("range") else {
        return whole;
    };
    let length = object.data.len();
    let Some((first, last)) = span(range, length) else {
        return HttpReply::error(416, "InvalidRange", "outside of the object");
    };
    HttpReply {
        code: 206,
        range: (first, last + 1),
        ..whole.with("content-range", format!("bytes {first}-{last}/{length}"))
    }
}

/// First and last byte of `bytes=FIRST-LAST`.
fn span(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let first: usize = first.parse().ok()?;
    let last: usize = match last {
        "" => length.checked_sub(1)?,
        last => last.parse().ok()?,
    };
    let last = last.min(length.checked_sub(1)?);
    (first <= last).then_some((first, last))
}

/// Compares the checksums of known kinds that came with a body, and returns that of `wanted` in base64 (empty
/// when none is wanted). The reply is 400 where one differs or the wanted one is missing.
fn sums(request: &HttpRequest, wanted: Option<BodyChecksum>) -> Result<String, HttpReply> {
    let mut seen = None;
    for (sum, header, _) in BodyChecksum::ALL {
        let Some(said) = request.header(header) else {
            continue;
        };
        let made = sum.of(&request.body);
        if made != said {
            return Err(HttpReply::error(400, "BadDigest", "the checksum is another"));
        }
        if wanted == Some(sum) {
            seen = Some(made);
        }
    }
    match (wanted, seen) {
        (Some(_), None) => Err(HttpReply::error(400, "InvalidRequest", "a checksum is missing")),
        (_, seen) => Ok(seen.unwrap_or_default()),
    }
}

fn metadata(request: &HttpRequest) -> Vec<(String, String)> {
    let all = request.headers.iter();
    all.filter(|(name, _)| name.starts_with("x-amz-meta-")).cloned().collect()
}

fn put(bucket: &mut Bucket, ask: &S3Call<'_>) -> HttpReply {
    if let Err(refused) = sums(ask.request, None) {
        return refused;
    }
    let metadata = metadata(ask.request);
    let object = StoredObject { metadata, ..StoredObject::new(ask.request.body.clone()) };
    let reply = HttpReply::empty(200).with("etag", &object.etag);
    bucket.objects.insert(ask.key.clone(), object);
    reply
}

fn list(bucket: &Bucket, ask: &S3Call<'_>) -> HttpReply {
    let prefix = ask.value("prefix").unwrap_or_default();
    let most = ask.number("max-keys").unwrap_or(KEYS_MAX).min(KEYS_MAX);
    let after = ask.value("continuation-token").or(ask.value("start-after"));
    let after = after.unwrap_or_default();
    let all = bucket.objects.iter().filter(|(name, _)| {
        name.starts_with(prefix) && (after.is_empty() || name.as_str() > after)
    });
    let found: Vec<_> = all.take(most + 1).collect();
    let more = found.len() > most;
    let found = &found[..found.len().min(most)];
    let mut xml = format!(
        "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Prefix>{}</Prefix>\
         <KeyCount>{}</KeyCount><MaxKeys>{most}</MaxKeys><IsTruncated>{more}</IsTruncated>",
        text::escaped(prefix),
        found.len()
    );
    for (name, object) in found {
        xml += &format!(
            "<Contents><Key>{}</Key><ETag>{}</ETag><Size>{}</Size></Contents>",
            text::escaped(name),
            text::escaped(&object.etag),
            object.data.len()
        );
    }
    if let (true, Some((last, _))) = (more, found.last()) {
        let last = text::escaped(last);
        xml += &format!("<NextContinuationToken>{last}</NextContinuationToken>");
    }
    HttpReply::xml(200, &(xml + "</ListBucketResult>"))
}

fn delete_many(bucket: &mut Bucket, request: &HttpRequest) -> HttpReply {
    let has_sum = BodyChecksum::ALL.iter().any(|(_, h, _)| request.header(h).is_some());
    if !has_sum && request.header("content-md5").is_none() {
        return HttpReply::error(400, "InvalidRequest", "a checksum is missing");
    }
    if let Err(refused) = sums(request, None) {
        return refused;
    }
    let xml = String::from_utf8_lossy(&request.body);
    let objects = text::inside(&xml, "Object");
    if objects.is_empty() || objects.len() > KEYS_MAX {
        return HttpReply::error(400, "MalformedXML", "1 to 1000 names");
    }
    let mut failed = String::new();
    for object in objects {
        let Some(key) = text::element(object, "Key") else { continue };
        let there = bucket.objects.get(&key).map(|object| object.etag.clone());
        match text::element(object, "ETag") {
            Some(wanted) if there.as_ref().is_some_and(|etag| *etag != wanted) => {
                failed += &format!(
                    "<Error><Key>{}</Key><Code>PreconditionFailed</Code></Error>",
                    text::escaped(&key)
                );
            }
            _ => drop(bucket.objects.remove(&key)),
        }
    }
    HttpReply::xml(200, &format!("<DeleteResult>{failed}</DeleteResult>"))
}

fn begin(bucket: &mut Bucket, ask: &S3Call<'_>) -> HttpReply {
    let sum = match ask.request.header("x-amz-checksum-algorithm") {
        None => None,
        Some(word) => match BodyChecksum::named(word) {
            Some(sum) => Some(sum),
            None => return HttpReply::error(400, "InvalidRequest", "no such checksum here"),
        },
    };
    let id = bucket.begin(&ask.key, sum);
    if let Some(upload) = bucket.uploads.get_mut(&id) {
        upload.metadata = metadata(ask.request);
    }
    let id = text::escaped(&id);
    let xml = format!("<UploadId>{id}</UploadId>");
    HttpReply::xml(
        200,
        &format!("<InitiateMultipartUploadResult>{xml}</InitiateMultipartUploadResult>"),
    )
}

fn list_uploads(bucket: &Bucket, ask: &S3Call<'_>) -> HttpReply {
    let prefix = ask.value("prefix").unwrap_or_default();
    let found = bucket.uploads.iter().filter(|(_, upload)| upload.key.starts_with(prefix));
    let found = found.map(|(id, upload)| {
        let (key, id) = (text::escaped(&upload.key), text::escaped(id));
        format!("<Upload><Key>{key}</Key><UploadId>{id}</UploadId></Upload>")
    });
    let xml = found.collect::<String>();
    HttpReply::xml(
        200,
        &format!(
            "<ListMultipartUploadsResult>{xml}<IsTruncated>false</IsTruncated></ListMultipartUploadsResult>"
        ),
    )
}

/// The upload that a request names, if it is one of this object.
fn upload<'a>(bucket: &'a mut Bucket, ask: &S3Call<'_>) -> Option<&'a mut PartUpload> {
    let found = bucket.uploads.get_mut(ask.value("uploadId")?);
    found.filter(|upload| upload.key == ask.key)
}

fn no_upload() -> HttpReply {
    HttpReply::error(404, "NoSuchUpload", "there is no such upload")
}

fn put_part(bucket: &mut Bucket, ask: &S3Call<'_>) -> HttpReply {
    let Some(upload) = upload(bucket, ask) else {
        return no_upload();
    };
    let number = ask.number("partNumber").and_then(|n| u32::try_from(n).ok());
    let Some(number) = number.filter(|n| (1..=10_000).contains(n)) else {
        return HttpReply::error(400, "InvalidArgument", "parts are 1 to 10000");
    };
    let sum = match sums(ask.request, upload.sum) {
        Ok(sum) => sum,
        Err(refused) => return refused,
    };
    let part = StoredObject::new(ask.request.body.clone());
    let reply = HttpReply::empty(200).with("etag", &part.etag);
    upload.parts.insert(number, (part, sum));
    reply
}

fn complete(bucket: &mut Bucket, ask: &S3Call<'_>) -> HttpReply {
    let Some(kind) = upload(bucket, ask).map(|upload| upload.sum) else {
        return no_upload();
    };
    let word = BodyChecksum::ALL.iter().find(|(sum, ..)| Some(*sum) == kind);
    let tag = word.map(|(_, _, word)| format!("Checksum{word}"));
    let xml = String::from_utf8_lossy(&ask.request.body);
    let part = |text: &str| {
        Some(NamedPart {
            number: text::element(text, "PartNumber")?.parse().ok()?,
            etag: text::element(text, "ETag")?,
            sum: tag.as_ref().and_then(|tag| text::element(text, tag)),
        })
    };
    let named: Option<Vec<NamedPart>> = text::inside(&xml, "Part").into_iter().map(part).collect();
    let id = ask.value("uploadId").unwrap_or_default();
    match bucket.complete(id, &named.unwrap_or_default()) {
        Ok(object) => {
            let etag = text::escaped(&object.etag);
            let xml = format!("<ETag>{etag}</ETag>");
            HttpReply::xml(
                200,
                &format!("<CompleteMultipartUploadResult>{xml}</CompleteMultipartUploadResult>"),
            )
        }
        Err(word) => HttpReply::error(400, word, "the parts do not make an object"),
    }
}

fn abort(bucket: &mut Bucket, ask: &S3Call<'_>) -> HttpReply {
    if upload(bucket, ask).is_none() {
        return no_upload();
    }
    bucket.uploads.remove(ask.value("uploadId").unwrap_or_default());
    HttpReply::empty(204)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(
        buckets: &mut Buckets,
        method: &str,
        target: &str,
        headers: &[(&str, &str)],
        body: &[u8],
    ) -> (u16, String) {
        let (path, query) = target.split_once('?').unwrap_or((target, ""));
        let header = |(n, v): &(&str, &str)| ((*n).to_owned(), (*v).to_owned());
        let reply = answer(
            buckets,
            &HttpRequest {
                method: method.to_owned(),
                path: path.to_owned(),
                query: query.to_owned(),
                headers: headers.iter().map(header).collect(),
                body: body.to_vec(),
            },
        );
        let sent = &reply.body[reply.range.0..reply.range.1];
        (reply.code, String::from_utf8_lossy(sent).into_owned())
    }

    #[test]
    fn objects_ranges_and_listings() {
        let mut b = Buckets::from([("bench".to_owned(), Bucket::default())]);
        for key in ["p/a", "p/b%20c", "p/d", "q/e"] {
            assert_eq!(ask(&mut b, "PUT", &format!("/bench/{key}"), &[], b"0123456789").0, 200);
        }
        assert_eq!(
            ask(&mut b, "GET", "/bench/p/a", &[("range", "bytes=2-4")], b""),
            (206, "234".to_owned())
        );
        assert_eq!(ask(&mut b, "GET", "/bench/p/a", &[("range", "bytes=10-")], b"").0, 416);
        let virtual_hosted = [("host", "bench.localhost:9000")];
        assert_eq!(ask(&mut b, "GET", "/p/a", &virtual_hosted, b"").0, 200);
        let (_, page) = ask(&mut b, "GET", "/bench/?list-type=2&prefix=p%2F&max-keys=2", &[], b"");
        assert_eq!(text::inside(&page, "Key"), ["p/a", "p/b c"]);
        let next = text::element(&page, "NextContinuationToken").expect("more");
        let query =
            format!("list-type=2&prefix=p%2F&continuation-token={}", text::encoded(&next, false));
        let (_, page) = ask(&mut b, "GET", &format!("/bench/?{query}"), &[], b"");
        assert_eq!(text::inside(&page, "Key"), ["p/d"]);
        assert_eq!(text::element(&page, "NextContinuationToken"), None);
        assert_eq!(ask(&mut b, "DELETE", "/bench/p/a", &[], b"").0, 204);
        let (code, said) = ask(&mut b, "GET", "/bench/p/a", &[], b"");
        assert!(code == 404 && said.contains("NoSuchKey"), "{said}");
        let (code, said) = ask(&mut b, "GET", "/nothere/p/a", &[], b"");
        assert!(code == 404 && said.contains("NoSuchBucket"), "{said}");
        assert_eq!(ask(&mut b, "GET", "/bench/p/d?acl", &[], b"").0, 501);
    }

    #[test]
    fn bodies_must_have_their_checksums() {
        let mut b = Buckets::from([("bench".to_owned(), Bucket::default())]);
        let good = [("x-amz-checksum-crc32c", "4waSgw==")];
        assert_eq!(ask(&mut b, "PUT", "/bench/k", &good, b"123456789").0, 200);
        let (code, said) = ask(&mut b, "PUT", "/bench/k", &good, b"123456780");
        assert!(code == 400 && said.contains("BadDigest"), "{said}");
        let names = b"<Delete><Object><Key>k</Key></Object></Delete>";
        assert_eq!(ask(&mut b, "POST", "/bench/?delete=", &[], names).0, 400);
        let sum = BodyChecksum::Sha256.of(names);
        let sum = [("x-amz-checksum-sha256", sum.as_str())];
        assert_eq!(ask(&mut b, "POST", "/bench/?delete=", &sum, names).0, 200);
        assert!(b["bench"].objects.is_empty());
        // An upload that was begun with a checksum wants one with every part.
        let crc = [("x-amz-checksum-algorithm", "CRC32C")];
        let (_, said) = ask(&mut b, "POST", "/bench/k?uploads=", &crc, b"");
        let id = text::encoded(&text::element(&said, "UploadId").expect("an id"), false);
        let part = format!("/bench/k?partNumber=1&uploadId={id}");
        assert_eq!(ask(&mut b, "PUT", &part, &[], b"123456789").0, 400);
        assert_eq!(ask(&mut b, "PUT", &part, &good, b"123456789").0, 200);
        let other = format!("/bench/other?uploadId={id}");
        assert_eq!(ask(&mut b, "DELETE", &other, &[], b"").0, 404);
        assert_eq!(ask(&mut b, "DELETE", &format!("/bench/k?uploadId={id}"), &[], b"").0, 204);
    }
}
