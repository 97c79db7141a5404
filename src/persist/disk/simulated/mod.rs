//! A disk in memory that fails and loses power by a seed.
//!
//! - The death of the process loses no written data.
//! - A power cut loses a part of the data that was not synced: each page of 4096 bytes is found as it was at some
//!   moment since the last sync of its file, a torn page in sectors of 512 bytes; the length is one that the file has
//!   had since then.
//! - Created, renamed and removed names are certain to be found only if their directory was synced; others may be, in
//!   any order.
//! - The machine may end at a planned operation, by a power cut or with the process alone. That operation takes effect,
//!   in part, or not at all; all later ones fail.
//! - A failed sync leaves some pages unwritten, and marks all as clean, as Linux does: the next sync works, but the
//!   pages stay lost.

mod content;
pub(crate) mod faults;
mod names;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::io::{self, Cursor, IoSlice, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};

use crate::persist::disk::simulated::content::Content;
use crate::persist::disk::simulated::faults::{DiskFailure, DiskFaults, DiskOperation};
use crate::persist::disk::simulated::names::{DiskNames, NameTarget};
use crate::persist::disk::{Disk, DiskFile, parent};
use crate::random::Random;
use crate::time::clock::Clock;

#[derive(Clone, Debug)]
struct State {
    names: DiskNames,
    /// The files by number, including those that have no name any more.
    files: Vec<Content>,
    faults: DiskFaults,
    random: Random,
    /// Number of boots of the machine, and the time since the last one.
    boots: u64,
    has_boot_ids: bool,
    since_boot_ms: u64,
    /// Number of operations that have changed something.
    changes: usize,
    /// Number of further operations before the machine ends, and the kind of the end.
    plan: Option<(usize, CrashKind)>,
    /// Set when the machine ends with the present operation.
    is_ending: bool,
    /// The disk as it is found after the end.
    found: Option<SimulatedDisk>,
}

/// End of a server's life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// The process dies.
    Kill,
    /// The power is cut.
    PowerCut,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Arc<Mutex<State>>, Arc<Freezer>);

/// Switch that blocks syncs of files.
#[derive(Debug, Default)]
struct Freezer {
    is_frozen: Mutex<bool>,
    thawed: Condvar,
}

struct SimulatedFile {
    disk: SimulatedDisk,
    number: usize,
}

impl SimulatedDisk {
    /// Creates an empty disk.
    pub fn new(seed: u64) -> Self {
        let state = State {
            names: DiskNames::default(),
            files: Vec::new(),
            faults: DiskFaults::default(),
            random: Random::new(seed),
            boots: 1,
            has_boot_ids: true,
            since_boot_ms: 0,
            changes: 0,
            plan: None,
            is_ending: false,
            found: None,
        };
        SimulatedDisk(Arc::new(Mutex::new(state)), Arc::default())
    }

    /// Creates a durable directory.
    ///
    /// # Errors
    /// Errors of the disk.
    pub fn create_durable_dir(&self, dir: &Path) -> io::Result<()> {
        self.create_dir(dir)?;
        self.sync_dir(parent(dir))
    }

    /// Sets the faults.
    pub fn set_faults(&self, faults: DiskFaults) {
        self.0.lock().faults = faults;
    }

    /// Returns the disk as it is after a power cut now. Open files do not belong to it. It has no faults.
    pub fn power_cut(&self) -> SimulatedDisk {
        self.0.lock().after(CrashKind::PowerCut)
    }

    /// Returns the disk as it is after the process was killed now. Open files do not belong to it. It has no faults.
    pub fn kill(&self) -> SimulatedDisk {
        self.0.lock().after(CrashKind::Kill)
    }

    /// Plans the end of the machine after a number of further operations that change something.
    pub fn end_after(&self, operations: usize, end: CrashKind) {
        self.0.lock().plan = Some((operations, end));
    }

    /// Returns the disk as it is found after the planned end, once that has come.
    pub fn found(&self) -> Option<SimulatedDisk> {
        self.0.lock().found.clone()
    }

    /// Returns the number of operations that have changed something.
    pub fn changes(&self) -> usize {
        self.0.lock().changes
    }

    /// Removes the numbers of boots from the machine: its time need not run like that of a server's clock then.
    #[must_use]
    pub fn without_boot_ids(self) -> Self {
        self.0.lock().has_boot_ids = false;
        self
    }

    /// Advances the time since boot.
    pub fn advance_ms(&self, ms: u64) {
        self.0.lock().since_boot_ms += ms;
    }

    /// Changes bytes of a file, as a failing disk does.
    pub fn damage(&self, path: &Path, damage: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.0.lock();
        if let Some(NameTarget::File(number)) = state.names.get(path) {
            let mut bytes = state.files[number].live().to_vec();
            damage(&mut bytes);
            state.files[number] = Content::synced(bytes);
        }
    }

    /// Creates a disk with durable files, by path, whose directories are below the root.
    pub fn with_contents(files: &[(PathBuf, Vec<u8>)]) -> Self {
        let disk = SimulatedDisk::new(0);
        {
            let mut state = disk.0.lock();
            for (path, content) in files {
                state.files.push(Content::synced(content.clone()));
                let number = state.files.len() - 1;
                let dir = parent(path);
                if dir != Path::new("/") && state.names.get(dir).is_none() {
                    state.names.add(dir, NameTarget::Dir);
                    state.names.sync(parent(dir));
                }
                state.names.add(path, NameTarget::File(number));
                state.names.sync(dir);
            }
        }
        disk
    }

    /// Writes a file into an existing directory; neither the file nor its name is durable.
    pub fn write_unsynced(&self, path: &Path, content: &[u8]) {
        let mut state = self.0.lock();
        let mut file = Content::default();
        file.write(0, content);
        state.files.push(file);
        let number = state.files.len() - 1;
        state.names.add(path, NameTarget::File(number));
    }

    /// Returns the contents of all files, by path.
    pub fn contents(&self) -> Vec<(PathBuf, Vec<u8>)> {
        let state = self.0.lock();
        let content = |(path, number): (&Path, usize)| (path.to_owned(), state.files[number].live().to_vec());
        state.names.files().map(content).collect()
    }

    /// Blocks all syncs of files until [`SimulatedDisk::thaw`].
    pub fn freeze_syncs(&self) {
        *self.1.is_frozen.lock() = true;
    }

    /// Unblocks syncs.
    pub fn thaw(&self) {
        *self.1.is_frozen.lock() = false;
        self.1.thawed.notify_all();
    }

    fn wait_until_thawed(&self) {
        let mut is_frozen = self.1.is_frozen.lock();
        self.1.thawed.wait_while(&mut is_frozen, |is_frozen| *is_frozen);
    }

    /// Runs an operation, unless it is to fail.
    fn run<T>(&self, operation: DiskOperation, run: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.run_or((operation, None), run, |_| {})
    }

    /// Runs an operation, perhaps on an open file, or `fail` if the operation is to fail.
    fn run_or<T>(
        &self,
        (operation, file): (DiskOperation, Option<usize>),
        run: impl FnOnce(&mut State) -> io::Result<T>,
        fail: impl FnOnce(&mut State),
    ) -> io::Result<T> {
        let mut state = self.0.lock();
        let state = &mut *state;
        state.begin(operation)?;
        let path = file.and_then(|number| state.names.files().find(|(_, other)| *other == number));
        let name = path.map(|(path, _)| path.to_string_lossy().into_owned());
        let result = match state.faults.check(operation, name.as_deref(), &mut state.random) {
            Ok(()) => run(state),
            Err(error) => {
                fail(state);
                Err(error)
            }
        };
        if state.is_ending {
            return Err(state.end());
        }
        result
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        let number = self.run(DiskOperation::Open, |state| state.file(path))?;
        Ok(Arc::new(SimulatedFile { disk: self.clone(), number }))
    }
}

impl State {
    /// Begins an operation; fails after the end of the machine.
    fn begin(&mut self, operation: DiskOperation) -> io::Result<()> {
        if self.found.is_some() {
            return Err(DiskFailure::Io.into());
        }
        if matches!(operation, DiskOperation::Read | DiskOperation::Open) {
            return Ok(());
        }
        self.since_boot_ms += self.faults.slowness_ms;
        self.changes += 1;
        match &mut self.plan {
            Some((0, _)) => self.is_ending = true,
            Some((left, _)) => *left -= 1,
            None => {}
        }
        if self.is_ending && self.random.below(2) == 0 {
            return Err(self.end());
        }
        Ok(())
    }

    /// Ends the machine as planned; returns the error of the operation, which no caller is to see.
    fn end(&mut self) -> io::Error {
        let end = self.plan.map_or(CrashKind::Kill, |(_, end)| end);
        self.found = Some(self.after(end));
        DiskFailure::Io.into()
    }

    /// Returns the disk as it is after an end now.
    fn after(&mut self, end: CrashKind) -> SimulatedDisk {
        let random = Random::new(self.random.next());
        let fresh =
            State { faults: DiskFaults::default(), random, plan: None, is_ending: false, found: None, ..self.clone() };
        let state = match end {
            CrashKind::Kill => fresh,
            CrashKind::PowerCut => {
                let names = self.names.after_power_cut(&mut self.random);
                let files = self.files.iter().map(|file| Content::synced(file.after_power_cut(&mut self.random)));
                State { names, files: files.collect(), boots: self.boots + 1, since_boot_ms: 0, ..fresh }
            }
        };
        SimulatedDisk(Arc::new(Mutex::new(state)), Arc::default())
    }

    fn file(&self, path: &Path) -> io::Result<usize> {
        match self.names.get(path) {
            Some(NameTarget::File(number)) => Ok(number),
            Some(NameTarget::Dir) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Checks that the directory of a path exists.
    fn check_dir(&self, path: &Path) -> io::Result<()> {
        let dir = parent(path);
        if dir == Path::new("/") || self.names.get(dir) == Some(NameTarget::Dir) {
            Ok(())
        } else {
            Err(io::ErrorKind::NotFound.into())
        }
    }

    /// Returns the number of bytes by which the files may grow.
    fn room(&self) -> u64 {
        let mut files: Vec<usize> = self.names.files().map(|(_, number)| number).collect();
        files.sort_unstable();
        files.dedup();
        let used: usize = files.into_iter().map(|number| self.files[number].live().len()).sum();
        self.faults.capacity.unwrap_or(u64::MAX).saturating_sub(used as u64)
    }
}

impl Disk for SimulatedDisk {
    fn create(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.run(DiskOperation::Create, |state| {
            state.check_dir(path)?;
            match state.file(path) {
                Ok(_) => state.names.remove(path),
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                Err(_) => {}
            }
            state.files.push(Content::default());
            state.names.add(path, NameTarget::File(state.files.len() - 1));
            Ok(())
        })?;
        self.open(path)
    }

    fn append(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn update(&self, path: &Path) -> io::Result<Arc<dyn DiskFile>> {
        self.open(path)
    }

    fn read(&self, path: &Path) -> io::Result<(Box<dyn Read + Send>, u64)> {
        self.run(DiskOperation::Read, |state| {
            let bytes = state.files[state.file(path)?].live().to_vec();
            let len = bytes.len() as u64;
            Ok((Box::new(Cursor::new(bytes)) as Box<dyn Read + Send>, len))
        })
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(DiskOperation::Name, |state| {
            state.check_dir(to)?;
            let target = NameTarget::File(state.file(from)?);
            state.names.rename(from, to, target);
            Ok(())
        })
    }

    #[cfg(test)]
    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.run(DiskOperation::Name, |state| {
            state.check_dir(to)?;
            let target = NameTarget::File(state.file(from)?);
            match state.names.get(to) {
                Some(_) => Err(io::ErrorKind::AlreadyExists.into()),
                None => {
                    state.names.add(to, target);
                    Ok(())
                }
            }
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.run(DiskOperation::Name, |state| {
            state.file(path)?;
            state.names.remove(path);
            Ok(())
        })
    }

    fn sync_file(&self, path: &Path) -> io::Result<()> {
        self.open(path)?.sync_data()
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(DiskOperation::SyncDir, |state| {
            state.check_dir(&dir.join("any"))?;
            state.names.sync(dir);
            Ok(())
        })
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.run(DiskOperation::Name, |state| match state.names.get(dir) {
            Some(NameTarget::Dir) => Ok(()),
            Some(NameTarget::File(_)) => Err(io::ErrorKind::AlreadyExists.into()),
            None => {
                state.check_dir(dir)?;
                state.names.add(dir, NameTarget::Dir);
                Ok(())
            }
        })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<OsString>> {
        self.run(DiskOperation::Read, |state| {
            state.check_dir(&dir.join("any"))?;
            let names = state.names.list(dir);
            Ok(names.filter_map(|path| path.file_name()).map(OsString::from).collect())
        })
    }

    fn len(&self, path: &Path) -> io::Result<Option<u64>> {
        self.run(DiskOperation::Read, |state| match state.names.get(path) {
            Some(NameTarget::File(number)) => Ok(Some(state.files[number].live().len() as u64)),
            Some(NameTarget::Dir) => Ok(Some(0)),
            None => Ok(None),
        })
    }

    /// Always succeeds: another process has another disk, a copy of this one at the end of the former process.
    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }

    fn free_space(&self, _: &Path) -> io::Result<u64> {
        self.run(DiskOperation::Read, |state| Ok(state.room()))
    }

    fn boot_id(&self, _: &Clock) -> Option<String> {
        let state = self.0.lock();
        state.has_boot_ids.then(|| format!("boot-{}", state.boots))
    }

    fn since_boot_ms(&self) -> u64 {
        self.0.lock().since_boot_ms
    }
}

impl SimulatedFile {
    /// Runs an operation on the file, unless it is to fail.
    fn run<T>(&self, operation: DiskOperation, run: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        self.disk.run_or((operation, Some(self.number)), run, |_| {})
    }
}

impl DiskFile for SimulatedFile {
    fn write(&self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        let bytes: Vec<u8> = slices.iter().flat_map(|slice| slice.iter().copied()).collect();
        self.run(DiskOperation::Write, |state| {
            let room = state.room().min(bytes.len() as u64) as usize;
            if room == 0 && !bytes.is_empty() {
                return Err(DiskFailure::Full.into());
            }
            // The end may also come in the middle of a write.
            let is_short = room > 1 && (state.is_ending || state.random.below(1000) < state.faults.short_per_thousand);
            let count = if is_short { 1 + state.random.below(room - 1) } else { room };
            let file = &mut state.files[self.number];
            file.write(file.live().len(), &bytes[..count]);
            Ok(count)
        })
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.run(DiskOperation::Write, |state| {
            state.files[self.number].write(offset as usize, bytes);
            Ok(())
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        let number = self.number;
        let sync = |state: &mut State| {
            state.files[number].sync();
            Ok(())
        };
        self.disk.wait_until_thawed();
        let fail = |state: &mut State| state.files[number].fail_to_sync(&mut state.random);
        self.disk.run_or((DiskOperation::Sync, Some(number)), sync, fail)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.run(DiskOperation::SetLen, |state| {
            state.files[self.number].set_len(len as usize);
            Ok(())
        })
    }

    #[cfg(test)]
    fn len(&self) -> io::Result<u64> {
        self.disk.run(DiskOperation::Read, |state| Ok(state.files[self.number].live().len() as u64))
    }

    fn start_writeback(&self, _: u64, _: u64) {}
}
