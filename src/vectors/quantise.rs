//! Quantisation: the forms in which vectors are kept.

/// The form in which the vectors of a set are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Quantisation {
    /// Single-precision floats.
    Floats,
    /// Bytes with a sign, which are fractions of the greatest absolute value of their vector.
    Bytes,
    /// The signs alone, a bit for each.
    Bits,
}

/// The number of bits in a word of signs.
const WORD_BITS: usize = u64::BITS as usize;

/// The byte that stands for the greatest absolute value.
const BYTE_MAX: f32 = 127.0;

impl Quantisation {
    /// Returns the name that clients see.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Quantisation::Floats => "f32",
            Quantisation::Bytes => "int8",
            Quantisation::Bits => "bin",
        }
    }

    /// Returns true if a vector has a range.
    pub(crate) fn has_range(self) -> bool {
        self == Quantisation::Bytes
    }

    /// Returns the number in dumps.
    pub(crate) fn number(self) -> u64 {
        self as u64
    }

    /// Returns the form with a number.
    pub(crate) fn of_number(number: u64) -> Option<Self> {
        [Quantisation::Floats, Quantisation::Bytes, Quantisation::Bits].get(usize::try_from(number).ok()?).copied()
    }

    /// Returns the number of codes of a vector.
    pub(super) fn codes_len(self, dimensions: usize) -> usize {
        match self {
            Quantisation::Floats | Quantisation::Bytes => dimensions,
            Quantisation::Bits => dimensions.div_ceil(WORD_BITS),
        }
    }

    /// Returns the number of bytes of a vector.
    pub(crate) fn bytes_len(self, dimensions: usize) -> usize {
        self.codes_len(dimensions)
            * match self {
                Quantisation::Floats => size_of::<f32>(),
                Quantisation::Bytes => size_of::<i8>(),
                Quantisation::Bits => size_of::<u64>(),
            }
    }
}

/// The codes of one vector, or of several one after the other.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Codes {
    Floats(Vec<f32>),
    Bytes(Vec<i8>),
    Bits(Vec<u64>),
}

impl Codes {
    /// Returns codes of no vector.
    pub(super) fn none(form: Quantisation) -> Self {
        match form {
            Quantisation::Floats => Codes::Floats(Vec::new()),
            Quantisation::Bytes => Codes::Bytes(Vec::new()),
            Quantisation::Bits => Codes::Bits(Vec::new()),
        }
    }

    /// Returns the bytes allocated.
    pub(super) fn capacity_bytes(&self) -> usize {
        match self {
            Codes::Floats(codes) => codes.capacity() * size_of::<f32>(),
            Codes::Bytes(codes) => codes.capacity(),
            Codes::Bits(codes) => codes.capacity() * size_of::<u64>(),
        }
    }

    /// Appends the codes of a vector of the same form.
    pub(super) fn push(&mut self, other: &Codes) {
        match (self, other) {
            (Codes::Floats(codes), Codes::Floats(other)) => codes.extend_from_slice(other),
            (Codes::Bytes(codes), Codes::Bytes(other)) => codes.extend_from_slice(other),
            (Codes::Bits(codes), Codes::Bits(other)) => codes.extend_from_slice(other),
            _ => unreachable!("all vectors of a set have the same form"),
        }
    }

    /// Overwrites the vector at a position with another of the same form.
    pub(super) fn put(&mut self, at: usize, other: &Codes) {
        match (self, other) {
            (Codes::Floats(codes), Codes::Floats(other)) => place(codes, at, other),
            (Codes::Bytes(codes), Codes::Bytes(other)) => place(codes, at, other),
            (Codes::Bits(codes), Codes::Bits(other)) => place(codes, at, other),
            _ => unreachable!("all vectors of a set have the same form"),
        }
    }

    /// Returns the vector at a position, which has `len` codes.
    pub(super) fn get(&self, at: usize, len: usize) -> Codes {
        let range = at * len..(at + 1) * len;
        match self {
            Codes::Floats(codes) => Codes::Floats(codes[range].to_vec()),
            Codes::Bytes(codes) => Codes::Bytes(codes[range].to_vec()),
            Codes::Bits(codes) => Codes::Bits(codes[range].to_vec()),
        }
    }

    /// Removes the last vector, which has `len` codes.
    pub(super) fn pop(&mut self, len: usize) {
        match self {
            Codes::Floats(codes) => codes.truncate(codes.len() - len),
            Codes::Bytes(codes) => codes.truncate(codes.len() - len),
            Codes::Bits(codes) => codes.truncate(codes.len() - len),
        }
    }
}

fn place<T: Copy>(codes: &mut [T], at: usize, other: &[T]) {
    codes[at * other.len()..(at + 1) * other.len()].copy_from_slice(other);
}

/// A vector in the form in which it is kept.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct KeptVector {
    pub(super) codes: Codes,
    /// The length of the vector before it was normalised; 1 for a vector of zeros.
    pub(crate) norm: f32,
    /// The greatest absolute value after that, if the codes are bytes.
    pub(crate) range: f32,
}

impl KeptVector {
    /// Normalises and quantises a vector.
    pub(crate) fn new(mut vector: Vec<f32>, form: Quantisation) -> Self {
        let norm = normalise(&mut vector);
        let mut range = 0.0;
        let codes = match form {
            Quantisation::Floats => Codes::Floats(vector),
            Quantisation::Bytes => {
                range = vector.iter().fold(0.0, |max, value| if value.abs() > max { value.abs() } else { max });
                Codes::Bytes(bytes_of(&vector, range))
            }
            Quantisation::Bits => Codes::Bits(signs_of(&vector)),
        };
        KeptVector { codes, norm, range }
    }

    /// Returns a vector of the bytes that [`KeptVector::bytes`] returns; `None` if there are too many or too few.
    pub(crate) fn of_bytes(
        bytes: &[u8],
        (form, dimensions): (Quantisation, usize),
        (norm, range): (f32, f32),
    ) -> Option<Self> {
        if bytes.len() != form.bytes_len(dimensions) {
            return None;
        }
        let codes = match form {
            Quantisation::Floats => Codes::Floats(floats(bytes)),
            Quantisation::Bytes => Codes::Bytes(bytes.iter().map(|byte| *byte as i8).collect()),
            Quantisation::Bits => {
                Codes::Bits(bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect())
            }
        };
        Some(KeptVector { codes, norm, range })
    }

    /// Returns the codes as bytes, the lowest first.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        match &self.codes {
            Codes::Floats(codes) => codes.iter().flat_map(|code| code.to_le_bytes()).collect(),
            Codes::Bytes(codes) => codes.iter().map(|code| *code as u8).collect(),
            Codes::Bits(codes) => codes.iter().flat_map(|code| code.to_le_bytes()).collect(),
        }
    }

    /// Returns the vector, as far as its form has kept it. Signs alone have no length.
    pub(crate) fn decode(&self, dimensions: usize) -> Vec<f32> {
        match &self.codes {
            Codes::Floats(codes) => codes.iter().map(|code| code * self.norm).collect(),
            Codes::Bytes(codes) => {
                codes.iter().map(|code| f32::from(*code) * self.range / BYTE_MAX * self.norm).collect()
            }
            Codes::Bits(codes) => {
                let is_positive = |at: usize| codes[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1;
                (0..dimensions).map(|at| if is_positive(at) { 1.0 } else { -1.0 }).collect()
            }
        }
    }
}

/// Returns the floats in bytes, the lowest byte first; a remainder is left out.
pub(crate) fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.as_chunks::<4>().0.iter().map(|float| f32::from_le_bytes(*float)).collect()
}

/// Divides a vector by its length, which is returned.
fn normalise(vector: &mut [f32]) -> f32 {
    let (fours, rest) = vector.as_chunks::<4>();
    let mut sum = 0.0_f32;
    for [a, b, c, d] in fours {
        sum += a * a + b * b + c * c + d * d;
    }
    for value in rest {
        sum += value * value;
    }
    if sum == 0.0 {
        return 1.0;
    }
    let norm = sum.sqrt();
    vector.iter_mut().for_each(|value| *value /= norm);
    norm
}

fn bytes_of(vector: &[f32], range: f32) -> Vec<i8> {
    if range == 0.0 {
        return vec![0; vector.len()];
    }
    let scale = BYTE_MAX / range;
    vector.iter().map(|value| (value * scale).round() as i8).collect()
}

fn signs_of(vector: &[f32]) -> Vec<u64> {
    let word =
        |values: &[f32]| values.iter().enumerate().fold(0, |word, (at, value)| word | u64::from(*value > 0.0) << at);
    vector.chunks(WORD_BITS).map(word).collect()
}

/// Returns the distance of two normalised vectors: 0 for the same direction, 2 for the opposite.
#[inline]
pub(super) fn float_distance(a: &[f32], b: &[f32]) -> f32 {
    let ((a_eights, a_rest), (b_eights, b_rest)) = (a.as_chunks::<8>(), b.as_chunks::<8>());
    let (mut even, mut odd) = (0.0_f32, 0.0_f32);
    for (a, b) in a_eights.iter().zip(b_eights) {
        even += a[0] * b[0] + a[1] * b[1] + a[2] * b[2] + a[3] * b[3];
        odd += a[4] * b[4] + a[5] * b[5] + a[6] * b[6] + a[7] * b[7];
    }
    for (a, b) in a_rest.iter().zip(b_rest) {
        even += a * b;
    }
    1.0 - (even + odd)
}

/// Returns the distance of two vectors of bytes by their dot product and their ranges.
#[inline]
pub(super) fn byte_distance(product: i32, a_range: f32, b_range: f32) -> f32 {
    if a_range == 0.0 || b_range == 0.0 {
        return 1.0;
    }
    let scale = (a_range / BYTE_MAX) * (b_range / BYTE_MAX);
    (1.0 - product as f32 * scale).clamp(0.0, 2.0)
}

/// Returns the dot product of two vectors of bytes, the first of which is widened already. The loops have the form in which
/// the compiler multiplies and adds eight pairs at once.
#[inline]
pub(super) fn byte_product(wide: &[i16], narrow: &[i8]) -> i32 {
    const LANES: usize = 64;
    let ((wides, wide_rest), (narrows, narrow_rest)) = (wide.as_chunks::<LANES>(), narrow.as_chunks::<LANES>());
    let mut sum = 0;
    for (wide, narrow) in wides.iter().zip(narrows) {
        let widened = narrow.map(i16::from);
        sum += wide.iter().zip(&widened).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>();
    }
    sum + wide_rest.iter().zip(narrow_rest).map(|(a, b)| i32::from(*a) * i32::from(*b)).sum::<i32>()
}

/// Returns the distance of two vectors of signs: twice the part of the signs that differ.
#[inline]
pub(super) fn bit_distance(a: &[u64], b: &[u64], dimensions: usize) -> f32 {
    let differing: u32 = a.iter().zip(b).map(|(a, b)| (a ^ b).count_ones()).sum();
    differing as f32 * 2.0 / dimensions as f32
}
