//! Why something with an append-only file does not work.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::persist::aof::manifest::ManifestError;

/// Why something with an append-only file does not work.
#[derive(Clone, Debug)]
pub(crate) enum AofError {
    /// The disk has failed.
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// The error.
        error: Arc<io::Error>,
    },
    /// The manifest is damaged.
    Manifest {
        /// Its path.
        path: PathBuf,
        /// The line, from 1 on.
        line: usize,
        /// What is wrong.
        reason: &'static str,
    },
    /// The manifest names a file that is not there.
    Missing(PathBuf),
    /// Another process writes to the files of this name.
    InUse(PathBuf),
    /// There is no manifest, but a file with data that should be in one.
    Unlisted(PathBuf),
    /// A line of the manifest would be longer than Redis can read.
    LongName(String),
    /// The file lacks a part of the log, and has to be written anew.
    NeedsRewrite,
    /// Another request of this kind is not done yet.
    Busy,
    /// The writer has stopped.
    Stopped,
}

impl AofError {
    /// Returns a function that says what was tried when the disk failed.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> AofError + use<> {
        let path = path.to_owned();
        move |error| AofError::Io { action, path, error: Arc::new(error) }
    }

    /// Returns the error of a system that has no thread left.
    pub(crate) fn no_thread(error: io::Error) -> AofError {
        AofError::io("start the writer of", Path::new("the append-only file"))(error)
    }

    pub(super) fn manifest(path: &Path, error: &ManifestError) -> AofError {
        AofError::Manifest { path: path.to_owned(), line: error.line, reason: error.reason }
    }
}

impl fmt::Display for AofError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AofError::Io { action, path, error } => write!(f, "cannot {action} {}: {error}", path.display()),
            AofError::Manifest { path, line, reason } => {
                write!(f, "cannot read the manifest {}, line {line}: {reason}", path.display())
            }
            AofError::Missing(path) => {
                write!(f, "{} is named by the manifest: No such file or directory", path.display())
            }
            AofError::InUse(path) => {
                let path = path.display();
                write!(
                    f,
                    "another running server has {path}: stop it, or give this one another dir, appenddirname or appendfilename"
                )
            }
            AofError::Unlisted(path) => {
                write!(f, "there is no manifest, but {}: restore the manifest, or move the file away", path.display())
            }
            AofError::LongName(name) => write!(f, "the name of the file {name} is too long for a manifest"),
            AofError::NeedsRewrite => f.write_str("the file lacks a part of the log, and has to be rewritten"),
            AofError::Busy => f.write_str("another request is not done yet"),
            AofError::Stopped => f.write_str("the writer has stopped"),
        }
    }
}

impl std::error::Error for AofError {}
