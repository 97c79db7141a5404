//! `oom-score-adj`: adjustment of the likelihood that the kernel's OOM killer selects this process.
//!
//! The original value is kept and restored when the setting is switched off. The file exists on Linux only; elsewhere,
//! switching the setting on fails.

use std::fs;
use std::io;
use std::path::PathBuf;

use parking_lot::Mutex;
use tracing::warn;

use crate::config::{Config, OomScore, SetError};
use crate::text::system_text;

const FILE: &str = "/proc/self/oom_score_adj";
/// The range of values that the kernel accepts.
const BOUNDS: (i32, i32) = (-1000, 1000);

/// Adjustment of the kernel's OOM score by the settings.
pub(crate) struct OomAdjustment {
    file: PathBuf,
    /// Original value, while the score is adjusted.
    base: Mutex<Option<i32>>,
}

impl Default for OomAdjustment {
    fn default() -> Self {
        OomAdjustment { file: FILE.into(), base: Mutex::new(None) }
    }
}

impl OomAdjustment {
    /// Applies a change of the settings.
    ///
    /// # Errors
    /// If the kernel rejects the value, which is then unchanged.
    pub(crate) fn follow(&self, old: &Config, new: &Config) -> Result<(), SetError> {
        let name = match () {
            () if old.oom_score_adj != new.oom_score_adj => "oom-score-adj",
            () if old.oom_score_adj_values != new.oom_score_adj_values => "oom-score-adj-values",
            () if old.replicaof.is_some() != new.replicaof.is_some() => {
                let _ = self.apply(new); // logged; the role changes all the same
                return Ok(());
            }
            () => return Ok(()),
        };
        self.apply(new).map_err(|_| SetError::Refused {
            name: name.to_owned(),
            reason: "Failed to set current oom_score_adj. Check server logs.".to_owned(),
        })
    }

    /// Sets the kernel's value by the settings: with the first of the three values on a primary, and the second on a
    /// replica.
    ///
    /// # Errors
    /// If the file cannot be read or written, which is also logged.
    pub(crate) fn apply(&self, config: &Config) -> io::Result<()> {
        let mut base = self.base.lock();
        let before = match *base {
            Some(before) => before,
            None if config.oom_score_adj == OomScore::No => return Ok(()),
            None => self.read().inspect_err(|cause| warn!("Unable to read oom_score_adj: {}", system_text(cause)))?,
        };
        let own = config.oom_score_adj_values[usize::from(config.replicaof.is_some())];
        let value = match config.oom_score_adj {
            OomScore::No => before,
            OomScore::Relative => before + own,
            OomScore::Absolute => own,
        };
        let text = format!("{}\n", value.clamp(BOUNDS.0, BOUNDS.1));
        fs::write(&self.file, text)
            .inspect_err(|cause| warn!("Unable to write oom_score_adj: {}", system_text(cause)))?;
        *base = (config.oom_score_adj != OomScore::No).then_some(before);
        Ok(())
    }

    fn read(&self) -> io::Result<i32> {
        let text = fs::read_to_string(&self.file)?;
        text.trim().parse().map_err(|_| io::ErrorKind::InvalidData.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::load;

    #[test]
    fn the_value_follows_the_settings_and_goes_back_to_what_it_was() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        fs::write(file.path(), "7\n").expect("writable");
        let adjustment = OomAdjustment { file: file.path().to_owned(), base: Mutex::new(None) };
        let mut old = Config::default();
        for (settings, expected) in [
            ("oom-score-adj-values 1 2 3", "7\n"),
            ("oom-score-adj yes\noom-score-adj-values 10 20 30", "17\n"),
            ("oom-score-adj relative\noom-score-adj-values 15 20 30", "22\n"),
            ("oom-score-adj absolute\noom-score-adj-values 15 20 30", "15\n"),
            ("oom-score-adj absolute\noom-score-adj-values -2000 0 0", "-1000\n"),
            ("oom-score-adj-values -2000 0 0", "7\n"),
            ("", "7\n"),
        ] {
            let new = load(crate::command::table(), None, Some(settings.as_bytes()), b"").expect("valid");
            adjustment.follow(&old, &new).expect("writable");
            assert_eq!(fs::read_to_string(file.path()).expect("readable"), expected, "{settings}");
            old = new;
        }
    }

    #[test]
    fn a_value_that_is_refused_changes_nothing() {
        let adjustment = OomAdjustment { file: "/nope/oom_score_adj".into(), base: Mutex::new(None) };
        let new = load(crate::command::table(), None, Some(b"oom-score-adj yes"), b"").expect("valid");
        let refusal = adjustment.follow(&Config::default(), &new).expect_err("there is no such file").to_string();
        assert_eq!(
            refusal,
            "CONFIG SET failed (possibly related to argument 'oom-score-adj') - Failed to set current oom_score_adj. \
             Check server logs."
        );
        assert_eq!(*adjustment.base.lock(), None);
        assert_eq!(adjustment.follow(&new, &new), Ok(()));
    }
}
