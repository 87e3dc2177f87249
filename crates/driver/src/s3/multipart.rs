//! An upload in parts as one operation: create, the parts one after the other, complete; abort when one of them
//! fails. An upload that no answer says is at an end is remembered, and aborted when the load is over: no listing
//! of objects shows it.

use quick_xml::escape::escape;
use taillight_core::Status;

use super::connection::{BodySink, RequestSpec};
use super::request::{RequestWriter, S3Request};
use super::session::S3Slot;
use super::xml;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum UploadStep {
    #[default]
    None,
    Create,
    Part(u64),
    Complete,
    Abort,
}

/// An upload under way.
#[derive(Default)]
pub struct MultipartUpload {
    step: UploadStep,
    size: u64,
    part: u64,
    id: String,
    /// Names the parts in the request that completes.
    list: String,
    query: String,
    /// Checksum of the part under way.
    sum: String,
    /// Why it is aborted.
    failed: Option<Status>,
    /// The store has said that nothing of it is left.
    over: bool,
}

/// An upload that may be left in the store.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct LostUpload {
    /// Name of the object that it was to be.
    pub name: String,
    /// As a query has it; none where no answer told it.
    pub id: Option<String>,
}

impl MultipartUpload {
    /// Begins one of `size` bytes.
    pub fn begin(&mut self, size: u64, part: u64) {
        self.reset();
        self.size = size;
        self.part = part;
        self.step = UploadStep::Create;
    }
    /// Whether one is under way.
    pub fn active(&self) -> bool {
        self.step != UploadStep::None
    }
    pub fn reset(&mut self) {
        self.step = UploadStep::None;
        self.failed = None;
        self.over = false;
        self.id.clear();
        self.list.clear();
    }
    /// The upload, where it may be left in the store as it is now. `name`: of its object.
    pub fn lost(&self, name: impl FnOnce() -> String) -> Option<LostUpload> {
        let id = || Some(self.id.clone()).filter(|id| !id.is_empty());
        (self.active() && !self.over).then(|| LostUpload { name: name(), id: id() })
    }
    fn range(&self, part: u64) -> (usize, usize) {
        let from = (part - 1) * self.part;
        (from as usize, (from + self.part).min(self.size) as usize)
    }
}

const ANSWER_MAX: usize = 16 << 10;

/// Writes the next request.
pub(super) fn write(
    slot: &mut S3Slot,
    buffer: &[u8],
    name: &[u8],
    api: &mut RequestWriter,
    mut spec: RequestSpec,
) -> RequestSpec {
    use std::fmt::Write as _;
    let S3Slot { connection, upload, host, .. } = slot;
    upload.query.clear();
    let mut request = S3Request::new("POST", name);
    let mut own: &[u8] = &[];
    spec.sink = BodySink::Text(ANSWER_MAX);
    match upload.step {
        UploadStep::None | UploadStep::Create => upload.query.push_str("uploads="),
        UploadStep::Part(n) => {
            let _ = write!(upload.query, "partNumber={n}&uploadId={}", upload.id);
            spec.upload = upload.range(n);
            request.method = "PUT";
            request.data = true;
            request.body = &buffer[spec.upload.0..spec.upload.1];
        }
        UploadStep::Complete => {
            let _ = write!(upload.query, "uploadId={}", upload.id);
            upload.list.insert_str(0, "<CompleteMultipartUpload>");
            upload.list.push_str("</CompleteMultipartUpload>");
            own = upload.list.as_bytes();
            request.body = own;
        }
        UploadStep::Abort => {
            let _ = write!(upload.query, "uploadId={}", upload.id);
            request.method = "DELETE";
        }
    }
    request.query = &upload.query;
    request.creates = upload.step == UploadStep::Create;
    api.write(*host, &request, &mut connection.head);
    connection.head.extend_from_slice(own);
    // Other slots write requests before this one's answer comes.
    if let Some((_, sum)) = api.checksum() {
        upload.sum.clear();
        upload.sum.push_str(sum);
    }
    spec
}

/// Takes an answer; the status when the operation has ended.
pub(super) fn answered(slot: &mut S3Slot, api: &RequestWriter) -> Option<Status> {
    use std::fmt::Write as _;
    let S3Slot { connection, upload, .. } = slot;
    let good = (200..300).contains(&connection.reply.code);
    let text = std::str::from_utf8(&connection.text).unwrap_or("");
    let code = connection.reply.code;
    let failed = match code {
        404 => Status::NOT_FOUND,
        _ => Status::STORE,
    };
    upload.step = match upload.step {
        UploadStep::Create if good => match xml::first(text, "UploadId") {
            Some(id) => {
                upload.id = super::request::encoded(&id);
                UploadStep::Part(1)
            }
            None => return Some(Status::STORE),
        },
        UploadStep::None | UploadStep::Create => {
            // Who fails in the midst of it may have begun one.
            upload.over = !matches!(code, 500 | 502 | 504);
            return Some(failed);
        }
        UploadStep::Part(n) if good => {
            let etag = &connection.reply.etag;
            let _ = write!(upload.list, "<Part><ETag>{}</ETag>", escape(etag.as_str()));
            if let Some((kind, _)) = api.checksum() {
                let sum = &upload.sum;
                let _ = write!(upload.list, "<Checksum{kind}>{sum}</Checksum{kind}>");
            }
            let _ = write!(upload.list, "<PartNumber>{n}</PartNumber></Part>");
            match upload.range(n).1 as u64 == upload.size {
                true => UploadStep::Complete,
                false => UploadStep::Part(n + 1),
            }
        }
        // An error can come with code 200: the store began its answer before it knew.
        UploadStep::Complete if good && !text.contains("<Error>") => {
            upload.over = true;
            return Some(Status::OK);
        }
        UploadStep::Abort => {
            upload.over = good || code == 404;
            return Some(upload.failed.unwrap_or(Status::STORE));
        }
        UploadStep::Part(_) | UploadStep::Complete => {
            upload.failed = Some(failed);
            UploadStep::Abort
        }
    };
    None
}
