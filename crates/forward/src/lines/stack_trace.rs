//! Stack traces: which line continues one.
//!
//! A trace has a first line, which begins an event as any line does, and lines that only traces have. Frames as of Java, .NET
//! and Node.js (`    at …`) continue whatever is before them. Traces of Python, Go and Rust are recognised by their first line,
//! and have states.

use memchr::memmem::find;

/// What the lines of an event were so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum TraceState {
    /// A line that begins no known trace.
    #[default]
    Line,
    /// Frames that begin with `at`.
    Frames,
    /// The properties of an error of Node.js, in braces behind its frames.
    NodeProperties,
    /// The source line before an uncaught error of Node.js; and how many lines may follow before its frames.
    NodeSource(u8),
    /// The frames of such an error.
    NodeFrames,
    /// The empty line behind them.
    NodeGap,
    /// The frames of a Python traceback.
    Python,
    /// The line with its exception.
    PythonEnd,
    /// The empty line behind it.
    PythonGap,
    /// The words between two tracebacks.
    PythonChain,
    /// A traceback of an exception group, which is indented as a whole.
    PythonGroup,
    /// A panic of Go.
    Go,
    /// The first line of a panic of Rust, before its message.
    RustHead,
    /// Its message and backtrace.
    Rust,
}

/// Lines between the place of an uncaught error of Node.js and its frames: the code, a caret, an empty line, the error with a
/// message of some lines.
const NODE_HEAD_LINES: u8 = 8;

const PYTHON_HEAD: &[u8] = b"Traceback (most recent call last):";
const PYTHON_LINKS: [&[u8]; 2] =
    [b"During handling of the above exception", b"The above exception was the direct cause"];

impl TraceState {
    /// The state behind the first line of an event.
    pub(super) fn begin(line: &[u8]) -> Self {
        match line.first() {
            Some(b'T') if line.starts_with(PYTHON_HEAD) => Self::Python,
            Some(b' ') if is_python_group(line) => Self::PythonGroup,
            Some(b'p') if line.starts_with(b"panic: ") => Self::Go,
            Some(b'f') if line.starts_with(b"fatal error: ") => Self::Go,
            Some(b'g') if is_goroutine(line) => Self::Go,
            Some(b't') if line.starts_with(b"thread '") && find(line, b" panicked at ").is_some() => {
                if line.ends_with(b":") { Self::RustHead } else { Self::Rust }
            }
            Some(b'/' | b'f' | b'n') if is_node_source(line) => Self::NodeSource(NODE_HEAD_LINES),
            _ => Self::Line,
        }
    }

    /// The state behind a line that continues the event; `None` if it begins the next one. `before` is the line before it.
    pub(super) fn continued(self, before: &[u8], line: &[u8]) -> Option<Self> {
        if is_frame(line) {
            return Some(match self {
                Self::Line => Self::Frames,
                Self::NodeSource(_) => Self::NodeFrames,
                state => state,
            });
        }
        let is_indented = matches!(line.first(), Some(b' ' | b'\t'));
        match self {
            Self::Line | Self::Frames if is_goroutine(line) && find(before, b"panic").is_some() => Some(Self::Go),
            Self::Frames if before.ends_with(b" {") && is_indented => Some(Self::NodeProperties),
            Self::Line | Self::Frames => None,
            Self::NodeProperties if is_indented => Some(self),
            Self::NodeProperties if line == b"}" => Some(Self::Line),
            Self::NodeProperties => None,
            Self::NodeSource(left) => Some(Self::NodeSource(left.checked_sub(1)?)),
            Self::NodeFrames if is_indented || line == b"}" => Some(self),
            Self::NodeFrames if line.is_empty() => Some(Self::NodeGap),
            Self::NodeGap if line.starts_with(b"Node.js v") => Some(Self::Line),
            Self::NodeFrames | Self::NodeGap => None,
            Self::Python if line.is_empty() || is_indented => Some(self),
            Self::Python => Some(Self::PythonEnd),
            Self::PythonEnd => line.is_empty().then_some(Self::PythonGap),
            Self::PythonGap => PYTHON_LINKS.iter().any(|link| line.starts_with(link)).then_some(Self::PythonChain),
            Self::PythonChain if line.is_empty() => Some(self),
            Self::PythonChain => {
                Some(Self::begin(line)).filter(|state| matches!(state, Self::Python | Self::PythonGroup))
            }
            Self::PythonGroup => (is_indented && !is_python_group(line)).then_some(self),
            Self::Go => is_go(line).then_some(self),
            Self::RustHead => Some(Self::Rust),
            Self::Rust => {
                let is_rest = is_indented || line.starts_with(b"note: ") || line == b"stack backtrace:";
                is_rest.then_some(self)
            }
        }
    }
}

/// Whether the line is one that only traces of Java, .NET and Node.js have.
fn is_frame(line: &[u8]) -> bool {
    match line.first() {
        Some(b' ' | b'\t') => {
            let line = line.trim_ascii_start();
            [&b"at "[..], b"... ", b"--- End of ", b"---> "].iter().any(|start| line.starts_with(start))
                || is_cause(line)
        }
        Some(b'C' | b'S') => is_cause(line),
        Some(b'-') => line.starts_with(b"--- End of stack trace"),
        _ => false,
    }
}

fn is_cause(line: &[u8]) -> bool {
    line.starts_with(b"Caused by: ") || line.starts_with(b"Suppressed: ")
}

/// The first line of a traceback of an exception group. Those inside of it begin with `|`.
fn is_python_group(line: &[u8]) -> bool {
    line.trim_ascii_start().starts_with(b"+ Exception Group Traceback")
}

/// `goroutine 18 [chan receive, 2 minutes]:`
fn is_goroutine(line: &[u8]) -> bool {
    let number = line.strip_prefix(b"goroutine ");
    number.is_some_and(|number| number.first().is_some_and(u8::is_ascii_digit)) && line.ends_with(b"]:")
}

/// Whether the line continues a panic of Go.
fn is_go(line: &[u8]) -> bool {
    let starts = [&b"\t"[..], b"[signal ", b"created by ", b"exit status ", b"..."];
    line.is_empty() || starts.iter().any(|start| line.starts_with(start)) || is_goroutine(line) || is_go_call(line)
}

/// `main.(*cart).total(0xc000012345, 0x2)`
fn is_go_call(line: &[u8]) -> bool {
    let before_space = line.split(|byte| *byte == b' ').next().unwrap_or_default();
    line.ends_with(b")") && before_space.contains(&b'(') && line.first().is_some_and(u8::is_ascii_alphabetic)
}

/// `/app/shop.js:12`, `file:///app/shop.mjs:12`, `node:internal/modules:12`
fn is_node_source(line: &[u8]) -> bool {
    let digits = line.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let Some(path) = line.get(..line.len() - digits).and_then(|path| path.strip_suffix(b":")) else { return false };
    let is_script = [&b".js"[..], b".mjs", b".cjs", b".ts", b".mts", b".cts"].iter().any(|end| path.ends_with(end));
    let is_file = path.starts_with(b"/") || path.starts_with(b"file:///");
    digits > 0 && !path.contains(&b' ') && (is_file && is_script || path.starts_with(b"node:"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The number of lines of each event.
    fn events(text: &str) -> Vec<usize> {
        let mut events: Vec<usize> = Vec::new();
        let (mut state, mut before) = (TraceState::default(), &b""[..]);
        for line in text.lines().map(str::as_bytes) {
            let next = events.last().and_then(|_| state.continued(before, line));
            match next {
                Some(_) => *events.last_mut().unwrap() += 1,
                None => events.push(1),
            }
            state = next.unwrap_or_else(|| TraceState::begin(line));
            before = line;
        }
        events
    }

    #[test]
    fn traces_of_each_language_are_one_event() {
        for (name, text) in [
            ("java", include_str!("traces/java.txt")),
            ("python", include_str!("traces/python.txt")),
            ("python_group", include_str!("traces/python_group.txt")),
            ("go", include_str!("traces/go.txt")),
            ("go_http", include_str!("traces/go_http.txt")),
            ("node", include_str!("traces/node.txt")),
            ("node_logged", include_str!("traces/node_logged.txt")),
            ("rust", include_str!("traces/rust.txt")),
            ("rust_assert", include_str!("traces/rust_assert.txt")),
            ("dotnet", include_str!("traces/dotnet.txt")),
        ] {
            let around = format!("before\n{text}after one\nafter two\n");
            assert_eq!(events(&around), [1, text.lines().count(), 1, 1], "{name}");
            let twice = format!("{text}{text}");
            assert_eq!(events(&twice), [text.lines().count(); 2], "{name}");
        }
    }

    #[test]
    fn other_lines_are_events_of_their_own() {
        let check = |text: &str, want: usize| assert_eq!(events(text), vec![1; want], "{text}");
        check("one\ntwo\n\nthree\n", 4);
        check("{\n  \"indented\": 1\n}\n", 3);
        check("starting\n  with an indented line\n", 2);
        check("GET /app.js:80 took 3\nat the end\n", 2);
        check("panics: none\ngoroutine count: 5\n", 2);
        check("Tracebacks\n  File x\n", 2);
        check("created by hand()\nexit status 0\n", 2);
    }

    #[test]
    fn a_trace_ends_where_no_line_continues_it() {
        assert_eq!(events("panic: x\n\ngoroutine 1 [running]:\nmain.f()\n\t/a.go:1\nlisten (x)\n"), [5, 1]);
        assert_eq!(events("Traceback (most recent call last):\n  File\nE: x\n\nE: y\n"), [4, 1]);
        assert_eq!(events("thread 'main' panicked at a.rs:1:1:\nboom\nnote: run\nnext\n"), [3, 1]);
        assert_eq!(events(&format!("/a.js:1\n{}", "x\n".repeat(12))), [9, 1, 1, 1, 1]);
        assert_eq!(events("log line\n\tat a.B.c(B.java:1)\nCaused by: x\n\t... 3 more\nlog\n"), [4, 1]);
    }
}
