//! The C API of librdkafka: its table of functions, the library, a client, a queue. What sends and takes records is in
//! `transfer`, what asks brokers in `questions`.
//!
//! The library is called here and in the `sys.rs` of these two alone. A client has threads of its own; what they have
//! for us comes through a queue, and a descriptor says when that queue is no longer empty.
#![allow(unsafe_code)]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use rustix::event::{EventfdFlags, eventfd};
use taillight_core::{Error, Result};

use crate::kv::sys::{Library, LibrarySource, Obj, c_text, file_of};

const SOURCE: LibrarySource = LibrarySource {
    driver: "kafka",
    names: &["librdkafka.so.1", "librdkafka.so"],
    install: "Debian: librdkafka1",
};

pub(super) const PRODUCER: c_int = 0;
pub(super) const CONSUMER: c_int = 1;
/// A consumer does not wait for its group when it ends: it is in none.
const NO_CLOSE: c_int = 0x8;
pub(super) const EVENT_DELIVERY: c_int = 0x1;
pub(super) const EVENT_ERROR: c_int = 0x8;

/// Codes that are told apart.
pub mod code {
    pub const TIMED_OUT: i32 = -185;
    pub const QUEUE_FULL: i32 = -184;
    pub const MESSAGE_TIMED_OUT: i32 = -192;
    pub const SSL: i32 = -181;
    pub const AUTHENTICATION: i32 = -169;
    pub const FATAL: i32 = -150;
    pub const UNKNOWN_TOPIC: i32 = 3;
    pub const TOPIC_EXISTS: i32 = 36;
    pub const STORAGE: i32 = 56;
}

/// `rd_kafka_message_t`.
#[repr(C)]
pub(super) struct Message {
    pub err: c_int,
    pub topic: Obj,
    pub partition: i32,
    pub payload: *const c_char,
    pub len: usize,
    pub key: *const c_char,
    pub key_len: usize,
    pub offset: i64,
    pub private: *mut c_void,
}

#[repr(C)]
pub(super) struct MetadataPartition {
    pub id: i32,
    pub err: c_int,
    pub leader: i32,
    pub replica_cnt: c_int,
    pub replicas: *const i32,
    pub isr_cnt: c_int,
    pub isrs: *const i32,
}

#[repr(C)]
pub(super) struct MetadataTopic {
    pub topic: *const c_char,
    pub partition_cnt: c_int,
    pub partitions: *const MetadataPartition,
    pub err: c_int,
}

#[repr(C)]
pub(super) struct Metadata {
    pub broker_cnt: c_int,
    pub brokers: *const c_void,
    pub topic_cnt: c_int,
    pub topics: *const MetadataTopic,
    pub orig_broker_id: i32,
    pub orig_broker_name: *const c_char,
}

/// The result in an event, and the topics in that.
pub(super) type TopicResults =
    (unsafe extern "C" fn(Obj) -> Obj, unsafe extern "C" fn(Obj, *mut usize) -> *const Obj);
type LogCallback = unsafe extern "C" fn(Obj, c_int, *const c_char, *const c_char);

/// A table of C functions, found by name.
macro_rules! table {
    ($($name:ident: $symbol:literal ($($arg:ty),*) $(-> $ret:ty)?;)*) => {
        /// What is used of `rdkafka.h`. Every opaque object is a `void *` here.
        pub(super) struct KafkaApi {
            $(pub $name: unsafe extern "C" fn($($arg),*) $(-> $ret)?,)*
        }
        impl KafkaApi {
            fn find(loaded: &mut Library) -> Option<KafkaApi> {
                // SAFETY: names and types are those of librdkafka's C header, version 1.
                unsafe {
                    $(let $name = loaded.need(concat!($symbol, "\0"));)*
                    Some(KafkaApi { $($name: $name?,)* })
                }
            }
        }
    };
}

table! {
    version: "rd_kafka_version_str" () -> *const c_char;
    error_name: "rd_kafka_err2name" (c_int) -> *const c_char;
    error_text: "rd_kafka_err2str" (c_int) -> *const c_char;
    last_error: "rd_kafka_last_error" () -> c_int;
    conf_new: "rd_kafka_conf_new" () -> Obj;
    conf_destroy: "rd_kafka_conf_destroy" (Obj);
    conf_set: "rd_kafka_conf_set" (Obj, *const c_char, *const c_char, *mut c_char, usize) -> c_int;
    conf_set_events: "rd_kafka_conf_set_events" (Obj, c_int);
    conf_set_log: "rd_kafka_conf_set_log_cb" (Obj, Option<LogCallback>);
    new: "rd_kafka_new" (c_int, Obj, *mut c_char, usize) -> Obj;
    destroy: "rd_kafka_destroy_flags" (Obj, c_int);
    topic_new: "rd_kafka_topic_new" (Obj, *const c_char, Obj) -> Obj;
    topic_destroy: "rd_kafka_topic_destroy" (Obj);
    queue_new: "rd_kafka_queue_new" (Obj) -> Obj;
    queue_main: "rd_kafka_queue_get_main" (Obj) -> Obj;
    queue_destroy: "rd_kafka_queue_destroy" (Obj);
    queue_wakes: "rd_kafka_queue_io_event_enable" (Obj, c_int, *const c_void, usize);
    queue_poll: "rd_kafka_queue_poll" (Obj, c_int) -> Obj;
    event_type: "rd_kafka_event_type" (Obj) -> c_int;
    event_destroy: "rd_kafka_event_destroy" (Obj);
    event_error: "rd_kafka_event_error" (Obj) -> c_int;
    event_error_text: "rd_kafka_event_error_string" (Obj) -> *const c_char;
    event_message: "rd_kafka_event_message_next" (Obj) -> *const Message;
    produce: "rd_kafka_produce" (Obj, i32, c_int, *const c_void, usize, *const c_void, usize, *mut c_void) -> c_int;
    purge: "rd_kafka_purge" (Obj, c_int) -> c_int;
    consume_start: "rd_kafka_consume_start_queue" (Obj, i32, i64, Obj) -> c_int;
    consume_stop: "rd_kafka_consume_stop" (Obj, i32) -> c_int;
    consume: "rd_kafka_consume_batch_queue" (Obj, c_int, *mut *mut Message, usize) -> isize;
    message_destroy: "rd_kafka_message_destroy" (*mut Message);
    metadata: "rd_kafka_metadata" (Obj, c_int, Obj, *mut *const Metadata, c_int) -> c_int;
    metadata_destroy: "rd_kafka_metadata_destroy" (*const Metadata);
    watermarks: "rd_kafka_query_watermark_offsets" (Obj, *const c_char, i32, *mut i64, *mut i64, c_int) -> c_int;
    new_topic: "rd_kafka_NewTopic_new" (*const c_char, c_int, c_int, *mut c_char, usize) -> Obj;
    new_topic_config: "rd_kafka_NewTopic_set_config" (Obj, *const c_char, *const c_char) -> c_int;
    new_topic_destroy: "rd_kafka_NewTopic_destroy" (Obj);
    create_topics: "rd_kafka_CreateTopics" (Obj, *mut Obj, usize, Obj, Obj);
    created_event: "rd_kafka_event_CreateTopics_result" (Obj) -> Obj;
    created: "rd_kafka_CreateTopics_result_topics" (Obj, *mut usize) -> *const Obj;
    old_topic: "rd_kafka_DeleteTopic_new" (*const c_char) -> Obj;
    old_topic_destroy: "rd_kafka_DeleteTopic_destroy" (Obj);
    delete_topics: "rd_kafka_DeleteTopics" (Obj, *mut Obj, usize, Obj, Obj);
    deleted_event: "rd_kafka_event_DeleteTopics_result" (Obj) -> Obj;
    deleted: "rd_kafka_DeleteTopics_result_topics" (Obj, *mut usize) -> *const Obj;
    topic_error: "rd_kafka_topic_result_error" (Obj) -> c_int;
    topic_error_text: "rd_kafka_topic_result_error_string" (Obj) -> *const c_char;
    resource_new: "rd_kafka_ConfigResource_new" (c_int, *const c_char) -> Obj;
    resource_destroy: "rd_kafka_ConfigResource_destroy" (Obj);
    describe: "rd_kafka_DescribeConfigs" (Obj, *mut Obj, usize, Obj, Obj);
    described_event: "rd_kafka_event_DescribeConfigs_result" (Obj) -> Obj;
    described: "rd_kafka_DescribeConfigs_result_resources" (Obj, *mut usize) -> *const Obj;
    resource_error: "rd_kafka_ConfigResource_error" (Obj) -> c_int;
    resource_configs: "rd_kafka_ConfigResource_configs" (Obj, *mut usize) -> *const Obj;
    config_name: "rd_kafka_ConfigEntry_name" (Obj) -> *const c_char;
    config_value: "rd_kafka_ConfigEntry_value" (Obj) -> *const c_char;
}

/// What the library or a broker says went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KafkaFault {
    pub code: i32,
    pub text: String,
}

/// The library, loaded.
pub struct KafkaLibrary {
    pub(super) api: KafkaApi,
    file: Option<PathBuf>,
}

/// A C string of the library.
///
/// # Safety
/// `at` is null or a C string that outlives the call.
pub(super) unsafe fn text(at: *const c_char) -> String {
    match at.is_null() {
        true => String::new(),
        // SAFETY: passed on to the caller.
        false => unsafe { CStr::from_ptr(at) }.to_string_lossy().into_owned(),
    }
}

/// What the library would print goes nowhere: what matters of it comes as an error.
///
/// # Safety
/// Touches nothing.
unsafe extern "C" fn quiet(_: Obj, _: c_int, _: *const c_char, _: *const c_char) {}

impl KafkaLibrary {
    /// Loads it: the file or soname given, or the system's. Errors: `Unavailable` when it is missing, or lacks
    /// functions.
    pub fn load(given: &str) -> Result<Arc<KafkaLibrary>> {
        let mut loaded = Library::open(&SOURCE, given)?;
        let Some(api) = KafkaApi::find(&mut loaded) else {
            return Err(loaded.missing_functions(&SOURCE));
        };
        let file = file_of(api.new as *const ());
        loaded.keep();
        Ok(Arc::new(KafkaLibrary { api, file }))
    }

    /// The file it was loaded from, for people.
    pub fn loaded_from(&self) -> String {
        self.file.as_ref().map_or("unknown".to_owned(), |f| f.display().to_string())
    }

    pub fn version(&self) -> String {
        // SAFETY: returns a string that is part of the library.
        unsafe { text((self.api.version)()) }
    }

    /// The name of a code, as `MSG_SIZE_TOO_LARGE`, and its words.
    pub fn describe_error(&self, code: i32) -> [String; 2] {
        // SAFETY: both return strings that are part of the library.
        unsafe { [text((self.api.error_name)(code)), text((self.api.error_text)(code))] }
    }

    pub(super) fn fault(&self, code: i32) -> KafkaFault {
        KafkaFault { code, text: self.describe_error(code)[1].clone() }
    }

    pub(super) fn last(&self) -> KafkaFault {
        // SAFETY: reads a number of this thread.
        self.fault(unsafe { (self.api.last_error)() })
    }
}

/// A setting of the library.
pub type Setting = (String, String);

/// A client: threads and connections of its own.
pub(super) struct Client {
    pub library: Arc<KafkaLibrary>,
    pub raw: Obj,
}

impl Client {
    /// Errors: `Usage` for a setting that the library does not take, `Unavailable` when it cannot begin.
    pub fn new(
        library: &Arc<KafkaLibrary>,
        kind: c_int,
        events: c_int,
        settings: &[Setting],
    ) -> Result<Client> {
        let api = &library.api;
        let mut says = [0 as c_char; 512];
        // SAFETY: makes a configuration, which is destroyed below or taken over by `new`.
        let conf = unsafe { (api.conf_new)() };
        // SAFETY: the configuration is ours; the callback touches nothing.
        unsafe {
            (api.conf_set_log)(conf, Some(quiet));
            (api.conf_set_events)(conf, events);
        }
        for (name, value) in settings {
            let (c_name, c_value) = (c_text(name)?, c_text(value)?);
            // SAFETY: both texts outlive the call; `says` has room for the size given.
            let set = unsafe {
                let (at, room) = (says.as_mut_ptr(), says.len());
                (api.conf_set)(conf, c_name.as_ptr(), c_value.as_ptr(), at, room)
            };
            if set != 0 {
                // SAFETY: destroyed once; the library wrote a C string.
                let says = unsafe {
                    (api.conf_destroy)(conf);
                    text(says.as_ptr())
                };
                return Err(Error::usage("librdkafka does not take a setting")
                    .of_field("config")
                    .with("setting", name)
                    .with("librdkafka says", says)
                    .hint("its settings: CONFIGURATION.md of librdkafka"));
            }
        }
        // SAFETY: takes the configuration over when it succeeds; `says` has room for the size given.
        let raw = unsafe { (api.new)(kind, conf, says.as_mut_ptr(), says.len()) };
        if raw.is_null() {
            // SAFETY: not taken over; the library wrote a C string.
            let says = unsafe {
                (api.conf_destroy)(conf);
                text(says.as_ptr())
            };
            return Err(Error::unavailable("librdkafka does not begin")
                .with("librdkafka says", says)
                .hint("look at options.config and at the limits of this process (ulimit -u)"));
        }
        Ok(Client { library: library.clone(), raw })
    }

    /// A handle of a topic, for the caller to destroy. Errors: `Unavailable` when the library does
    /// not take its name.
    pub fn topic(&self, name: &str) -> Result<Obj> {
        let name = c_text(name)?;
        // SAFETY: the client is alive; the name outlives the call.
        let topic = unsafe { (self.library.api.topic_new)(self.raw, name.as_ptr(), null_mut()) };
        match topic.is_null() {
            false => Ok(topic),
            true => Err(Error::unavailable("librdkafka does not take the topic")
                .with("librdkafka says", self.library.last().text)),
        }
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        // SAFETY: destroyed once, after every queue and topic of it.
        unsafe { (self.library.api.destroy)(self.raw, NO_CLOSE) };
    }
}

/// A queue of a client, and what says that it is no longer empty.
pub(super) struct Queue {
    library: Arc<KafkaLibrary>,
    pub raw: Obj,
    wake: Option<OwnedFd>,
}

impl Queue {
    /// # Safety
    /// `raw` is a queue of a client that outlives the result, and the caller's.
    pub unsafe fn new(library: &Arc<KafkaLibrary>, raw: Obj, wakes: bool) -> Result<Queue> {
        let mut queue = Queue { library: library.clone(), raw, wake: None };
        if wakes {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(|e| {
                Error::unavailable("no descriptor to wait for a broker with").source(e)
            })?;
            let one = 1u64.to_ne_bytes();
            // SAFETY: the library copies the payload; the descriptor is closed after the queue is destroyed.
            unsafe {
                (library.api.queue_wakes)(raw, fd.as_raw_fd(), one.as_ptr().cast(), one.len());
            }
            queue.wake = Some(fd);
        }
        Ok(queue)
    }

    /// Makes the descriptor wait for the next event again.
    pub fn calm(&self) {
        if let Some(fd) = &self.wake {
            // Empty already: nothing to take back.
            let _ = rustix::io::read(fd, &mut [0; 8]);
        }
    }

    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.wake.as_ref().map(|fd| fd.as_fd())
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: destroyed once, before its client; without a descriptor it writes to none afterwards.
        unsafe {
            if self.wake.is_some() {
                (self.library.api.queue_wakes)(self.raw, -1, null(), 0);
            }
            (self.library.api.queue_destroy)(self.raw);
        }
    }
}
