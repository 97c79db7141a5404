//! The identity of a node, and the file that keeps it, `nodes.conf`.

use crate::topology::SLOT_COUNT;

/// The ids by which a cluster tells a node and its shard from others: forty hexadecimal digits each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NodeIdentity {
    pub(crate) id: String,
    pub(crate) shard_id: String,
}

impl NodeIdentity {
    /// Reads the identity from the file in which Redis, Valkey or keylatch has written it. Files of Redis 7.0 have no id of the
    /// shard, for which the given one is taken.
    ///
    /// # Errors
    /// A text that is no such file, or that has other nodes: this server would be one without them.
    pub(crate) fn read(text: &str, shard_id: String) -> Result<Self, String> {
        let mut own = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("vars ")) {
            let mut words = line.split(' ');
            let (Some(id), Some(address), Some(flags)) = (words.next(), words.next(), words.next()) else {
                return Err(format!("'{line}' is no line about a node"));
            };
            if !is_id(id) {
                return Err(format!("'{id}' is no id of a node"));
            }
            if !flags.split(',').any(|flag| flag == "myself") {
                return Err(format!("it has another node, {id}, and keylatch is a cluster of one node"));
            }
            let shard = address.split(',').find_map(|field| field.strip_prefix("shard-id=")).filter(|id| is_id(id));
            own = Some((id.to_owned(), shard.map(str::to_owned)));
        }
        let (id, shard) = own.ok_or("it has no line about the node itself")?;
        Ok(NodeIdentity { id, shard_id: shard.unwrap_or(shard_id) })
    }

    /// Returns the text of the file, in the form of Redis 7.2 and later.
    pub(crate) fn file(&self, port: u16) -> String {
        let address = format!(":{port}@{},,tls-port=0,shard-id={}", bus_port_of(port), self.shard_id);
        format!(
            "{} {address} myself,master - 0 0 {EPOCH} connected 0-{}\nvars currentEpoch {EPOCH} lastVoteEpoch 0\n",
            self.id,
            SLOT_COUNT - 1
        )
    }
}

/// The configuration epoch of a cluster that has never changed.
const EPOCH: u64 = 0;

/// Returns the port of the bus of a node whose clients use `port`, unless the settings name another one.
pub(crate) fn bus_port_of(port: u16) -> u16 {
    port.wrapping_add(10_000)
}

fn is_id(word: &str) -> bool {
    word.len() == 40 && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "cf94cc81097749666020548dacd2f1742e05a485";
    const SHARD: &str = "bbbe5609761c4aba747cc3a3a8265b75e31bb806";

    #[test]
    fn files_of_redis_and_own_ones_are_read() {
        let read = |text: &str| NodeIdentity::read(text, SHARD.to_owned());
        let own = NodeIdentity { id: ID.to_owned(), shard_id: ID.to_owned() };
        assert_eq!(read(&own.file(7000)), Ok(own));
        let before =
            format!("{ID} :7301@17301 myself,master - 0 0 1 connected 0-16383\nvars currentEpoch 1 lastVoteEpoch 0\n");
        assert_eq!(read(&before), Ok(NodeIdentity { id: ID.to_owned(), shard_id: SHARD.to_owned() }));
        let other = format!("{before}{SHARD} 127.0.0.1:7302@17302 master - 0 0 2 connected\n");
        for wrong in ["", "x", "x y z", "vars currentEpoch 1\n", &other, "x y myself\n"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
