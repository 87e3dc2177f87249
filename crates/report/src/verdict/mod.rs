//! The judgement of a run: its status, and every reason for it.

mod basis;
mod changes;
mod failures;
mod rules;
pub mod saturation;
pub mod wrong_data;

pub use basis::{asked_for, main, unmeasured, unsampled, untold, whole_ops};
pub use changes::LEVEL_CHANGED;
pub use failures::MEASURED_TO_ITS_END;
pub use rules::{
    CEILING_FAILED, CEILING_UNDECIDED, FOUND, IMPORTED, add_trouble, is_own, leads, placeholder,
    verdict,
};
pub use wrong_data::WRONG_DATA;
