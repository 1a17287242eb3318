//! Work on the past of a log: moments (`moment`) and the difference between two (`diff`), backups (`backup`), data directories that are
//! built aside and then renamed (`staging`, `rebuild`), and the pace of a replay (`pace`).

pub mod backup;
pub mod diff;
pub mod moment;
pub mod pace;
pub mod rebuild;
pub mod staging;

pub use moment::{Moment, position_at};
pub use rebuild::{Rebuild, RebuildError};
pub use staging::{Staging, StagingError};
