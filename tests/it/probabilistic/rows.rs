//! The commands on probabilistic types, in the tables of tests that try every command.

use crate::log::rows::Story;

/// The beginnings of their names.
pub const PREFIXES: [&str; 5] = ["bf.", "cf.", "cms.", "topk.", "tdigest."];

/// Commands that read, with `?` in place of a key.
pub const READS: &[&str] = if cfg!(feature = "probabilistic") { &ALL_READS } else { &[] };
const ALL_READS: [&str; 28] = [
    "BF.CARD ?",
    "BF.DEBUG ?",
    "BF.EXISTS ? a",
    "BF.INFO ?",
    "BF.MEXISTS ? a b",
    "BF.SCANDUMP ? 0",
    "CF.COUNT ? a",
    "CF.DEBUG ?",
    "CF.EXISTS ? a",
    "CF.INFO ?",
    "CF.MEXISTS ? a b",
    "CF.SCANDUMP ? 0",
    "CMS.INFO ?",
    "CMS.QUERY ? a",
    "TDIGEST.BYRANK ? 1",
    "TDIGEST.BYREVRANK ? 1",
    "TDIGEST.CDF ? 1",
    "TDIGEST.INFO ?",
    "TDIGEST.MAX ?",
    "TDIGEST.MIN ?",
    "TDIGEST.QUANTILE ? 0.5",
    "TDIGEST.RANK ? 1",
    "TDIGEST.REVRANK ? 1",
    "TDIGEST.TRIMMED_MEAN ? 0.1 0.9",
    "TOPK.COUNT ? a",
    "TOPK.INFO ?",
    "TOPK.LIST ?",
    "TOPK.QUERY ? a",
];

/// Commands that write, each with the requests before it.
pub(crate) const STORIES: &[Story] = if cfg!(feature = "probabilistic") { &ALL_STORIES } else { &[] };
const ALL_STORIES: [Story; 22] = [
    ("bf.add", "", "BF.ADD k a"),
    ("bf.insert", "", "BF.INSERT k CAPACITY 5 ERROR 0.1 ITEMS a b c d e f g h i j k l m n o p"),
    ("bf.madd", "", "BF.MADD k a b"),
    ("bf.reserve", "", "BF.RESERVE k 0.01 1000"),
    ("cf.add", "", "CF.ADD k a"),
    ("cf.addnx", "", "CF.ADDNX k a"),
    ("cf.compact", "CF.RESERVE k 4; CF.INSERT k ITEMS a b c d e f g h i", "CF.COMPACT k"),
    ("cf.del", "CF.RESERVE k 4; CF.INSERT k ITEMS a b c d e f g h i", "CF.DEL k c"),
    ("cf.insert", "", "CF.INSERT k CAPACITY 8 ITEMS a b c d e f g h i j k l m n o p"),
    ("cf.insertnx", "", "CF.INSERTNX k ITEMS a b"),
    ("cf.reserve", "", "CF.RESERVE k 1000"),
    ("cms.incrby", "CMS.INITBYDIM k 5 3", "CMS.INCRBY k a 3 b 4"),
    ("cms.initbydim", "", "CMS.INITBYDIM k 5 3"),
    ("cms.initbyprob", "", "CMS.INITBYPROB k 0.01 0.01"),
    ("cms.merge", "CMS.INITBYDIM a 5 3; CMS.INCRBY a x 3; CMS.INITBYDIM k 5 3", "CMS.MERGE k 2 a k WEIGHTS 2 1"),
    ("tdigest.add", "TDIGEST.CREATE k COMPRESSION 20", "TDIGEST.ADD k 1 2 3 1 2 3.5 -4"),
    ("tdigest.create", "", "TDIGEST.CREATE k"),
    ("tdigest.merge", "TDIGEST.CREATE a; TDIGEST.ADD a 1 2 3 2 2", "TDIGEST.MERGE k 1 a COMPRESSION 20"),
    ("tdigest.reset", "TDIGEST.CREATE k; TDIGEST.ADD k 1 2", "TDIGEST.RESET k"),
    ("topk.add", "TOPK.RESERVE k 2 2 2 0.9; TOPK.ADD k a b c d", "TOPK.ADD k a b c d e f a b g h i j"),
    ("topk.incrby", "TOPK.RESERVE k 2 2 2 0.9; TOPK.ADD k a b c d", "TOPK.INCRBY k e 20 a 9 b 30"),
    ("topk.reserve", "", "TOPK.RESERVE k 3"),
];

/// Commands that write bytes, with what creates a value, and the request for its dump.
pub(crate) const CHUNKS: &[Story] = if cfg!(feature = "probabilistic") { &ALL_CHUNKS } else { &[] };
const ALL_CHUNKS: [Story; 2] =
    [("bf.loadchunk", "BF.ADD k a", "BF.SCANDUMP k 0"), ("cf.loadchunk", "CF.ADD k a", "CF.SCANDUMP k 0")];

/// The names of these commands.
pub const WITH_BYTES: &[&str] = if cfg!(feature = "probabilistic") { &["bf.loadchunk", "cf.loadchunk"] } else { &[] };

/// Commands that create values of every type, small and large, in the second state.
pub const VALUES: &[&str] = if cfg!(feature = "probabilistic") { &ALL_VALUES } else { &[] };
const ALL_VALUES: [&str; 17] = [
    "BF.RESERVE bloom 0.1 2 EXPANSION 1",
    "BF.MADD bloom a b c d e f g h i j",
    "BF.RESERVE bloom:fixed 0.01 500 NONSCALING",
    "CF.RESERVE cuckoo 8 EXPANSION 2",
    "CF.INSERT cuckoo ITEMS a b c d e f g h i j k l m n o p",
    "CF.ADD cuckoo:large a",
    "CMS.INITBYDIM sketch 7 3",
    "CMS.INCRBY sketch a 3 b 4294967295",
    "CMS.INITBYDIM sketch:large 100 10",
    "TOPK.RESERVE top 3 4 2 0.9",
    "TOPK.ADD top a b c a a e f a",
    "TOPK.RESERVE top:large 5",
    "TOPK.INCRBY top:large abcdefgh 300 b 4 c 5 d 6 e 7 f 8",
    "TDIGEST.CREATE digest COMPRESSION 1",
    "TDIGEST.ADD digest 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20",
    "TDIGEST.CREATE digest:large",
    "TDIGEST.ADD digest:large 5 3.25 -7 1e300 5",
];

/// Commands on such a value `k`.
pub const COMMANDS: &[&str] = if cfg!(feature = "probabilistic") { &ALL_COMMANDS } else { &[] };
const ALL_COMMANDS: [&str; 41] = [
    "BF.INFO k",
    "BF.DEBUG k",
    "BF.MEXISTS k a z",
    "BF.MADD k q r s t u v w x y z",
    "BF.SCANDUMP k 0",
    "BF.SCANDUMP k 1",
    "BF.SCANDUMP k 9223372036854775807",
    "BF.LOADCHUNK k 9 12345678",
    "BF.LOADCHUNK k 9223372036854775807 12345678",
    "CF.INFO k",
    "CF.MEXISTS k a z",
    "CF.COUNT k a",
    "CF.INSERT k ITEMS q r s t u v w x y z",
    "CF.INSERTNX k ITEMS a b c",
    "CF.DEL k a",
    "CF.DEL k b",
    "CF.COMPACT k",
    "CF.SCANDUMP k 0",
    "CF.SCANDUMP k 3",
    "CF.LOADCHUNK k 9 12345678",
    "CF.DEL k c",
    "CMS.INFO k",
    "CMS.QUERY k a z",
    "CMS.INCRBY k a 5 z 9223372036854775807",
    "CMS.MERGE k 1 k WEIGHTS 2",
    "TOPK.INFO k",
    "TOPK.LIST k WITHCOUNT",
    "TOPK.ADD k a x y z a-long-item-which-needs-room",
    "TOPK.INCRBY k u 100000 v 1000 a 5",
    "TOPK.QUERY k a u",
    "TOPK.COUNT k a u",
    "TDIGEST.INFO k",
    "TDIGEST.QUANTILE k 0 0.1 0.5 0.9 1",
    "TDIGEST.CDF k -1 0 5 9 1e300",
    "TDIGEST.RANK k -1 0 5 9",
    "TDIGEST.BYREVRANK k 0 1 5 99",
    "TDIGEST.TRIMMED_MEAN k 0.1 0.9",
    "TDIGEST.ADD k 4 4.5 -1 4",
    "TDIGEST.MERGE other 2 k k",
    "TDIGEST.MERGE k 1 k COMPRESSION 5",
    "TDIGEST.INFO k",
];
