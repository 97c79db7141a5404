//! Reads JSON, and all that lua-cjson takes for it.

use std::sync::Arc;

use mlua::{Lua, Result, Value};

use super::super::control::Control;
use super::super::sequence::Sequence;
use super::super::{raise, vm};
use super::{DEPTH_LIMIT, Settings};

/// After how many values the control is asked whether to go on, and how many instructions a value counts as.
const ASK_EVERY: usize = 256;
const VALUE_INSTRUCTIONS: usize = 16;
/// How long strings are for which it is asked too, and how many of their bytes are an instruction.
const LONG_STRING: usize = 4096;
const BYTES_PER_INSTRUCTION: usize = 8;

/// Reads a value.
pub(super) fn decode(lua: &Lua, json: &[u8], settings: &Settings, control: &Arc<Control>) -> Result<Value> {
    if let [first, second, ..] = json
        && (*first == 0 || *second == 0)
    {
        return Err(raise::text(lua, "JSON parser does not support UTF-16 or UTF-32"));
    }
    let mut decoder = Decoder { lua, settings, control, json, at: 0, start: 0, depth: 0, values: 0 };
    let token = decoder.token();
    let value = vm::without_limit(lua, || decoder.value(token))?;
    match decoder.token() {
        Token::End => Ok(value),
        token => Err(decoder.unexpected("the end", &token)),
    }
}

/// A word of JSON.
enum Token {
    ObjectBegin,
    ObjectEnd,
    ArrayBegin,
    ArrayEnd,
    String(Vec<u8>),
    Number(f64),
    Boolean(bool),
    Null,
    Colon,
    Comma,
    End,
    Error(&'static str),
}

impl Token {
    fn name(&self) -> &'static str {
        match self {
            Token::ObjectBegin => "T_OBJ_BEGIN",
            Token::ObjectEnd => "T_OBJ_END",
            Token::ArrayBegin => "T_ARR_BEGIN",
            Token::ArrayEnd => "T_ARR_END",
            Token::String(_) => "T_STRING",
            Token::Number(_) => "T_NUMBER",
            Token::Boolean(_) => "T_BOOLEAN",
            Token::Null => "T_NULL",
            Token::Colon => "T_COLON",
            Token::Comma => "T_COMMA",
            Token::End => "T_END",
            Token::Error(complaint) => complaint,
        }
    }
}

struct Decoder<'d> {
    lua: &'d Lua,
    settings: &'d Settings,
    control: &'d Arc<Control>,
    json: &'d [u8],
    at: usize,
    /// Where the last word began, or went wrong.
    start: usize,
    depth: i64,
    /// How many values there were.
    values: usize,
}

impl Decoder<'_> {
    /// Returns the byte so many places ahead; NUL at the end, as in C.
    fn peek(&self, ahead: usize) -> u8 {
        self.json.get(self.at + ahead).copied().unwrap_or(0)
    }

    fn unexpected(&self, expected: &str, found: &Token) -> mlua::Error {
        let complaint = format!("Expected {expected} but found {} at character {}", found.name(), self.start + 1);
        raise::text(self.lua, complaint)
    }

    fn token(&mut self) -> Token {
        while matches!(self.peek(0), b' ' | b'\t' | b'\n' | b'\r') {
            self.at += 1;
        }
        self.start = self.at;
        let simple = match self.peek(0) {
            b'{' => Token::ObjectBegin,
            b'}' => Token::ObjectEnd,
            b'[' => Token::ArrayBegin,
            b']' => Token::ArrayEnd,
            b',' => Token::Comma,
            b':' => Token::Colon,
            0 => return Token::End,
            b'"' => return self.string(),
            b'-' | b'0'..=b'9' => {
                return match !self.settings.decode_invalid && self.is_invalid_number() {
                    true => self.error("invalid number"),
                    false => self.number(),
                };
            }
            b'f' | b'i' | b'I' | b'n' | b'N' | b't' | b'+' => return self.word(),
            _ => return Token::Error("invalid token"),
        };
        self.at += 1;
        simple
    }

    fn error(&mut self, complaint: &'static str) -> Token {
        self.start = self.at;
        Token::Error(complaint)
    }

    fn word(&mut self) -> Token {
        for (word, token) in [("true", Token::Boolean(true)), ("false", Token::Boolean(false)), ("null", Token::Null)] {
            if self.json[self.at..].starts_with(word.as_bytes()) {
                self.at += word.len();
                return token;
            }
        }
        match self.settings.decode_invalid && self.is_invalid_number() {
            true => self.number(),
            false => self.error("invalid token"),
        }
    }

    /// Tells numbers that C's `strtod` takes and JSON does not.
    fn is_invalid_number(&self) -> bool {
        if self.peek(0) == b'+' {
            return true;
        }
        let skip = usize::from(self.peek(0) == b'-');
        match self.peek(skip) {
            b'0' => matches!(self.peek(skip + 1), b'x' | b'X' | b'0'..=b'9'),
            byte if byte <= b'9' => false,
            _ => {
                let rest = &self.json[self.at + skip..];
                let begins = |word: &[u8]| rest.get(..3).is_some_and(|start| start.eq_ignore_ascii_case(word));
                begins(b"inf") || begins(b"nan")
            }
        }
    }

    fn number(&mut self) -> Token {
        match parse_number(&self.json[self.at..]) {
            Some((number, len)) => {
                self.at += len;
                Token::Number(number)
            }
            None => self.error("invalid number"),
        }
    }

    fn string(&mut self) -> Token {
        let mut string = Vec::new();
        self.at += 1;
        loop {
            match self.peek(0) {
                b'"' => break,
                0 => return self.error("unexpected end of string"),
                b'\\' => {
                    let byte = match self.peek(1) {
                        byte @ (b'"' | b'\\' | b'/') => byte,
                        b'b' => b'\x08',
                        b't' => b'\t',
                        b'n' => b'\n',
                        b'f' => b'\x0c',
                        b'r' => b'\r',
                        b'u' => {
                            if self.unicode(&mut string).is_none() {
                                return self.error("invalid unicode escape code");
                            }
                            continue;
                        }
                        _ => return self.error("invalid escape code"),
                    };
                    string.push(byte);
                    self.at += 2;
                }
                _ => {
                    let rest = &self.json[self.at..];
                    let plain = memchr::memchr3(b'"', b'\\', 0, rest).unwrap_or(rest.len());
                    string.extend_from_slice(&rest[..plain]);
                    self.at += plain;
                }
            }
        }
        self.at += 1;
        Token::String(string)
    }

    /// Reads `\uXXXX`, or two that are a pair of surrogates, and goes past it.
    fn unicode(&mut self, string: &mut Vec<u8>) -> Option<()> {
        let mut code = self.hex4(2)?;
        let mut len = 6;
        if code & 0xF800 == 0xD800 {
            let is_high = code & 0x400 == 0;
            if !is_high || self.peek(6) != b'\\' || self.peek(7) != b'u' {
                return None;
            }
            let low = self.hex4(8)?;
            if low & 0xFC00 != 0xDC00 {
                return None;
            }
            code = ((code & 0x3FF) << 10 | (low & 0x3FF)) + 0x1_0000;
            len = 12;
        }
        let character = char::from_u32(code)?;
        string.extend(character.encode_utf8(&mut [0; 4]).bytes());
        self.at += len;
        Some(())
    }

    fn hex4(&self, ahead: usize) -> Option<u32> {
        (ahead..ahead + 4).try_fold(0, |code, at| Some(code << 4 | char::from(self.peek(at)).to_digit(16)?))
    }

    fn value(&mut self, token: Token) -> Result<Value> {
        self.values += 1;
        let len = self.at - self.start;
        if self.values.is_multiple_of(ASK_EVERY) || len > LONG_STRING {
            self.control.spend(self.lua, ASK_EVERY * VALUE_INSTRUCTIONS + len / BYTES_PER_INSTRUCTION)?;
            vm::check_limit(self.lua)?;
        }
        Ok(match token {
            Token::String(string) => Value::String(self.lua.create_string(string)?),
            Token::Number(number) => Value::Number(number),
            Token::Boolean(truth) => Value::Boolean(truth),
            Token::Null => Value::NULL,
            Token::ObjectBegin => self.object()?,
            Token::ArrayBegin => self.array()?,
            token => return Err(self.unexpected("value", &token)),
        })
    }

    fn descend(&mut self) -> Result<()> {
        self.depth += 1;
        if self.depth <= self.settings.decode_depth_max.min(DEPTH_LIMIT) {
            return Ok(());
        }
        let complaint = format!("Found too many nested data structures ({}) at character {}", self.depth, self.at);
        Err(raise::text(self.lua, complaint))
    }

    fn object(&mut self) -> Result<Value> {
        self.descend()?;
        let table = self.lua.create_table()?;
        let mut token = self.token();
        while !matches!(token, Token::ObjectEnd) {
            let Token::String(name) = token else { return Err(self.unexpected("object key string", &token)) };
            match self.token() {
                Token::Colon => {}
                token => return Err(self.unexpected("colon", &token)),
            }
            let value = self.token();
            table.raw_set(self.lua.create_string(name)?, self.value(value)?)?;
            token = match self.token() {
                Token::ObjectEnd => break,
                // An object does not end with a comma.
                Token::Comma => match self.token() {
                    token @ Token::String(_) => token,
                    token => return Err(self.unexpected("object key string", &token)),
                },
                token => return Err(self.unexpected("comma or object end", &token)),
            };
        }
        self.depth -= 1;
        Ok(Value::Table(table))
    }

    fn array(&mut self) -> Result<Value> {
        self.descend()?;
        let mut sequence = Sequence::new(self.lua, self.depth as usize);
        let mut token = self.token();
        if !matches!(token, Token::ArrayEnd) {
            loop {
                sequence.push(self.value(token)?)?;
                token = match self.token() {
                    Token::ArrayEnd => break,
                    Token::Comma => self.token(),
                    token => return Err(self.unexpected("comma or array end", &token)),
                };
            }
        }
        self.depth -= 1;
        Ok(Value::Table(sequence.finish()?))
    }
}

/// Reads the longest number that C's `strtod` would take from the start of a text; returns it and its length.
fn parse_number(text: &[u8]) -> Option<(f64, usize)> {
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let rest = &text[sign..];
    let begins = |word: &[u8]| rest.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word));
    let (number, len) = if begins(b"infinity") {
        (f64::INFINITY, 8)
    } else if begins(b"inf") {
        (f64::INFINITY, 3)
    } else if begins(b"nan") {
        (f64::NAN, 3)
    } else if begins(b"0x") && rest.get(2).is_some_and(u8::is_ascii_hexdigit) {
        hexadecimal(rest)
    } else {
        decimal(rest)?
    };
    let number = if text.first() == Some(&b'-') { -number } else { number };
    Some((number, sign + len))
}

fn decimal(text: &[u8]) -> Option<(f64, usize)> {
    let digits = |from: usize| text[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let whole = digits(0);
    let mut len = whole;
    if text.get(len) == Some(&b'.') {
        let fraction = digits(len + 1);
        if whole + fraction > 0 {
            len += 1 + fraction;
        }
    }
    if len == 0 {
        return None;
    }
    if matches!(text.get(len), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(len + 1), Some(b'+' | b'-')));
        let exponent = text.get(len + 1 + sign).map_or(0, |_| digits(len + 1 + sign));
        if exponent > 0 {
            len += 1 + sign + exponent;
        }
    }
    let number = std::str::from_utf8(&text[..len]).ok()?.parse().ok()?;
    Some((number, len))
}

/// Reads `0x` and digits, with a fraction and a binary exponent if they follow.
fn hexadecimal(text: &[u8]) -> (f64, usize) {
    let digit = |at: usize| text.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let (mut number, mut at) = (0.0, 2);
    while let Some(value) = digit(at) {
        number = number * 16.0 + f64::from(value);
        at += 1;
    }
    if text.get(at) == Some(&b'.') {
        let mut place = 1.0 / 16.0;
        at += 1;
        while let Some(value) = digit(at) {
            number += f64::from(value) * place;
            place /= 16.0;
            at += 1;
        }
    }
    if matches!(text.get(at), Some(b'p' | b'P')) {
        let sign = usize::from(matches!(text.get(at + 1), Some(b'+' | b'-')));
        let start = at + 1 + sign;
        let count = text.get(start..).map_or(0, |rest| rest.iter().take_while(|byte| byte.is_ascii_digit()).count());
        if count > 0 {
            let exponent = text[start..start + count]
                .iter()
                .fold(0i32, |value, digit| value.saturating_mul(10).saturating_add(i32::from(digit - b'0')));
            let exponent = if text[at + 1] == b'-' { -exponent } else { exponent };
            number *= 2f64.powi(exponent);
            at = start + count;
        }
    }
    (number, at)
}
