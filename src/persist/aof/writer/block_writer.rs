//! Writing the next block.

use std::io::{self, IoSlice};
use std::sync::Arc;

use bytes::Bytes;

use crate::persist::aof::block::{BlockStamp, Header, RunningChecksum, timestamp};
use crate::persist::aof::error::AofError;
use crate::persist::aof::handle::NeedsRewrite;
use crate::persist::aof::policy::FsyncPolicy;
use crate::persist::aof::writer::{Mark, Writer};
use crate::persist::disk::DiskFile;
use crate::resp::write_select;

/// Largest number of log bytes in a block, unless a record is longer.
const BLOCK_MAX: u64 = 4 << 20;
/// Number of bytes after which the system is told to start writing them to the disk, so that a sync has little left to
/// do.
const WRITE_BACK_LEN: u64 = 4 << 20;

impl Writer {
    /// Writes the next records of the log as a block; returns true if there were any.
    pub(super) fn write(&mut self, now: BlockStamp) -> Result<bool, AofError> {
        if self.is_torn {
            self.file.set_len(self.written.len).map_err(self.io("cut what was not written whole off"))?;
            self.is_torn = false;
        }
        let left = self
            .rotation
            .as_ref()
            .map_or(BLOCK_MAX, |rotation| rotation.position.saturating_sub(self.written.position));
        if left == 0 {
            return Ok(false);
        }
        let limit = left.min(BLOCK_MAX) as usize;
        match self.shared.reader.records(self.written.position, limit) {
            Ok((begin, records)) if records.is_empty() => {
                self.written.position = begin;
                Ok(false)
            }
            Ok((begin, records)) => {
                self.written.position = begin; // commands for replicas alone are not in the file
                // Read after the records: the header covers the fencing tokens that they have given.
                let now = BlockStamp { fence: (self.clock)().fence, ..now };
                self.write_records(records, now)?;
                self.is_closed = false;
                self.after_write();
                Ok(true)
            }
            Err(_) => {
                self.lost = Some(NeedsRewrite::LostPlace);
                Ok(false)
            }
        }
    }

    /// Writes records as a block, preceded by a SELECT of their database if the log does not have it. The SELECT is in
    /// the file alone, so that it moves no position.
    fn write_records(&mut self, mut records: Vec<Bytes>, now: BlockStamp) -> Result<(), AofError> {
        let mut select = Vec::new();
        if let Some(db) = self.unselected {
            write_select(&mut select, db);
        }
        let added = select.len() as u64;
        if added > 0 {
            records.insert(0, select.into());
        }
        self.write_block(&records, added, now)?;
        self.unselected = None;
        Ok(())
    }

    /// Writes records, possibly none, with a timestamp and a header; `added` bytes of them are not in the log.
    pub(super) fn write_block(&mut self, records: &[Bytes], added: u64, now: BlockStamp) -> Result<(), AofError> {
        let (mut before, mut sum) = (Vec::new(), self.written.sum);
        // Records read from the log belong to this history if it was the same before and after reading.
        let now = BlockStamp { history: (self.clock)().history.filter(|id| Some(*id) == now.history), ..now };
        let len: u64 = records.iter().map(|piece| piece.len() as u64).sum();
        let second = now.wall_ms.div_euclid(1000);
        if self.has_timestamps && second != self.last_timestamp {
            before = timestamp(now.wall_ms);
            sum.add(&before);
        }
        if self.has_checksums {
            before
                .extend_from_slice(&self.header(len, added, now).write(records.iter().map(|piece| &**piece), &mut sum));
        }
        let mut slices: Vec<IoSlice<'_>> = vec![IoSlice::new(&before)];
        slices.extend(records.iter().map(|piece| IoSlice::new(piece)));
        self.is_torn = true;
        let begun_ms = (self.clock)().boot_ms;
        write_slices(&*self.file, &mut slices).map_err(self.io("write to"))?;
        self.is_torn = false;
        let event = if self.syncing.is_some() { "aof-write-pending-fsync" } else { "aof-write-alone" };
        self.note_since(event, begun_ms);
        self.last_timestamp = second;
        let len_after = self.written.len + before.len() as u64 + len;
        self.written = Mark { len: len_after, position: self.written.position + len - added, sum };
        Ok(())
    }

    fn header(&self, len: u64, added: u64, now: BlockStamp) -> Header {
        let (position, boot, synced) = (self.written.position, self.boot.clone(), self.synced.len);
        Header { position, len, end: position + len - added, boot, at: now, synced }
    }

    /// Allows the log to free written records if they need no sync.
    fn after_write(&mut self) {
        if self.policy == FsyncPolicy::No && !self.must_sync {
            self.release(self.written.position);
        }
    }

    /// Returns true if the system is to be told to write to the disk.
    pub(super) fn writeback_is_due(&self) -> bool {
        self.policy != FsyncPolicy::Always && self.written.len.saturating_sub(self.written_back) >= WRITE_BACK_LEN
    }

    /// Tells the system to write to the disk all bytes written since the last such call, if they are many.
    pub(super) fn start_writeback(&mut self) {
        if self.writeback_is_due() {
            self.file.start_writeback(self.written_back, self.written.len - self.written_back);
            self.written_back = self.written.len;
        }
    }

    /// Switches to another file, which is empty.
    pub(super) fn switch_to(&mut self, file: Arc<dyn DiskFile>, position: u64, db: Option<usize>) {
        let mark = Mark { len: 0, position, sum: RunningChecksum::default() };
        (self.file, self.written, self.synced) = (file, mark, mark);
        (self.is_torn, self.must_sync, self.is_closed) = (false, false, false);
        (self.written_back, self.last_timestamp) = (0, 0);
        self.has_checksums = self.wants_checksums;
        self.unselected = db;
        // Both may be lower, as positions may have begun again.
        self.durable = self.durable.min(position);
        self.confirmed = self.confirmed.map(|confirmed| confirmed.min(position));
        self.released = position;
        self.shared.status.lock().file_begin = Some(position);
        self.shared.reader.release(position);
    }
}

/// Writes all bytes of the slices.
fn write_slices(file: &dyn DiskFile, mut slices: &mut [IoSlice<'_>]) -> io::Result<()> {
    IoSlice::advance_slices(&mut slices, 0);
    while !slices.is_empty() {
        match file.write(slices) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => IoSlice::advance_slices(&mut slices, count),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
