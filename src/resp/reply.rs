//! Writes replies directly into a client's output, in the client's protocol.
//!
//! There is no reply tree here (see [`crate::resp::Frame`] for one): each method appends its bytes, so a handler that
//! announces `array(3)` must write three values. When a handler fails half-way, its reply is rolled back to a mark.
//!
//! Invariant: types that RESP2 lacks are written as Redis 7.0 writes them to RESP2 clients.

use bytes::Bytes;

use crate::resp::command::write_header;
use crate::resp::output::{Kept, Mark, Output, Protocol};
use crate::text::double::write_double;

/// Writes replies of one client to its output.
#[derive(Debug)]
pub struct Reply<'a> {
    out: &'a mut Output,
    protocol: Protocol,
}

impl<'a> Reply<'a> {
    /// Creates a writer that appends to `out`.
    pub fn new(out: &'a mut Output, protocol: Protocol) -> Self {
        Self { out, protocol }
    }

    /// Returns the protocol in which replies are written.
    pub fn protocol(&self) -> Protocol {
        self.protocol
    }

    /// Changes the protocol of the replies that follow.
    pub fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    /// Returns the output, for a nested call or for parts that are already encoded.
    pub fn output(&mut self) -> &mut Output {
        self.encode();
        self.out
    }

    /// Returns the number of pending bytes of replies.
    #[inline]
    pub fn pending_len(&self) -> usize {
        self.out.len()
    }

    /// Returns true if the client's limit of pending bytes was exceeded, so that nothing more is written.
    pub fn is_over(&self) -> bool {
        self.out.is_over()
    }

    /// Writes `+OK`.
    #[inline(never)] // so that a copy of five bytes does not become a call of memcpy
    pub fn ok(&mut self) {
        if self.keep(Kept::Simple, b"OK") {
            return;
        }
        self.out.extend(b"+OK\r\n");
    }

    /// Writes a simple string; line breaks become blanks.
    pub fn simple(&mut self, text: &str) {
        if !text.contains(['\r', '\n']) && self.keep(Kept::Simple, text.as_bytes()) {
            return;
        }
        self.line(b'+', text.as_bytes());
    }

    /// Writes an error given as the full line, code first; line breaks become blanks.
    pub fn error(&mut self, line: &[u8]) {
        self.line(b'-', line);
    }

    /// Writes an integer.
    #[inline]
    pub fn int(&mut self, value: i64) {
        if self.keep(Kept::Int(value), b"") {
            return;
        }
        match u64::try_from(value) {
            Ok(value) => self.header(b':', value),
            Err(_) => self.line(b':', itoa::Buffer::new().format(value).as_bytes()),
        }
    }

    /// Writes a bulk string, copying it.
    #[inline]
    pub fn bulk(&mut self, value: &[u8]) {
        if self.keep(Kept::Bulk, value) {
            return;
        }
        // One reservation covers the header (at most 23 bytes), the value and the line end.
        self.out.reserve(value.len() + 25);
        self.header(b'$', value.len() as u64);
        self.out.extend(value);
        self.out.extend(b"\r\n");
    }

    /// Writes a bulk string, without copying it when it is large.
    pub fn bulk_shared(&mut self, value: Bytes) {
        self.header(b'$', value.len() as u64);
        self.out.push_shared(value);
        self.out.extend(b"\r\n");
    }

    /// Writes an integer as a bulk string.
    pub fn bulk_int(&mut self, value: i64) {
        self.bulk(itoa::Buffer::new().format(value).as_bytes());
    }

    /// Writes the absent value.
    #[inline]
    pub fn null(&mut self) {
        if self.keep(Kept::Null(self.protocol), b"") {
            return;
        }
        match self.protocol {
            Protocol::Resp2 => self.out.extend(b"$-1\r\n"),
            Protocol::Resp3 => self.out.extend(b"_\r\n"),
        }
    }

    /// Writes the absent array; in RESP3 it is the same as the absent value.
    pub fn null_array(&mut self) {
        self.encode();
        match self.protocol {
            Protocol::Resp2 => self.out.extend(b"*-1\r\n"),
            Protocol::Resp3 => self.out.extend(b"_\r\n"),
        }
    }

    /// Writes a boolean; to RESP2 clients the integer 1 or 0.
    pub fn bool(&mut self, value: bool) {
        self.encode();
        self.out.extend(match (self.protocol, value) {
            (Protocol::Resp2, true) => b":1\r\n",
            (Protocol::Resp2, false) => b":0\r\n",
            (Protocol::Resp3, true) => b"#t\r\n",
            (Protocol::Resp3, false) => b"#f\r\n",
        });
    }

    /// Writes a double with the fewest digits that identify it; to RESP2 clients as a bulk string.
    pub fn double(&mut self, value: f64) {
        self.double_digits(&write_double(value));
    }

    /// Writes a double given as its decimal digits; to RESP2 clients as a bulk string.
    pub fn double_digits(&mut self, digits: &[u8]) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits),
            Protocol::Resp3 => self.line(b',', digits),
        }
    }

    /// Writes an integer of any size, given as decimal digits; to RESP2 clients as a bulk string.
    pub fn big_number(&mut self, digits: &str) {
        match self.protocol {
            Protocol::Resp2 => self.bulk(digits.as_bytes()),
            Protocol::Resp3 => self.line(b'(', digits.as_bytes()),
        }
    }

    /// Writes a verbatim string, to RESP2 clients a bulk string; `kind` (`txt`, `mkd`) is cut or padded to three bytes.
    pub fn verbatim(&mut self, kind: &str, text: &[u8]) {
        if self.protocol == Protocol::Resp2 {
            return self.bulk(text);
        }
        let mut prefix = *b"   :";
        for (slot, byte) in prefix[..3].iter_mut().zip(kind.bytes()) {
            *slot = byte;
        }
        self.header(b'=', text.len() as u64 + 4);
        self.out.extend(&prefix);
        self.out.extend(text);
        self.out.extend(b"\r\n");
    }

    /// Announces an array of `len` values.
    #[inline]
    pub fn array(&mut self, len: usize) {
        self.header(b'*', len as u64);
    }

    /// Announces a map of `len` pairs, keys and values alternating; to RESP2 clients a flat array.
    pub fn map(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len as u64 * 2),
            Protocol::Resp3 => self.header(b'%', len as u64),
        }
    }

    /// Announces `len` pairs, each begun by [`Reply::pair`]: in RESP3 an array of arrays, to RESP2 clients a flat
    /// array.
    pub fn pairs(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len as u64 * 2),
            Protocol::Resp3 => self.header(b'*', len as u64),
        }
    }

    /// Begins a pair announced by [`Reply::pairs`]; its two values follow.
    #[inline]
    pub fn pair(&mut self) {
        if self.protocol == Protocol::Resp3 {
            self.header(b'*', 2);
        }
    }

    /// Calls `announce` to write before everything written since `mark`: the header of an array or map whose length was
    /// not known before its values were written.
    pub fn announce_at(&mut self, mark: Mark, announce: impl FnOnce(&mut Reply<'_>)) {
        let mut header = Output::new();
        announce(&mut Reply::new(&mut header, self.protocol));
        self.encode();
        self.out.insert(mark, header.into_bytes().freeze());
    }

    /// Announces a set of `len` values; to RESP2 clients an array.
    pub fn set(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len as u64),
            Protocol::Resp3 => self.header(b'~', len as u64),
        }
    }

    /// Announces a push of `len` values; to RESP2 clients an array.
    pub fn push(&mut self, len: usize) {
        match self.protocol {
            Protocol::Resp2 => self.header(b'*', len as u64),
            Protocol::Resp3 => self.header(b'>', len as u64),
        }
    }

    /// Writes bytes that are already encoded.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.encode();
        self.out.extend(bytes);
    }

    /// Returns the present position, to roll back to.
    #[inline]
    pub fn mark(&mut self) -> Mark {
        if self.out.keeps() && !self.out.is_waiting() {
            self.encode();
        }
        self.out.mark()
    }

    /// Drops every reply written after `mark`.
    pub fn rollback(&mut self, mark: Mark) {
        self.out.rollback(mark);
        if self.out.keeps() {
            self.out.keep_nothing();
        }
    }

    /// Stores a value instead of encoding it, where the output keeps the next reply; see [`Output::keep_next`].
    #[inline]
    fn keep(&mut self, value: Kept, bytes: &[u8]) -> bool {
        if !self.out.keeps() {
            return false;
        }
        let is_kept = self.out.keep(value, bytes);
        if !is_kept {
            self.encode();
        }
        is_kept
    }

    /// Encodes a kept value, because more of the reply follows.
    #[inline]
    fn encode(&mut self) {
        if self.out.keeps() {
            self.encode_kept();
        }
    }

    #[cold]
    fn encode_kept(&mut self) {
        let kept = self.out.take_kept();
        let bytes = self.out.as_slice().unwrap_or_default().to_vec();
        if !bytes.is_empty() {
            self.out.truncate(0);
        }
        match kept {
            Kept::Encoded | Kept::Nothing => {}
            Kept::Int(value) => self.int(value),
            Kept::Null(_) => self.null(),
            Kept::Bulk => self.bulk(&bytes),
            Kept::Simple => self.line(b'+', &bytes),
        }
    }

    /// Writes `kind`, a number and a line end.
    #[inline]
    fn header(&mut self, kind: u8, number: u64) {
        self.encode();
        write_header(kind, number, |line| self.out.extend(line));
    }

    /// Writes a single line: `\r` and `\n` in the text become blanks.
    pub(super) fn line(&mut self, kind: u8, text: &[u8]) {
        self.encode();
        self.out.reserve(text.len() + 3);
        self.out.extend(&[kind]);
        let mut rest = text;
        while let Some(at) = memchr::memchr2(b'\r', b'\n', rest) {
            self.out.extend(&rest[..at]);
            self.out.extend(b" ");
            rest = &rest[at + 1..];
        }
        self.out.extend(rest);
        self.out.extend(b"\r\n");
    }
}

/// Formats a double as C's `%g` with `significant` digits; NaN is `nan` whatever its sign.
pub fn format_general(value: f64, significant: i32) -> String {
    if value.is_nan() {
        return "nan".to_owned();
    }
    if value.is_infinite() {
        return if value > 0.0 { "inf" } else { "-inf" }.to_owned();
    }
    // "-d.dddddddddddddddde-xxx": the digits and the decimal exponent, correctly rounded.
    let scientific = format!("{value:.*e}", significant as usize - 1);
    let (mantissa, exponent) = scientific.split_once('e').expect("{:e} always writes an exponent");
    let exponent: i32 = exponent.parse().expect("{:e} writes a decimal exponent");
    if (-4..significant).contains(&exponent) {
        let decimals = significant - 1 - exponent;
        let fixed = format!("{value:.*}", decimals as usize);
        return without_trailing_zeros(&fixed).to_owned();
    }
    let mantissa = without_trailing_zeros(mantissa);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{mantissa}e{sign}{:02}", exponent.unsigned_abs())
}

fn without_trailing_zeros(digits: &str) -> &str {
    if digits.contains('.') { digits.trim_end_matches('0').trim_end_matches('.') } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(protocol: Protocol, write: impl FnOnce(&mut Reply<'_>)) -> String {
        let mut out = Output::new();
        write(&mut Reply::new(&mut out, protocol));
        String::from_utf8(out.into_bytes().to_vec()).expect("the test writes text")
    }

    #[test]
    fn headers_have_the_digits_of_their_number() {
        let powers = (0..20).map(|power| 10_u64.pow(power));
        let around = powers.flat_map(|power| [power - 1, power, power + 1, power.saturating_mul(7) / 3]);
        for number in around.chain([12, 305, 4096, u64::MAX]) {
            assert_eq!(written(Protocol::Resp2, |reply| reply.header(b':', number)), format!(":{number}\r\n"));
        }
    }

    /// Recorded from C's printf.
    #[test]
    fn numbers_of_so_many_digits_are_those_of_printf() {
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (3.0, "3"),
            (3.1, "3.1000000000000001"),
            (-0.1, "-0.10000000000000001"),
            (1e16, "10000000000000000"),
            (1e17, "1e+17"),
            (0.0001, "0.0001"),
            (0.00001, "1.0000000000000001e-05"),
            (5e-324, "4.9406564584124654e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            // Exactly half-way between two 17-digit decimals: ties go to even.
            (0.5 + 2f64.powi(-18), "0.50000381469726562"),
            (0.5 + 3.0 * 2f64.powi(-18), "0.50001144409179688"),
            (f64::NEG_INFINITY, "-inf"),
            (f64::NAN, "nan"),
        ];
        for (value, expected) in cases {
            assert_eq!(format_general(value, 17), expected);
        }
    }

    #[test]
    fn each_protocol_has_its_own_spelling() {
        type Case = (fn(&mut Reply<'_>), &'static str, &'static str);
        let cases: &[Case] = &[
            (|r| r.null(), "$-1\r\n", "_\r\n"),
            (|r| r.null_array(), "*-1\r\n", "_\r\n"),
            (|r| r.bool(true), ":1\r\n", "#t\r\n"),
            (|r| r.bool(false), ":0\r\n", "#f\r\n"),
            (|r| r.double(0.5), "$3\r\n0.5\r\n", ",0.5\r\n"),
            (|r| r.double(f64::INFINITY), "$3\r\ninf\r\n", ",inf\r\n"),
            (|r| r.big_number("123"), "$3\r\n123\r\n", "(123\r\n"),
            (|r| r.verbatim("txt", b"hi"), "$2\r\nhi\r\n", "=6\r\ntxt:hi\r\n"),
            (|r| r.verbatim("m", b""), "$0\r\n\r\n", "=4\r\nm  :\r\n"),
            (|r| r.array(12), "*12\r\n", "*12\r\n"),
            (|r| r.map(2), "*4\r\n", "%2\r\n"),
            (|r| r.set(2), "*2\r\n", "~2\r\n"),
            (|r| r.pairs(2), "*4\r\n", "*2\r\n"),
            (|r| r.pair(), "", "*2\r\n"),
            (|r| r.bulk_int(-7), "$2\r\n-7\r\n", "$2\r\n-7\r\n"),
            (|r| r.bulk_int(i64::MIN), "$20\r\n-9223372036854775808\r\n", "$20\r\n-9223372036854775808\r\n"),
            (|r| r.double(-1.5e300), "$9\r\n-1.5e+300\r\n", ",-1.5e+300\r\n"),
            (|r| r.double(3.0), "$1\r\n3\r\n", ",3\r\n"),
            (|r| r.push(3), "*3\r\n", ">3\r\n"),
            (|r| r.int(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
            (|r| r.int(i64::MAX), ":9223372036854775807\r\n", ":9223372036854775807\r\n"),
            (|r| r.int(10), ":10\r\n", ":10\r\n"),
            (|r| r.int(99), ":99\r\n", ":99\r\n"),
            (|r| r.int(256), ":256\r\n", ":256\r\n"),
            (|r| r.error(b"ERR a\r\nb"), "-ERR a  b\r\n", "-ERR a  b\r\n"),
        ];
        for (write, resp2, resp3) in cases {
            assert_eq!(written(Protocol::Resp2, write), *resp2);
            assert_eq!(written(Protocol::Resp3, write), *resp3);
        }
    }

    #[test]
    fn an_array_is_announced_before_the_values_that_were_written_already() {
        let count_later = |reply: &mut Reply<'_>| {
            reply.ok();
            let start = reply.mark();
            (1..=3).for_each(|number| reply.int(number));
            reply.announce_at(start, |reply| reply.map(3));
            reply.ok();
        };
        assert_eq!(written(Protocol::Resp2, count_later), "+OK\r\n*6\r\n:1\r\n:2\r\n:3\r\n+OK\r\n");
        assert_eq!(written(Protocol::Resp3, count_later), "+OK\r\n%3\r\n:1\r\n:2\r\n:3\r\n+OK\r\n");
        let of_nothing = |reply: &mut Reply<'_>| {
            let mark = reply.mark();
            reply.announce_at(mark, |reply| reply.array(0));
        };
        assert_eq!(written(Protocol::Resp2, of_nothing), "*0\r\n");
    }

    #[test]
    fn large_shared_bulks_carry_their_frame() {
        let value = Bytes::from(vec![b'x'; crate::resp::SHARED_MIN]);
        let text = written(Protocol::Resp2, |reply| reply.bulk_shared(value));
        assert!(text.starts_with("$16384\r\nxxx") && text.ends_with("x\r\n"));
    }
}
