//! `Place` is a directory, or a part of a bucket of an object store.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use object_store::ObjectStore;
use object_store::path::Path as ObjectPath;
use reqwest::Url;

/// Where files are kept.
#[derive(Clone, Debug)]
pub enum Place {
    Directory(PathBuf),
    Objects { store: Arc<dyn ObjectStore>, prefix: ObjectPath },
}

impl Place {
    /// The place at a directory or a URL such as `s3://bucket/pml`. `options` are the settings of the object store: its region, endpoint
    /// and credentials. The error describes the problem.
    pub fn at(place: &str, options: impl IntoIterator<Item = (String, String)>) -> Result<Self, String> {
        if !place.contains("://") {
            return Ok(Self::Directory(place.into()));
        }
        let url = Url::parse(place).map_err(|error| error.to_string())?;
        if url.scheme() == "file" {
            return url.to_file_path().map(Self::Directory).map_err(|()| "is no path of this machine".to_owned());
        }
        // Only the first call installs the provider; later ones fail and find it installed.
        drop(rustls::crypto::ring::default_provider().install_default());
        let (store, prefix) = object_store::parse_url_opts(&url, options).map_err(|error| error.to_string())?;
        Ok(Self::Objects { store: store.into(), prefix })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(root) => root.display().fmt(f),
            Self::Objects { store, prefix } => write!(f, "{store}/{prefix}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_directory_or_a_url() {
        let at = |place: &str| Place::at(place, []);
        for (place, directory) in [("events", "events"), ("/mnt/a b", "/mnt/a b"), ("file:///mnt/a", "/mnt/a")] {
            assert!(matches!(at(place), Ok(Place::Directory(path)) if path == std::path::Path::new(directory)), "{place}");
        }
        assert!(matches!(at("s3://bucket/some/where"), Ok(Place::Objects { prefix, .. }) if prefix.as_ref() == "some/where"));
        for wrong in ["s3://", "ftp://host/path", "file://elsewhere/mnt"] {
            assert!(at(wrong).is_err(), "{wrong}");
        }
    }
}
