//! Asks brokers about topics, and makes and deletes topics, through librdkafka, outside the load.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use taillight_core::Result;

use crate::kafka::sys::{
    Client, EVENT_ERROR, KafkaFault, KafkaLibrary, Metadata, PRODUCER, Queue, Setting,
    TopicResults, code, text,
};

const RESOURCE_TOPIC: c_int = 2;
/// `RD_KAFKA_RESP_ERR__BAD_MSG`: here, an answer without what was asked for.
const BAD_ANSWER: i32 = -199;

/// An answer that says nothing of the topic that was asked about.
fn no_answer() -> KafkaFault {
    KafkaFault { code: BAD_ANSWER, text: "the answer says nothing of the topic".to_owned() }
}

/// A client by which brokers are asked, and topics made and deleted, outside the load.
pub struct AdminClient {
    /// Answers of administration come here. Both queues are dropped before the client: fields are in their order.
    answers: Queue,
    /// What the connections complain of.
    errors: Queue,
    client: Client,
}

// SAFETY: librdkafka's objects may be used by any thread, one at a time here.
unsafe impl Send for AdminClient {}

/// A topic as the brokers describe it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicShape {
    pub partitions: i32,
    /// Copies of the partition that has the fewest.
    pub replicas: i32,
    /// Copies in sync of the partition that has the fewest in sync.
    pub in_sync: i32,
    /// There are partitions, and each has a leader.
    pub led: bool,
}

impl AdminClient {
    /// Errors: `Usage` for a setting that librdkafka does not take, `Unavailable` when it does not begin.
    pub fn new(library: &Arc<KafkaLibrary>, settings: &[Setting]) -> Result<AdminClient> {
        let client = Client::new(library, PRODUCER, EVENT_ERROR, settings)?;
        // SAFETY: the client is alive; both queues are references of our own.
        let (answers, errors) = unsafe {
            let (answers, errors) =
                ((library.api.queue_new)(client.raw), (library.api.queue_main)(client.raw));
            (Queue::new(library, answers, false)?, Queue::new(library, errors, false)?)
        };
        Ok(AdminClient { answers, errors, client })
    }

    /// What the connections have complained of since this was last asked, the newest first; waits for nothing.
    pub fn complaints(&self) -> Vec<KafkaFault> {
        let api = &self.client.library.api;
        let mut all = Vec::new();
        loop {
            // SAFETY: the queue is alive; an event is used until it is destroyed.
            unsafe {
                let event = (api.queue_poll)(self.errors.raw, 0);
                if event.is_null() {
                    all.reverse();
                    return all;
                }
                if (api.event_type)(event) == EVENT_ERROR {
                    let code = (api.event_error)(event);
                    all.push(KafkaFault { code, text: text((api.event_error_text)(event)) });
                }
                (api.event_destroy)(event);
            }
        }
    }

    /// The topic with this name, none where it is not there, and how many brokers there are. All topics are asked for:
    /// brokers may make a topic that is asked for by name and is not there.
    pub fn topic(
        &self,
        name: &str,
        wait_ms: i32,
    ) -> Result<(Option<TopicShape>, usize), KafkaFault> {
        let api = &self.client.library.api;
        let mut metadata: *const Metadata = null();
        // SAFETY: the client is alive; what is given is destroyed below.
        let code =
            unsafe { (api.metadata)(self.client.raw, 1, null_mut(), &mut metadata, wait_ms) };
        if code != 0 {
            return Err(self.client.library.fault(code));
        }
        // SAFETY: the library gave a description whose arrays have the lengths that stand beside them.
        unsafe {
            let all = &*metadata;
            let mut topics = items(all.topics, all.topic_cnt).iter();
            let found = topics.find(|t| CStr::from_ptr(t.topic).to_bytes() == name.as_bytes());
            let shape = found.map(|t| {
                let parts = items(t.partitions, t.partition_cnt);
                TopicShape {
                    partitions: t.partition_cnt,
                    replicas: parts.iter().map(|p| p.replica_cnt).min().unwrap_or(0),
                    in_sync: parts.iter().map(|p| p.isr_cnt).min().unwrap_or(0),
                    led: parts.iter().all(|p| p.leader >= 0) && !parts.is_empty(),
                }
            });
            let brokers = usize::try_from(all.broker_cnt).unwrap_or(0);
            (api.metadata_destroy)(metadata);
            Ok((shape, brokers))
        }
    }

    /// Offset of the first record of a partition, and the offset that its next record will have.
    pub fn offsets(
        &self,
        topic: &str,
        partition: i32,
        wait_ms: i32,
    ) -> Result<(i64, i64), KafkaFault> {
        let name = self.name(topic)?;
        let (mut low, mut high) = (0, 0);
        // SAFETY: the client is alive, the name outlives the call.
        let code = unsafe {
            let ask = self.client.library.api.watermarks;
            ask(self.client.raw, name.as_ptr(), partition, &mut low, &mut high, wait_ms)
        };
        if code == 0 { Ok((low, high)) } else { Err(self.client.library.fault(code)) }
    }

    /// Drops answers that came too late for their questions.
    fn drop_late(&self) {
        let api = &self.client.library.api;
        loop {
            // SAFETY: the queue is alive; an event is destroyed once.
            unsafe {
                let event = (api.queue_poll)(self.answers.raw, 0);
                if event.is_null() {
                    return;
                }
                (api.event_destroy)(event);
            }
        }
    }

    fn name(&self, topic: &str) -> Result<CString, KafkaFault> {
        CString::new(topic).map_err(|e| KafkaFault { code: -186, text: e.to_string() })
    }

    /// Makes a topic with these settings. Errors: `TOPIC_EXISTS` when there is one, `TIMED_OUT` without an answer in
    /// time, else what librdkafka or the broker says.
    pub fn create(
        &self,
        topic: &str,
        partitions: u32,
        replicas: u32,
        settings: &[Setting],
        wait_ms: i32,
    ) -> Result<(), KafkaFault> {
        let api = &self.client.library.api;
        let name = self.name(topic)?;
        let mut says = [0 as c_char; 256];
        let parts = c_int::try_from(partitions).unwrap_or(c_int::MAX);
        let copies = c_int::try_from(replicas).unwrap_or(c_int::MAX);
        // SAFETY: texts outlive the calls; the description is destroyed below.
        unsafe {
            let mut new =
                (api.new_topic)(name.as_ptr(), parts, copies, says.as_mut_ptr(), says.len());
            if new.is_null() {
                return Err(KafkaFault { code: -186, text: text(says.as_ptr()) });
            }
            for (name, value) in settings {
                let (name, value) = (self.name(name)?, self.name(value)?);
                (api.new_topic_config)(new, name.as_ptr(), value.as_ptr());
            }
            self.drop_late();
            (api.create_topics)(self.client.raw, &mut new, 1, null_mut(), self.answers.raw);
            (api.new_topic_destroy)(new);
        }
        self.answered(wait_ms, (api.created_event, api.created))
    }

    /// Deletes a topic. Errors: `TIMED_OUT` without an answer in time, else what librdkafka or the broker says.
    pub fn delete(&self, topic: &str, wait_ms: i32) -> Result<(), KafkaFault> {
        let api = &self.client.library.api;
        let name = self.name(topic)?;
        // SAFETY: the name outlives the calls; the description is destroyed below.
        unsafe {
            let mut old = (api.old_topic)(name.as_ptr());
            self.drop_late();
            (api.delete_topics)(self.client.raw, &mut old, 1, null_mut(), self.answers.raw);
            (api.old_topic_destroy)(old);
        }
        self.answered(wait_ms, (api.deleted_event, api.deleted))
    }

    /// Waits for the answer to a request about one topic: `result` finds the result in an event, `topics` the topics in
    /// that. Errors: `TIMED_OUT` without an answer in time, what the broker says.
    fn answered(&self, wait_ms: i32, (result, topics): TopicResults) -> Result<(), KafkaFault> {
        let api = &self.client.library.api;
        // SAFETY: the queue is alive; the event is used until it is destroyed, and is the result that `topics` reads.
        unsafe {
            let event = (api.queue_poll)(self.answers.raw, wait_ms);
            if event.is_null() {
                return Err(self.client.library.fault(code::TIMED_OUT));
            }
            let code = (api.event_error)(event);
            let mut fault = None;
            if code != 0 {
                fault = Some(KafkaFault { code, text: text((api.event_error_text)(event)) });
            } else {
                let mut count = 0;
                let result = result(event);
                let first = if result.is_null() { null() } else { topics(result, &mut count) };
                if first.is_null() || count == 0 {
                    fault = Some(no_answer());
                } else if (api.topic_error)(*first) != 0 {
                    let (code, says) = ((api.topic_error)(*first), (api.topic_error_text)(*first));
                    let says = text(says);
                    let words = self.client.library.describe_error(code);
                    let text = if says.is_empty() { words[1].clone() } else { says };
                    fault = Some(KafkaFault { code, text });
                }
            }
            (api.event_destroy)(event);
            fault.map_or(Ok(()), Err)
        }
    }

    /// The settings of a topic as its brokers have them.
    pub fn settings(&self, topic: &str, wait_ms: i32) -> Result<Vec<Setting>, KafkaFault> {
        let api = &self.client.library.api;
        let name = self.name(topic)?;
        // SAFETY: the name outlives the calls; the event is used until it is destroyed.
        unsafe {
            let mut resource = (api.resource_new)(RESOURCE_TOPIC, name.as_ptr());
            self.drop_late();
            (api.describe)(self.client.raw, &mut resource, 1, null_mut(), self.answers.raw);
            (api.resource_destroy)(resource);
            let event = (api.queue_poll)(self.answers.raw, wait_ms);
            if event.is_null() {
                return Err(self.client.library.fault(code::TIMED_OUT));
            }
            let mut code = (api.event_error)(event);
            let mut all = Vec::new();
            let mut count = 0;
            if code == 0 {
                let result = (api.described_event)(event);
                let first =
                    if result.is_null() { null() } else { (api.described)(result, &mut count) };
                if first.is_null() || count == 0 {
                    code = BAD_ANSWER;
                } else {
                    code = (api.resource_error)(*first);
                    let mut entries = 0;
                    let entry = (api.resource_configs)(*first, &mut entries);
                    let entries = items(entry, entries);
                    all.extend(entries.iter().map(|entry| {
                        (text((api.config_name)(*entry)), text((api.config_value)(*entry)))
                    }));
                }
            }
            (api.event_destroy)(event);
            if code == 0 { Ok(all) } else { Err(self.client.library.fault(code)) }
        }
    }
}

/// An array in the library's memory.
///
/// # Safety
/// `count` items at `at` are readable for as long as the result is used; null means none.
unsafe fn items<'a, T>(at: *const T, count: impl TryInto<usize>) -> &'a [T] {
    match count.try_into() {
        // SAFETY: passed on to the caller.
        Ok(count) if !at.is_null() => unsafe { std::slice::from_raw_parts(at, count) },
        _ => &[],
    }
}
