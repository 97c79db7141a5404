//! Attributes of elements: the fields of a JSON object, as far as filter expressions need them.
//!
//! Only fields of the object itself are found, and only numbers, strings, booleans, null and arrays of these have values.
//! The text after the last wanted field is not looked at, so that it need not be valid.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The length of the longest number.
const NUMBER_LEN_MAX: usize = 255;

/// Names of fields, and their numbers from 0 on.
pub(super) type FieldNumbers = BTreeMap<Box<[u8]>, usize>;

/// A value in an expression.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Operand<'a> {
    /// A number, or a boolean as 1 or 0.
    Number(f64),
    Text(Cow<'a, [u8]>),
    List(Cow<'a, [Operand<'static>]>),
    Null,
}

impl Operand<'_> {
    fn into_owned(self) -> Operand<'static> {
        match self {
            Operand::Number(number) => Operand::Number(number),
            Operand::Text(text) => Operand::Text(Cow::Owned(text.into_owned())),
            Operand::List(list) => Operand::List(Cow::Owned(list.into_owned())),
            Operand::Null => Operand::Null,
        }
    }

    /// Returns the value as a number; 0 for what is none.
    pub(super) fn number(&self) -> f64 {
        match self {
            Operand::Number(number) => *number,
            Operand::Text(text) if text.len() <= NUMBER_LEN_MAX => number_of_text(text),
            Operand::Text(_) | Operand::List(_) | Operand::Null => 0.0,
        }
    }

    /// Returns false for 0, null and the empty string.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Operand::Number(number) => *number != 0.0,
            Operand::Text(text) => !text.is_empty(),
            Operand::List(_) => true,
            Operand::Null => false,
        }
    }

    /// Returns true if two values are equal, of which strings are compared with numbers as numbers.
    pub(super) fn equals(&self, other: &Operand<'_>) -> bool {
        match (self, other) {
            (Operand::Text(a), Operand::Text(b)) => a == b,
            (Operand::Null, Operand::Null) => true,
            (Operand::Null, _) | (_, Operand::Null) => false,
            _ => self.number() == other.number(),
        }
    }
}

fn number_of_text(text: &[u8]) -> f64 {
    let text = text.trim_ascii_start();
    std::str::from_utf8(text).ok().and_then(|text| text.parse().ok()).unwrap_or(0.0)
}

/// Reads the values of fields, of which the first of a name counts; `None` if one is missing or has no value.
pub(super) fn read<'a>(object: &'a [u8], fields: &FieldNumbers) -> Option<Vec<Option<Operand<'a>>>> {
    let (mut values, mut left) = (vec![None; fields.len()], fields.len());
    let mut scanner = Scanner { text: object, at: 0 };
    while left > 0 {
        let name = scanner.next_field()?;
        match fields.get(name).map(|number| &mut values[*number]) {
            Some(value) if value.is_none() => {
                *value = Some(scanner.value()?);
                left -= 1;
            }
            _ => scanner.skip_value()?,
        }
    }
    Some(values)
}

/// Reads JSON, byte by byte.
struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    /// Returns the next byte behind white space, which is skipped.
    fn peek_token(&mut self) -> Option<u8> {
        while self.peek().is_some_and(is_space) {
            self.at += 1;
        }
        self.peek()
    }

    /// Consumes a byte behind white space, if it is this one.
    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek_token()? == byte).then(|| self.at += 1)
    }

    /// Moves to the value of the next field; returns the field's name as it is written. `None` at the end of the object.
    fn next_field(&mut self) -> Option<&'a [u8]> {
        let is_first = self.at == 0;
        self.take(if is_first { b'{' } else { b',' })?;
        self.peek_token()?;
        let start = self.at + 1;
        self.skip_text()?;
        let name = &self.text[start..self.at - 1];
        self.take(b':')?;
        Some(name)
    }

    /// Reads a value; `None` if it is an object, or not valid.
    fn value(&mut self) -> Option<Operand<'a>> {
        if self.peek_token()? != b'[' {
            return self.scalar();
        }
        self.at += 1;
        let mut list = Vec::new();
        if self.take(b']').is_some() {
            return Some(Operand::List(Cow::Owned(list)));
        }
        loop {
            list.push(match self.peek_token()? {
                // A list in a list is equal to nothing but 0, as in Redis; its elements are not read.
                b'[' => self.skip_value().map(|()| Operand::List(Cow::Owned(Vec::new())))?,
                _ => self.scalar()?.into_owned(),
            });
            match self.peek_token()? {
                b',' => self.at += 1,
                b']' => break,
                _ => return None,
            }
        }
        self.at += 1;
        Some(Operand::List(Cow::Owned(list)))
    }

    fn scalar(&mut self) -> Option<Operand<'a>> {
        match self.peek_token()? {
            b'"' => self.string().map(Operand::Text),
            b't' => self.literal(b"true").map(|()| Operand::Number(1.0)),
            b'f' => self.literal(b"false").map(|()| Operand::Number(0.0)),
            b'n' => self.literal(b"null").map(|()| Operand::Null),
            b'0'..=b'9' | b'-' | b'+' => self.number().map(Operand::Number),
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Cow<'a, [u8]>> {
        let start = self.at + 1;
        self.skip_text()?;
        Some(unescaped(&self.text[start..self.at - 1]))
    }

    fn number(&mut self) -> Option<f64> {
        let start = self.at;
        self.skip_number()?;
        let digits = self.text[start..self.at].get(..NUMBER_LEN_MAX).unwrap_or(&self.text[start..self.at]);
        std::str::from_utf8(digits).ok()?.parse().ok()
    }

    /// Consumes a word behind which another token begins.
    fn literal(&mut self, word: &[u8]) -> Option<()> {
        self.skip_word(word)?;
        let is_over = |next: u8| is_space(next) || matches!(next, b',' | b']' | b'}');
        self.peek().is_none_or(is_over).then_some(())
    }

    fn skip_word(&mut self, word: &[u8]) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| self.at += word.len())
    }

    fn skip_number(&mut self) -> Option<()> {
        let is_part = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E');
        let start = self.at;
        while self.peek().is_some_and(is_part) {
            self.at += 1;
        }
        (self.at > start).then_some(())
    }

    /// Skips a string with its quotes.
    fn skip_text(&mut self) -> Option<()> {
        if self.peek()? != b'"' {
            return None;
        }
        self.at += 1;
        loop {
            match self.peek()? {
                b'\\' => self.at += 2,
                b'"' => break,
                _ => self.at += 1,
            }
        }
        self.at += 1;
        Some(())
    }

    fn skip_value(&mut self) -> Option<()> {
        match self.peek_token()? {
            b'"' => self.skip_text(),
            b'{' => self.skip_bracketed(b'{', b'}'),
            b'[' => self.skip_bracketed(b'[', b']'),
            b't' => self.skip_word(b"true"),
            b'f' => self.skip_word(b"false"),
            b'n' => self.skip_word(b"null"),
            _ => self.skip_number(),
        }
    }

    /// Skips to the end of an array or object, in which only the same brackets and strings are looked at.
    fn skip_bracketed(&mut self, opening: u8, closing: u8) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            let byte = self.peek()?;
            if byte == b'"' {
                self.skip_text()?;
                continue;
            }
            self.at += 1;
            if byte == opening {
                depth += 1;
            } else if byte == closing {
                depth -= 1;
                if depth == 0 {
                    return Some(());
                }
            }
        }
    }
}

/// Returns true for white space, as C sees it.
pub(super) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Returns a string without the backslashes of escapes, which stand for the byte behind them, unless that is a letter for a
/// control character.
pub(super) fn unescaped(text: &[u8]) -> Cow<'_, [u8]> {
    if !text.contains(&b'\\') {
        return Cow::Borrowed(text);
    }
    let (mut plain, mut bytes) = (Vec::with_capacity(text.len()), text.iter());
    while let Some(byte) = bytes.next() {
        plain.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(other) => *other,
                None => break,
            },
            other => *other,
        });
    }
    Cow::Owned(plain)
}
