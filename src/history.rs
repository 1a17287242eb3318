//! Work on the past of a log: moments (`moment`) and the difference between two (`diff`), the archive of events as Parquet files
//! (`columns`, `rows`, `archive`), data directories that are built aside and then renamed (`staging`, `rebuild`), and the pace of a
//! replay (`pace`).

pub mod archive;
pub mod backup;
pub mod columns;
pub mod diff;
pub mod moment;
pub mod pace;
pub mod rebuild;
mod rows;
pub mod staging;

pub use archive::{Archive, ArchiveCounts, ArchiveError, ArchiveWriter};
pub use moment::Moment;
pub use rebuild::{Rebuild, RebuildError};
pub use staging::{Staging, StagingError};
