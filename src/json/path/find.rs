//! The values that a path names.

use super::compare::{Matcher, TermValue, holds};
use super::syntax::{JsonPath, JsonPathError, PathFilter, PathStep, PathTerm};
use crate::json::{JsonKind, JsonNode};

/// The steps of work that any document admits.
const LOOKS: u64 = 1 << 24;

/// The further steps for each byte of a document.
const LOOKS_OF_BYTE: u64 = 32;

/// The most values that are found, beyond twice the bytes of the document.
const FOUND: usize = 1 << 18;

impl JsonPath {
    /// Returns the values of a document that the path names, in the order in which Redis finds them.
    ///
    /// The work is limited to a multiple of the document's length, and so are the number and the total length of the values.
    pub(crate) fn find<'d>(&self, document: &'d [u8]) -> Result<Vec<JsonNode<'d>>, JsonPathError> {
        self.find_by(self.steps.len(), document)
    }

    /// Returns the values that the path names without its last part.
    pub(crate) fn find_parents<'d>(&self, document: &'d [u8]) -> Result<Vec<JsonNode<'d>>, JsonPathError> {
        self.find_by(self.steps.len().saturating_sub(1), document)
    }

    fn find_by<'d>(&self, steps: usize, document: &'d [u8]) -> Result<Vec<JsonNode<'d>>, JsonPathError> {
        let root = JsonNode::root(document);
        let mut finder = Finder {
            root,
            root_terms: vec![None; self.root_terms],
            matcher: Matcher::default(),
            budget: LOOKS + LOOKS_OF_BYTE * document.len() as u64,
            limit: FOUND + 2 * document.len(),
        };
        let found = finder.walk(root, &self.steps[..steps])?;
        // Replies and changes copy what was found, which may be the same value again and again.
        let mut bytes = LOOKS + LOOKS_OF_BYTE * document.len() as u64;
        for node in &found {
            bytes = bytes.checked_sub(node.bytes().len() as u64).ok_or(JsonPathError::TooMuch)?;
        }
        Ok(found)
    }
}

struct Finder<'d> {
    root: JsonNode<'d>,
    /// Results of the terms of filters that begin at the document.
    root_terms: Vec<Option<Vec<JsonNode<'d>>>>,
    matcher: Matcher,
    /// The steps of work that are left.
    budget: u64,
    /// The most values of a step.
    limit: usize,
}

impl<'d> Finder<'d> {
    fn look(&mut self) -> Result<(), JsonPathError> {
        self.budget = self.budget.checked_sub(1).ok_or(JsonPathError::TooMuch)?;
        Ok(())
    }

    /// Returns the values that some steps name, one step after the other.
    fn walk(&mut self, start: JsonNode<'d>, steps: &[PathStep]) -> Result<Vec<JsonNode<'d>>, JsonPathError> {
        let mut nodes = vec![start];
        for step in steps {
            let mut found = Vec::new();
            for node in nodes {
                self.step(node, step, &mut found)?;
                if found.len() > self.limit {
                    return Err(JsonPathError::TooMuch);
                }
            }
            nodes = found;
        }
        Ok(nodes)
    }

    fn step(&mut self, node: JsonNode<'d>, step: &PathStep, to: &mut Vec<JsonNode<'d>>) -> Result<(), JsonPathError> {
        self.look()?;
        match step {
            PathStep::Descend => return self.descend(node, to),
            PathStep::All => {
                for child in node.children() {
                    self.look()?;
                    to.push(child.node);
                }
            }
            PathStep::Names(names) => return self.names(node, names, to),
            PathStep::Indexes(indexes) => return self.indexes(node, indexes, to),
            PathStep::Range(start, end, step) => return self.range(node, (*start, *end, *step), to),
            PathStep::Filter(filter) => match node.kind() {
                JsonKind::Array(_) | JsonKind::Object(_) => {
                    for child in node.children() {
                        if self.passes(child.node, filter)? {
                            to.push(child.node);
                        }
                    }
                }
                _ => {
                    if self.passes(node, filter)? {
                        to.push(node);
                    }
                }
            },
        }
        Ok(())
    }

    /// Adds a value and all below it, each before what it contains.
    fn descend(&mut self, node: JsonNode<'d>, to: &mut Vec<JsonNode<'d>>) -> Result<(), JsonPathError> {
        to.push(node);
        let mut open = vec![node.children()];
        while let Some(children) = open.last_mut() {
            match children.next() {
                Some(child) => {
                    self.look()?;
                    to.push(child.node);
                    if to.len() > self.limit {
                        return Err(JsonPathError::TooMuch);
                    }
                    if child.node.head().container.is_some() {
                        open.push(child.node.children());
                    }
                }
                None => {
                    open.pop();
                }
            }
        }
        Ok(())
    }

    fn names(&mut self, node: JsonNode<'d>, names: &[String], to: &mut Vec<JsonNode<'d>>) -> Result<(), JsonPathError> {
        let JsonKind::Object(count) = node.kind() else { return Ok(()) };
        for name in names {
            self.budget = self.budget.checked_sub(count as u64).ok_or(JsonPathError::TooMuch)?;
            to.extend(node.member(name.as_bytes()));
        }
        Ok(())
    }

    fn indexes(
        &mut self,
        node: JsonNode<'d>,
        indexes: &[i64],
        to: &mut Vec<JsonNode<'d>>,
    ) -> Result<(), JsonPathError> {
        let JsonKind::Array(count) = node.kind() else { return Ok(()) };
        for index in indexes {
            let index = absolute(*index, count);
            self.budget = self.budget.checked_sub(index as u64).ok_or(JsonPathError::TooMuch)?;
            to.extend(node.element(index));
        }
        Ok(())
    }

    fn range(
        &mut self,
        node: JsonNode<'d>,
        (start, end, step): (Option<i64>, Option<i64>, usize),
        to: &mut Vec<JsonNode<'d>>,
    ) -> Result<(), JsonPathError> {
        let JsonKind::Array(count) = node.kind() else { return Ok(()) };
        let start = start.map_or(0, |start| absolute(start, count));
        let end = end.map_or(count, |end| absolute(end, count));
        self.budget = self.budget.checked_sub(end as u64).ok_or(JsonPathError::TooMuch)?;
        to.extend(node.children().take(end).skip(start).step_by(step.max(1)).map(|child| child.node));
        Ok(())
    }

    fn passes(&mut self, node: JsonNode<'d>, filter: &PathFilter) -> Result<bool, JsonPathError> {
        self.look()?;
        match filter {
            PathFilter::Any(any) => {
                for all in any {
                    let mut holds = true;
                    for condition in all {
                        holds = holds && self.passes(node, condition)?;
                    }
                    if holds {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            PathFilter::Exists(term) => Ok(match term {
                PathTerm::Current(_) | PathTerm::Root(..) => !self.nodes_of(node, term)?.is_empty(),
                _ => true,
            }),
            PathFilter::Compare(left, comparison, right) => {
                let nodes = (self.nodes_of(node, left)?, self.nodes_of(node, right)?);
                let values = (value_of(left, &nodes.0), value_of(right, &nodes.1));
                let holds = holds(&values.0, *comparison, &values.1, &mut self.matcher, &mut self.budget);
                if self.budget == 0 { Err(JsonPathError::TooMuch) } else { Ok(holds) }
            }
        }
    }

    /// Returns what a term's path finds.
    fn nodes_of(&mut self, node: JsonNode<'d>, term: &PathTerm) -> Result<Vec<JsonNode<'d>>, JsonPathError> {
        match term {
            PathTerm::Current(steps) => self.walk(node, steps),
            PathTerm::Root(steps, number) => {
                if self.root_terms[*number].is_none() {
                    self.root_terms[*number] = Some(self.walk(self.root, steps)?);
                }
                let found = self.root_terms[*number].clone().unwrap_or_default();
                self.budget = self.budget.saturating_sub(found.len() as u64);
                Ok(found)
            }
            _ => Ok(Vec::new()),
        }
    }
}

fn value_of<'v>(term: &'v PathTerm, nodes: &'v [JsonNode<'v>]) -> TermValue<'v> {
    match term {
        PathTerm::Current(_) | PathTerm::Root(..) => match nodes {
            [node] => TermValue::Node(*node),
            _ => TermValue::Nodes(nodes),
        },
        PathTerm::Text(text) => TermValue::Text(text.as_bytes()),
        PathTerm::Integer(integer) => TermValue::Integer(*integer),
        PathTerm::Double(double) => TermValue::Double(*double),
        PathTerm::Bool(value) => TermValue::Bool(*value),
        PathTerm::Null => TermValue::Null,
    }
}

/// Returns an index of an array of a length, where negative ones are from the end, and those outside are at an end.
fn absolute(index: i64, count: usize) -> usize {
    if index >= 0 {
        usize::try_from(index).unwrap_or(usize::MAX).min(count)
    } else {
        usize::try_from(index.unsigned_abs()).map_or(0, |back| count.saturating_sub(back))
    }
}
