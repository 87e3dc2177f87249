//! The messages of a Perfetto trace that are written (`protos/perfetto/trace/perfetto_trace.proto`).

use prost::Message;

/// A trace. Packets are written one by one, each as a trace of one: such bytes behind each other are a trace.
#[derive(Clone, PartialEq, Message)]
pub struct PerfettoTrace {
    #[prost(message, repeated, tag = "1")]
    pub packets: Vec<PerfettoPacket>,
}

#[derive(Clone, PartialEq, Message)]
pub struct PerfettoPacket {
    #[prost(message, optional, tag = "6")]
    pub clocks: Option<ClockSnapshot>,
    /// Ns, of the clock that `clock` names.
    #[prost(uint64, optional, tag = "8")]
    pub timestamp: Option<u64>,
    #[prost(uint32, tag = "10")]
    pub sequence: u32,
    #[prost(message, optional, tag = "11")]
    pub event: Option<TrackEvent>,
    #[prost(uint32, optional, tag = "58")]
    pub clock: Option<u32>,
    #[prost(message, optional, tag = "60")]
    pub track: Option<TrackDescriptor>,
}

/// Clocks read at the same moment.
#[derive(Clone, PartialEq, Message)]
pub struct ClockSnapshot {
    #[prost(message, repeated, tag = "1")]
    pub clocks: Vec<ClockReading>,
    #[prost(uint32, tag = "2")]
    pub primary: u32,
}

#[derive(Clone, PartialEq, Message)]
pub struct ClockReading {
    #[prost(uint32, tag = "1")]
    pub clock: u32,
    #[prost(uint64, tag = "2")]
    pub ns: u64,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackDescriptor {
    #[prost(uint64, tag = "1")]
    pub uuid: u64,
    #[prost(string, optional, tag = "2")]
    pub name: Option<String>,
    #[prost(message, optional, tag = "3")]
    pub process: Option<ProcessDescriptor>,
    #[prost(uint64, optional, tag = "5")]
    pub parent: Option<u64>,
    /// How tracks inside it are ordered; [`EXPLICIT`]: by their rank.
    #[prost(uint32, optional, tag = "11")]
    pub children: Option<u32>,
    #[prost(uint32, optional, tag = "12")]
    pub rank: Option<u32>,
}

/// See [`TrackDescriptor::children`].
pub const EXPLICIT: u32 = 3;

#[derive(Clone, PartialEq, Message)]
pub struct ProcessDescriptor {
    #[prost(uint32, tag = "1")]
    pub pid: u32,
    #[prost(string, tag = "6")]
    pub name: String,
    #[prost(string, repeated, tag = "8")]
    pub labels: Vec<String>,
}

#[derive(Clone, PartialEq, Message)]
pub struct TrackEvent {
    #[prost(message, repeated, tag = "4")]
    pub annotations: Vec<EventAnnotation>,
    /// [`BEGIN`] or [`END`].
    #[prost(uint32, tag = "9")]
    pub kind: u32,
    #[prost(uint64, tag = "11")]
    pub track: u64,
    #[prost(string, repeated, tag = "22")]
    pub categories: Vec<String>,
    #[prost(string, optional, tag = "23")]
    pub name: Option<String>,
}

/// See [`TrackEvent::kind`].
pub const BEGIN: u32 = 1;
pub const END: u32 = 2;

/// A name and one value.
#[derive(Clone, PartialEq, Message)]
pub struct EventAnnotation {
    #[prost(uint64, optional, tag = "3")]
    pub number: Option<u64>,
    #[prost(string, optional, tag = "6")]
    pub text: Option<String>,
    #[prost(string, tag = "10")]
    pub name: String,
}

/// `BUILTIN_CLOCK_REALTIME`.
pub const REALTIME: u32 = 1;
/// `BUILTIN_CLOCK_MONOTONIC`, the clock of every stamp.
pub const MONOTONIC: u32 = 3;
