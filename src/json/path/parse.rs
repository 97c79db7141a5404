//! The grammar of paths.

use super::syntax::{JsonPath, JsonPathError, PathComparison, PathFilter, PathStep, PathTerm};

/// The most filters and parentheses in each other.
const NESTING: usize = 32;

impl JsonPath {
    /// Parses a path of JSONPath.
    pub(crate) fn parse(path: &str) -> Result<Self, JsonPathError> {
        let mut parser = PathParser { path, at: 0, root_terms: 0, nesting: 0 };
        match parser.whole() {
            Ok(steps) => Ok(JsonPath { steps, root_terms: parser.root_terms }),
            Err(expected) => Err(JsonPathError::Malformed(message(path, parser.at, expected))),
        }
    }
}

/// Returns the reply to a path that is none, as Redis words it.
fn message(path: &str, at: usize, expected: &str) -> String {
    let at = (0..=at.min(path.len())).rev().find(|at| path.is_char_boundary(*at)).unwrap_or(0);
    let (before, behind) = path.split_at(at);
    let shown = if behind.is_empty() { format!("{before} <<<<----") } else { format!("{before} ---->>>> {behind}") };
    format!("Error occurred on position {at}, \"{shown}\", expected one of the following: {expected}.")
}

/// The expected syntax where a path is malformed.
type Expected = &'static str;

struct PathParser<'p> {
    path: &'p str,
    at: usize,
    root_terms: usize,
    nesting: usize,
}

impl<'p> PathParser<'p> {
    fn rest(&self) -> &'p [u8] {
        &self.path.as_bytes()[self.at..]
    }

    fn skip_space(&mut self) {
        while self.rest().first() == Some(&b' ') {
            self.at += 1;
        }
    }

    /// Skips spaces, and a word if it is next.
    fn takes(&mut self, word: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(word.as_bytes());
        if found {
            self.at += word.len();
        }
        found
    }

    fn expect(&mut self, word: &str, expected: Expected) -> Result<(), Expected> {
        if self.takes(word) { Ok(()) } else { Err(expected) }
    }

    fn whole(&mut self) -> Result<Vec<PathStep>, Expected> {
        if !self.rest().starts_with(b"$") {
            return Err("query");
        }
        self.at += 1;
        let steps = self.steps(true)?;
        self.skip_space();
        if self.rest().is_empty() { Ok(steps) } else { Err("'..', EOI") }
    }

    /// Reads the steps behind `$` or `@`; those of a whole path end where it ends.
    fn steps(&mut self, whole: bool) -> Result<Vec<PathStep>, Expected> {
        let mut steps = Vec::new();
        self.skip_space();
        if self.rest().first() == Some(&b'*') {
            self.at += 1;
            steps.push(PathStep::All);
        } else if let Some(name) = self.literal() {
            steps.push(PathStep::Names(vec![name.into()]));
        }
        loop {
            let start = self.at;
            match self.element(&mut steps) {
                Ok(true) => {}
                Ok(false) => {
                    self.at = start;
                    return Ok(steps);
                }
                Err(expected) if whole => return Err(expected),
                Err(expected) => return Err(expected),
            }
        }
    }

    /// Reads a step with what introduces it, if there is one.
    fn element(&mut self, steps: &mut Vec<PathStep>) -> Result<bool, Expected> {
        if self.takes("..") {
            steps.push(PathStep::Descend);
            if self.takes("[") {
                steps.push(self.bracket()?);
            } else {
                steps.push(self.name_or_all("<string>, '*', '['")?);
            }
            return Ok(true);
        }
        if self.takes("[") {
            steps.push(self.bracket()?);
            return Ok(true);
        }
        if self.takes(".") {
            let step = if self.takes("[") { self.bracket()? } else { self.name_or_all("<string>, '*'")? };
            steps.push(step);
            return Ok(true);
        }
        Ok(false)
    }

    fn name_or_all(&mut self, expected: Expected) -> Result<PathStep, Expected> {
        if self.takes("*") {
            return Ok(PathStep::All);
        }
        self.literal().map(|name| PathStep::Names(vec![name.into()])).ok_or(expected)
    }

    fn literal(&mut self) -> Option<&'p str> {
        let is_part = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_`~+#%$^/:".contains(byte);
        let length = self.rest().iter().take_while(|byte| is_part(byte)).count();
        let name = &self.path[self.at..self.at + length];
        self.at += length;
        (length > 0).then_some(name)
    }

    /// Reads what is between brackets, and the closing one.
    fn bracket(&mut self) -> Result<PathStep, Expected> {
        const EXPECTED: Expected =
            "'*', '<number>[,<number>,...]', ['start:end:steps'], '<string>[,<string>,...]', '[?(filter_expression)]'";
        self.skip_space();
        let step = match self.rest().first() {
            Some(b'*') => {
                self.at += 1;
                PathStep::All
            }
            Some(b'?') => {
                self.at += 1;
                PathStep::Filter(self.filter()?)
            }
            Some(b'"' | b'\'') => {
                let mut names = vec![self.string()?];
                while self.takes(",") {
                    self.skip_space();
                    names.push(self.string()?);
                }
                PathStep::Names(names)
            }
            Some(b'-' | b':' | b'0'..=b'9') => self.indexes()?,
            _ => return Err(EXPECTED),
        };
        self.expect("]", "']'")?;
        Ok(step)
    }

    fn indexes(&mut self) -> Result<PathStep, Expected> {
        let first = match self.rest().first() {
            Some(b':') => None,
            _ => Some(self.number()?),
        };
        if self.takes(":") {
            self.skip_space();
            let end = match self.rest().first() {
                Some(b'-' | b'0'..=b'9') => Some(self.number()?),
                _ => None,
            };
            let mut step = 1;
            if self.takes(":") {
                self.skip_space();
                if matches!(self.rest().first(), Some(b'1'..=b'9')) {
                    step = usize::try_from(self.number()?).unwrap_or(usize::MAX);
                }
            }
            return Ok(PathStep::Range(first, end, step));
        }
        let mut indexes = vec![first.unwrap_or(0)];
        while self.takes(",") {
            self.skip_space();
            indexes.push(self.number()?);
        }
        Ok(PathStep::Indexes(indexes))
    }

    /// Reads an integer; one that is too large becomes the largest.
    fn number(&mut self) -> Result<i64, Expected> {
        let negative = self.rest().first() == Some(&b'-');
        if negative {
            self.at += 1;
        }
        let start = self.at;
        if self.rest().first() == Some(&b'0') {
            self.at += 1;
        } else {
            self.at += self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        }
        if self.at == start {
            return Err("'<number>'");
        }
        let number = self.path[start..self.at].parse().unwrap_or(i64::MAX);
        Ok(if negative { -number } else { number })
    }

    /// Reads a string in single or double quotes, in which the quote and a backslash follow a backslash.
    fn string(&mut self) -> Result<String, Expected> {
        let quote = match self.rest().first() {
            Some(quote @ (b'"' | b'\'')) => char::from(*quote),
            _ => return Err("string_value, string_value_escape_1, string_value_escape_2"),
        };
        let mut text = String::new();
        let mut characters = self.path[self.at + 1..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '\\' => match characters.next() {
                    Some((_, escaped)) if escaped == quote || escaped == '\\' => text.push(escaped),
                    _ => break,
                },
                _ if character == quote => {
                    self.at += at + 2;
                    return Ok(text);
                }
                _ => text.push(character),
            }
        }
        Err("string_value, string_value_escape_1, string_value_escape_2")
    }

    fn filter(&mut self) -> Result<PathFilter, Expected> {
        if self.nesting >= NESTING {
            return Err("fewer filters in each other");
        }
        self.nesting += 1;
        let mut any = vec![vec![self.condition()?]];
        loop {
            if self.takes("&&") {
                let condition = self.condition()?;
                if let Some(all) = any.last_mut() {
                    all.push(condition);
                }
            } else if self.takes("||") {
                any.push(vec![self.condition()?]);
            } else {
                break;
            }
        }
        self.nesting -= 1;
        Ok(PathFilter::Any(any))
    }

    fn condition(&mut self) -> Result<PathFilter, Expected> {
        if self.takes("(") {
            let filter = self.filter()?;
            self.expect(")", "and, or, ')'")?;
            return Ok(filter);
        }
        let left = self.term()?;
        const OPERATORS: [(&str, PathComparison); 7] = [
            (">=", PathComparison::AtLeast),
            (">", PathComparison::Greater),
            ("<=", PathComparison::AtMost),
            ("<", PathComparison::Less),
            ("==", PathComparison::Equal),
            ("!=", PathComparison::Different),
            ("=~", PathComparison::Matches),
        ];
        for (word, comparison) in OPERATORS {
            if self.takes(word) {
                return Ok(PathFilter::Compare(left, comparison, self.term()?));
            }
        }
        Ok(PathFilter::Exists(left))
    }

    fn term(&mut self) -> Result<PathTerm, Expected> {
        const EXPECTED: Expected = "from_current, from_root, decimal, string_value, boolean_true, boolean_false, null";
        self.skip_space();
        match self.rest().first() {
            Some(b'@') => {
                self.at += 1;
                Ok(PathTerm::Current(self.steps(false)?))
            }
            Some(b'$') => {
                self.at += 1;
                let steps = self.steps(false)?;
                self.root_terms += 1;
                Ok(PathTerm::Root(steps, self.root_terms - 1))
            }
            Some(b'"' | b'\'') => Ok(PathTerm::Text(self.string()?)),
            Some(b'-' | b'0'..=b'9') => self.decimal(),
            _ if self.takes("true") => Ok(PathTerm::Bool(true)),
            _ if self.takes("false") => Ok(PathTerm::Bool(false)),
            _ if self.takes("null") => Ok(PathTerm::Null),
            _ => Err(EXPECTED),
        }
    }

    fn decimal(&mut self) -> Result<PathTerm, Expected> {
        let start = self.at;
        self.number()?;
        if let [b'.', b'0'..=b'9', ..] = self.rest() {
            self.at += 1;
            self.at += self.rest().iter().take_while(|byte| byte.is_ascii_digit()).count();
        }
        let text = &self.path[start..self.at];
        match text.parse() {
            Ok(integer) => Ok(PathTerm::Integer(integer)),
            Err(_) => Ok(PathTerm::Double(text.parse().unwrap_or(0.0))),
        }
    }
}
