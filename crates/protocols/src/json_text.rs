//! Writes values as JSON text.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Appends a text as JSON. Bytes that are not UTF-8 are replaced.
pub(crate) fn write_string(text: &[u8], out: &mut Vec<u8>) {
    // A text always has a JSON form.
    let _ = serde_json::to_writer(out, &*String::from_utf8_lossy(text));
}

/// Appends bytes as JSON: a string in base64, as in the JSON of protobuf.
pub(crate) fn write_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let mut text = String::new();
    STANDARD.encode_string(bytes, &mut text);
    out.extend_from_slice(text.as_bytes());
    out.push(b'"');
}

/// Appends a number as JSON. A value that JSON cannot state is a string with its name.
pub(crate) fn write_double(number: f64, out: &mut Vec<u8>) {
    if number.is_finite() {
        // A finite number always has a JSON form.
        let _ = serde_json::to_writer(out, &number);
    } else {
        write_string(non_finite_name(number).as_bytes(), out);
    }
}

/// The name of a number that is not finite, as in the JSON of protobuf.
pub(crate) fn non_finite_name(number: f64) -> &'static str {
    match number {
        number if number.is_nan() => "NaN",
        number if number > 0.0 => "Infinity",
        _ => "-Infinity",
    }
}
