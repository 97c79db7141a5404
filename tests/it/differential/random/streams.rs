//! Random commands on streams and their groups.

use super::generator::Random;
use super::shapes::Part;

/// Commands, in the form of the common table.
#[rustfmt::skip]
pub(super) const SHAPES: &[(usize, &str, &[Part])] = {
    use Part::*;
    use StreamPart::*;
    &[
        (8, "XADD", &[Key, Of(Id), Pairs]), (3, "XADD", &[Key, Of(Trim), Of(Id), Pairs]),
        (2, "XTRIM", &[Key, Of(Trim)]), (2, "XDEL", &[Key, Of(Id)]), (2, "XLEN", &[Key]),
        (3, "XRANGE", &[Key, Of(Range)]), (1, "XREAD", &[Of(Streams), Key, Of(Id)]), (1, "XSETID", &[Key, Of(NewLast)]),
        (3, "XGROUP", &[Of(NewGroup), Key, Of(Group), Of(Id)]), (1, "XGROUP", &[Of(OldGroup), Key, Of(Group)]),
        (4, "XREADGROUP", &[Of(OfGroup), Of(Streams), Key, Of(Next)]), (2, "XACK", &[Key, Of(Group), Of(Id)]),
        (2, "XPENDING", &[Key, Of(Group)]), (2, "XCLAIM", &[Key, Of(Group), Of(Group), Of(Zero), Of(Id)]),
        (1, "XAUTOCLAIM", &[Key, Of(Group), Of(Group), Of(Zero), Of(Zero)]),
        (2, "XREVRANGE", &[Key, Of(Backwards)]), (1, "XREAD", &[Of(Waiting), Of(Streams), Key, Of(Id)]),
        (1, "XREADGROUP", &[Of(OfGroup), Of(Waiting), Of(Streams), Key, Of(Next)]),
        (1, "XREADGROUP", &[Of(OfGroup), Of(Unacknowledged), Of(Streams), Key, Of(Next)]),
        (2, "XGROUP", &[Of(OldConsumer), Key, Of(Group), Of(Group)]),
        (1, "XGROUP", &[Of(NewGroup), Key, Of(Group), Of(Id), Of(NewStream)]),
        (2, "XPENDING", &[Key, Of(Group), Of(Range), Of(Ten)]), (1, "XACK", &[Key, Of(Group), Of(Id), Of(Id)]),
        (1, "XCLAIM", &[Key, Of(Group), Of(Group), Of(Zero), Of(Id), Of(ClaimOptions)]),
    ]
};

/// Kinds of arguments of these commands.
#[derive(Clone, Copy)]
pub(super) enum StreamPart {
    Id,
    Next,
    Range,
    Trim,
    Streams,
    OfGroup,
    NewGroup,
    OldGroup,
    Group,
    Zero,
    NewLast,
    Backwards,
    Waiting,
    Unacknowledged,
    OldConsumer,
    NewStream,
    Ten,
    ClaimOptions,
}

/// IDs without those that depend on the time: no two servers would give the same.
const IDS: &[&[u8]] = &[
    b"1-1",
    b"2-*",
    b"3-1",
    b"5",
    b"5-*",
    b"8-3",
    b"9-*",
    b"12",
    b"20-*",
    b"99-18446744073709551615",
    b"0-0",
    b"x",
    b"$",
];

impl Random {
    /// Appends an argument, or several.
    pub(super) fn add_stream_part(&mut self, part: StreamPart, args: &mut Vec<Vec<u8>>) {
        let word = match part {
            StreamPart::Id => self.pick(IDS),
            StreamPart::Next => self.pick(&[&b">"[..], b">", b">", b"0", b"3-1"]),
            StreamPart::Streams => b"STREAMS",
            StreamPart::NewGroup => self.pick(&[&b"CREATE"[..], b"CREATE", b"SETID"]),
            StreamPart::OldGroup => self.pick(&[&b"DESTROY"[..], b"NOSUCH"]),
            StreamPart::Group => self.pick(&[&b"g"[..], b"g", b"h"]),
            StreamPart::Zero => b"0",
            // A smaller one is refused, as since Redis 8.0, if a larger one was deleted.
            StreamPart::NewLast => self.pick(&[&b"99-18446744073709551615"[..], b"100", b"x"]),
            StreamPart::Ten => b"10",
            StreamPart::Unacknowledged => b"NOACK",
            StreamPart::NewStream => b"MKSTREAM",
            StreamPart::OldConsumer => b"DELCONSUMER",
            StreamPart::ClaimOptions => self.pick(&[&b"JUSTID"[..], b"FORCE", b"justid", b"FOO"]),
            StreamPart::Waiting => {
                args.push(b"BLOCK".to_vec());
                self.pick(&[&b"1"[..], b"1", b"-1", b"x"])
            }
            StreamPart::Backwards => {
                args.push(self.pick(&[&b"+"[..], b"9", b"(9-0", b"5", b"1"]).to_vec());
                self.pick(&[&b"-"[..], b"0", b"(3-1", b"5"])
            }
            StreamPart::OfGroup => {
                args.extend(["GROUP", "g", "h", "COUNT"].map(|word| word.as_bytes().to_vec()));
                self.pick(&[&b"1"[..], b"2", b"3"])
            }
            StreamPart::Range => {
                args.push(self.pick(&[&b"-"[..], b"0", b"(3-1", b"5"]).to_vec());
                self.pick(&[&b"+"[..], b"9", b"(9-0", b"5", b"1"])
            }
            StreamPart::Trim => {
                args.push(self.pick(&[&b"MAXLEN"[..], b"MINID", b"maxlen"]).to_vec());
                args.extend(self.pick(&[None, Some(&b"="[..]), Some(&b"~"[..])]).map(<[u8]>::to_vec));
                self.pick(&[&b"0"[..], b"1", b"3", b"9", b"x"])
            }
        };
        args.push(word.to_vec());
    }
}
