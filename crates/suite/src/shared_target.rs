//! One target held open over several runs: what one run stored, the next one reads.
//!
//! A run closes the target it is given, so it gets a view whose close does nothing; the target itself closes
//! after the last run. The target was opened with the workloads of all runs one after another, and a view
//! says which of them its run means. The method decides which runs share a target. Called by the series
//! runner.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::sync::Arc;

use taillight_core::witness::WitnessCount;
use taillight_core::{Error, OpKind, Result};
use taillight_driver::{
    AdminAction, Geometry, KeyedTarget, Session, SessionSpec, Target, TargetBridge, TargetPause,
    VirtualTime,
};

/// The target, held open.
pub struct SharedTarget {
    target: Arc<Box<dyn Target>>,
}

impl SharedTarget {
    /// Holds an opened target.
    pub fn new(target: Box<dyn Target>) -> SharedTarget {
        SharedTarget { target: Arc::new(target) }
    }

    /// A view for a run whose first workload is number `first` of those the target was opened with.
    pub fn view(&self, first: u16) -> Box<dyn Target> {
        Box::new(TargetView { target: self.target.clone(), first })
    }

    /// The target itself, between runs.
    pub fn target(&self) -> &dyn Target {
        &**self.target
    }

    /// Closes it, after the last run. Errors: `Target` when closing fails; `Internal` when a view
    /// is still there, as after a worker that was given up.
    pub fn close(self) -> Result<()> {
        match Arc::into_inner(self.target) {
            Some(target) => target.close(),
            None => Err(Error::internal("the target is closed while a run uses it")),
        }
    }
}

struct TargetView {
    target: Arc<Box<dyn Target>>,
    first: u16,
}

impl Target for TargetView {
    fn server_process(&self) -> Option<u32> {
        self.target.server_process()
    }
    fn geometry(&self) -> Geometry {
        self.target.geometry_of(usize::from(self.first))
    }
    fn geometry_of(&self, workload: usize) -> Geometry {
        self.target.geometry_of(usize::from(self.first) + workload)
    }
    fn session(&self, spec: &SessionSpec) -> Result<Box<dyn Session>> {
        self.target.session(&SessionSpec { workload: self.first + spec.workload, ..*spec })
    }
    fn bridges(&self, geometry: Geometry) -> Vec<TargetBridge> {
        self.target.bridges(geometry)
    }
    fn descriptors(&self, workers: usize) -> Option<Vec<BorrowedFd<'_>>> {
        self.target.descriptors(workers)
    }
    fn admin(&self, action: AdminAction) -> Result<()> {
        self.target.admin(action)
    }
    fn facts(&self) -> Vec<(String, String)> {
        self.target.facts()
    }
    fn notes(&self) -> Vec<String> {
        self.target.notes()
    }
    fn session_facts(&self) -> Vec<(String, String)> {
        self.target.session_facts()
    }
    fn end_facts(&self) -> Vec<(String, String)> {
        self.target.end_facts()
    }
    fn is_back(&self) -> bool {
        self.target.is_back()
    }
    fn goes_on(&self) -> bool {
        true
    }
    fn inner_kinds(&self) -> &'static [OpKind] {
        self.target.inner_kinds()
    }
    fn pauses(&self) -> Option<Vec<TargetPause>> {
        self.target.pauses()
    }
    fn auxiliary_dirs(&self) -> Vec<PathBuf> {
        self.target.auxiliary_dirs()
    }
    fn keyed(&self) -> Option<&dyn KeyedTarget> {
        self.target.keyed()
    }
    fn sample(&self, out: &mut dyn FnMut(&str, f64)) {
        self.target.sample(out);
    }
    fn witness(&self) -> Vec<WitnessCount> {
        let mut counts = self.target.witness();
        // They name workloads by their numbers among those the target was opened with.
        for workloads in counts.iter_mut().filter_map(|count| count.workloads.as_mut()) {
            *workloads = workloads.iter().filter_map(|w| w.checked_sub(self.first)).collect();
        }
        counts
    }
    fn virtual_time(&self) -> Option<Arc<dyn VirtualTime>> {
        self.target.virtual_time()
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use taillight_core::witness::WitnessUnit;

    use super::*;

    /// Each workload drives a file of its own: the workload's number in bytes, and one more.
    struct FilePerWorkload;

    impl Target for FilePerWorkload {
        fn geometry(&self) -> Geometry {
            self.geometry_of(0)
        }
        fn geometry_of(&self, workload: usize) -> Geometry {
            Geometry { files: 1, file_size: workload as u64 + 1, align: 1 }
        }
        fn session(&self, _: &SessionSpec) -> Result<Box<dyn Session>> {
            Err(Error::internal("nobody asks for one"))
        }
        fn admin(&self, _: AdminAction) -> Result<()> {
            Ok(())
        }
        fn witness(&self) -> Vec<WitnessCount> {
            let count = WitnessCount::new("all", WitnessUnit::Operations, &[OpKind::Read], 0);
            vec![WitnessCount { workloads: Some(vec![1, 3]), ..count.clone() }, count]
        }
    }

    #[test]
    fn a_view_numbers_workloads_from_its_first_and_goes_on() {
        let target = SharedTarget::new(Box::new(FilePerWorkload));
        let view = target.view(2);
        assert_eq!((view.geometry().size(), view.geometry_of(1).size()), (3, 4));
        let named: Vec<_> = view.witness().into_iter().map(|count| count.workloads).collect();
        assert_eq!(named, [Some(vec![1]), None]);
        assert!(view.goes_on() && !target.target().goes_on());
        drop(view);
        target.close().expect("nobody uses it");
    }
}
