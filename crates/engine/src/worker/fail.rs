//! Completions that are no plain success.

use taillight_core::Status;
use taillight_core::probe::Probe;
use taillight_driver::Completion;

use super::flight::{InFlight, record};
use super::{GONE_AFTER, Worker};
use crate::clock::DisciplinedClock;

impl<C: DisciplinedClock, P: Probe> Worker<C, P> {
    /// A failure, a short I/O, or a success with stamps of the driver's own.
    #[cold]
    pub(super) fn complete_other(&mut self, flight: &InFlight, c: &Completion) {
        let short = c.status.is_ok() && c.moved != flight.op.size;
        let status = if short { Status::SHORT } else { c.status };
        let mut record = record(flight, c, status, self.now, self.queued);
        record.origin = self.follow.as_ref().and_then(|f| f.origin);
        self.fail_or_not(status);
        self.probe.end(c.token.slot(), c.token, record.service_ns());
        self.recorder.record(&record);
    }

    /// Counts failures in a row: a target that only fails is gone. A key that is not there, or
    /// data that is not what was written, are answers of a target that works.
    #[inline]
    pub(super) fn fail_or_not(&mut self, status: Status) {
        let failed = !status.is_ok() && status != Status::NOT_FOUND && status != Status::VERIFY;
        self.failures = if failed { self.failures + 1 } else { 0 };
        if self.failures >= GONE_AFTER {
            self.stop();
        }
    }
}
