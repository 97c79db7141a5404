//! PFSELFTEST: registers keep their values, both encodings agree, and estimates are close to the truth.
//!
//! The checks are those of Redis' test, with fewer elements: other clients are blocked for milliseconds only.

use std::ops::RangeInclusive;

use crate::command::hyperloglog::bulk::Bulk;
use crate::command::hyperloglog::sketch;
use crate::command::hyperloglog::sketch::{REGISTERS, Registers, Sketch};
use crate::dispatch::Call;
use crate::error::{Error, Result};

/// The number of elements counted.
const ELEMENTS: u64 = 100_000;

/// The maximum error of an estimate, in standard errors.
const ERRORS_MAX: f64 = 6.0;

pub(crate) fn pfselftest(call: &mut Call<'_>) -> Result<()> {
    keep_registers()?;
    count_elements(call.config.hll_sparse_max_bytes)?;
    call.reply.ok();
    Ok(())
}

/// Returns the error of a failed test; its text names the failure.
fn failed(what: String) -> Error {
    Error::other(format!("TESTFAILED {what}"))
}

fn keep_registers() -> Result<()> {
    let mut sketch = Sketch::empty();
    sketch.make_dense()?;
    let value = |index: usize| (index * 37 % 64) as u8;
    for index in 0..REGISTERS {
        sketch.raise(index, value(index), 0)?;
    }
    match sketch::dense_registers(sketch.as_bytes()).enumerate().find(|(index, found)| *found != value(*index)) {
        None => Ok(()),
        Some((index, found)) => Err(failed(format!("Register {index} should be {} but is {found}", value(index)))),
    }
}

fn with_elements(sketch: Sketch, elements: RangeInclusive<u64>, sparse_max: usize) -> Result<Sketch> {
    let mut bulk = Bulk::new(sketch, sparse_max, (elements.end() - elements.start()) as usize)?;
    for element in elements {
        bulk.add(&element.to_le_bytes())?;
    }
    Ok(bulk.finish())
}

fn count_elements(sparse_max: usize) -> Result<()> {
    let (mut sparse, mut dense) = (Sketch::empty(), Sketch::empty());
    dense.make_dense()?;
    let mut checkpoint = 1;
    while checkpoint <= ELEMENTS {
        let element = checkpoint;
        sparse = with_elements(sparse, checkpoint / 10 + 1..=checkpoint, sparse_max)?;
        dense = with_elements(dense, checkpoint / 10 + 1..=checkpoint, sparse_max)?;
        let count = sketch::count(dense.as_bytes())?;
        let mut merged = Registers::new();
        merged.merge(sparse.as_bytes())?;
        if sketch::count(sparse.as_bytes())? != count || merged.count() != count {
            return Err(failed("dense/sparse disagree".into()));
        }
        let standard_error = 1.04 / (REGISTERS as f64).sqrt();
        let error = count.abs_diff(element);
        if error as f64 > (standard_error * ERRORS_MAX * element as f64).ceil() {
            return Err(failed(format!("Too big error. card:{element} abserr:{error}")));
        }
        checkpoint *= 10;
    }
    Ok(())
}
