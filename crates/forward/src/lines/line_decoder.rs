//! Decodes one line of a file by the file's format.

use std::ops::Range;
use std::sync::Arc;

use bucksaw_protocols::AttributeList;
use bucksaw_protocols::container::{ContainerDecoder, ContainerFormat};

use super::open_event::LinePiece;

/// Decodes lines of any number of files.
#[derive(Debug, Default)]
pub(super) struct LineDecoder {
    decoder: ContainerDecoder,
    no_attributes: Arc<AttributeList>,
}

impl LineDecoder {
    /// A line, given without its LF, and its range in the chunk. A line that is not in the format is its own text.
    pub(super) fn piece<'a>(
        &'a mut self,
        format: Option<ContainerFormat>,
        line: &'a [u8],
        range: Range<usize>,
        flags: u8,
    ) -> LinePiece<'a> {
        let whole = LinePiece {
            start: range.start,
            end: range.end,
            text: line,
            time: None,
            stream: None,
            is_partial: false,
            attributes: &self.no_attributes,
            flags,
            is_undecoded: format.is_some(),
        };
        match format.and_then(|format| self.decoder.decode(format, line)) {
            Some(decoded) => LinePiece {
                text: decoded.text,
                time: Some(decoded.time),
                stream: Some(decoded.stream),
                is_partial: decoded.is_partial,
                attributes: decoded.attributes,
                is_undecoded: false,
                ..whole
            },
            None => whole,
        }
    }
}
