//! `ArchiveStore` holds the files of an archive: a directory, or a part of a bucket of an object store. Everything here blocks.
//!
//! A file appears whole or not at all: in a directory it is renamed, in an object store a file is stored as a whole. It never changes
//! after that, so what the footer of an object says is asked for once. To be read, an object is copied to a nameless local file, because
//! the Parquet reader reads many small pieces.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File};
use std::io::{Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use futures_util::TryStreamExt as _;
use object_store::path::Path as ObjectPath;
use object_store::{GetOptions, GetRange, MultipartUpload, ObjectStore, ObjectStoreExt as _, WriteMultipart};
use parquet::errors::ParquetError;
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::{ArchiveError, io, parquet};
use crate::files::{Place, Threads, guarded};
use crate::private;

/// Bytes at the end of an object that are fetched to read its footer, at first.
const FOOTER_BYTES: u64 = 256 << 10;
/// Bytes of an object that are sent at once, and how many such pieces may be under way.
const PIECE_BYTES: usize = 8 << 20;
const PIECES_UNDER_WAY_MAX: usize = 2;

/// Where an archive is kept. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ArchiveStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    /// The archive itself or, for an object store, where files are kept while they are written or read.
    directory: PathBuf,
    objects: Option<Objects>,
}

#[derive(Debug)]
struct Objects {
    store: Arc<dyn ObjectStore>,
    prefix: ObjectPath,
    threads: Threads,
    /// The footers that were read, by the name of their file.
    footers: Mutex<BTreeMap<String, Arc<ParquetMetaData>>>,
}

impl From<&Path> for ArchiveStore {
    fn from(directory: &Path) -> Self {
        Self(Arc::new(Inner { directory: directory.to_owned(), objects: None }))
    }
}

impl From<&Self> for ArchiveStore {
    fn from(store: &Self) -> Self {
        store.clone()
    }
}

impl fmt::Display for ArchiveStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0.objects {
            Some(Objects { store, prefix, .. }) => write!(f, "{store}/{prefix}"),
            None => self.0.directory.display().fmt(f),
        }
    }
}

impl ArchiveStore {
    /// The store at `place`. For an object store, files are in `directory` while they are written or read.
    pub fn at(place: Place, directory: &Path) -> Self {
        match place {
            Place::Directory(path) => Self::from(path.as_path()),
            Place::Objects { store, prefix } => {
                let objects = Objects { store, prefix, threads: Threads::default(), footers: Mutex::default() };
                Self(Arc::new(Inner { directory: directory.to_owned(), objects: Some(objects) }))
            }
        }
    }

    /// The directory of the file that is being written.
    pub(super) fn directory(&self) -> &Path {
        &self.0.directory
    }

    /// The place of a file, for messages.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        PathBuf::from(self.to_string()).join(name)
    }

    /// The names of all files: the folder of a day, and the file in it.
    pub(super) fn names(&self) -> Result<Vec<String>, ArchiveError> {
        let Some(objects) = &self.0.objects else { return names_in(&self.0.directory) };
        let (store, prefix) = (Arc::clone(&objects.store), objects.prefix.clone());
        let listed = self.wait(objects, async move { store.list(Some(&prefix)).try_collect::<Vec<_>>().await })?;
        let name = |found: &object_store::ObjectMeta| {
            let parts: Vec<_> = found.location.prefix_match(&objects.prefix)?.collect();
            let [day, file] = parts.as_slice() else { return None };
            Some(format!("{}/{}", day.as_ref(), file.as_ref()))
        };
        Ok(listed.iter().filter_map(name).collect())
    }

    /// The footer of a file.
    pub(super) fn footer(&self, name: &str) -> Result<Arc<ParquetMetaData>, ArchiveError> {
        let path = self.path(name);
        let wrong = |error: ParquetError| ArchiveError::Damaged { path: path.clone(), problem: error.to_string() };
        let Some(objects) = &self.0.objects else {
            let file = File::open(&path).map_err(io(&path))?;
            let read = guarded(|| ParquetMetaDataReader::new().parse_and_finish(&file)).map_err(wrong)?;
            return read.map(Arc::new).map_err(parquet(&path));
        };
        if let Some(known) = objects.footers.lock().unwrap_or_else(PoisonError::into_inner).get(name) {
            return Ok(Arc::clone(known));
        }
        let mut len = FOOTER_BYTES;
        let footer = loop {
            let (end, size) = self.end_of(objects, name, len)?;
            let mut reader = ParquetMetaDataReader::new();
            match guarded(|| reader.try_parse_sized(&end, size)).map_err(wrong)? {
                Ok(()) => break Arc::new(reader.finish().map_err(parquet(&path))?),
                Err(ParquetError::NeedMoreData(needed)) if needed as u64 > len => len = needed as u64,
                Err(error) => return Err(parquet(&path)(error)),
            }
        };
        objects.footers.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_owned(), Arc::clone(&footer));
        Ok(footer)
    }

    /// The last `len` bytes of an object, or all of a shorter one, and its size.
    fn end_of(&self, objects: &Objects, name: &str, len: u64) -> Result<(Bytes, u64), ArchiveError> {
        let (store, object) = (Arc::clone(&objects.store), objects.at(name));
        self.wait(objects, async move {
            let options = GetOptions { range: Some(GetRange::Suffix(len)), ..GetOptions::default() };
            let found = store.get_opts(&object, options).await?;
            let size = found.meta.size;
            Ok((found.bytes().await?, size))
        })
    }

    /// Opens a file to read it.
    pub(super) fn open(&self, name: &str) -> Result<File, ArchiveError> {
        let path = self.path(name);
        let Some(objects) = &self.0.objects else { return File::open(&path).map_err(io(&path)) };
        let (mut copy, local) = nameless_file(&self.0.directory).map_err(io(&self.0.directory))?;
        let (store, object) = (Arc::clone(&objects.store), objects.at(name));
        let copied = self.wait(objects, async move {
            let mut pieces = store.get(&object).await?.into_stream();
            while let Some(piece) = pieces.try_next().await? {
                if let Err(error) = copy.write_all(&piece) {
                    return Ok(Err(error));
                }
            }
            Ok(Ok(()))
        })?;
        copied.map_err(io(&self.0.directory))?;
        Ok(local)
    }

    /// Makes the local file `part`, which is whole and synced, a file of the archive.
    pub(super) fn add(&self, part: &Path, name: &str) -> Result<(), ArchiveError> {
        let target = self.path(name);
        let Some(objects) = &self.0.objects else {
            let folder = target.parent().unwrap_or(&self.0.directory);
            private::create_directory(folder).map_err(io(folder))?;
            fs::rename(part, &target).map_err(io(&target))?;
            for directory in [folder, &self.0.directory] {
                File::open(directory).and_then(|directory| directory.sync_all()).map_err(io(directory))?;
            }
            return Ok(());
        };
        let mut file = File::open(part).map_err(io(part))?;
        let (store, object) = (Arc::clone(&objects.store), objects.at(name));
        let read = self.wait(objects, async move { send(&mut file, store.put_multipart(&object).await?).await })?;
        read.map_err(io(part))?;
        fs::remove_file(part).map_err(io(part))
    }

    fn wait<T: Send + 'static>(
        &self,
        objects: &Objects,
        work: impl Future<Output = object_store::Result<T>> + Send + 'static,
    ) -> Result<T, ArchiveError> {
        let done = objects.threads.wait(work).map_err(io(&self.0.directory))?;
        done.map_err(|source| ArchiveError::Objects { place: self.to_string(), source })
    }
}

/// Uploads a file in pieces. An upload that fails is aborted: the store would keep, and charge for, the pieces that it has.
async fn send(file: &mut impl Read, upload: Box<dyn MultipartUpload>) -> object_store::Result<std::io::Result<()>> {
    let mut upload = WriteMultipart::new_with_chunk_size(upload, PIECE_BYTES);
    let mut piece = vec![0; PIECE_BYTES];
    let failed = loop {
        match file.read(&mut piece) {
            // An upload that cannot be finished is aborted by this.
            Ok(0) => return upload.finish().await.map(|_| Ok(())),
            Ok(len) => upload.write(&piece[..len]),
            Err(error) => break Ok(Err(error)),
        }
        if let Err(error) = upload.wait_for_capacity(PIECES_UNDER_WAY_MAX).await {
            break Err(error);
        }
    };
    if let Err(error) = upload.abort().await {
        tracing::warn!(%error, "an upload to the archive failed and could not be aborted; the store may keep its pieces");
    }
    failed
}

impl Objects {
    fn at(&self, name: &str) -> ObjectPath {
        name.split('/').fold(self.prefix.clone(), ObjectPath::join)
    }
}

/// The names of the files in the folders of days.
fn names_in(directory: &Path) -> Result<Vec<String>, ArchiveError> {
    let mut names = Vec::new();
    for day in entries(directory)?.iter().filter(|day| day.starts_with("day=")) {
        names.extend(entries(&directory.join(day))?.into_iter().map(|file| format!("{day}/{file}")));
    }
    Ok(names)
}

fn entries(directory: &Path) -> Result<Vec<String>, ArchiveError> {
    let wrong = io(directory);
    let entries = fs::read_dir(directory).map_err(&wrong)?;
    entries.map(|entry| entry.map(|entry| entry.file_name().to_string_lossy().into_owned()).map_err(&wrong)).collect()
}

/// A file for the owner only, to be written and to be read, that has no name any more: nothing of it is left when it is closed.
fn nameless_file(directory: &Path) -> std::io::Result<(File, File)> {
    private::create_directory(directory)?;
    let path = directory.join(format!(".read-{:032x}", crate::clock::entropy()));
    let (written, read) = (private::create_file(&path)?, File::open(&path)?);
    fs::remove_file(&path)?;
    Ok((written, read))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use futures_util::FutureExt;
    use futures_util::future::BoxFuture;
    use object_store::{PutPayload, PutResult, UploadPart};

    use super::*;

    /// Takes no piece.
    #[derive(Debug)]
    struct Refusing(Arc<AtomicBool>);

    fn refused() -> object_store::Error {
        object_store::Error::NotImplemented { operation: "anything".to_owned(), implementer: "a test".to_owned() }
    }

    impl MultipartUpload for Refusing {
        fn put_part(&mut self, _: PutPayload) -> UploadPart {
            async { Err(refused()) }.boxed()
        }

        fn complete<'a, 'b>(&'a mut self) -> BoxFuture<'b, object_store::Result<PutResult>>
        where
            'a: 'b,
            Self: 'b,
        {
            async { Err(refused()) }.boxed()
        }

        fn abort<'a, 'b>(&'a mut self) -> BoxFuture<'b, object_store::Result<()>>
        where
            'a: 'b,
            Self: 'b,
        {
            self.0.store(true, Ordering::Relaxed);
            async { Ok(()) }.boxed()
        }
    }

    #[tokio::test]
    async fn an_upload_that_fails_is_aborted() {
        // The first is refused while pieces follow, the second at its end.
        for pieces in [5, 1] {
            let aborted = Arc::new(AtomicBool::new(false));
            let mut file = std::io::repeat(7).take(pieces * PIECE_BYTES as u64);
            let sent = send(&mut file, Box::new(Refusing(Arc::clone(&aborted)))).await;
            assert!(sent.is_err() && aborted.load(Ordering::Relaxed), "{pieces} pieces");
        }
    }
}
