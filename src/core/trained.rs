//! The trained parts in the fold: the training runs, the versions that serve, and their parameters.
//!
//! Parameters enter the state by records only: `model.trained` announces an accepted version, `model.parameters` brings its bytes in
//! pieces, and `model.promoted` makes it serve. So a replay trains nothing, and a log alone restores what was served. A refused
//! version leaves its `model.trained` record and no parameters.

use std::sync::Arc;

use imbl::{OrdMap, Vector};

use super::digest::{DigestWriter, Digestible};
use super::event::{ModelParameters, ModelPart, ModelPromoted, ModelRolledBack, ModelTrained, ModelVersion};
use super::id::Seq;

/// Training runs kept, the latest ones.
pub const RUNS_KEPT: usize = 64;
/// Bytes of parameters per record: below the payload limit of a NATS server (1 MB), as base64 too.
pub const PIECE_BYTES: usize = 256 * 1024;
/// Bytes of parameters per version, at most.
pub const PARAMETERS_MAX: u64 = 8 * 1024 * 1024;
/// Versions per part whose parameters are kept: the one that serves, the one before it, and one that is arriving.
const VERSIONS_KEPT: usize = 3;

/// The number of pieces of parameters of this size.
pub fn piece_count(size: u64) -> u64 {
    size.div_ceil(PIECE_BYTES as u64)
}

/// A training run and its record.
#[derive(Clone, Debug)]
pub struct TrainingRun {
    pub seq: Seq,
    pub event: Arc<ModelTrained>,
}

/// An accepted version and the pieces of its parameters that have arrived.
#[derive(Clone, Debug)]
pub struct StoredVersion {
    pub run: TrainingRun,
    pieces: Vec<Option<Arc<[u8]>>>,
}

impl StoredVersion {
    fn new(run: TrainingRun) -> Self {
        let pieces = usize::try_from(piece_count(run.event.size)).expect("sizes are limited");
        Self { run, pieces: vec![None; pieces] }
    }

    /// All bytes, if every piece has arrived and they have the digest that was announced.
    pub fn bytes(&self) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        for piece in &self.pieces {
            bytes.extend_from_slice(piece.as_deref()?);
        }
        (*blake3::hash(&bytes).to_hex() == *self.run.event.digest).then_some(bytes)
    }

    /// The pieces that have arrived, with their numbers.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, &Arc<[u8]>)> {
        self.pieces.iter().enumerate().filter_map(|(number, piece)| Some((number, piece.as_ref()?)))
    }
}

/// Pieces of parameters with their numbers.
pub type NumberedPieces = Vec<(usize, Arc<[u8]>)>;

/// The versions of one part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Serving {
    pub current: Option<ModelVersion>,
    /// The version that served before, for a rollback.
    pub previous: Option<ModelVersion>,
}

/// `Trained` holds the latest training runs, the versions that serve, and the parameters of a few versions per part.
#[derive(Clone, Debug, Default)]
pub struct Trained {
    runs: Vector<TrainingRun>,
    versions: OrdMap<ModelVersion, Arc<StoredVersion>>,
    serving: [Serving; ModelPart::ALL.len()],
}

impl Trained {
    /// Records a training run. An accepted version may then send its parameters.
    pub fn add_run(&mut self, event: &ModelTrained, seq: Seq) {
        let run = TrainingRun { seq, event: Arc::new(event.clone()) };
        if event.accepted && event.size <= PARAMETERS_MAX && !self.versions.contains_key(&event.version) {
            self.make_room(event.version.part());
            self.versions.insert(event.version.clone(), Arc::new(StoredVersion::new(run.clone())));
        }
        self.runs.push_back(run);
        if self.runs.len() > RUNS_KEPT {
            self.runs.pop_front();
        }
    }

    /// Drops the oldest version of a part that neither serves nor served before, if there are too many.
    fn make_room(&mut self, part: ModelPart) {
        let serving = &self.serving[part as usize];
        let of_part = || self.versions.iter().filter(|(version, _)| version.part() == part);
        if of_part().count() < VERSIONS_KEPT {
            return;
        }
        let in_use =
            |version: &ModelVersion| [&serving.current, &serving.previous].into_iter().flatten().any(|used| used == version);
        let oldest = of_part().filter(|(version, _)| !in_use(version)).min_by_key(|(_, stored)| stored.run.seq);
        if let Some(version) = oldest.map(|(version, _)| version.clone()) {
            self.versions.remove(&version);
        }
    }

    /// Adds a piece of the parameters of an accepted version; any other piece is ignored.
    pub fn add_piece(&mut self, event: &ModelParameters) {
        let Some(stored) = self.versions.get_mut(&event.version) else { return };
        let piece = event.piece as usize;
        if stored.pieces.len() == event.pieces as usize && event.bytes.len() <= PIECE_BYTES && stored.pieces[piece].is_none() {
            Arc::make_mut(stored).pieces[piece] = Some(Arc::clone(&event.bytes));
        }
    }

    /// Makes a version serve, if its parameters are complete. Returns whether it does.
    pub fn promote(&mut self, event: &ModelPromoted) -> bool {
        let complete = self.versions.get(&event.version).is_some_and(|stored| stored.bytes().is_some());
        let serving = &mut self.serving[event.version.part() as usize];
        if !complete || serving.current.as_ref() == Some(&event.version) {
            return false;
        }
        serving.previous = serving.current.replace(event.version.clone());
        true
    }

    /// Makes an earlier version of a part serve, or none. Returns whether anything changed.
    pub fn roll_back(&mut self, event: &ModelRolledBack) -> bool {
        let serving = &mut self.serving[event.part as usize];
        let known = event.to.as_ref().is_none_or(|to| self.versions.contains_key(to) && to.part() == event.part);
        if !known || serving.current == event.to {
            return false;
        }
        serving.previous = std::mem::replace(&mut serving.current, event.to.clone());
        true
    }

    /// The latest training runs, the oldest first.
    pub fn runs(&self) -> impl DoubleEndedIterator<Item = &TrainingRun> {
        self.runs.iter()
    }

    pub fn serving(&self, part: ModelPart) -> &Serving {
        &self.serving[part as usize]
    }

    /// The version of a part that serves, with its parameters.
    pub fn current(&self, part: ModelPart) -> Option<&Arc<StoredVersion>> {
        self.versions.get(self.serving[part as usize].current.as_ref()?)
    }

    /// The versions whose parameters are kept.
    pub fn versions(&self) -> impl Iterator<Item = &Arc<StoredVersion>> {
        self.versions.values()
    }

    /// Restores what the accessors gave.
    pub fn from_rows(
        runs: impl IntoIterator<Item = TrainingRun>,
        versions: impl IntoIterator<Item = (TrainingRun, NumberedPieces)>,
        serving: [Serving; ModelPart::ALL.len()],
    ) -> Self {
        let version = |(run, pieces): (TrainingRun, NumberedPieces)| {
            let mut stored = StoredVersion::new(run);
            for (number, bytes) in pieces {
                if let Some(slot) = stored.pieces.get_mut(number) {
                    *slot = Some(bytes);
                }
            }
            (stored.run.event.version.clone(), Arc::new(stored))
        };
        Self { runs: runs.into_iter().collect(), versions: versions.into_iter().map(version).collect(), serving }
    }
}

impl Digestible for Trained {
    fn digest(&self, writer: &mut DigestWriter) {
        let optional = |writer: &mut DigestWriter, version: Option<&ModelVersion>| {
            writer.text(version.map_or("", ModelVersion::as_str));
        };
        writer.len(self.runs.len());
        for run in &self.runs {
            writer.u64(run.seq.0).text(run.event.version.as_str()).text(&run.event.digest).bool(run.event.accepted);
        }
        for serving in &self.serving {
            optional(writer, serving.current.as_ref());
            optional(writer, serving.previous.as_ref());
        }
        writer.len(self.versions.len());
        for (version, stored) in &self.versions {
            writer.text(version.as_str()).u64(stored.run.seq.0).len(stored.pieces.len());
            for (number, bytes) in stored.pieces() {
                writer.len(number).text(&blake3::hash(bytes).to_hex());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trained(part: ModelPart, bytes: &[u8], accepted: bool) -> ModelTrained {
        let digest = blake3::hash(bytes).to_hex().to_string();
        ModelTrained {
            version: ModelVersion::new(part, &digest),
            parent: None,
            seed: 1,
            through_seq: Seq(9),
            intents_end: 4,
            embedding_model: None,
            examples: 3,
            skipped: 0,
            settings: Vec::new(),
            metrics: Vec::new(),
            digest,
            size: bytes.len() as u64,
            accepted,
            reason: "because".to_owned(),
            curve: Vec::new(),
        }
    }

    fn pieces(version: &ModelVersion, bytes: &[u8]) -> Vec<ModelParameters> {
        let chunks: Vec<&[u8]> = bytes.chunks(PIECE_BYTES).collect();
        let pieces = u32::try_from(chunks.len()).unwrap();
        let piece = |(piece, chunk): (u32, &&[u8])| {
            let version = version.clone();
            ModelParameters { version, piece, pieces, bytes: (*chunk).into() }
        };
        (0..).zip(&chunks).map(piece).collect()
    }

    fn promoted(version: &ModelVersion) -> ModelPromoted {
        ModelPromoted { version: version.clone(), reason: String::new() }
    }

    #[test]
    fn a_version_serves_once_all_its_pieces_have_arrived() {
        let bytes = vec![7; PIECE_BYTES + 1];
        let event = trained(ModelPart::Head, &bytes, true);
        let mut state = Trained::default();
        state.add_run(&event, Seq(10));
        let parts = pieces(&event.version, &bytes);
        state.add_piece(&parts[1]);
        assert!(!state.promote(&promoted(&event.version)));
        state.add_piece(&parts[0]);
        assert!(state.promote(&promoted(&event.version)));
        assert_eq!(state.current(ModelPart::Head).unwrap().bytes().unwrap(), bytes);
        assert!(!state.promote(&promoted(&event.version)), "it serves already");
    }

    #[test]
    fn refused_versions_and_wrong_bytes_never_serve() {
        let mut state = Trained::default();
        let refused = trained(ModelPart::Head, b"refused", false);
        state.add_run(&refused, Seq(1));
        state.add_piece(&pieces(&refused.version, b"refused")[0]);
        let accepted = trained(ModelPart::Encoder, b"right", true);
        state.add_run(&accepted, Seq(2));
        state.add_piece(&pieces(&accepted.version, b"wrong")[0]);
        assert!(!state.promote(&promoted(&refused.version)) && !state.promote(&promoted(&accepted.version)));
        assert_eq!(state.runs().count(), 2);
    }

    #[test]
    fn a_rollback_returns_to_the_version_before_and_room_is_bounded() {
        let mut state = Trained::default();
        let mut versions = Vec::new();
        for number in 0_u8..8 {
            let event = trained(ModelPart::Ranker, &[number], true);
            state.add_run(&event, Seq(u64::from(number) + 1));
            state.add_piece(&pieces(&event.version, &[number])[0]);
            assert!(state.promote(&promoted(&event.version)));
            versions.push(event.version);
        }
        assert_eq!(state.versions().count(), VERSIONS_KEPT);
        let to = state.serving(ModelPart::Ranker).previous.clone();
        assert_eq!(to.as_ref(), versions.get(6));
        let back = |to| ModelRolledBack { part: ModelPart::Ranker, to, reason: String::new() };
        assert!(state.roll_back(&back(to)) && state.current(ModelPart::Ranker).unwrap().bytes().unwrap() == [6]);
        assert!(!state.roll_back(&back(versions.first().cloned())), "its parameters are gone");
        assert!(state.roll_back(&back(None)) && state.current(ModelPart::Ranker).is_none());
    }
}
