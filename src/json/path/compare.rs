//! Comparison of the terms of filters.

use std::cmp::Ordering;

use super::syntax::PathComparison;
use crate::json::{JsonKind, JsonNode, JsonNumber, is_equal};

/// The value of a term.
pub(super) enum TermValue<'v> {
    Null,
    Bool(bool),
    Integer(i64),
    Double(f64),
    Text(&'v [u8]),
    Node(JsonNode<'v>),
    /// The values that a path has found: none, or several, of which any may fulfil a comparison.
    Nodes(&'v [JsonNode<'v>]),
}

/// Regular expressions for filters: the last one is kept, since a filter mostly has one.
#[derive(Default)]
pub(super) struct Matcher {
    last: Option<(Vec<u8>, Option<CompiledPattern>)>,
}

/// A regular expression, and what a byte of the text costs.
struct CompiledPattern {
    regex: regex_lite::Regex,
    cost: u64,
}

impl Matcher {
    /// Reports whether a text contains a match, taking what that costs from a budget.
    fn is_match(&mut self, pattern: &[u8], text: &[u8], budget: &mut u64) -> bool {
        if self.last.as_ref().is_none_or(|last| last.0 != pattern) {
            *budget = budget.saturating_sub(1000 + pattern.len() as u64);
            self.last = Some((pattern.to_vec(), CompiledPattern::of(pattern)));
        }
        let Some((_, Some(compiled))) = &self.last else { return false };
        let Ok(text) = std::str::from_utf8(text) else { return false };
        *budget = budget.saturating_sub(compiled.cost.saturating_mul(1 + text.len() as u64));
        *budget > 0 && compiled.regex.is_match(text)
    }
}

impl CompiledPattern {
    fn of(pattern: &[u8]) -> Option<Self> {
        let pattern = std::str::from_utf8(pattern).ok()?;
        // The program's size, which is what a byte of the text costs, is known by the limit that it needs.
        [1 << 10, 1 << 12, 1 << 14, 1 << 16, 1 << 18].into_iter().find_map(|limit| {
            let regex = regex_lite::RegexBuilder::new(pattern).size_limit(limit).nest_limit(50).build().ok()?;
            Some(Self { regex, cost: limit as u64 / 256 })
        })
    }
}

/// Reports whether a comparison holds.
pub(super) fn holds(
    one: &TermValue<'_>,
    comparison: PathComparison,
    other: &TermValue<'_>,
    matcher: &mut Matcher,
    budget: &mut u64,
) -> bool {
    if comparison == PathComparison::Different {
        return !holds(one, PathComparison::Equal, other, matcher, budget);
    }
    match (one, other) {
        (TermValue::Nodes(nodes), _) => {
            nodes.iter().any(|node| holds(&TermValue::Node(*node), comparison, other, matcher, budget))
        }
        (_, TermValue::Nodes(nodes)) => {
            nodes.iter().any(|node| holds(one, comparison, &TermValue::Node(*node), matcher, budget))
        }
        _ => {
            *budget = budget.saturating_sub(1);
            single_holds(one, comparison, other, matcher, budget)
        }
    }
}

fn single_holds(
    one: &TermValue<'_>,
    comparison: PathComparison,
    other: &TermValue<'_>,
    matcher: &mut Matcher,
    budget: &mut u64,
) -> bool {
    if comparison == PathComparison::Matches {
        return match (one, scalar(other)) {
            (TermValue::Node(node), TermValue::Text(pattern)) => match node.kind() {
                JsonKind::String(text) => matcher.is_match(pattern, text, budget),
                _ => false,
            },
            _ => false,
        };
    }
    if let (TermValue::Node(one), TermValue::Node(other), PathComparison::Equal) = (one, other, comparison) {
        *budget = budget.saturating_sub(one.bytes().len().min(other.bytes().len()) as u64 / 4);
        return is_equal(*one, *other);
    }
    let Some(order) = order(&scalar(one), &scalar(other)) else { return false };
    match comparison {
        PathComparison::AtLeast => order.is_ge(),
        PathComparison::Greater => order.is_gt(),
        PathComparison::AtMost => order.is_le(),
        PathComparison::Less => order.is_lt(),
        _ => order.is_eq(),
    }
}

/// Returns the value that a term has by its node, if that contains no other.
fn scalar<'v>(term: &TermValue<'v>) -> TermValue<'v> {
    match term {
        TermValue::Null => TermValue::Null,
        TermValue::Bool(value) => TermValue::Bool(*value),
        TermValue::Integer(integer) => TermValue::Integer(*integer),
        TermValue::Double(double) => TermValue::Double(*double),
        TermValue::Text(text) => TermValue::Text(text),
        TermValue::Nodes(_) => TermValue::Nodes(&[]),
        TermValue::Node(node) => match node.kind() {
            JsonKind::Null => TermValue::Null,
            JsonKind::Bool(value) => TermValue::Bool(value),
            JsonKind::Number(JsonNumber::Integer(integer)) => TermValue::Integer(integer),
            JsonKind::Number(number) => TermValue::Double(number.as_double()),
            JsonKind::String(text) => TermValue::Text(text),
            JsonKind::Array(_) | JsonKind::Object(_) => TermValue::Node(*node),
        },
    }
}

/// Returns the order of two values that can be compared.
fn order(one: &TermValue<'_>, other: &TermValue<'_>) -> Option<Ordering> {
    match (one, other) {
        (TermValue::Integer(one), TermValue::Integer(other)) => Some(one.cmp(other)),
        (TermValue::Integer(one), TermValue::Double(other)) => (*one as f64).partial_cmp(other),
        (TermValue::Double(one), TermValue::Integer(other)) => one.partial_cmp(&(*other as f64)),
        (TermValue::Double(one), TermValue::Double(other)) => one.partial_cmp(other),
        (TermValue::Text(one), TermValue::Text(other)) => Some(one.cmp(other)),
        (TermValue::Bool(one), TermValue::Bool(other)) => Some(one.cmp(other)),
        (TermValue::Null, TermValue::Null) => Some(Ordering::Equal),
        _ => None,
    }
}
