//! Filter expressions: which elements a search considers, by their attributes.
//!
//! An expression is compiled to a program for a stack machine, in the same way as Redis does, so that both accept the same
//! expressions and complain about the same part. Neither compiling nor running recurses. The fields that an expression
//! names are read in one pass over the attributes.

use std::borrow::Cow;

use crate::vectors::attributes::{self, FieldNumbers, Operand, is_space, unescaped};

/// Maximum length of an expression, in bytes.
pub(crate) const EXPRESSION_LEN_MAX: usize = 64 << 10;

/// The length of the longest number.
const NUMBER_LEN_MAX: usize = 255;

/// A compiled expression.
#[derive(Debug)]
pub(crate) struct Filter {
    program: Vec<Instruction>,
    /// The fields that the program reads, and their numbers.
    fields: FieldNumbers,
    /// Length of the expression.
    len: usize,
    /// Number of operators that may read a text or a list to its end.
    comparisons: usize,
}

/// The most bytes that the comparisons of one element may read. An element that would need more is left out.
const COMPARED_MAX: usize = 1 << 24;

#[derive(Clone, Debug, PartialEq)]
enum Instruction {
    Push(Operand<'static>),
    /// Pushes the value of the field with this number.
    Field(usize),
    Apply(Operator),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operator {
    Open,
    Close,
    Not,
    Power,
    Multiply,
    Divide,
    Remainder,
    Add,
    Subtract,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    In,
    And,
    Or,
}

/// The words of the operators.
const OPERATORS: [(&[u8], Operator); 21] = [
    (b"(", Operator::Open),
    (b")", Operator::Close),
    (b"!", Operator::Not),
    (b"not", Operator::Not),
    (b"**", Operator::Power),
    (b"*", Operator::Multiply),
    (b"/", Operator::Divide),
    (b"%", Operator::Remainder),
    (b"+", Operator::Add),
    (b"-", Operator::Subtract),
    (b">", Operator::Greater),
    (b">=", Operator::GreaterOrEqual),
    (b"<", Operator::Less),
    (b"<=", Operator::LessOrEqual),
    (b"==", Operator::Equal),
    (b"!=", Operator::NotEqual),
    (b"in", Operator::In),
    (b"and", Operator::And),
    (b"&&", Operator::And),
    (b"or", Operator::Or),
    (b"||", Operator::Or),
];

impl Operator {
    /// Returns the rank; of two operators, the one of the higher rank is applied first.
    fn rank(self) -> u8 {
        match self {
            Operator::Or => 0,
            Operator::And => 1,
            Operator::Greater
            | Operator::GreaterOrEqual
            | Operator::Less
            | Operator::LessOrEqual
            | Operator::Equal
            | Operator::NotEqual
            | Operator::In => 2,
            Operator::Add | Operator::Subtract => 3,
            Operator::Multiply | Operator::Divide | Operator::Remainder => 4,
            Operator::Power => 5,
            Operator::Not => 6,
            Operator::Open | Operator::Close => 7,
        }
    }

    /// Returns true if an operator before this one, outside parentheses, is applied first.
    fn yields_to(self, before: Operator) -> bool {
        match self {
            Operator::Not => false,
            Operator::Power => before.rank() > self.rank(),
            _ => before.rank() >= self.rank(),
        }
    }

    /// Applies an operator of two operands.
    fn apply(self, a: &Operand<'_>, b: &Operand<'_>) -> f64 {
        let truth = |is_true: bool| if is_true { 1.0 } else { 0.0 };
        match self {
            Operator::Power => a.number().powf(b.number()),
            Operator::Multiply => a.number() * b.number(),
            Operator::Divide => a.number() / b.number(),
            Operator::Remainder => a.number() % b.number(),
            Operator::Add => a.number() + b.number(),
            Operator::Subtract => a.number() - b.number(),
            Operator::Greater => truth(a.number() > b.number()),
            Operator::GreaterOrEqual => truth(a.number() >= b.number()),
            Operator::Less => truth(a.number() < b.number()),
            Operator::LessOrEqual => truth(a.number() <= b.number()),
            Operator::Equal => truth(a.equals(b)),
            Operator::NotEqual => truth(!a.equals(b)),
            Operator::In => truth(match (a, b) {
                (_, Operand::List(list)) => list.iter().any(|element| a.equals(element)),
                (Operand::Text(part), Operand::Text(text)) => contains(text, part),
                _ => false,
            }),
            Operator::And => truth(a.is_true() && b.is_true()),
            Operator::Or => truth(a.is_true() || b.is_true()),
            Operator::Not | Operator::Open | Operator::Close => 0.0,
        }
    }
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    part.is_empty() || memchr::memmem::find(text, part).is_some()
}

impl Filter {
    /// Compiles an expression, which ends at its first NUL.
    ///
    /// # Errors
    /// The rest of the expression from where it is not understood.
    pub(crate) fn compile(expression: &[u8]) -> Result<Self, &[u8]> {
        let end = expression.iter().position(|byte| *byte == 0).unwrap_or(expression.len());
        let text = &expression[..end];
        let from = |at: usize| if at < text.len() { &text[at..] } else { text };
        let mut lexer = Lexer { text, at: 0 };
        let mut compiler = Compiler::default();
        let mut before = None;
        loop {
            match lexer.next(before) {
                Ok(None) => break,
                Ok(Some(token)) => {
                    before = Some(match token {
                        Token::Operator(operator) => Some(operator),
                        _ => None,
                    });
                    compiler.add(token);
                }
                Err(()) => return Err(from(lexer.at)),
            }
        }
        let Some((program, fields)) = compiler.finish() else { return Err(text) };
        let reads_all = |instruction: &&Instruction| {
            matches!(instruction, Instruction::Apply(Operator::In | Operator::Equal | Operator::NotEqual))
        };
        let comparisons = program.iter().filter(reads_all).count();
        Ok(Filter { program, fields, len: text.len(), comparisons })
    }

    /// Returns the cost of a run for attributes of a length.
    pub(super) fn cost(&self, attributes_len: usize) -> usize {
        self.len + attributes_len + self.compared(attributes_len).min(COMPARED_MAX)
    }

    /// Returns the bytes that the comparisons read at most.
    fn compared(&self, attributes_len: usize) -> usize {
        self.comparisons.saturating_mul(attributes_len)
    }

    /// Returns true if the expression is true for the attributes. It is false for attributes without one of its fields.
    pub(crate) fn admits(&self, attributes: &[u8]) -> bool {
        self.compared(attributes.len()) <= COMPARED_MAX
            && attributes::read(attributes, &self.fields).is_some_and(|values| self.run(&values))
    }

    fn run(&self, fields: &[Option<Operand<'_>>]) -> bool {
        let mut stack: Vec<Cow<'_, Operand<'_>>> = Vec::new();
        for instruction in &self.program {
            match instruction {
                Instruction::Push(value) => stack.push(Cow::Borrowed(value)),
                Instruction::Field(number) => match &fields[*number] {
                    Some(value) => stack.push(Cow::Borrowed(value)),
                    None => return false,
                },
                Instruction::Apply(operator) => {
                    let Some(b) = stack.pop() else { return false };
                    let result = if *operator == Operator::Not {
                        f64::from(u8::from(!b.is_true()))
                    } else {
                        let Some(a) = stack.pop() else { return false };
                        operator.apply(&a, &b)
                    };
                    stack.push(Cow::Owned(Operand::Number(result)));
                }
            }
        }
        stack.pop().is_some_and(|result| result.is_true())
    }
}

/// A token of an expression.
enum Token<'a> {
    Operand(Operand<'static>),
    /// The name of a field; an empty one has no value.
    Field(&'a [u8]),
    Operator(Operator),
    /// The word `null`, which no expression may contain.
    Null,
}

struct Lexer<'a> {
    text: &'a [u8],
    at: usize,
}

/// The bytes of operators that are not words.
fn is_symbol(byte: u8) -> bool {
    b"+-*%/!()<>=|&".contains(&byte)
}

fn is_of_field(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-'
}

impl<'a> Lexer<'a> {
    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }

    fn skip_spaces(&mut self) {
        while self.peek(0).is_some_and(is_space) {
            self.at += 1;
        }
    }

    /// Returns the bytes of a class from here on, which are consumed.
    fn run_of(&mut self, is_part: impl Fn(u8) -> bool) -> &'a [u8] {
        let start = self.at;
        while self.peek(0).is_some_and(&is_part) {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    /// Returns the next token, `None` at the end. `before` is `None` at the beginning, and otherwise the operator before, if
    /// there is one. An error leaves the position where Redis sees it.
    fn next(&mut self, before: Option<Option<Operator>>) -> Result<Option<Token<'a>>, ()> {
        self.skip_spaces();
        let Some(byte) = self.peek(0) else { return Ok(None) };
        let may_be_sign = !matches!(before, Some(None | Some(Operator::Close)));
        let next_is_digit = self.peek(1).is_some_and(|next| next.is_ascii_digit());
        let token = match byte {
            b'0'..=b'9' => Token::Operand(self.number()?),
            b'-' if may_be_sign && next_is_digit => Token::Operand(self.number()?),
            b'"' | b'\'' => Token::Operand(self.text_value()?),
            b'.' if self.peek(1).is_none_or(is_of_field) => {
                self.at += 1;
                Token::Field(self.run_of(is_of_field))
            }
            b'[' => Token::Operand(self.list()?),
            byte if byte.is_ascii_alphabetic() || is_symbol(byte) => self.word()?,
            _ => return Err(()),
        };
        Ok(Some(token))
    }

    fn word(&mut self) -> Result<Token<'a>, ()> {
        let is_part = |byte: &u8| byte.is_ascii_alphabetic() || is_symbol(*byte);
        let rest = &self.text[self.at..];
        // No word has more than four bytes, and an expression of many operators is not to be read again for each.
        let len = rest.iter().take(5).take_while(|byte| is_part(byte)).count();
        if &rest[..len] == b"null" {
            self.at += len;
            return Ok(Token::Null);
        }
        let matching = OPERATORS.iter().filter(|(name, _)| rest[..len].starts_with(name));
        let Some((name, operator)) = matching.max_by_key(|(name, _)| name.len()) else {
            self.at += rest.iter().take_while(|byte| is_part(byte)).count();
            return Err(());
        };
        self.at += name.len();
        Ok(Token::Operator(*operator))
    }

    fn number(&mut self) -> Result<Operand<'static>, ()> {
        let start = self.at;
        if self.peek(0) == Some(b'-') {
            self.at += 1;
        }
        while self.peek(0).is_some_and(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'e' | b'E')) {
            if self.at - start >= NUMBER_LEN_MAX {
                return Err(());
            }
            self.at += 1;
        }
        let digits = std::str::from_utf8(&self.text[start..self.at]).map_err(drop)?;
        digits.parse().map(Operand::Number).map_err(drop)
    }

    fn text_value(&mut self) -> Result<Operand<'static>, ()> {
        let quote = self.text[self.at];
        self.at += 1;
        let start = self.at;
        loop {
            match self.peek(0).ok_or(())? {
                b'\\' if self.peek(1).is_some() => self.at += 2,
                byte if byte == quote => break,
                _ => self.at += 1,
            }
        }
        let text = unescaped(&self.text[start..self.at]).into_owned();
        self.at += 1;
        Ok(Operand::Text(Cow::Owned(text)))
    }

    fn list(&mut self) -> Result<Operand<'static>, ()> {
        self.at += 1;
        let mut list = Vec::new();
        loop {
            self.skip_spaces();
            list.push(match self.peek(0).ok_or(())? {
                b']' => break,
                b'0'..=b'9' | b'-' => self.number()?,
                b'"' | b'\'' => self.text_value()?,
                _ => return Err(()),
            });
            self.skip_spaces();
            match self.peek(0).ok_or(())? {
                b']' => break,
                b',' => self.at += 1,
                _ => return Err(()),
            }
        }
        self.at += 1;
        Ok(Operand::List(Cow::Owned(list)))
    }
}

/// Brings operators behind their operands.
#[derive(Default)]
struct Compiler {
    program: Vec<Instruction>,
    fields: FieldNumbers,
    /// Operators that wait for their operands.
    waiting: Vec<Operator>,
    /// Number of values on the stack when the program so far is executed.
    values: usize,
    has_failed: bool,
}

impl Compiler {
    fn add(&mut self, token: Token<'_>) {
        match token {
            Token::Operand(value) => self.push(Instruction::Push(value)),
            Token::Field(name) => {
                let next = self.fields.len();
                let number = *self.fields.entry(name.into()).or_insert(next);
                self.push(Instruction::Field(number));
            }
            Token::Operator(operator) => self.add_operator(operator),
            Token::Null => {}
        }
    }

    fn push(&mut self, instruction: Instruction) {
        self.program.push(instruction);
        self.values += 1;
    }

    fn add_operator(&mut self, operator: Operator) {
        match operator {
            Operator::Open => self.waiting.push(operator),
            Operator::Close => loop {
                match self.waiting.pop() {
                    Some(Operator::Open) => break,
                    Some(inner) => self.apply(inner),
                    None => {
                        self.has_failed = true;
                        break;
                    }
                }
            },
            _ => {
                while let Some(before) =
                    self.waiting.pop_if(|before| *before != Operator::Open && operator.yields_to(*before))
                {
                    self.apply(before);
                }
                self.waiting.push(operator);
            }
        }
    }

    fn apply(&mut self, operator: Operator) {
        let operands = if operator == Operator::Not { 1 } else { 2 };
        if self.values < operands || operator == Operator::Open {
            self.has_failed = true;
            return;
        }
        self.values -= operands - 1;
        self.program.push(Instruction::Apply(operator));
    }

    /// Returns the program and its fields; `None` if the expression is not one.
    fn finish(mut self) -> Option<(Vec<Instruction>, FieldNumbers)> {
        while let Some(operator) = self.waiting.pop() {
            self.apply(operator);
        }
        (!self.has_failed && self.values == 1).then_some((self.program, self.fields))
    }
}
