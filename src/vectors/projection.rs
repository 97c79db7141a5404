//! The projection of vectors to fewer dimensions.

/// Maximum number of factors of a projection, so that an application takes few milliseconds, and a dump has room for them.
pub(crate) const PROJECTION_MAX: usize = 1 << 24;

/// A linear projection. Its factors are those of Redis: a part of Sylvester's Hadamard matrix, which needs no memory. A
/// dump may contain others.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Projection {
    /// The number of dimensions before the projection.
    pub(crate) input: usize,
    /// The number of dimensions after the projection.
    output: usize,
    /// The factors, row by row, if they are others than those of Redis.
    others: Option<Box<[f32]>>,
}

impl Projection {
    /// Returns the projection from `input` to `output` dimensions.
    pub(crate) fn new(input: usize, output: usize) -> Self {
        Projection { input, output, others: None }
    }

    /// Returns a projection with these factors; `None` if their number is another.
    pub(crate) fn of_factors(input: usize, output: usize, factors: &[u8]) -> Option<Self> {
        if input.checked_mul(output)? > PROJECTION_MAX || factors.len() != input * output * size_of::<f32>() {
            return None;
        }
        let usual = Projection::new(input, output);
        let is_usual = usual.factors().flat_map(f32::to_le_bytes).eq(factors.iter().copied());
        let others = (!is_usual).then(|| crate::vectors::quantise::floats(factors).into_boxed_slice());
        Some(Projection { others, ..usual })
    }

    /// Returns the bytes allocated for factors.
    pub(crate) fn memory(&self) -> usize {
        self.others.as_ref().map_or(0, |others| size_of_val(&**others))
    }

    /// Iterates over the factors, row by row.
    pub(crate) fn factors(&self) -> impl Iterator<Item = f32> {
        let scale = self.scale();
        (0..self.input * self.output).map(move |at| match &self.others {
            Some(others) => others[at],
            None => sign(at / self.input, at % self.input) * scale,
        })
    }

    fn scale(&self) -> f32 {
        (1.0 / (self.input as f64).sqrt()) as f32
    }

    /// Applies the projection to a vector of the dimensions before it.
    pub(crate) fn apply(&self, vector: &[f32]) -> Vec<f32> {
        if let Some(others) = &self.others {
            let row =
                |factors: &[f32]| factors.iter().zip(vector).fold(0.0, |sum, (factor, value)| sum + factor * value);
            return others.chunks_exact(self.input).map(row).collect();
        }
        let scale = self.scale();
        let scaled: Vec<f32> = vector.iter().map(|value| scale * value).collect();
        let row = |i: usize| scaled.iter().enumerate().fold(0.0, |sum, (j, value)| sum + sign(i, j) * value);
        (0..self.output).map(row).collect()
    }
}

/// Returns the sign at a place of the Hadamard matrix.
#[inline]
fn sign(row: usize, column: usize) -> f32 {
    if (row & column).count_ones().is_multiple_of(2) { 1.0 } else { -1.0 }
}
