//! The directory of an append-only file: its manifest and its files.
//!
//! The manifest on the disk always names files that exist with all their content, whenever the power is cut: a file is
//! durable before the manifest names it, and removed only after the manifest does not name it any more. A number is
//! never used for a second file, as after an error it can be unknown whether the manifest on the disk has the first.
//!
//! An increment whose base is still being written is *detached*: it is not in the manifest yet, and its name begins
//! with `temp-`.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::persist::aof::error::AofError;
use crate::persist::aof::manifest::{LINE_MAX, Manifest, ManifestFile, PartType};
use crate::persist::disk::{Disk, DiskFile, read_small_file, replace_file};

/// Largest length of a manifest, in bytes.
const MANIFEST_MAX: u64 = 16 << 20;

/// The number of the first increment that is not in the manifest.
const DETACHED_FIRST: u64 = 1 << 63;
/// Number of attempts to lock the files, and the pause between them.
const LOCK_ATTEMPTS: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The directory of an append-only file.
pub(crate) struct AofDir {
    pub(super) disk: Arc<dyn Disk>,
    path: PathBuf,
    /// Prefix of the names of the files.
    filename: String,
    /// Held during changes of the files, which can take long.
    changing: Mutex<()>,
    /// Held for moments only.
    state: Mutex<State>,
    /// Lock that other servers find when they open the same files.
    _lock: Box<dyn Send + Sync>,
}

struct State {
    /// The manifest on the disk, as far as is known.
    manifest: Manifest,
    next_base: u64,
    next_increment: u64,
    /// The increment that is not in the manifest yet.
    detached: Option<Detached>,
    next_detached: u64,
    /// The length of all files of the manifest except the increment that is appended to.
    other_len: u64,
    /// Names of files that the manifest on the disk may contain if it is not the known one: after an error this is
    /// uncertain until a manifest was written again.
    doubtful: Vec<String>,
    /// True if the last attempt to write the manifest has worked, so that the one on the disk is the known one.
    is_certain: bool,
    /// True if the manifest is written with its checksum.
    has_checksum: bool,
}

/// An increment that is not in the manifest yet.
#[derive(Clone)]
struct Detached {
    /// Number of the increment until it is in the manifest, above all numbers there.
    number: u64,
    part: ManifestFile,
}

impl State {
    fn new(manifest: Manifest, has_checksum: bool) -> Self {
        let next = |kind: PartType| {
            let seqs = manifest.parts().filter(|part| part.kind == kind || part.kind == PartType::History);
            seqs.map(|part| part.seq).max().unwrap_or(0) + 1
        };
        let (next_base, next_increment) = (next(PartType::Base), next(PartType::Increment));
        State {
            next_base,
            next_increment,
            manifest,
            detached: None,
            next_detached: DETACHED_FIRST,
            other_len: 0,
            doubtful: Vec::new(),
            is_certain: true,
            has_checksum,
        }
    }
}

/// A file of the manifest that is to be loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PartFile {
    pub(crate) path: PathBuf,
    /// Entry of the file in the manifest.
    pub(crate) part: ManifestFile,
    pub(crate) len: u64,
    /// Set if no later file has content, so that this one may end with a torn tail.
    pub(crate) is_last: bool,
}

/// Locks the files with one name in a directory that other servers may share under other names. A process that is about
/// to end may have the lock for a moment.
fn lock(disk: &dyn Disk, dir: &Path, filename: &str) -> Result<Box<dyn Send + Sync>, AofError> {
    let path = dir.join(format!(".{filename}.lock"));
    for _ in 0..LOCK_ATTEMPTS {
        match disk.lock(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::ResourceBusy => std::thread::park_timeout(LOCK_PAUSE),
            locked => return locked.map_err(AofError::io("lock", &path)),
        }
    }
    Err(AofError::InUse(dir.join(filename)))
}

impl AofDir {
    /// Opens the directory `dirname` in `dir`, creates it if necessary, and takes over a single file of Redis before
    /// version 7. The files found there are durable afterwards. Removes files that a former process has left half done.
    /// `has_checksum` says if manifests are written with a checksum.
    ///
    /// # Errors
    /// A damaged manifest, or one that names a missing file; data without a manifest; files that another process has
    /// open; errors of the disk.
    pub(crate) fn open(
        disk: Arc<dyn Disk>,
        dir: &Path,
        dirname: &str,
        filename: &str,
        has_checksum: bool,
    ) -> Result<Self, AofError> {
        let path = dir.join(dirname);
        disk.create_dir(&path).map_err(AofError::io("create the directory", &path))?;
        let lock = lock(&*disk, &path, filename)?;
        disk.sync_dir(dir).map_err(AofError::io("sync the directory", dir))?;
        disk.sync_dir(&path).map_err(AofError::io("sync the directory", &path))?;
        let (changing, state) = (Mutex::default(), Mutex::new(State::new(Manifest::default(), has_checksum)));
        let opened = AofDir { disk, path, filename: filename.to_owned(), changing, state, _lock: lock };
        let manifest = match opened.read_manifest()? {
            Some(manifest) => manifest,
            None => opened.without_manifest(&dir.join(filename))?,
        };
        opened.finish_taking_over(&manifest, &dir.join(filename))?;
        for part in manifest.base.iter().chain(&manifest.increments) {
            opened.len_of(part)?;
        }
        *opened.state.lock() = State::new(manifest, has_checksum);
        opened.measure();
        opened.remove_temporary_files()?;
        Ok(opened)
    }

    fn read_manifest(&self) -> Result<Option<Manifest>, AofError> {
        let path = self.manifest_path();
        let io = |error| AofError::io("read the manifest", &path)(error);
        if self.disk.len(&path).map_err(io)?.is_none() {
            return Ok(None);
        }
        let text = read_small_file(&*self.disk, &path, MANIFEST_MAX).map_err(io)?;
        Manifest::parse(&text).map(Some).map_err(|error| AofError::manifest(&path, &error))
    }

    /// Returns the manifest for a directory without one: with a single file of Redis before version 7 as the base, or
    /// an empty one. A file with data that no manifest names is an error, unless the first manifest was about to be
    /// written: then it is removed.
    fn without_manifest(&self, single: &Path) -> Result<Manifest, AofError> {
        if self.disk.len(single).map_err(AofError::io("read", single))?.is_some() {
            let base = ManifestFile::new(self.filename.clone(), 1, PartType::Base);
            let manifest = Manifest { base: Some(base), ..Manifest::default() };
            // The manifest is written before the file is moved, as in Redis: so a start can do it again from any point
            // in between.
            self.persist(&manifest)?;
            return Ok(manifest);
        }
        let (start, mark) = (format!("{}.", self.filename), self.beginning_mark());
        let is_beginning = self.disk.len(&mark).map_err(AofError::io("read", &mark))?.is_some();
        for name in self.names()? {
            let is_part = name.starts_with(&start) && (name.ends_with(".rdb") || name.ends_with(".aof"));
            let path = self.path.join(&name);
            if is_part && is_beginning {
                self.disk.remove(&path).map_err(AofError::io("remove", &path))?;
            } else if is_part && self.disk.len(&path).map_err(AofError::io("read", &path))?.is_some_and(|len| len > 0) {
                return Err(AofError::Unlisted(path));
            }
        }
        if is_beginning {
            self.sync()?; // before the mark is removed
        }
        Ok(Manifest::default())
    }

    /// Returns the path of the mark that exists while files have their names and the first manifest is not written. The
    /// data is elsewhere, too; without the mark the directory would look as if a manifest was lost.
    fn beginning_mark(&self) -> PathBuf {
        self.path.join(format!("temp-{}.beginning", self.filename))
    }

    /// Moves the single file of Redis before version 7 to its place, if the manifest names it and it is not there.
    fn finish_taking_over(&self, manifest: &Manifest, single: &Path) -> Result<(), AofError> {
        let is_single = manifest.increments.is_empty();
        let Some(base) = manifest.base.as_ref().filter(|base| is_single && base.name == self.filename) else {
            return Ok(());
        };
        let target = self.path.join(&base.name);
        let is_there = |path: &Path| Ok(self.disk.len(path).map_err(AofError::io("read", path))?.is_some());
        if !is_there(&target)? && is_there(single)? {
            self.disk.rename(single, &target).map_err(AofError::io("move", single))?;
            self.sync()?;
            let dir = crate::persist::disk::parent(single);
            self.disk.sync_dir(dir).map_err(AofError::io("sync the directory", dir))?;
        }
        Ok(())
    }

    /// Removes all files whose names begin with `temp-`: no manifest has them.
    fn remove_temporary_files(&self) -> Result<(), AofError> {
        let start = format!("temp-{}", self.filename);
        for name in self.names()?.into_iter().filter(|name| name.starts_with(&start)) {
            let path = self.path.join(name);
            self.disk.remove(&path).map_err(AofError::io("remove", &path))?;
        }
        Ok(())
    }

    fn names(&self) -> Result<Vec<String>, AofError> {
        let names = self.disk.list(&self.path).map_err(AofError::io("read the directory", &self.path))?;
        Ok(names.into_iter().filter_map(|name| name.into_string().ok()).collect())
    }

    fn manifest_path(&self) -> PathBuf {
        self.path.join(format!("{}.manifest", self.filename))
    }

    fn sync(&self) -> Result<(), AofError> {
        self.disk.sync_dir(&self.path).map_err(AofError::io("sync the directory", &self.path))
    }

    /// Returns the length of a file that has to exist.
    fn len_of(&self, part: &ManifestFile) -> Result<u64, AofError> {
        let path = self.path.join(&part.name);
        let len = self.disk.len(&path).map_err(AofError::io("read", &path))?;
        len.ok_or(AofError::Missing(path))
    }

    fn persist(&self, manifest: &Manifest) -> Result<(), AofError> {
        let has_checksum = self.state.lock().has_checksum;
        let (path, text) = (self.manifest_path(), manifest.to_text(has_checksum));
        if text.lines().any(|line| line.len() >= LINE_MAX) {
            return Err(AofError::LongName(self.filename.clone()));
        }
        let written = replace_file(&*self.disk, &path, text.as_bytes());
        self.state.lock().is_certain = written.is_ok();
        written.map_err(AofError::io("write the manifest", &path))
    }

    /// Sets if manifests are written with a checksum from the next time on.
    pub(crate) fn set_checksum(&self, has_checksum: bool) {
        self.state.lock().has_checksum = has_checksum;
    }

    /// Returns the files in the order in which they are loaded.
    ///
    /// # Errors
    /// A missing file; errors of the disk.
    pub(crate) fn parts(&self) -> Result<Vec<PartFile>, AofError> {
        let manifest = self.state.lock().manifest.clone();
        let listed = manifest.base.iter().chain(&manifest.increments);
        let file = |part: &ManifestFile| {
            Ok(PartFile {
                path: self.path.join(&part.name),
                part: part.clone(),
                len: self.len_of(part)?,
                is_last: false,
            })
        };
        let mut files = listed.map(file).collect::<Result<Vec<PartFile>, AofError>>()?;
        for file in files.iter_mut().rev() {
            file.is_last = true;
            if file.len > 0 {
                break;
            }
        }
        Ok(files)
    }

    /// Makes the files found durable: the manifest, all files that it names, and their names.
    ///
    /// # Errors
    /// Errors of the disk.
    pub(crate) fn sync_found(&self) -> Result<(), AofError> {
        let paths = self.parts()?.into_iter().map(|file| file.path);
        for path in paths.chain([self.manifest_path()]) {
            self.disk.sync_file(&path).map_err(AofError::io("sync", &path))?;
        }
        self.sync()
    }

    /// Returns true if the manifest names any file.
    pub(crate) fn has_parts(&self) -> bool {
        let state = self.state.lock();
        state.manifest.base.is_some() || !state.manifest.increments.is_empty()
    }

    /// Returns the path of the last increment, to which commands are appended.
    pub(crate) fn increment(&self) -> Option<PathBuf> {
        let state = self.state.lock();
        let detached = state.detached.as_ref().map(|detached| &detached.part);
        let last = detached.or(state.manifest.increments.last());
        last.map(|part| self.path.join(&part.name))
    }

    /// Returns true if the last increment is not in the manifest yet, because its base is not written.
    pub(crate) fn is_detached(&self) -> bool {
        self.state.lock().detached.is_some()
    }

    /// Returns the size of the whole append-only file when its base was written, if the manifest has it.
    pub(crate) fn base_size(&self) -> Option<u64> {
        self.state.lock().manifest.base.as_ref()?.base_size
    }

    /// Returns the length of all loaded files except the increment that is appended to.
    pub(super) fn other_len(&self) -> u64 {
        self.state.lock().other_len
    }

    /// Measures the files that are not appended to. For statistics alone: a file whose length cannot be read does not
    /// count.
    fn measure(&self) {
        let (manifest, is_detached) = {
            let state = self.state.lock();
            (state.manifest.clone(), state.detached.is_some())
        };
        let listed: Vec<&ManifestFile> = manifest.base.iter().chain(&manifest.increments).collect();
        let is_appended = !is_detached && !manifest.increments.is_empty();
        let others = &listed[..listed.len() - usize::from(is_appended)];
        let len = others.iter().filter_map(|part| self.len_of(part).ok()).sum();
        self.state.lock().other_len = len;
    }

    /// Creates the next increment: in the manifest, behind the present ones; or detached, in place of a former detached
    /// one. Returns the open file and its number; a detached increment gets another number when it is attached. All
    /// data written to the former increment must be durable, or belong to no manifest.
    ///
    /// # Errors
    /// Errors of the disk; nothing has changed then.
    pub(crate) fn create_increment(&self, is_detached: bool) -> Result<(Arc<dyn DiskFile>, u64), AofError> {
        let _changing = self.changing.lock();
        let (number, mut manifest) = {
            let mut state = self.state.lock();
            let next = if is_detached { &mut state.next_detached } else { &mut state.next_increment };
            *next += 1;
            (*next - 1, state.manifest.clone())
        };
        let part = if is_detached {
            ManifestFile {
                name: format!("temp-{}.{}.incr.aof", self.filename, number - DETACHED_FIRST),
                ..self.part(number)
            }
        } else {
            self.part(number)
        };
        let path = self.path.join(&part.name);
        let file = self.disk.create(&path).map_err(AofError::io("create", &path))?;
        file.sync_data().map_err(AofError::io("sync", &path))?; // a former file of this name may have had content
        if is_detached {
            let former = self.state.lock().detached.replace(Detached { number, part });
            match former.map(|former| former.part.name) {
                Some(name) if name.starts_with("temp-") => {
                    _ = self.disk.remove(&self.path.join(name)); // the next start removes it
                }
                former => self.state.lock().doubtful.extend(former),
            }
        } else {
            self.sync()?;
            manifest.increments.push(part);
            self.persist(&manifest)?;
            self.state.lock().manifest = manifest;
        }
        self.measure();
        Ok((file, number))
    }

    fn part(&self, seq: u64) -> ManifestFile {
        ManifestFile::new(format!("{}.{seq}.incr.aof", self.filename), seq, PartType::Increment)
    }

    /// Returns the path under which the next base is to be written; [`AofDir::install_base`] then renames it.
    pub(crate) fn temporary_base(&self) -> PathBuf {
        self.path.join(format!("temp-{}.base", self.filename))
    }

    /// Replaces the present base, and the increments before a number, by a new base; the former files become history.
    /// If the number is that of the detached increment, the increment is attached. `size` is the size of the whole from
    /// which on its growth counts.
    ///
    /// # Errors
    /// Errors of the disk; the former files are valid then, and so may be the new ones.
    pub(crate) fn install_base(
        &self,
        written: &Path,
        is_rdb: bool,
        first_increment: u64,
        size: u64,
    ) -> Result<(), AofError> {
        let file = self.disk.append(written).map_err(AofError::io("open", written))?;
        file.sync_data().map_err(AofError::io("sync", written))?;
        let _changing = self.changing.lock();
        let (seq, former, detached) = {
            let mut state = self.state.lock();
            state.next_base += 1;
            (state.next_base - 1, state.manifest.clone(), state.detached.clone())
        };
        let (name, mark) =
            (format!("{}.{seq}.base.{}", self.filename, if is_rdb { "rdb" } else { "aof" }), self.beginning_mark());
        let is_first = former == Manifest::default();
        if is_first {
            self.disk.create(&mark).map_err(AofError::io("create", &mark))?;
            self.sync()?;
        }
        self.state.lock().doubtful.push(name.clone());
        self.disk.rename(written, &self.path.join(&name)).map_err(AofError::io("rename", written))?;
        let base = ManifestFile { base_size: Some(size), ..ManifestFile::new(name, seq, PartType::Base) };
        let mut manifest = former.with_base(base, first_increment);
        let attached = detached.filter(|detached| detached.number == first_increment);
        let attached = attached.map(|detached| self.attach(detached)).transpose()?;
        let is_attached = attached.is_some();
        manifest.increments.extend(attached);
        self.sync()?;
        self.persist(&manifest)?;
        {
            let mut state = self.state.lock();
            state.detached.take_if(|_| is_attached);
            state.manifest = manifest;
        }
        if is_first {
            _ = self.disk.remove(&mark).and_then(|()| self.disk.sync_dir(&self.path)); // the next start removes it
        }
        self.measure();
        Ok(())
    }

    /// Gives a detached increment a number and a name for the manifest, unless it has them.
    fn attach(&self, detached: Detached) -> Result<ManifestFile, AofError> {
        if detached.part.seq != detached.number {
            return Ok(detached.part);
        }
        let part = {
            let mut state = self.state.lock();
            state.next_increment += 1;
            self.part(state.next_increment - 1)
        };
        let from = self.path.join(&detached.part.name);
        self.disk.rename(&from, &self.path.join(&part.name)).map_err(AofError::io("rename", &from))?;
        self.state.lock().detached = Some(Detached { number: detached.number, part: part.clone() });
        Ok(part)
    }

    /// Removes doubtful files that the manifest does not name, unless it is uncertain which manifest is on the disk.
    fn remove_doubtful(&self) -> Result<(), AofError> {
        let (doubtful, manifest) = {
            let mut state = self.state.lock();
            if !state.is_certain {
                return Ok(());
            }
            (std::mem::take(&mut state.doubtful), state.manifest.clone())
        };
        for name in doubtful.into_iter().filter(|name| manifest.parts().all(|part| part.name != *name)) {
            let path = self.path.join(name);
            if self.disk.len(&path).map_err(AofError::io("read", &path))?.is_some() {
                self.disk.remove(&path).map_err(AofError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// Removes the files of history, which can take long, and then their lines in the manifest. Returns their number.
    ///
    /// # Errors
    /// Errors of the disk; the rest is removed the next time.
    pub(crate) fn remove_history(&self) -> Result<usize, AofError> {
        let history = self.state.lock().manifest.history.clone();
        self.remove_doubtful()?;
        for part in &history {
            let path = self.path.join(&part.name);
            if self.disk.len(&path).map_err(AofError::io("read", &path))?.is_some() {
                self.disk.remove(&path).map_err(AofError::io("remove", &path))?;
            }
        }
        if !history.is_empty() {
            let _changing = self.changing.lock();
            let mut manifest = self.state.lock().manifest.clone();
            manifest.history.retain(|part| !history.contains(part));
            self.persist(&manifest)?;
            self.state.lock().manifest = manifest;
        }
        Ok(history.len())
    }
}
