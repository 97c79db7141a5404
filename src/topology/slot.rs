//! Slots: into which of the parts of a cluster's keys a key falls, by its hash tag if it has one.
//!
//! The specification of Redis Cluster: <https://redis.io/docs/latest/operate/oss_and_stack/reference/cluster-spec/>.

/// Number of a slot.
pub(crate) type Slot = u16;

/// Number of a node of a topology, from 0 in the order of creation: primaries, their replicas, sentinels.
pub(crate) type NodeNumber = usize;

/// Number of slots of a cluster.
pub(crate) const SLOT_COUNT: Slot = 16384;

/// Returns the slot of a key, or of the channel of a shard.
pub(crate) fn slot_of(key: &[u8]) -> Slot {
    crc16(hash_tag(key)) % SLOT_COUNT
}

/// Returns a text in a slot.
pub(crate) fn tag_of(slot: Slot) -> String {
    let mut texts = (0u32..).map(|number| number.to_string());
    texts.find(|text| slot_of(text.as_bytes()) == slot).unwrap_or_default() // there are 25 texts for each slot below 2^19
}

/// Returns the slot that all these keys have, `None` without keys.
///
/// # Errors
/// If their slots differ.
pub(crate) fn same_slot<'k>(keys: impl IntoIterator<Item = &'k [u8]>) -> Result<Option<Slot>, SlotsDiffer> {
    let mut slots = keys.into_iter().map(slot_of);
    let first = slots.next();
    if slots.all(|slot| Some(slot) == first) { Ok(first) } else { Err(SlotsDiffer) }
}

/// Keys of one call are in several slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlotsDiffer;

/// Returns the part of a key that decides on its slot: what stands between the first `{` and the first `}` behind it, unless
/// that is nothing; without these the whole key.
pub(crate) fn hash_tag(key: &[u8]) -> &[u8] {
    let tagged = key.iter().position(|byte| *byte == b'{').map(|open| &key[open + 1..]);
    let tag = tagged.and_then(|rest| Some(&rest[..rest.iter().position(|byte| *byte == b'}')?]));
    tag.filter(|tag| !tag.is_empty()).unwrap_or(key)
}

/// Computes CRC-16/XMODEM.
fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |crc, byte| crc << 8 ^ CRC16[usize::from(crc >> 8 ^ u16::from(*byte))])
}

const CRC16: [u16; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let (mut crc, mut bit) = ((byte as u16) << 8, 0);
        while bit < 8 {
            crc = if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 };
            bit += 1;
        }
        table[byte] = crc;
        byte += 1;
    }
    table
};

#[cfg(test)]
mod tests {
    use super::*;

    /// Asked of redis-server 7.0.15.
    #[test]
    fn slots_are_those_of_redis() {
        let slots: &[(&[u8], Slot)] = &[
            (b"a", 15495),
            (b"", 0),
            (b"123456789", 12739),
            (b"{user1000}.following", 3443),
            (b"{user1000}.followers", 3443),
            (b"foo{}{bar}", 8363),
            (b"foo{{bar}}zap", 4015),
            (b"foo{bar}{zap}", 5061),
        ];
        for (key, slot) in slots {
            assert_eq!(slot_of(key), *slot, "{}", key.escape_ascii());
        }
    }

    #[test]
    fn every_slot_has_a_tag_that_is_found_soon() {
        for slot in 0..SLOT_COUNT {
            let tag = tag_of(slot);
            assert!(slot_of(tag.as_bytes()) == slot && tag.len() <= 6, "{slot}: {tag}");
        }
    }

    #[test]
    fn keys_share_a_slot_or_do_not() {
        assert_eq!(same_slot([]), Ok(None));
        assert_eq!(same_slot([&b"a"[..], b"x{a}", b"{a}"]), Ok(Some(15495)));
        assert_eq!(same_slot([&b"a"[..], b"{a}", b"b"]), Err(SlotsDiffer));
    }
}
