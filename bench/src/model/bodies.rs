//! Text of lines of one length, from a sample.

/// Bodies of at most `body_bytes` with lines of exactly this length, made of the text of a sample.
pub(super) fn bodies(sample: &[u8], body_bytes: u64, line_bytes: u64) -> Vec<Vec<u8>> {
    let text: Vec<u8> = sample.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
    let lines_per_body = (body_bytes / line_bytes).max(1) as usize;
    let lines: Vec<&[u8]> = text.chunks_exact(line_bytes as usize - 1).collect();
    lines.chunks_exact(lines_per_body).map(|lines| [lines.join(&b'\n'), b"\n".to_vec()].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_have_lines_of_one_length() {
        let sample = b"one two\nthree four five\n".repeat(20_000);
        let request_bytes = 64 << 10;
        for line_bytes in [150, 1_500] {
            let bodies = bodies(&sample, request_bytes, line_bytes);
            assert!(bodies.len() > 3);
            for body in bodies {
                assert!(body.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() as u64 == line_bytes));
                assert!(body.len() as u64 <= request_bytes && body.len() as u64 > request_bytes - line_bytes);
            }
        }
    }
}
