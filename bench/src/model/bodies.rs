//! Text of lines of a given length, from a sample.

/// Bodies of about this size with records of this mean length, each of one line of the sample or of several that are joined by
/// spaces. The text is that of the sample, so its costs are those of the sample: lines that are cut anywhere, as
/// [`cut_bodies`] has them, take four times the disk. A mean below that of the lines cannot be reached.
pub(super) fn bodies(sample: &[u8], body_bytes: u64, line_bytes: u64) -> Vec<Vec<u8>> {
    let (mut bodies, mut body, mut records, mut bytes) = (Vec::new(), Vec::new(), 0, 0);
    for line in sample.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        body.extend_from_slice(line);
        bytes += line.len() as u64 + 1;
        if bytes < (records + 1) * line_bytes {
            body.push(b' ');
            continue;
        }
        body.push(b'\n');
        records += 1;
        if body.len() as u64 >= body_bytes - line_bytes / 2 {
            bodies.push(std::mem::take(&mut body));
        }
    }
    bodies
}

/// Bodies of at most `body_bytes` with lines of exactly this length, made of the text of a sample.
pub(super) fn cut_bodies(sample: &[u8], body_bytes: u64, line_bytes: u64) -> Vec<Vec<u8>> {
    let text: Vec<u8> = sample.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
    let lines_per_body = (body_bytes / line_bytes).max(1) as usize;
    let lines: Vec<&[u8]> = text.chunks_exact(line_bytes as usize - 1).collect();
    lines.chunks_exact(lines_per_body).map(|lines| [lines.join(&b'\n'), b"\n".to_vec()].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole_lines_with_the_mean_length() {
        let sample: Vec<u8> = (0..60_000).flat_map(|at| format!("line {at} of some\n").into_bytes()).collect();
        for line_bytes in [25, 150, 1_500] {
            let bodies = bodies(&sample, 64 << 10, line_bytes);
            let text = bodies.concat();
            let records = memchr::memchr_iter(b'\n', &text).count() as f64;
            let (mean, body) = (text.len() as f64 / records, text.len() as f64 / bodies.len() as f64);
            assert!((mean / line_bytes as f64 - 1.0).abs() < 0.02, "{mean} of {line_bytes}");
            assert!((body / f64::from(64 << 10) - 1.0).abs() < 0.02, "{body}");
            let lines: Vec<u8> = text.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
            let all: Vec<u8> = sample.iter().map(|byte| if *byte == b'\n' { b' ' } else { *byte }).collect();
            assert!(all.starts_with(&lines));
        }
    }

    #[test]
    fn cut_bodies_have_lines_of_one_length() {
        let sample = b"one two\nthree four five\n".repeat(20_000);
        let request_bytes = 64 << 10;
        for line_bytes in [150, 1_500] {
            let bodies = cut_bodies(&sample, request_bytes, line_bytes);
            assert!(bodies.len() > 3);
            for body in bodies {
                assert!(body.split_inclusive(|byte| *byte == b'\n').all(|line| line.len() as u64 == line_bytes));
                assert!(body.len() as u64 <= request_bytes && body.len() as u64 > request_bytes - line_bytes);
            }
        }
    }
}
