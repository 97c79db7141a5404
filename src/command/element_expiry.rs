//! Deadlines of elements, fields of hashes and members of sets: the commands that set, read and remove them, and the
//! options of commands that write elements with a deadline.
//!
//! Deadlines are wall-clock times in milliseconds, whatever the unit of the command. As in Redis, the type of the key
//! is checked before the arguments.

use crate::command::ttl::{DeadlineCondition, OtherTtlOption, Time, TtlOption, Unit};
use crate::dispatch::Call;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::spec::WRITE;
use crate::store::value::{DataType, SetRules};
use crate::store::{Event, Key, Lookup};

const TWO_CONDITIONS: &str = "Multiple condition flags specified";
const TOO_FEW: &str = "wrong number of arguments";
const NO_TIME: &str = "missing expire time";

// The replies for an element.
const MISSING: i64 = -2;
const WITHOUT: i64 = -1;
const REFUSED: i64 = 0;
const DONE: i64 = 1;
const DELETED: i64 = 2;

/// The words of a type's commands, and their errors.
pub(crate) struct ExpiryWords {
    /// The word before the number of elements, and the elements.
    pub block: &'static str,
    pub not_in_place: &'static str,
    pub no_such_number: &'static str,
    pub not_greater: &'static str,
    pub not_positive: &'static str,
    pub no_count: &'static str,
    pub two_blocks: &'static str,
    pub no_block: &'static str,
    /// The command that removes elements.
    pub remove: &'static str,
    /// The command that sets deadlines in milliseconds since 1970.
    pub expire_at: &'static str,
}

/// A type whose elements may have deadlines.
pub(crate) trait Expiring: DataType {
    const WORDS: &'static ExpiryWords;
    /// The event of elements that were removed.
    const REMOVED: &'static Event;
    /// The event of elements that got a deadline.
    const EXPIRES: &'static Event;
    /// The event of elements that lost their deadlines.
    const PERSISTED: &'static Event;

    /// Returns the deadline of an element: `Some(None)` for one without, `None` for a missing one.
    fn deadline(value: &Self::Ref<'_>, element: &[u8]) -> Option<Option<i64>>;

    /// Sets or removes the deadline of an existing element.
    fn set_deadline(value: &mut Self::Mut<'_>, element: &[u8], deadline: Option<i64>, rules: SetRules<'_>);

    /// Removes an element; returns true if it existed.
    fn remove(value: &mut Self::Mut<'_>, element: &[u8]) -> bool;
}

/// Takes the key of a call, and removes the elements that have expired, so that no handler finds them. What moves or copies
/// the value does so, too: the log has the removal by the name of the key, and before the whole transaction.
#[inline]
pub(crate) fn unexpired_key<'a>(call: &mut Call<'a>) -> Result<Key<'a>> {
    let key = call.args.key()?;
    call.view.expire_fields(key, call.command.flags & WRITE != 0);
    Ok(key)
}

/// Parses the number of elements, which must be the number of arguments that follow.
pub(crate) fn read_block(call: &mut Call<'_>, words: &ExpiryWords) -> Result<usize> {
    if !call.args.next_arg().is_some_and(|word| is_word(word, words.block)) {
        return Err(Error::other(words.not_in_place));
    }
    let count = call.args.next_arg().and_then(parse_int).filter(|count| *count > 0);
    let count = count.ok_or(Error::other(words.not_positive))?;
    match usize::try_from(count) {
        Ok(count) if count == call.args.left() => Ok(count),
        _ => Err(Error::other(words.no_such_number)),
    }
}

/// Handles HEXPIRE and its kin.
pub(crate) fn expire<K: Expiring>(call: &mut Call<'_>, unit: Unit) -> Result<()> {
    let key = unexpired_key(call)?;
    call.view.get::<K>(key, Lookup::WRITE)?;
    let time = call.args.bytes()?;
    let end_ms = Time::of_field(call, unit, time)?;
    let (condition, elements) = read_condition_and_elements(call, K::WORDS)?;
    let outcomes = set_deadlines::<K>(call, key, end_ms, condition, &elements)?;
    call.reply.array(outcomes.len());
    outcomes.into_iter().for_each(|outcome| call.reply.int(outcome));
    Ok(())
}

/// Parses the block of elements, with the condition before or after it.
fn read_condition_and_elements<'a>(
    call: &mut Call<'a>,
    words: &ExpiryWords,
) -> Result<(DeadlineCondition, Vec<&'a [u8]>)> {
    let (mut condition, mut elements) = (DeadlineCondition::default(), Vec::new());
    while let Some(word) = call.args.next_arg() {
        if is_word(word, words.block) {
            if !elements.is_empty() {
                return Err(Error::other(words.two_blocks));
            }
            if call.args.left() < 2 {
                return Err(Error::other(words.no_count));
            }
            let count = call.args.next_arg().and_then(parse_int).filter(|count| *count > 0);
            let count = count.ok_or(Error::other(words.not_greater))?;
            elements = take_words(call, count).ok_or(Error::other(TOO_FEW))?;
        } else if !condition.add(word) {
            return Err(Error::UnknownArgument(word.to_vec()));
        }
    }
    if elements.is_empty() {
        return Err(Error::other(words.no_block));
    }
    match condition.count() {
        0 | 1 => Ok((condition, elements)),
        _ => Err(Error::other(TWO_CONDITIONS)),
    }
}

/// Takes `count` arguments, if there are as many.
fn take_words<'a>(call: &mut Call<'a>, count: i64) -> Option<Vec<&'a [u8]>> {
    let count = usize::try_from(count).ok().filter(|count| *count <= call.args.left())?;
    Some(std::iter::from_fn(|| call.args.next_arg()).take(count).collect())
}

/// Sets the deadline of the elements that exist and meet the condition, or deletes them if the deadline has passed.
/// Returns the reply for each element.
pub(crate) fn set_deadlines<K: Expiring>(
    call: &mut Call<'_>,
    key: Key<'_>,
    end_ms: i64,
    condition: DeadlineCondition,
    elements: &[&[u8]],
) -> Result<Vec<i64>> {
    let is_past = has_passed(call, end_ms);
    let rules = SetRules::new(call.config.limits(), call.namespace.store.hasher());
    let mut edit = call.view.edit::<K>(key, if is_past { K::REMOVED } else { K::EXPIRES })?;
    let (mut outcomes, mut changed) = (Vec::with_capacity(elements.len()), Vec::new());
    for element in elements.iter().copied() {
        let current = K::deadline(&edit.value(), element);
        outcomes.push(match current {
            None => MISSING,
            Some(current) if !condition.allows(end_ms, current) => REFUSED,
            Some(_) => {
                if let Some(mut value) = edit.annotate() {
                    if is_past {
                        K::remove(&mut value, element);
                    } else {
                        K::set_deadline(&mut value, element, Some(end_ms), rules);
                    }
                }
                changed.push(element);
                if is_past { DELETED } else { DONE }
            }
        });
    }
    edit.count_more(changed.len());
    drop(edit);
    log_deadline::<K>(call, key, (!is_past).then_some(end_ms), &changed);
    Ok(outcomes)
}

/// Returns true if elements with this deadline are to be deleted at once; never in the replay of a log.
pub(crate) fn has_passed(call: &Call<'_>, end_ms: i64) -> bool {
    end_ms <= call.present().wall_ms() && call.view.cx().expires_keys()
}

/// Logs that elements got a deadline; without a deadline, that they were deleted.
pub(crate) fn log_deadline<K: Expiring>(call: &mut Call<'_>, key: Key<'_>, end_ms: Option<i64>, elements: &[&[u8]]) {
    let words = K::WORDS;
    match end_ms {
        _ if elements.is_empty() => {}
        None => elements.iter().for_each(|element| call.log(&[words.remove.as_bytes(), key.bytes, element])),
        Some(end_ms) => {
            let mut time = itoa::Buffer::new();
            let head = [words.expire_at.as_bytes(), key.bytes, time.format(end_ms).as_bytes()];
            log_block(call, &head, words.block, elements);
        }
    }
}

/// Logs a command that ends with a block of elements.
pub(crate) fn log_block(call: &mut Call<'_>, head: &[&[u8]], block: &str, elements: &[&[u8]]) {
    let mut count = itoa::Buffer::new();
    let middle: [&[u8]; 2] = [block.as_bytes(), count.format(elements.len()).as_bytes()];
    call.log(&[head, &middle, elements].concat());
}

/// Converts milliseconds to seconds, rounded up.
pub(crate) fn in_seconds(ms: i64) -> i64 {
    ms / 1000 + i64::from(ms % 1000 > 0)
}

/// Handles HTTL and its kin: replies with a time for each element, computed from its deadline and the present time.
pub(crate) fn reply_times<K: Expiring>(call: &mut Call<'_>, read: fn(i64, i64) -> i64) -> Result<()> {
    let key = unexpired_key(call)?;
    call.view.get::<K>(key, Lookup::READ)?;
    let count = read_block(call, K::WORDS)?;
    let (now_ms, hides) = (call.now().wall_ms(), call.view.cx().expires_keys());
    let value = call.view.get::<K>(key, Lookup::PEEK)?;
    call.reply.array(count);
    while let Some(element) = call.args.next_arg() {
        let deadline = value.as_ref().and_then(|value| K::deadline(value, element));
        call.reply.int(match deadline {
            None => MISSING,
            Some(None) => WITHOUT,
            Some(Some(end_ms)) if hides && end_ms <= now_ms => MISSING,
            Some(Some(end_ms)) => read(end_ms, now_ms),
        });
    }
    Ok(())
}

/// Handles HPERSIST and its kin.
pub(crate) fn persist<K: Expiring>(call: &mut Call<'_>) -> Result<()> {
    let key = unexpired_key(call)?;
    call.view.get::<K>(key, Lookup::WRITE)?;
    let count = read_block(call, K::WORDS)?;
    let rules = SetRules::new(call.config.limits(), call.namespace.store.hasher());
    let mut edit = call.view.edit::<K>(key, K::PERSISTED)?;
    call.reply.array(count);
    while let Some(element) = call.args.next_arg() {
        let current = K::deadline(&edit.value(), element);
        call.reply.int(match current {
            None => MISSING,
            Some(None) => WITHOUT,
            Some(Some(_)) => {
                K::set_deadline(&mut edit.change(), element, None, rules);
                DONE
            }
        });
    }
    Ok(())
}

/// The options of a command that writes or reads elements and their deadlines.
pub(crate) struct ExpirySyntax {
    pub words: &'static ExpiryWords,
    /// The option that a command has besides those that set a time.
    pub other: OtherTtlOption,
    pub two_times: &'static str,
    /// The conditions that none and that all of the elements exist, and the error for both, if there are conditions.
    pub conditions: Option<([&'static str; 2], &'static str)>,
    pub invalid_count: &'static str,
    /// The number of words for each element.
    pub each: i64,
    /// The error for too few elements, if it is not that of the arity.
    pub too_few: Option<&'static str>,
}

/// The arguments of such a command after the key. Options may stand on either side of the elements.
pub(crate) struct ExpiryOptions<'a> {
    /// The change of the deadlines; a new one is in milliseconds since 1970.
    pub ttl: TtlOption<i64>,
    /// True if all elements must exist, false if none may.
    pub must_exist: Option<bool>,
    /// The elements, or elements with values.
    pub words: Vec<&'a [u8]>,
}

impl<'a> ExpiryOptions<'a> {
    pub(crate) fn read(call: &mut Call<'a>, syntax: &ExpirySyntax) -> Result<Self> {
        let mut options = ExpiryOptions { ttl: TtlOption::Absent, must_exist: None, words: Vec::new() };
        while let Some(word) = call.args.next_arg() {
            if is_word(word, syntax.words.block) {
                options.read_words(call, syntax)?;
            } else if let Some(([none, all], two_conditions)) = syntax.conditions
                && (is_word(word, none) || is_word(word, all))
            {
                if options.must_exist.is_some() {
                    return Err(Error::other(two_conditions));
                }
                options.must_exist = Some(is_word(word, all));
            } else {
                options.choose(word, call, syntax)?;
            }
        }
        if options.words.is_empty() {
            return Err(Error::other(syntax.words.no_block));
        }
        Ok(options)
    }

    /// Reads the number of elements, and the elements.
    fn read_words(&mut self, call: &mut Call<'a>, syntax: &ExpirySyntax) -> Result<()> {
        if !self.words.is_empty() {
            return Err(Error::other(syntax.words.two_blocks));
        }
        if call.args.left() == 0 && syntax.too_few.is_some() {
            return Err(Error::WrongArity(call.name().into()));
        }
        let count = call.args.next_arg().and_then(parse_int).filter(|count| *count > 0);
        let count = count.ok_or(Error::other(syntax.invalid_count))?;
        let words = count.checked_mul(syntax.each).and_then(|count| take_words(call, count));
        self.words = words.ok_or_else(|| match syntax.too_few {
            Some(error) => Error::other(error),
            None => Error::WrongArity(call.name().into()),
        })?;
        Ok(())
    }

    /// Reads an option about the deadline.
    fn choose(&mut self, word: &[u8], call: &mut Call<'_>, syntax: &ExpirySyntax) -> Result<()> {
        let option = TtlOption::of_word(word, syntax.other).ok_or_else(|| Error::UnknownArgument(word.to_vec()))?;
        if self.ttl != TtlOption::Absent {
            return Err(Error::other(syntax.two_times));
        }
        self.ttl = option.with_time(|unit| read_deadline(call, unit))?;
        Ok(())
    }
}

/// Parses the time of an option that sets a deadline.
fn read_deadline(call: &mut Call<'_>, unit: Unit) -> Result<i64> {
    let Some(time) = call.args.next_arg() else { return Err(Error::other(NO_TIME)) };
    Time::of_field(call, unit, time)
}
