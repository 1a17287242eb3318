//! The past as something to work with: moments of a log (`moment`) and what changed between two (`diff`), the events as Parquet files
//! (`columns`, `rows`, `archive`), new data directories that appear whole or not at all (`staging`, `rebuild`), and when records are
//! due if it all happens again (`pace`).

pub mod archive;
pub mod backup;
pub mod columns;
pub mod diff;
pub mod moment;
pub mod pace;
pub mod rebuild;
mod rows;
pub mod staging;

pub use archive::{Appender, Archive, ArchiveError, Written};
pub use moment::Moment;
pub use rebuild::{Rebuild, RebuildError};
pub use staging::{Staging, StagingError};
