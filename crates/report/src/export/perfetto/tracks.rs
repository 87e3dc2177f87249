//! Tracks of a trace: slices of one track must not overlap, so a slice that overlaps goes on a further track of the
//! same name and a number. Writes the tracks as packets in order of time; `mod.rs` chooses what is shown.

use std::io::Write;

use prost::Message;
use taillight_core::Result;

use super::messages::{
    BEGIN, END, EXPLICIT, EventAnnotation, MONOTONIC, PerfettoPacket, PerfettoTrace,
    ProcessDescriptor, TrackDescriptor, TrackEvent,
};
use crate::export::unwritten;

/// The one writer of packets.
const SEQUENCE: u32 = 1;
/// Track of the run, which all others are in.
const ROOT: u64 = 1;

/// Something with a begin and an end.
#[derive(Debug, Clone)]
pub struct TraceSlice {
    /// CLOCK_MONOTONIC ns.
    pub from: i64,
    pub to: i64,
    pub name: &'static str,
    pub categories: Vec<&'static str>,
    pub annotations: Vec<EventAnnotation>,
}

/// A name, and the tracks that its slices take.
#[derive(Debug)]
struct TrackGroup {
    name: String,
    /// Of each track the end of its last slice.
    ends: Vec<i64>,
    /// Track, and what is on it, by begin.
    slices: Vec<(usize, TraceSlice)>,
}

/// Every track of a trace.
#[derive(Debug, Default)]
pub struct Tracks(Vec<TrackGroup>);

impl Tracks {
    /// Adds slices under a name; those that overlap take several tracks.
    pub fn add(&mut self, name: String, mut slices: Vec<TraceSlice>) {
        slices.sort_by_key(|s| (s.from, s.to));
        let mut group = TrackGroup { name, ends: Vec::new(), slices: Vec::new() };
        for slice in slices {
            let free = group.ends.iter().position(|end| *end <= slice.from);
            let at = free.unwrap_or(group.ends.len());
            match group.ends.get_mut(at) {
                Some(end) => *end = slice.to,
                None => group.ends.push(slice.to),
            }
            group.slices.push((at, slice));
        }
        self.0.push(group);
    }

    /// Writes the descriptors of the tracks, then begins and ends in order of time. Errors: `Unavailable` when they
    /// cannot be written.
    pub fn write(&self, process: ProcessDescriptor, out: &mut dyn Write) -> Result<()> {
        let root = TrackDescriptor {
            uuid: ROOT,
            process: Some(process),
            children: Some(EXPLICIT),
            ..TrackDescriptor::default()
        };
        let described = |track| PerfettoPacket { track: Some(track), ..PerfettoPacket::default() };
        put(out, described(root))?;
        let (mut uuid, mut events) = (ROOT, Vec::new());
        for group in &self.0 {
            let first = uuid + 1;
            for number in 1..=group.ends.len() {
                uuid += 1;
                let name = match number {
                    1 => group.name.clone(),
                    _ => format!("{} ({number})", group.name),
                };
                put(
                    out,
                    described(TrackDescriptor {
                        uuid,
                        name: Some(name),
                        parent: Some(ROOT),
                        rank: Some(uuid as u32),
                        ..TrackDescriptor::default()
                    }),
                )?;
            }
            for (track, slice) in &group.slices {
                let track = first + *track as u64;
                events.push((slice.from, track, Some(slice)));
                events.push((slice.to, track, None));
            }
        }
        // The sort is stable: events of one track are in order already, and those of one time stay so.
        events.sort_by_key(|(at, ..)| *at);
        events.into_iter().try_for_each(|event| put(out, packet(event)))
    }
}

fn packet((at, track, begins): (i64, u64, Option<&TraceSlice>)) -> PerfettoPacket {
    let text = |text: &&str| (*text).to_owned();
    let event = match begins {
        None => TrackEvent { kind: END, track, ..TrackEvent::default() },
        Some(slice) => TrackEvent {
            kind: BEGIN,
            track,
            name: Some(slice.name.to_owned()),
            categories: slice.categories.iter().map(text).collect(),
            annotations: slice.annotations.clone(),
        },
    };
    PerfettoPacket {
        timestamp: Some(at.max(0) as u64),
        clock: Some(MONOTONIC),
        event: Some(event),
        ..PerfettoPacket::default()
    }
}

/// Writes one packet. Errors: `Unavailable` when it cannot be written.
pub fn put(out: &mut dyn Write, packet: PerfettoPacket) -> Result<()> {
    let packet = PerfettoPacket { sequence: SEQUENCE, ..packet };
    out.write_all(&PerfettoTrace { packets: vec![packet] }.encode_to_vec()).map_err(unwritten)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(from: i64, to: i64) -> TraceSlice {
        TraceSlice { from, to, name: "read", categories: Vec::new(), annotations: Vec::new() }
    }

    /// Begins and ends of each track, as written.
    fn written(slices: Vec<TraceSlice>) -> Vec<Vec<(u64, u32)>> {
        let (mut tracks, mut bytes) = (Tracks::default(), Vec::new());
        tracks.add("worker 0".to_owned(), slices);
        tracks.write(ProcessDescriptor::default(), &mut bytes).unwrap();
        let trace = PerfettoTrace::decode(bytes.as_slice()).unwrap();
        let described = trace.packets.iter().filter(|p| p.track.is_some()).count() - 1;
        let mut found = vec![Vec::new(); described];
        for packet in trace.packets {
            let Some(event) = packet.event else { continue };
            assert_eq!((packet.clock, packet.sequence), (Some(MONOTONIC), SEQUENCE));
            found[event.track as usize - 2].push((packet.timestamp.unwrap(), event.kind));
        }
        found
    }

    #[test]
    fn what_overlaps_is_on_tracks_of_its_own_and_what_touches_is_not() {
        let found = written(vec![slice(5, 9), slice(0, 5), slice(3, 4), slice(9, 9), slice(4, 6)]);
        let pair = |from, to| [(from, BEGIN), (to, END)];
        assert_eq!(found[0], [pair(0, 5), pair(5, 9), pair(9, 9)].concat());
        assert_eq!(found[1], [pair(3, 4), pair(4, 6)].concat());
        assert_eq!(found.len(), 2);
    }
}
