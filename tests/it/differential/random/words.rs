//! Words of the random commands: few keys, and unusual values.

pub(super) const KEYS: &[&[u8]] =
    &[b"k", b"l", b"key:3", b"{tag}4", b"", b"a[b*", b"\x00\r\n\xff", b"a-key-that-is-rather-long-for-a-key"];

pub(super) const VALUES: &[&[u8]] = &[
    b"",
    b"0",
    b"1",
    b"-1",
    b"10",
    b"007",
    b"-0",
    b"+1",
    b" 1",
    b"1 ",
    b"3.0",
    b"0.1",
    b"-2.5",
    b"1e3",
    b"1e-7",
    b"5e-324",
    b"1.7976931348623157e308",
    b"1e4900",
    b"inf",
    b"-inf",
    b"nan",
    b"0x1p3",
    b"9223372036854775807",
    b"9223372036854775806",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"18446744073709551615",
    b"4294967296",
    b"v",
    b"hello",
    b"ohmytext",
    b"mynewtext",
    b"\x00\x01\xfe\xff",
    b"\r\n",
    b"forty-four bytes are as many as embstr holds",
    b"forty-five bytes and Redis encodes a value raw",
    b"0.30000000000000004",
    b"-0.000000000000000001",
    b"1e17",
    b"123456789012345678",
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff",
    b"HYLL\x01\0\0\0\x02\0\0\0\0\0\0\0\x5f\xff\x84\x84\x5f\xfd",
    // Damaged so that PFADD never gets half-way, because Redis' WATCH misses such a change.
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80\x7f\xff\0",
    b"HYLL\x01\0\0\0\0\0\0\0\0\0\0\x80",
];

pub(super) const FIELDS: &[&[u8]] = &[b"f", b"g", b"7", b"-1", b"field:1", b"", b"\x00\xff"];

pub(super) const SCORES: &[&[u8]] = &[
    b"0", b"1", b"1", b"2", b"-1", b"3.25", b"0.1", b"-2.5", b"100", b"1e17", b"inf", b"-inf", b"x", b"nan", b"5e-324",
];

pub(super) const INTEGERS: &[&[u8]] = &[
    b"0",
    b"1",
    b"-1",
    b"2",
    b"-2",
    b"3",
    b"5",
    b"-7",
    b"10",
    b"100",
    b"-100",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"x",
    b"",
    b"1.5",
    b" 1",
];

pub(super) const OFFSETS: &[&[u8]] =
    &[b"0", b"1", b"2", b"5", b"20", b"-1", b"536870912", b"9223372036854775807", b"x"];

/// Offsets of bits; none is large enough for strings to fill the memory.
pub(super) const BIT_OFFSETS: &[&[u8]] = &[
    b"0",
    b"1",
    b"7",
    b"8",
    b"13",
    b"100",
    b"129",
    b"1000",
    b"99999",
    b"#0",
    b"#3",
    b"#40",
    b"-1",
    b"x",
    b"4294967296",
    b"9223372036854775807",
    b"#9223372036854775807",
];

pub(super) const FIELD_TYPES: &[&[u8]] = &[
    b"u1", b"u2", b"u7", b"u8", b"u13", b"u32", b"u63", b"i1", b"i2", b"i8", b"i9", b"i31", b"i63", b"i64", b"u64",
    b"i0",
];

pub(super) const ODD_TIMES: &[&[u8]] = &[b"0", b"-1", b"x", b"", b"9223372036854775807", b"-9223372036854775808"];
