//! What stands where a run's target was once the workers have it.

use taillight_core::{Error, Result};
use taillight_driver::{AdminAction, Geometry, Session, SessionSpec, Target};

/// Stands where the target was.
pub struct Closed;

impl Target for Closed {
    fn geometry(&self) -> Geometry {
        Geometry {
            files: 0,
            file_size: 0,
            align: 1,
        }
    }
    fn session(&self, _: &SessionSpec) -> Result<Box<dyn Session>> {
        Err(Error::internal("the target is closed"))
    }
    fn admin(&self, _: AdminAction) -> Result<()> {
        Err(Error::internal("the target is closed"))
    }
    fn facts(&self) -> Vec<(String, String)> {
        Vec::new()
    }
    fn close(self: Box<Self>) -> Result<()> {
        Ok(())
    }
}
