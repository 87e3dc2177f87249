//! Records to and from one topic through librdkafka: a producer, one that owns the buffers of its records, a consumer.
//!
//! Payloads that the load writes are not copied: the buffer of a record stays in place until its delivery report,
//! or for good. Only [`Producer::one`] has its record copied.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use taillight_core::{Error, Result};

use crate::buffers::Buffers;
use crate::kafka::sys::{
    CONSUMER, Client, EVENT_DELIVERY, EVENT_ERROR, KafkaFault, KafkaLibrary, Message, PRODUCER,
    Queue, Setting, text,
};
use crate::kv::sys::{Obj, slice};

const PURGE_ALL: c_int = 0x3;
const COPY: c_int = 0x2;
/// Records taken from the library in one call.
const FETCHED: usize = 256;

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeliveryReport {
    /// The slot given to [`SlotProducer::produce`].
    pub tag: u64,
    /// 0: acknowledged.
    pub code: i32,
}

/// Produces to one topic.
pub struct Producer {
    topic: Obj,
    /// Dropped before the client.
    queue: Queue,
    client: Client,
}

// SAFETY: librdkafka's objects may be used by any thread, one at a time here.
unsafe impl Send for Producer {}

impl Producer {
    /// Errors: as for a setting that the library does not take.
    pub fn new(library: &Arc<KafkaLibrary>, settings: &[Setting], topic: &str) -> Result<Producer> {
        let client = Client::new(library, PRODUCER, EVENT_DELIVERY | EVENT_ERROR, settings)?;
        // SAFETY: the client is alive, and its main queue is a reference of our own.
        let queue = unsafe {
            let main = (library.api.queue_main)(client.raw);
            Queue::new(library, main, true)?
        };
        Ok(Producer { topic: client.topic(topic)?, queue, client })
    }

    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.queue.descriptor()
    }

    /// Queues a record; its delivery report carries `tag`.
    ///
    /// # Safety
    /// Without the flag that has it copied, `payload` stays readable and unchanged until that report has come, or the
    /// producer is leaked.
    #[inline]
    unsafe fn queue_record(
        &self,
        flags: c_int,
        partition: i32,
        key: &[u8],
        payload: &[u8],
        tag: u64,
    ) -> Result<(), i32> {
        let api = &self.client.library.api;
        let (value, size) = (payload.as_ptr().cast(), payload.len());
        let (name, length) = (key.as_ptr().cast(), key.len());
        let tag = tag as usize as *mut c_void;
        // SAFETY: the key is copied by the library; the payload too, or it stays, by the caller's word.
        let made =
            unsafe { (api.produce)(self.topic, partition, flags, value, size, name, length, tag) };
        // SAFETY: reads a number of this thread.
        if made == 0 { Ok(()) } else { Err(unsafe { (api.last_error)() }) }
    }

    /// Shows the delivery reports that have come, waiting `wait_ms` for the first; errors of the connection go to
    /// `wrong`.
    pub fn reports(
        &self,
        wait_ms: i32,
        mut show: impl FnMut(DeliveryReport),
        mut wrong: impl FnMut(KafkaFault),
    ) {
        let api = &self.client.library.api;
        self.queue.calm();
        let mut wait = wait_ms;
        loop {
            // SAFETY: the queue is alive; an event is used until it is destroyed, and its messages with it.
            unsafe {
                let event = (api.queue_poll)(self.queue.raw, wait);
                if event.is_null() {
                    return;
                }
                wait = 0;
                match (api.event_type)(event) {
                    EVENT_DELIVERY => loop {
                        let message = (api.event_message)(event);
                        let Some(message) = message.as_ref() else { break };
                        let tag = message.private as usize as u64;
                        show(DeliveryReport { tag, code: message.err });
                    },
                    EVENT_ERROR => {
                        let (code, text) =
                            ((api.event_error)(event), text((api.event_error_text)(event)));
                        wrong(KafkaFault { code, text });
                    }
                    _ => {}
                }
                (api.event_destroy)(event);
            }
        }
    }

    /// Sends one record to partition 0 and waits for its report, asking `done` with it, or with none after each
    /// `wait_ms`. Errors: the code why it was not taken.
    pub fn one(
        self,
        key: &[u8],
        payload: &[u8],
        wait_ms: i32,
        mut done: impl FnMut(Option<i32>) -> bool,
    ) -> Result<(), i32> {
        // SAFETY: the library copies it.
        unsafe { self.queue_record(COPY, 0, key, payload, 0)? };
        let mut came = None;
        while !done(came) {
            self.reports(wait_ms, |report| came = Some(report.code), drop);
        }
        Ok(())
    }

    /// Gives up on everything in flight.
    pub fn purge(&self) {
        // SAFETY: the client is alive.
        unsafe { (self.client.library.api.purge)(self.client.raw, PURGE_ALL) };
    }
}

/// A producer with the buffers of the records that it sends, which are not copied.
pub struct SlotProducer {
    producer: ManuallyDrop<Producer>,
    buffers: ManuallyDrop<Buffers>,
    /// Records that lie in a buffer and may still be sent.
    lent: u32,
}

impl SlotProducer {
    pub fn new(producer: Producer, buffers: Buffers) -> SlotProducer {
        let (producer, buffers) = (ManuallyDrop::new(producer), ManuallyDrop::new(buffers));
        SlotProducer { producer, buffers, lent: 0 }
    }

    /// The buffer of a slot without a record in flight.
    #[inline]
    pub fn buffer(&mut self, slot: u32) -> &mut [u8] {
        self.buffers.slot(slot)
    }

    pub fn lent(&self) -> u32 {
        self.lent
    }

    /// Queues the first `size` bytes of a slot's buffer; the report carries the slot.
    #[inline]
    pub fn produce(
        &mut self,
        slot: u32,
        size: usize,
        partition: i32,
        key: &[u8],
    ) -> Result<(), i32> {
        let value = &self.buffers.slot(slot)[..size];
        // SAFETY: the buffers outlive the report: `drop` leaks both while one is outstanding, and a session's slot is
        // not given out again before.
        unsafe { self.producer.queue_record(0, partition, key, value, u64::from(slot))? };
        self.lent += 1;
        Ok(())
    }

    /// As [`Producer::reports`].
    pub fn reports(&mut self, mut show: impl FnMut(DeliveryReport), wrong: impl FnMut(KafkaFault)) {
        let lent = &mut self.lent;
        let count = |report| {
            *lent = lent.saturating_sub(1);
            show(report);
        };
        self.producer.reports(0, count, wrong);
    }

    /// Gives up on everything in flight.
    pub fn purge(&self) {
        self.producer.purge();
    }
}

impl Drop for SlotProducer {
    fn drop(&mut self) {
        if self.lent == 0 {
            // SAFETY: both are dropped once, here, the library's threads first.
            unsafe {
                ManuallyDrop::drop(&mut self.producer);
                ManuallyDrop::drop(&mut self.buffers);
            }
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        // SAFETY: destroyed once, before the client.
        unsafe { (self.client.library.api.topic_destroy)(self.topic) };
    }
}

/// A record that was fetched, or why there is none.
pub struct FetchedRecord<'a> {
    pub code: i32,
    pub partition: i32,
    pub offset: i64,
    pub key: &'a [u8],
    pub value: &'a [u8],
}

/// Fetches partitions of one topic, in no group.
pub struct Consumer {
    topic: Obj,
    started: Vec<i32>,
    /// Fetched and not yet shown, from `at` on.
    fetched: Vec<*mut Message>,
    at: usize,
    queue: Queue,
    client: Client,
}

// SAFETY: as of `Producer`.
unsafe impl Send for Consumer {}

impl Consumer {
    /// Begins to fetch these partitions, each from an offset. Errors: as for a setting that the library does not
    /// take; `Unavailable` when a partition is not there.
    pub fn new(
        library: &Arc<KafkaLibrary>,
        settings: &[Setting],
        topic: &str,
        from: &[(i32, i64)],
    ) -> Result<Consumer> {
        let client = Client::new(library, CONSUMER, 0, settings)?;
        // SAFETY: the client is alive; the queue is ours.
        let queue = unsafe {
            let queue = (library.api.queue_new)(client.raw);
            Queue::new(library, queue, true)?
        };
        let topic = client.topic(topic)?;
        let fetched = Vec::with_capacity(FETCHED);
        let started = Vec::with_capacity(from.len());
        let mut made = Consumer { topic, started, fetched, at: 0, queue, client };
        for (partition, offset) in from {
            made.start(*partition, *offset)?;
        }
        Ok(made)
    }

    fn start(&mut self, partition: i32, offset: i64) -> Result<()> {
        // SAFETY: topic and queue are alive.
        let begun = unsafe {
            (self.client.library.api.consume_start)(self.topic, partition, offset, self.queue.raw)
        };
        if begun != 0 {
            return Err(Error::unavailable("a partition cannot be fetched")
                .with("partition", partition)
                .with("librdkafka says", self.client.library.last().text));
        }
        self.started.push(partition);
        Ok(())
    }

    /// Begins again at these offsets; what was fetched and not shown is dropped. Errors: as [`Consumer::new`].
    pub fn restart(&mut self, from: &[(i32, i64)]) -> Result<()> {
        self.stop();
        while self.fetch(0) > 0 {
            self.drop_fetched();
        }
        from.iter().try_for_each(|(partition, offset)| self.start(*partition, *offset))
    }

    fn stop(&mut self) {
        for partition in self.started.drain(..) {
            // SAFETY: the partition was started.
            unsafe { (self.client.library.api.consume_stop)(self.topic, partition) };
        }
        self.drop_fetched();
    }

    fn drop_fetched(&mut self) {
        for message in self.fetched.drain(..).skip(self.at) {
            // SAFETY: given by the library, destroyed once: those before `at` are destroyed already.
            unsafe { (self.client.library.api.message_destroy)(message) };
        }
        self.at = 0;
    }

    pub fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.queue.descriptor()
    }

    /// Takes records that have come, waiting `wait_ms` for the first. All before must have been shown.
    fn fetch(&mut self, wait_ms: i32) -> usize {
        self.queue.calm();
        self.fetched.clear();
        self.at = 0;
        // SAFETY: the queue is alive, the vector has room for so many, and as many are set as the answer says.
        unsafe {
            let room = self.fetched.as_mut_ptr();
            let n = (self.client.library.api.consume)(self.queue.raw, wait_ms, room, FETCHED);
            self.fetched.set_len(usize::try_from(n).unwrap_or(0).min(FETCHED));
        }
        self.fetched.len()
    }

    /// Shows the next record, waiting `wait_ms` for it; none when it has not come.
    #[inline]
    pub fn next<T>(
        &mut self,
        wait_ms: i32,
        show: impl FnOnce(&FetchedRecord<'_>) -> T,
    ) -> Option<T> {
        if self.at == self.fetched.len() && self.fetch(wait_ms) == 0 {
            return None;
        }
        let message = *self.fetched.get(self.at)?;
        self.at += 1;
        // SAFETY: given by the library and not yet destroyed; its bytes live until it is, below.
        unsafe {
            let is = &*message;
            let record = FetchedRecord {
                code: is.err,
                partition: is.partition,
                offset: is.offset,
                key: slice(is.key, is.key_len),
                value: slice(is.payload, is.len),
            };
            let shown = show(&record);
            (self.client.library.api.message_destroy)(message);
            Some(shown)
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.stop();
        // SAFETY: destroyed once, before the client.
        unsafe { (self.client.library.api.topic_destroy)(self.topic) };
    }
}
