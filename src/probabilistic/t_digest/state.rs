//! The nodes of a t-digest: adding and merging them.

use crate::probabilistic::{BYTES_MAX, NotAllocated, f64_at, i64_at, put, u32_at, zeroed};

/// Length of the header.
const HEADER: usize = 64;
/// Length of a node.
const NODE: usize = 16;
/// Number of nodes for which a new digest has room.
const FIRST_ROOM: u64 = 32;

/// The result of adding an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DigestAdd {
    Added,
    /// Nothing was changed: the bytes must be replaced first, see [`with_room`].
    NeedsRoom,
    /// The sum of the weights would be too large.
    Overflow,
}

/// The header of a digest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DigestHeader {
    pub(crate) compression: f64,
    pub(crate) smallest: f64,
    pub(crate) largest: f64,
    /// Maximum number of nodes.
    pub(crate) capacity: u32,
    pub(crate) merged: u32,
    pub(crate) unmerged: u32,
    /// Number of times that nodes were merged.
    pub(crate) compressions: i64,
    pub(crate) merged_weight: i64,
    pub(crate) unmerged_weight: i64,
}

/// The mean and the weight of a cluster.
pub(crate) type Node = (f64, i64);

/// Creates an empty digest.
///
/// # Errors
/// [`NotAllocated`] if the compression is not positive, or the memory for all nodes is not available.
pub(crate) fn create(compression: f64) -> Result<Vec<u8>, NotAllocated> {
    let header = DigestHeader::new(compression)?;
    header.with_nodes(FIRST_ROOM.min(u64::from(header.capacity)), &[])
}

/// Returns true if a digest can have a compression.
pub(crate) fn is_compression(compression: f64) -> bool {
    DigestHeader::new(compression).is_ok()
}

/// Forgets all observations.
pub(crate) fn reset(bytes: &mut [u8]) {
    if let Ok(header) = DigestHeader::new(DigestHeader::of(bytes).compression) {
        header.write(bytes);
    }
}

/// Adds an observation, or a cluster of them.
pub(crate) fn add(bytes: &mut [u8], mean: f64, weight: i64) -> DigestAdd {
    if DigestHeader::of(bytes).is_full() {
        compress(bytes);
    }
    let mut header = DigestHeader::of(bytes);
    let nodes = header.nodes();
    if nodes >= header.capacity as usize {
        return DigestAdd::Overflow;
    }
    let total = header.unmerged_weight.checked_add(weight).and_then(|sum| sum.checked_add(header.merged_weight));
    if total.is_none() {
        return DigestAdd::Overflow;
    }
    if nodes >= room(bytes) {
        return DigestAdd::NeedsRoom;
    }
    header.smallest = header.smallest.min(mean);
    header.largest = header.largest.max(mean);
    header.unmerged += 1;
    header.unmerged_weight += weight;
    write_node(bytes, nodes, (mean, weight));
    header.write(bytes);
    DigestAdd::Added
}

/// Returns the bytes with room for more nodes.
///
/// # Errors
/// [`NotAllocated`] if the memory is not available.
pub(crate) fn with_room(bytes: &[u8]) -> Result<Vec<u8>, NotAllocated> {
    let header = DigestHeader::of(bytes);
    let more = (room(bytes) as u64 * 2).max(FIRST_ROOM).min(u64::from(header.capacity));
    let mut longer = zeroed(HEADER as u64 + more * NODE as u64)?;
    longer[..bytes.len()].copy_from_slice(bytes);
    Ok(longer)
}

/// Creates a digest of parts that were read from a dump; the weights of its header are computed.
pub(crate) fn of_parts(header: DigestHeader, nodes: &[Node]) -> Option<Vec<u8>> {
    let new = DigestHeader::new(header.compression).ok()?;
    let is_whole = header.nodes() == nodes.len() && nodes.len() <= new.capacity as usize;
    let weight = nodes.iter().try_fold(0i64, |sum, (_, weight)| sum.checked_add(*weight).filter(|_| *weight > 0))?;
    let merged_weight = weight.checked_sub(header.unmerged_weight).filter(|merged| *merged >= 0);
    if !is_whole || header.unmerged_weight < 0 || header.compressions < 0 {
        return None;
    }
    let header = DigestHeader { capacity: new.capacity, merged_weight: merged_weight?, ..header };
    header.with_nodes(nodes.len() as u64, nodes).ok()
}

/// Returns the nodes in the order of their means.
pub(crate) fn sorted_nodes(bytes: &[u8]) -> Vec<Node> {
    let mut nodes: Vec<Node> = (0..DigestHeader::of(bytes).nodes()).map(|number| read_node(bytes, number)).collect();
    // The order of equal means is that of their arrival, also when the sorted nodes were stored and read between.
    nodes.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    nodes
}

/// Merges the nodes of a digest.
pub(super) fn compress(bytes: &mut [u8]) {
    let mut header = DigestHeader::of(bytes);
    if header.unmerged == 0 {
        return;
    }
    let nodes = header.merge(sorted_nodes(bytes));
    for (number, node) in nodes.into_iter().enumerate() {
        write_node(bytes, number, node);
    }
    header.write(bytes);
}

/// Returns the number of nodes that the bytes can hold.
pub(super) fn room(bytes: &[u8]) -> usize {
    (bytes.len() - HEADER) / NODE
}

fn read_node(bytes: &[u8], number: usize) -> Node {
    let at = HEADER + number * NODE;
    (f64_at(bytes, at), i64_at(bytes, at + 8))
}

fn write_node(bytes: &mut [u8], number: usize, (mean, weight): Node) {
    let at = HEADER + number * NODE;
    put(bytes, at, mean.to_le_bytes());
    put(bytes, at + 8, weight.to_le_bytes());
}

impl DigestHeader {
    /// Returns the header of an empty digest.
    pub(super) fn new(compression: f64) -> Result<Self, NotAllocated> {
        // Also false for a compression that is not a number.
        let is_positive = compression >= 1.0 && compression <= f64::from(i32::MAX);
        let capacity = (compression as u64).saturating_mul(6).saturating_add(10);
        let capacity = i32::try_from(capacity).ok().filter(|_| is_positive).ok_or(NotAllocated::Invalid)?;
        Ok(DigestHeader {
            compression,
            smallest: f64::MAX,
            largest: -f64::MAX,
            capacity: capacity as u32,
            merged: 0,
            unmerged: 0,
            compressions: 0,
            merged_weight: 0,
            unmerged_weight: 0,
        })
    }

    /// Reads the header of a digest.
    pub(crate) fn of(bytes: &[u8]) -> Self {
        DigestHeader {
            compression: f64_at(bytes, 0),
            smallest: f64_at(bytes, 8),
            largest: f64_at(bytes, 16),
            capacity: u32_at(bytes, 24),
            merged: u32_at(bytes, 28),
            unmerged: u32_at(bytes, 32),
            compressions: i64_at(bytes, 40),
            merged_weight: i64_at(bytes, 48),
            unmerged_weight: i64_at(bytes, 56),
        }
    }

    fn write(&self, bytes: &mut [u8]) {
        put(bytes, 0, self.compression.to_le_bytes());
        put(bytes, 8, self.smallest.to_le_bytes());
        put(bytes, 16, self.largest.to_le_bytes());
        put(bytes, 24, self.capacity.to_le_bytes());
        put(bytes, 28, self.merged.to_le_bytes());
        put(bytes, 32, self.unmerged.to_le_bytes());
        put(bytes, 40, self.compressions.to_le_bytes());
        put(bytes, 48, self.merged_weight.to_le_bytes());
        put(bytes, 56, self.unmerged_weight.to_le_bytes());
    }

    /// Creates the bytes of a digest with room for a number of nodes.
    fn with_nodes(&self, room: u64, nodes: &[Node]) -> Result<Vec<u8>, NotAllocated> {
        let most = (HEADER as u64).saturating_add(u64::from(self.capacity) * NODE as u64);
        if most > BYTES_MAX {
            return Err(NotAllocated::Memory);
        }
        let mut bytes = zeroed(HEADER as u64 + room * NODE as u64)?;
        self.write(&mut bytes);
        for (number, node) in nodes.iter().enumerate() {
            write_node(&mut bytes, number, *node);
        }
        Ok(bytes)
    }

    /// Returns the number of nodes.
    pub(crate) fn nodes(&self) -> usize {
        self.merged as usize + self.unmerged as usize
    }

    /// Returns the weight of all nodes.
    pub(crate) fn weight(&self) -> i64 {
        self.merged_weight.saturating_add(self.unmerged_weight)
    }

    /// Returns true if the nodes are to be merged before one is added.
    fn is_full(&self) -> bool {
        self.nodes() as u64 + 1 >= u64::from(self.capacity)
    }

    /// Merges sorted nodes into clusters, whose weights the compression limits by their quantiles.
    pub(super) fn merge(&mut self, nodes: Vec<Node>) -> Vec<Node> {
        let total = self.merged_weight as f64 + self.unmerged_weight as f64;
        let scale = self.compression / (2.0 * std::f64::consts::PI * total * total.ln());
        let mut clusters: Vec<Node> = Vec::with_capacity(nodes.len());
        let mut before = 0.0;
        for (mean, weight) in nodes {
            let Some((last_mean, last_weight)) = clusters.last_mut() else {
                clusters.push((mean, weight));
                continue;
            };
            let proposed = *last_weight as f64 + weight as f64;
            let (low, high) = (before / total, (before + proposed) / total);
            let fits = |quantile: f64| proposed * scale <= quantile * (1.0 - quantile);
            if fits(low) && fits(high) {
                *last_weight += weight;
                *last_mean += (mean - *last_mean) * weight as f64 / *last_weight as f64;
            } else {
                before += *last_weight as f64;
                clusters.push((mean, weight));
            }
        }
        self.merged = clusters.len() as u32;
        self.unmerged = 0;
        self.merged_weight = self.weight();
        self.unmerged_weight = 0;
        self.compressions = self.compressions.saturating_add(1); // a dump may hold any number
        clusters
    }
}
