//! Decodes lines by the format of their file.

use std::sync::Arc;

use super::cri;
use super::docker::DockerReader;
use super::line::{ContainerLine, DecodedParts};
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
