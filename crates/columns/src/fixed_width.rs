//! The shape of fixed-width values: values of one length that differ only in digits at the same positions, such as times,
//! serial numbers and UUIDs.

/// What one position of all values holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatternByte {
    /// The same byte in all values.
    Literal(u8),
    Digit,
    LowerHex,
    UpperHex,
}

/// Decimal digits that form one number; any such number fits in 64 bits.
pub(crate) const DIGITS_MAX: usize = 18;

/// The longest fixed-width value, in bytes.
pub(crate) const FIXED_WIDTH_MAX: usize = 64;

/// How many numbers the decimal digits of a value form.
pub(crate) fn number_count(pattern: &[PatternByte]) -> usize {
    pattern.iter().filter(|byte| **byte == PatternByte::Digit).count().div_ceil(DIGITS_MAX)
}

/// How many bytes the hexadecimal digits of a value take.
pub(crate) fn nibble_bytes(pattern: &[PatternByte]) -> usize {
    pattern.iter().filter(|byte| matches!(byte, PatternByte::LowerHex | PatternByte::UpperHex)).count().div_ceil(2)
}
