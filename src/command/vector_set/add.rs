//! VADD: adds an element to a vector set, or replaces its vector.

use crate::command::vector_set::vector::{mismatch, projected, read_reduced};
use crate::dispatch::args::is_word;
use crate::dispatch::{Args, Call};
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::Event;
use crate::store::value::VectorSet;
use crate::store::value::vector_set::{BigVectorSet, VectorSetForm};
use crate::vectors::{KeptVector, Projection, Quantisation};

/// Default of the number of links.
const LINKS_DEFAULT: i64 = 16;
/// Numbers of links that a set may have.
const LINKS: std::ops::RangeInclusive<i64> = 4..=4096;
/// Maximum of the exploration factor.
pub(super) const EXPLORATION_MAX: i64 = 1_000_000;

/// The options behind the element.
struct Options<'a> {
    quantisation: Quantisation,
    links: u16,
    attributes: Option<&'a [u8]>,
}

impl<'a> Options<'a> {
    /// Reads the options. CAS and EF, which are about the graph in Redis, change nothing.
    fn read(args: &mut Args<'a>) -> Result<Self> {
        let (mut quantisation, mut links, mut attributes) = (Quantisation::Bytes, LINKS_DEFAULT, None);
        while let Some(word) = args.next_arg() {
            let has_value = args.left() > 0;
            match () {
                () if is_word(word, "CAS") => {}
                () if is_word(word, "EF") && has_value => {
                    let is_valid = parse_int(args.bytes()?).is_some_and(|ef| (1..=EXPLORATION_MAX).contains(&ef));
                    if !is_valid {
                        return Err(Error::other("invalid EF"));
                    }
                }
                () if is_word(word, "M") && has_value => {
                    let given = parse_int(args.bytes()?).filter(|given| LINKS.contains(given));
                    links = given.ok_or(Error::other("invalid M"))?;
                }
                () if is_word(word, "SETATTR") && has_value => attributes = Some(args.bytes()?),
                () if is_word(word, "NOQUANT") => quantisation = Quantisation::Floats,
                () if is_word(word, "BIN") => quantisation = Quantisation::Bits,
                () if is_word(word, "Q8") => quantisation = Quantisation::Bytes,
                () => return Err(Error::other("invalid option after element")),
            }
        }
        Ok(Options { quantisation, links: links as u16, attributes })
    }

    /// Returns the attributes of the element; `None` for empty ones, which are those of an element that has none.
    fn present_attributes(&self) -> Option<&'a [u8]> {
        self.attributes.filter(|attributes| !attributes.is_empty())
    }
}

pub(super) fn vadd(call: &mut Call<'_>) -> Result<()> {
    let key = call.args.key()?;
    let (reduced, vector) = read_reduced(&mut call.args)?;
    let Some(name) = call.args.next_arg() else { return Err(Error::WrongArity(call.command.shown_name().into())) };
    let options = Options::read(&mut call.args)?;
    let mut edit = call.view.edit::<VectorSet>(key, Event::NONE)?;
    if edit.exists() {
        check(edit.value(), &options, reduced, vector.len())?;
        let vector = KeptVector::new(projected(edit.value(), vector)?, options.quantisation);
        let known = edit.value().find(name);
        let set = edit.change();
        match known {
            None => set.add(name, &vector, options.present_attributes()),
            Some(number) => {
                set.set_vector(number, &vector);
                // Empty attributes remove those that there are; without the option these stay.
                if options.attributes.is_some() {
                    set.put_attributes(number, options.present_attributes());
                }
            }
        }
        drop(edit);
        call.reply.bool(known.is_none());
        return Ok(());
    }
    let projection = reduced.map(|to| Projection::new(vector.len(), to));
    let form = VectorSetForm { links: options.links, projection };
    let mut set = BigVectorSet::new(options.quantisation, reduced.unwrap_or(vector.len()), form);
    let vector = KeptVector::new(projected(&set, vector)?, options.quantisation);
    set.add(name, &vector, options.present_attributes());
    *edit.change() = set;
    drop(edit);
    call.reply.bool(true);
    Ok(())
}

/// Checks that a vector of `dimensions` may be added to a set with these options.
fn check(set: &BigVectorSet, options: &Options<'_>, reduced: Option<usize>, dimensions: usize) -> Result<()> {
    if set.rows().form() != options.quantisation {
        return Err(Error::other("asked quantization mismatch with existing vector set"));
    }
    if set.form().links != options.links {
        return Err(Error::other("asked M value mismatch with existing vector set"));
    }
    let has_projection = set.form().projection.is_some();
    let given = if has_projection { reduced } else { Some(dimensions) };
    if given != Some(set.rows().dimensions()) {
        return Err(mismatch(dimensions, set));
    }
    if reduced.is_some() && !has_projection {
        return Err(Error::other("cannot add projection to existing set without projection"));
    }
    Ok(())
}
