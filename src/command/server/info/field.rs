//! The rows of INFO's table: a name, and the source of its value.

use std::borrow::Cow;
use std::fmt::{self, Display, Formatter};

use crate::command::server::info::reading::Reading;

/// A row of the table: a field, or a family of fields whose names begin alike.
pub(super) struct InfoField {
    name: &'static str,
    source: Source,
}

/// The source of a field's value.
enum Source {
    /// A constant value, as for features that do not exist.
    Fixed(InfoValue),
    Read(fn(&mut Reading<'_, '_>) -> InfoValue),
    /// A value that may be absent, and the field with it.
    ReadIfAny(fn(&mut Reading<'_, '_>) -> Option<InfoValue>),
    /// The suffixes of the names, and the values.
    Family(fn(&mut Reading<'_, '_>) -> Vec<(String, InfoValue)>),
}

/// Creates a field with a constant text.
pub(super) const fn fixed(name: &'static str, text: &'static str) -> InfoField {
    InfoField { name, source: Source::Fixed(InfoValue::Text(Cow::Borrowed(text))) }
}

/// Creates a field that is always zero.
pub(super) const fn zero(name: &'static str) -> InfoField {
    InfoField { name, source: Source::Fixed(InfoValue::Count(0)) }
}

/// Creates a field that always exists.
pub(super) const fn field(name: &'static str, read: fn(&mut Reading<'_, '_>) -> InfoValue) -> InfoField {
    InfoField { name, source: Source::Read(read) }
}

/// Creates a field that may be absent.
pub(super) const fn optional(name: &'static str, read: fn(&mut Reading<'_, '_>) -> Option<InfoValue>) -> InfoField {
    InfoField { name, source: Source::ReadIfAny(read) }
}

/// Creates a family of fields whose names begin with `prefix`.
pub(super) const fn family(
    prefix: &'static str,
    read: fn(&mut Reading<'_, '_>) -> Vec<(String, InfoValue)>,
) -> InfoField {
    InfoField { name: prefix, source: Source::Family(read) }
}

impl InfoField {
    /// Returns the name, or the prefix of the names of a family.
    #[cfg(all(test, feature = "metrics"))]
    pub(super) fn name(&self) -> &'static str {
        self.name
    }

    /// Passes the names and values of the row to `pass_on`.
    pub(super) fn read(&self, reading: &mut Reading<'_, '_>, mut pass_on: impl FnMut(FieldName, InfoValue)) {
        let name = FieldName { row: self.name, label: None };
        match &self.source {
            Source::Fixed(value) => pass_on(name, value.clone()),
            Source::Read(read) => pass_on(name, read(reading)),
            Source::ReadIfAny(read) => {
                if let Some(value) = read(reading) {
                    pass_on(name, value);
                }
            }
            Source::Family(read) => {
                let named = |label| FieldName { row: self.name, label: Some(label) };
                read(reading).into_iter().for_each(|(label, value)| pass_on(named(label), value));
            }
        }
    }
}

/// The name of a field.
#[derive(Clone, Debug)]
pub(crate) struct FieldName {
    /// The name in the table.
    pub(crate) row: &'static str,
    /// The suffix in a family: the name of a command, for example.
    pub(crate) label: Option<String>,
}

impl Display for FieldName {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(self.row)?;
        self.label.as_deref().map_or(Ok(()), |label| f.write_str(label))
    }
}

/// The value of a field, which is displayed as in INFO.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum InfoValue {
    Count(u64),
    Int(i64),
    /// A number, and the number of digits shown after the point.
    Decimal(f64, usize),
    Text(Cow<'static, str>),
    /// Several named values.
    Parts(Vec<(Cow<'static, str>, InfoValue)>),
}

impl Display for InfoValue {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            InfoValue::Count(count) => count.fmt(f),
            InfoValue::Int(int) => int.fmt(f),
            InfoValue::Decimal(number, digits) => write!(f, "{number:.digits$}"),
            InfoValue::Text(text) => f.write_str(text),
            InfoValue::Parts(parts) => parts.iter().enumerate().try_for_each(|(at, (name, value))| {
                let comma = if at == 0 { "" } else { "," };
                write!(f, "{comma}{name}={value}")
            }),
        }
    }
}

#[cfg(feature = "metrics")]
impl InfoValue {
    /// Returns a number, with as many digits as INFO shows; `None` for a text.
    pub(crate) fn number(&self) -> Option<f64> {
        match self {
            InfoValue::Count(count) => Some(*count as f64),
            InfoValue::Int(int) => Some(*int as f64),
            InfoValue::Decimal(number, digits) => {
                let scale = 10_f64.powi(*digits as i32);
                Some((number * scale).round() / scale)
            }
            InfoValue::Text(_) | InfoValue::Parts(_) => None,
        }
    }

    /// Returns the part with a name.
    pub(crate) fn part(&self, name: &str) -> Option<&InfoValue> {
        let InfoValue::Parts(parts) = self else { return None };
        parts.iter().find(|(part, _)| part == name).map(|(_, value)| value)
    }
}

impl From<u64> for InfoValue {
    fn from(count: u64) -> Self {
        InfoValue::Count(count)
    }
}

impl From<u32> for InfoValue {
    fn from(count: u32) -> Self {
        InfoValue::Count(count.into())
    }
}

impl From<usize> for InfoValue {
    fn from(count: usize) -> Self {
        InfoValue::Count(count as u64)
    }
}

impl From<i64> for InfoValue {
    fn from(int: i64) -> Self {
        InfoValue::Int(int)
    }
}

impl From<&'static str> for InfoValue {
    fn from(text: &'static str) -> Self {
        InfoValue::Text(text.into())
    }
}

impl From<String> for InfoValue {
    fn from(text: String) -> Self {
        InfoValue::Text(text.into())
    }
}

/// Builds a value of several parts.
pub(super) fn parts<const LEN: usize>(parts: [(&'static str, InfoValue); LEN]) -> InfoValue {
    InfoValue::Parts(parts.into_iter().map(|(name, value)| (name.into(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_shown_as_in_info() {
        let keys = parts([("keys", 3_usize.into()), ("mean", InfoValue::Decimal(0.125, 2)), ("of", "db".into())]);
        assert_eq!(keys.to_string(), "keys=3,mean=0.12,of=db");
        assert_eq!(InfoValue::from(-1_i64).to_string(), "-1");
        assert_eq!(FieldName { row: "cmdstat_", label: Some("get".to_owned()) }.to_string(), "cmdstat_get");
    }

    #[cfg(feature = "metrics")]
    #[test]
    fn numbers_have_the_digits_that_are_shown() {
        assert_eq!(InfoValue::Decimal(1.23456, 2).number(), Some(1.23));
        assert_eq!(parts([("keys", 3_usize.into())]).part("keys").and_then(InfoValue::number), Some(3.0));
        assert_eq!(InfoValue::from("7").number(), None);
    }
}
