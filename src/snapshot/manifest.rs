//! `Manifest` describes a snapshot and its files (`manifest.json`). It is written last, so that a snapshot without one is known to be
//! unfinished.

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::error::Unusable;
use crate::config::Config;
use crate::core::id::{RecordId, Seq};
use crate::core::state::FOLD;
use crate::core::time::Timestamp;
use crate::log::{EventLog, ReadError};

/// Version of the tables and their columns. It is raised by a change that an older program would read wrongly.
pub const SCHEMA: u32 = 1;

/// Name of the file.
pub const FILE_NAME: &str = "manifest.json";

/// The content of `manifest.json`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    pub schema: u32,
    /// Version of the fold that made the state. Snapshots from before it was written down have version 0 and no such member.
    #[serde(default, skip_serializing_if = "is_unversioned")]
    pub fold: u32,
    /// The last record that the state holds.
    pub seq: u64,
    /// When it was taken, RFC 3339.
    pub taken_at: String,
    /// The version of the program that took it.
    pub pml: String,
    /// Digest of the state.
    pub digest: String,
    /// BLAKE3 of the settings of the process that took it. The state does not depend on them.
    pub config_hash: String,
    pub log: Origin,
    pub files: Vec<FileEntry>,
    /// BLAKE3 of this manifest with this member empty.
    pub blake3: String,
}

/// The log that a snapshot belongs to, identified by two record ids: producers make ids that are unique.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Origin {
    /// Id of the first record of the log.
    pub first_id: String,
    /// Id of the record at the snapshot's position.
    pub last_id: String,
}

impl Origin {
    /// The origin of a snapshot of `log` at `seq`; `None` if there is no record at `seq`.
    pub async fn of(log: &dyn EventLog, seq: Seq) -> Result<Option<Self>, ReadError> {
        if seq == Seq::ZERO {
            return Ok(None);
        }
        let (first, last) = (log.read(Seq::ZERO, 1).await?, log.read(Seq(seq.0 - 1), 1).await?);
        let id = |id: RecordId| id.to_string();
        Ok(match (first.first(), last.first().filter(|record| record.seq == seq)) {
            (Some(first), Some(last)) => Some(Self { first_id: id(first.fact.id), last_id: id(last.fact.id) }),
            _ => None,
        })
    }
}

/// A file of the snapshot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    pub name: String,
    pub rows: u64,
    pub bytes: u64,
    pub blake3: String,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks with a reference")]
fn is_unversioned(fold: &u32) -> bool {
    *fold == 0
}

/// What of a manifest every version has.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

impl Manifest {
    pub(super) fn new(seq: Seq, digest: String, about: &About, files: Vec<FileEntry>) -> Self {
        let mut manifest = Self {
            schema: SCHEMA,
            fold: FOLD,
            seq: seq.0,
            taken_at: about.taken_at.to_string(),
            pml: env!("CARGO_PKG_VERSION").to_owned(),
            digest,
            config_hash: about.config_hash.clone(),
            log: about.log.clone(),
            files,
            blake3: String::new(),
        };
        manifest.blake3 = manifest.own_hash();
        manifest
    }

    pub fn seq(&self) -> Seq {
        Seq(self.seq)
    }

    /// Whether this program would have come to the same state from the same records.
    pub fn check_fold(&self) -> Result<(), Unusable> {
        if self.fold == FOLD { Ok(()) } else { Err(Unusable::OtherFold { found: self.fold, known: FOLD }) }
    }

    /// Of all files together.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// Of all files together.
    pub fn rows(&self) -> u64 {
        self.files.iter().map(|file| file.rows).sum()
    }

    fn own_hash(&self) -> String {
        let bare = Self { blake3: String::new(), ..self.clone() };
        blake3::hash(&bare.to_bytes()).to_hex().to_string()
    }

    /// The manifest with the hash that it should have.
    #[cfg(feature = "testing")]
    pub(super) fn sealed(&self) -> Self {
        Self { blake3: self.own_hash(), ..self.clone() }
    }

    /// Name and content of the file.
    pub(super) fn file(&self) -> (String, Bytes) {
        (FILE_NAME.to_owned(), self.to_bytes().into())
    }

    fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec_pretty(self).expect("a manifest is plain data");
        bytes.push(b'\n');
        bytes
    }

    /// Parses exactly the bytes that [`Self::to_bytes`] gives; anything else is damage.
    pub(super) fn parse(seq: Seq, bytes: &[u8]) -> Result<Self, Unusable> {
        let wrong = |error: serde_json::Error| Unusable::Manifest(error.to_string());
        let Version { schema } = serde_json::from_slice(bytes).map_err(wrong)?;
        if schema > SCHEMA {
            return Err(Unusable::NewerSchema { found: schema, known: SCHEMA });
        }
        let manifest: Self = serde_json::from_slice(bytes).map_err(wrong)?;
        if manifest.to_bytes() != bytes || manifest.blake3 != manifest.own_hash() {
            return Err(Unusable::Manifest("it is damaged: it has another hash than it says".to_owned()));
        }
        if manifest.seq() != seq {
            return Err(Unusable::Manifest(format!("it is of snapshot {}", manifest.seq)));
        }
        Ok(manifest)
    }
}

/// The parts of a manifest that do not follow from the state.
#[derive(Clone, Debug)]
pub struct About {
    pub log: Origin,
    pub config_hash: String,
    pub taken_at: Timestamp,
}

/// BLAKE3 of the configuration, without its secrets.
pub fn config_hash(config: &Config) -> String {
    blake3::hash(format!("{config:?}").as_bytes()).to_hex().to_string()
}
