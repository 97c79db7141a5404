//! Vectors in requests: bytes behind FP32, or decimal numbers behind VALUES and their number.

use crate::dispatch::Args;
use crate::dispatch::args::is_word;
use crate::error::{Error, Result};
use crate::resp::parse_int;
use crate::store::value::vector_set::BigVectorSet;
use crate::text::double::parse_double;
use crate::vectors::{DIMENSIONS_MAX, PROJECTION_MAX, floats};

/// Error for a vector that is not one.
fn invalid() -> Error {
    Error::other("invalid vector specification")
}

/// Reads `REDUCE dim`, if it is there, and a vector.
pub(super) fn read_reduced(args: &mut Args<'_>) -> Result<(Option<usize>, Vec<f32>)> {
    let mut reduced = None;
    if args.left() > 2 && args.rest().next().is_some_and(|word| is_word(word, "REDUCE")) {
        args.bytes()?;
        let dimensions = parse_int(args.bytes()?).and_then(|dimensions| usize::try_from(dimensions).ok());
        reduced = Some(dimensions.filter(|dimensions| *dimensions > 0).ok_or_else(invalid)?);
    }
    let vector = read(args)?;
    match reduced {
        Some(to) if to > vector.len() || to * vector.len() > PROJECTION_MAX => Err(invalid()),
        _ => Ok((reduced, vector)),
    }
}

/// Reads a vector.
pub(super) fn read(args: &mut Args<'_>) -> Result<Vec<f32>> {
    let format = args.next_arg().ok_or_else(invalid)?;
    if is_word(format, "FP32") {
        let bytes = args.next_arg().ok_or_else(invalid)?;
        let dimensions = bytes.len() / size_of::<f32>();
        if bytes.len() % size_of::<f32>() != 0 || !(1..=DIMENSIONS_MAX).contains(&dimensions) {
            return Err(invalid());
        }
        return Ok(floats(bytes));
    }
    if !is_word(format, "VALUES") {
        return Err(invalid());
    }
    let dimensions = args.next_arg().and_then(parse_int).and_then(|dimensions| usize::try_from(dimensions).ok());
    let is_fit = |dimensions: &usize| (1..=DIMENSIONS_MAX).contains(dimensions) && *dimensions <= args.left();
    let dimensions = dimensions.filter(is_fit).ok_or_else(invalid)?;
    let mut vector = Vec::with_capacity(dimensions);
    for _ in 0..dimensions {
        vector.push(args.next_arg().and_then(parse_double).ok_or_else(invalid)? as f32);
    }
    Ok(vector)
}

/// Applies the projection of a set, if it has one, to a vector.
pub(super) fn projected(set: &BigVectorSet, vector: Vec<f32>) -> Result<Vec<f32>> {
    match &set.form().projection {
        None => Ok(vector),
        Some(projection) if projection.input == vector.len() => Ok(projection.apply(&vector)),
        Some(projection) => Err(Error::other(format!(
            "Input dimension mismatch for projection - got {} but projection expects {}",
            vector.len(),
            projection.input
        ))),
    }
}

/// Returns the error for a vector with another number of dimensions than those of a set.
pub(super) fn mismatch(dimensions: usize, set: &BigVectorSet) -> Error {
    let expected = set.rows().dimensions();
    Error::other(format!("Vector dimension mismatch - got {dimensions} but set has {expected}"))
}
