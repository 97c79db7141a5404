//! A file of settings for tests.

use std::fs;
use std::path::PathBuf;

/// A file in the temporary directory that is removed when the test ends.
pub(super) struct SampleFile(pub(super) PathBuf);

impl SampleFile {
    pub(super) fn new(name: &str, text: &str) -> Self {
        let path = std::env::temp_dir().join(format!("keylatch-{}-{name}", std::process::id()));
        fs::write(&path, text).expect("the temporary directory is writable");
        SampleFile(path)
    }
}

impl Drop for SampleFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}
