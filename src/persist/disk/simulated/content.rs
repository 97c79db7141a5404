//! The content of a simulated file, as seen by programs and as left by a power cut.

use crate::random::Random;

/// The unit in which the system writes to the disk.
pub(super) const PAGE: usize = 4096;
/// The unit that the disk writes completely or not at all.
const SECTOR: usize = 512;

/// A change since the last sync.
#[derive(Clone, Debug)]
enum Change {
    /// Bytes that were written at an offset.
    Write(usize, Vec<u8>),
    /// The file was cut, or made longer with zeros.
    SetLen(usize),
}

impl Change {
    /// Applies the change to the bytes whose offsets `has_it` accepts.
    fn apply(&self, content: &mut Vec<u8>, has_it: impl Fn(usize) -> bool) {
        match self {
            Change::Write(offset, bytes) => {
                content.resize(content.len().max(offset + bytes.len()), 0);
                for (at, byte) in bytes.iter().enumerate().filter(|(at, _)| has_it(offset + at)) {
                    content[offset + at] = *byte;
                }
            }
            Change::SetLen(len) => {
                (*len..content.len()).filter(|at| has_it(*at)).for_each(|at| content[at] = 0);
            }
        }
    }

    /// Returns the length after the change.
    fn len_after(&self, len: usize) -> usize {
        match self {
            Change::Write(offset, bytes) => len.max(offset + bytes.len()),
            Change::SetLen(len) => *len,
        }
    }

    /// Returns the pages that the change touches in a file of length `len`.
    fn pages(&self, len: usize) -> std::ops::Range<usize> {
        match self {
            Change::Write(offset, bytes) => offset / PAGE..(offset + bytes.len()).div_ceil(PAGE),
            Change::SetLen(new) => new.min(&len) / PAGE..new.max(&len).div_ceil(PAGE),
        }
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    /// The content that programs read.
    live: Vec<u8>,
    /// The content that programs read at the last sync, or failed sync.
    base: Vec<u8>,
    /// The content on the disk; it differs from the base if a sync has failed.
    durable: Vec<u8>,
    /// The changes since the base.
    changes: Vec<Change>,
}

impl Content {
    /// Creates a durable content.
    pub(super) fn synced(bytes: Vec<u8>) -> Self {
        Content { live: bytes.clone(), base: bytes.clone(), durable: bytes, changes: Vec::new() }
    }

    pub(super) fn live(&self) -> &[u8] {
        &self.live
    }

    pub(super) fn write(&mut self, offset: usize, bytes: &[u8]) {
        self.change(Change::Write(offset, bytes.to_vec()));
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.change(Change::SetLen(len));
    }

    fn change(&mut self, change: Change) {
        let len = change.len_after(self.live.len());
        change.apply(&mut self.live, |_| true);
        self.live.resize(len, 0);
        self.changes.push(change);
    }

    /// Makes all changes since the last sync durable, whether that sync worked or not. Changes lost in a failed sync
    /// stay lost.
    pub(super) fn sync(&mut self) {
        let mut len = self.base.len();
        let mut pages = Vec::new();
        for change in &self.changes {
            pages.extend(change.pages(len));
            len = change.len_after(len);
        }
        self.durable.resize(self.live.len(), 0);
        for page in pages {
            let end = self.live.len().min((page + 1) * PAGE);
            let begin = end.min(page * PAGE);
            self.durable[begin..end].copy_from_slice(&self.live[begin..end]);
        }
        self.rebase();
    }

    /// Fails a sync: some of the changes reach the disk, and the others never will, unless they are made again.
    pub(super) fn fail_to_sync(&mut self, random: &mut Random) {
        self.durable = self.after_power_cut(random);
        self.rebase();
    }

    fn rebase(&mut self) {
        self.changes.clear();
        self.base.clone_from(&self.live);
    }

    /// Returns the content found after a power cut: each page, or each sector of a torn page, as it was at some moment
    /// since the last sync, and a length that the file has had since then.
    pub(super) fn after_power_cut(&self, random: &mut Random) -> Vec<u8> {
        if self.changes.is_empty() {
            return self.durable.clone();
        }
        let lens = self.changes.iter().scan(self.base.len(), |len, change| {
            *len = change.len_after(*len);
            Some(*len)
        });
        let lens: Vec<usize> = std::iter::once(self.durable.len()).chain(lens).collect();
        let longest = lens.iter().copied().max().unwrap_or(0).max(self.base.len());
        let moments = self.moments(longest, random);
        let mut found = self.durable.clone();
        found.resize(longest, 0);
        // A page that was written since the base has the base's other bytes, too.
        for (sector, moment) in moments.iter().enumerate().filter(|(_, moment)| **moment > 0) {
            let range = (sector * SECTOR).min(longest)..((sector + 1) * SECTOR).min(longest);
            let touched =
                self.changes[..*moment].iter().any(|change| change.pages(longest).contains(&(sector * SECTOR / PAGE)));
            for at in range.filter(|_| touched) {
                found[at] = self.base.get(at).copied().unwrap_or(0);
            }
        }
        for (number, change) in self.changes.iter().enumerate() {
            change.apply(&mut found, |at| moments.get(at / SECTOR).is_some_and(|moment| *moment > number));
        }
        let len = match random.below(4) {
            0 => self.durable.len(),
            1 => self.live.len(),
            _ => lens[random.below(lens.len())],
        };
        found.resize(len, 0);
        found
    }

    /// Chooses for each sector the number of changes that it has.
    fn moments(&self, len: usize, random: &mut Random) -> Vec<usize> {
        let mut moments = Vec::new();
        // Sometimes nearly all pages have reached the disk, sometimes nearly none, sometimes in order.
        let (mood, reached) = (random.below(4), random.below(len.div_ceil(PAGE) + 1));
        let choose = |page: usize, random: &mut Random| match mood {
            0 if page < reached => self.changes.len(),
            0 => 0,
            1 if random.below(8) > 0 => self.changes.len(),
            2 if random.below(8) > 0 => 0,
            _ => random.below(self.changes.len() + 1),
        };
        for page in 0..len.div_ceil(PAGE) {
            let (first, second) = (choose(page, random), choose(page, random));
            let is_torn = random.below(4) == 0;
            for _ in 0..PAGE / SECTOR {
                moments.push(if is_torn && random.below(2) == 0 { second } else { first });
            }
        }
        moments
    }
}
