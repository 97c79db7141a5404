//! A text becomes a document.

use super::form::{self, Container, FALSE, NULL, TRUE, read_length};
use super::number::JsonNumber;
use super::{DOCUMENT_BYTES, JsonNode};

/// The reason why a text is not a document, in the words of Redis' parser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JsonTextError(String);

impl std::fmt::Display for JsonTextError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// Returns the document of a text, whose containers may be in each other up to a depth.
pub(crate) fn encode(text: &str, depth: usize) -> Result<Vec<u8>, JsonTextError> {
    let mut encoder =
        Encoder { text: text.as_bytes(), at: 0, depth, open: Vec::new(), members: Vec::new(), to: Vec::new() };
    encoder.to.reserve(text.len().min(DOCUMENT_BYTES));
    match encoder.document() {
        Some(()) if encoder.to.len() <= DOCUMENT_BYTES => {
            encoder.to.shrink_to_fit();
            Ok(encoder.to)
        }
        Some(()) => Err(JsonTextError("ERR the document is too long".into())),
        None => Err(JsonTextError(reason(text))),
    }
}

/// Returns why a text is refused, by the parser whose words Redis uses.
fn reason(text: &str) -> String {
    match serde_json::from_str::<serde_json::Value>(text) {
        Err(error) => error.to_string(),
        Ok(_) => "ERR invalid JSON".into(),
    }
}

/// A container that is being written.
struct OpenContainer {
    container: Container,
    /// The offset of its header.
    at: usize,
    count: usize,
    /// The number of members that were noted before it.
    members: usize,
}

/// The text that is left, and the document so far.
struct Encoder<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    open: Vec<OpenContainer>,
    /// The offsets of the members of the open objects.
    members: Vec<usize>,
    to: Vec<u8>,
}

impl Encoder<'_> {
    fn document(&mut self) -> Option<()> {
        loop {
            // A value begins here.
            self.skip_space();
            let opened = self.value()?;
            if opened && !self.closes()? {
                continue;
            }
            // It has ended, and with it perhaps the containers around it.
            loop {
                self.skip_space();
                let Some(container) = self.open.last_mut() else {
                    return (self.at == self.text.len()).then_some(());
                };
                container.count += 1;
                let container = container.container;
                let end = if container == Container::Array { b']' } else { b'}' };
                match self.next()? {
                    b',' => {
                        if container == Container::Object {
                            self.skip_space();
                            self.name()?;
                        }
                        break;
                    }
                    byte if byte == end => self.close(),
                    _ => return None,
                }
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.peek()?;
        self.at += 1;
        Some(byte)
    }

    fn skip_space(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\n' | b'\t' | b'\r')) {
            self.at += 1;
        }
    }

    fn word(&mut self, word: &[u8], tag: u8) -> Option<()> {
        self.text[self.at..].starts_with(word).then(|| {
            self.at += word.len();
            self.to.push(tag);
        })
    }

    /// Reads a value; of a container the beginning, and then the answer is yes.
    fn value(&mut self) -> Option<bool> {
        match self.peek()? {
            b'{' => return self.begin(Container::Object),
            b'[' => return self.begin(Container::Array),
            b'"' => self.string(form::write_string)?,
            b't' => self.word(b"true", TRUE)?,
            b'f' => self.word(b"false", FALSE)?,
            b'n' => self.word(b"null", NULL)?,
            b'-' | b'0'..=b'9' => self.number()?,
            _ => return None,
        }
        Some(false)
    }

    fn begin(&mut self, container: Container) -> Option<bool> {
        if self.open.len() >= self.depth {
            return None;
        }
        self.at += 1;
        let at = form::open(&mut self.to);
        self.open.push(OpenContainer { container, at, count: 0, members: self.members.len() });
        Some(true)
    }

    /// Reads the end of a container that has just begun, if that is next; in an object, otherwise the first name.
    fn closes(&mut self) -> Option<bool> {
        self.skip_space();
        let container = self.open.last()?.container;
        match (container, self.peek()?) {
            (Container::Array, b']') | (Container::Object, b'}') => {
                self.at += 1;
                self.close();
                Some(true)
            }
            (Container::Array, _) => Some(false),
            (Container::Object, _) => {
                self.name()?;
                Some(false)
            }
        }
    }

    fn name(&mut self) -> Option<()> {
        self.members.push(self.to.len());
        self.string(form::write_name)?;
        self.skip_space();
        (self.next()? == b':').then_some(())
    }

    fn close(&mut self) {
        let Some(mut open) = self.open.pop() else { return };
        if open.container == Container::Object {
            let members = self.members.split_off(open.members);
            if has_twins(&self.to, &members) {
                open.count = without_twins(&mut self.to, &members);
            }
        }
        form::close(open.container, open.at, open.count, &mut self.to);
    }

    fn number(&mut self) -> Option<()> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        match self.next()? {
            b'0' => {}
            b'1'..=b'9' => self.digits(),
            _ => return None,
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.some_digits()?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.some_digits()?;
        }
        if matches!(self.peek(), Some(b'0'..=b'9')) {
            return None;
        }
        let token = std::str::from_utf8(&self.text[start..self.at]).ok()?;
        JsonNumber::of_token(token)?.write(&mut self.to);
        Some(())
    }

    fn digits(&mut self) {
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
    }

    fn some_digits(&mut self) -> Option<()> {
        let start = self.at;
        self.digits();
        (self.at > start).then_some(())
    }

    fn string(&mut self, write: fn(&[u8], &mut Vec<u8>)) -> Option<()> {
        if self.next()? != b'"' {
            return None;
        }
        let start = self.at;
        loop {
            match self.peek()? {
                b'"' => {
                    write(&self.text[start..self.at], &mut self.to);
                    self.at += 1;
                    return Some(());
                }
                b'\\' => break,
                0..0x20 => return None,
                _ => self.at += 1,
            }
        }
        let mut unescaped = self.text[start..self.at].to_vec();
        loop {
            match self.next()? {
                b'"' => break,
                b'\\' => self.escape(&mut unescaped)?,
                0..0x20 => return None,
                byte => unescaped.push(byte),
            }
        }
        write(&unescaped, &mut self.to);
        Some(())
    }

    fn escape(&mut self, to: &mut Vec<u8>) -> Option<()> {
        let byte = match self.next()? {
            byte @ (b'"' | b'\\' | b'/') => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.code_point(to),
            _ => return None,
        };
        to.push(byte);
        Some(())
    }

    fn code_point(&mut self, to: &mut Vec<u8>) -> Option<()> {
        let mut code = self.hex()?;
        if (0xd800..0xdc00).contains(&code) {
            if self.next()? != b'\\' || self.next()? != b'u' {
                return None;
            }
            let low = self.hex()?;
            if !(0xdc00..0xe000).contains(&low) {
                return None;
            }
            code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
        }
        let character = char::from_u32(code)?;
        to.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
        Some(())
    }

    fn hex(&mut self) -> Option<u32> {
        let mut code = 0;
        for _ in 0..4 {
            code = code << 4 | char::from(self.next()?).to_digit(16)?;
        }
        Some(code)
    }
}

fn name_at(document: &[u8], at: usize) -> &[u8] {
    let (length, at) = read_length(document, at);
    &document[at..at + length]
}

/// Reports whether two of some members have the same name.
fn has_twins(document: &[u8], members: &[usize]) -> bool {
    if members.len() <= 8 {
        return members.iter().enumerate().any(|(index, at)| {
            let name = name_at(document, *at);
            members[..index].iter().any(|other| name_at(document, *other) == name)
        });
    }
    let mut names: Vec<&[u8]> = members.iter().map(|at| name_at(document, *at)).collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Removes members whose name comes again, which take their place; returns how many are left. The members are at the
/// end of the document.
fn without_twins(document: &mut Vec<u8>, members: &[usize]) -> usize {
    let value_of = |at: usize| {
        let (length, name) = read_length(document, at);
        JsonNode::at(document, name + length)
    };
    let mut order: Vec<usize> = (0..members.len()).collect();
    order.sort_by_key(|index| name_at(document, members[*index])); // stable: of the same name, the first is first
    let mut kept = Vec::new();
    for twins in order.chunk_by(|one, other| name_at(document, members[*one]) == name_at(document, members[*other])) {
        kept.push((twins[0], members[twins[twins.len() - 1]]));
    }
    kept.sort_unstable();
    let mut body = Vec::new();
    for (_, at) in &kept {
        form::write_name(name_at(document, *at), &mut body);
        body.extend_from_slice(value_of(*at).bytes());
    }
    document.truncate(members[0]);
    document.extend_from_slice(&body);
    kept.len()
}
