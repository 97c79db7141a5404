//! The row of t-digests: their values in dumps and files.
//!
//! RedisBloom merges all nodes before it dumps them, so that it goes on from another state than the server that was
//! dumped. Here the nodes are dumped as they are, sorted, and RedisBloom takes them for merged nodes, with less exact
//! estimates until its next merge. The number of unmerged nodes is encoded in the unmerged weight, as a positive number
//! below 1, which RedisBloom truncates to 0. So a replica and a restarted server go on from the same state, and merge the
//! same nodes at the same time.

use crate::memory::marked::MarkedBytes;
use crate::probabilistic::t_digest::{self, DigestHeader, Node};
use crate::rdb::Reader;
use crate::rdb::module::{ModuleId, ModuleReader, write_double, write_int};
use crate::store::entry::Entry;
use crate::store::value::{DataType, TDigest, Type};
use crate::types::digest::Digest;
use crate::types::options::{ValueOptions, ValueTarget};
use crate::types::probabilistic::ENCODING;
use crate::types::spec::{PayloadFormat, TypeSpec};

/// The version of the encoding.
const VERSION: u16 = 0;
/// The bits of the hidden number that are the weight of the nodes; those above are their number.
const WEIGHT_BITS: u32 = 33;
const WEIGHT_MAX: u64 = (1 << WEIGHT_BITS) - 1;

pub(in crate::types) const SPEC: TypeSpec = TypeSpec {
    of: Type::TDigest,
    encoding: |_| ENCODING,
    module: Some(ModuleId::new(b"TDIS-TYPE", VERSION)),
    numbers: &[],
    payload: PayloadFormat::of_module(write, read),
    commands: None,
    digest,
};

fn write(out: &mut MarkedBytes, _: u8, entry: &Entry, _: ValueOptions) {
    let bytes = TDigest::read(entry);
    let (header, nodes) = (DigestHeader::of(bytes), t_digest::sorted_nodes(bytes));
    write_double(out, header.compression);
    write_double(out, header.smallest);
    write_double(out, header.largest);
    write_int(out, i64::from(header.capacity));
    write_int(out, nodes.len() as i64);
    write_int(out, 0);
    write_int(out, header.compressions);
    write_double(out, header.weight() as f64);
    write_double(out, hidden(&header));
    nodes.iter().for_each(|(mean, _)| write_double(out, *mean));
    nodes.iter().for_each(|(_, weight)| write_double(out, *weight as f64));
}

fn read(version: u8, reader: &mut Reader<'_>, target: ValueTarget<'_>, _: ValueOptions) -> Option<Entry> {
    if u16::from(version) > VERSION {
        return None;
    }
    let mut parts = ModuleReader(reader);
    let (compression, smallest, largest) = (parts.double()?, parts.double()?, parts.double()?);
    parts.int()?; // the capacity, which follows from the compression
    let (merged, unmerged) = (u32::try_from(parts.int()?).ok()?, parts.int()?);
    let compressions = parts.int()?;
    parts.double()?; // the weight, which is that of the nodes
    let weight = parts.double()?;
    let mut nodes = Vec::new();
    for _ in 0..merged {
        nodes.push((parts.double()?, 0));
    }
    for (_, weight) in &mut nodes {
        *weight = parts.double()? as i64;
    }
    let (mut unmerged, unmerged_weight) = (revealed(weight, unmerged, &nodes), hidden_weight(weight));
    if nodes.is_empty() && unmerged == 1 {
        nodes.push((smallest, 1)); // RedisBloom does not merge a single observation, and so does not dump it
    }
    unmerged = unmerged.min(nodes.len() as u32);
    let header = DigestHeader {
        compression,
        smallest,
        largest,
        capacity: 0,
        merged: nodes.len() as u32 - unmerged,
        unmerged,
        compressions,
        merged_weight: 0,
        unmerged_weight,
    };
    let bytes = t_digest::of_parts(header, &nodes)?;
    Some(Entry::flat::<TDigest>(target.key, bytes, target.deadline))
}

/// Returns number and weight of the nodes that are not merged as a number below 1.
fn hidden(header: &DigestHeader) -> f64 {
    let weight = u64::try_from(header.unmerged_weight).unwrap_or(0).min(WEIGHT_MAX);
    f64::from_bits(u64::from(header.unmerged) << WEIGHT_BITS | weight)
}

/// Returns the number of nodes that are not merged, if it is hidden in a number; or the one that RedisBloom dumps.
fn revealed(number: f64, dumped: i64, nodes: &[Node]) -> u32 {
    if number > 0.0 && number < 1.0 {
        (number.to_bits() >> WEIGHT_BITS) as u32
    } else {
        u32::from(nodes.is_empty() && dumped == 1)
    }
}

/// Returns the weight of the nodes that are not merged.
fn hidden_weight(number: f64) -> i64 {
    if (0.0..1.0).contains(&number) { (number.to_bits() & WEIGHT_MAX) as i64 } else { i64::from(number == 1.0) }
}

/// Adds all but what depends on whether nodes were merged, or the order in which they arrived.
fn digest(digest: &mut Digest, entry: &Entry) {
    let bytes = TDigest::read(entry);
    let header = DigestHeader::of(bytes);
    for number in [header.compression, header.smallest, header.largest] {
        digest.mix(&number.to_le_bytes());
    }
    digest.mix(&header.compressions.to_le_bytes());
    for (mean, weight) in t_digest::sorted_nodes(bytes) {
        digest.mix(&mean.to_le_bytes());
        digest.mix(&weight.to_le_bytes());
    }
}
