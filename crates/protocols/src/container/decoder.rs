//! One line of a log file of a container.

use std::sync::Arc;

use bucksaw_record::Millis;

use super::cri;
use super::docker::DockerReader;
use super::runtime_times::RuntimeTimes;
use crate::AttributeList;

/// The format of a log file of a container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerFormat {
    /// Each line tells: `{` begins Docker's.
    Any,
    /// That of the container runtime interface.
    Cri,
    /// That of Docker's driver `json-file`.
    Docker,
}

/// An output stream of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OutputStream {
    /// The standard output.
    Stdout,
    /// The standard error.
    Stderr,
}

impl OutputStream {
    /// The name in both formats.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Stdout => "stdout",
            Self::Stderr => "stderr",
        }
    }
}

/// What a runtime has written about a line, or about a part of it.
#[derive(Clone, Copy, Debug)]
pub struct ContainerLine<'a> {
    /// The time at which the runtime has read it: milliseconds, and nanoseconds below.
    pub time: (Millis, u32),
    /// The stream to which the container has written it.
    pub stream: OutputStream,
    /// The text without its line end. An LF inside is possible in Docker's format.
    pub text: &'a [u8],
    /// Whether the next text of the stream continues the line.
    pub is_partial: bool,
    /// What else the runtime states: Docker's `attrs`. Lines with the same ones share the list.
    pub attributes: &'a Arc<AttributeList>,
}

/// A decoded line, with its text in the line itself or in the buffer of the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct DecodedParts<'a> {
    pub(super) time: (Millis, u32),
    pub(super) stream: OutputStream,
    /// `None`: in the buffer of the reader.
    pub(super) text: Option<&'a [u8]>,
    pub(super) is_partial: bool,
}

/// Decodes lines one after the other. It keeps no state that changes their meaning.
#[derive(Debug, Default)]
pub struct ContainerDecoder {
    times: RuntimeTimes,
    docker: DockerReader,
    no_attributes: Arc<AttributeList>,
}

impl ContainerDecoder {
    /// Decodes a line, given without its LF; `None` if it is not in the format.
    pub fn decode<'a>(&'a mut self, format: ContainerFormat, line: &'a [u8]) -> Option<ContainerLine<'a>> {
        let is_docker = match format {
            ContainerFormat::Any => line.first() == Some(&b'{'),
            ContainerFormat::Cri => false,
            ContainerFormat::Docker => true,
        };
        let DecodedParts { time, stream, text, is_partial } = match is_docker {
            true => self.docker.read(line, &mut self.times)?,
            false => cri::read(line, &mut self.times)?,
        };
        let attributes = if is_docker { self.docker.attributes() } else { &self.no_attributes };
        Some(ContainerLine { time, stream, text: text.unwrap_or_else(|| self.docker.text()), is_partial, attributes })
    }
}
