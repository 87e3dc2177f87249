//! What is answered to a request: the page, its state and charts, metrics, the run's report; of the stream of events
//! only the head.

use serde_json::json;
use taillight_report::html;
use taillight_rundir::manifest::LiveViewCost;

use crate::head::Request;
use crate::metrics::families;
use crate::model::LiveModel;
use crate::openmetrics::{TextFormat, text};
use crate::{protobuf, state};

const PAGE: &str = include_str!("live.html");
const SCRIPT: &str = include_str!("live.js");
const STYLE: &str = include_str!("live.css");

/// The head of a stream of events.
pub const EVENTS_HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\
    Cache-Control: no-cache\r\nConnection: close\r\nX-Content-Type-Options: nosniff\r\n\r\nretry: 1000\n\n";

/// Only what this server sends may run in the page, and nothing else may show it in a frame.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; \
    img-src data: blob:; font-src data:; connect-src 'self'; frame-ancestors 'none'; base-uri 'none'";

/// An answer.
pub struct Answer {
    status: &'static str,
    kind: &'static str,
    /// Seconds that a browser may keep it.
    keep_s: u32,
    body: Vec<u8>,
}

impl Answer {
    fn new(kind: &'static str, body: impl Into<Vec<u8>>) -> Answer {
        Answer { status: "200 OK", kind, keep_s: 0, body: body.into() }
    }

    /// Plain words.
    pub fn plain_text(status: &'static str, words: &str) -> Answer {
        Answer { status, ..Answer::new("text/plain; charset=utf-8", words) }
    }

    /// As it goes over the wire.
    pub fn bytes(self, head_only: bool) -> Vec<u8> {
        let keep = match self.keep_s {
            0 => "no-store".to_owned(),
            s => format!("max-age={s}"),
        };
        let Answer { status, kind, body, .. } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nCache-Control: {keep}\r\n\
             Connection: close\r\nX-Content-Type-Options: nosniff\r\nContent-Security-Policy: {}\r\n\r\n",
            body.len(),
            if kind.starts_with("text/html") && status == "200 OK" && body.starts_with(PAGE_HEAD) {
                POLICY
            } else {
                "frame-ancestors 'none'"
            },
        );
        let mut bytes = head.into_bytes();
        if !head_only {
            bytes.extend(body);
        }
        bytes
    }
}

/// The page begins so, and the report does not: it has a policy of its own.
const PAGE_HEAD: &[u8] = b"<!DOCTYPE html><!-- live -->";

/// Answers `request`.
pub fn answer(request: &Request, model: &LiveModel, used: &LiveViewCost) -> Answer {
    const SCRIPT_KIND: &str = "text/javascript; charset=utf-8";
    match request.path.as_str() {
        "/" => Answer::new("text/html; charset=utf-8", PAGE),
        "/live.css" => Answer::new("text/css; charset=utf-8", format!("{}{STYLE}", html::STYLE)),
        "/live.js" => Answer::new(SCRIPT_KIND, format!("{}{SCRIPT}", html::SCRIPT)),
        "/plotly.js" => match html::bundle() {
            Ok(script) => Answer { keep_s: 86_400, ..Answer::new(SCRIPT_KIND, script) },
            Err(e) => Answer::plain_text("500 Internal Server Error", &format!("{e}\n")),
        },
        "/metrics" => metrics(&request.accept, model, used),
        "/api/state" => json_of(&state::state(model)),
        "/api/charts" => match state::charts(model) {
            Ok(charts) => json_of(&json!({ "html": charts.html, "figures": charts.figures })),
            Err(e) => Answer::plain_text("500 Internal Server Error", &format!("{e}\n")),
        },
        "/report.html" => report(model),
        _ => Answer::plain_text("404 Not Found", "there is /, /metrics, /api/state and /events\n"),
    }
}

fn json_of(value: &serde_json::Value) -> Answer {
    Answer::new("application/json", value.to_string())
}

fn metrics(accept: &str, model: &LiveModel, used: &LiveViewCost) -> Answer {
    let families = families(model, used);
    if accept.contains("application/vnd.google.protobuf") {
        return Answer::new(protobuf::CONTENT_TYPE, protobuf::encode(&families));
    }
    if accept.contains("application/openmetrics-text") {
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        return Answer::new(kind, text(&families, TextFormat::OpenMetrics, None));
    }
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    Answer::new(kind, text(&families, TextFormat::Prometheus, None))
}

/// The run's page, once there is one.
fn report(model: &LiveModel) -> Answer {
    let path = model.end.as_ref().and_then(|end| end.report.as_ref());
    match path.map(std::fs::read) {
        Some(Ok(page)) => Answer::new("text/html; charset=utf-8", page),
        Some(Err(e)) => {
            Answer::plain_text("404 Not Found", &format!("the report cannot be read: {e}\n"))
        }
        None => Answer::plain_text("404 Not Found", "there is no report yet\n"),
    }
}

/// One server-sent event: the state, with the version of the model as its id.
pub fn event(model: &LiveModel) -> String {
    format!("id: {}\ndata: {}\n\n", model.version, state::state(model))
}
