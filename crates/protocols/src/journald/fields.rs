//! What the fields of a journal entry become.

use crate::stream_labels::{HOST_NAME, SERVICE_NAME};

/// What becomes of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FieldUse {
    /// The line.
    Line,
    /// The time, in microseconds since 1970.
    Time,
    /// A label of this name.
    Label(&'static str),
    /// An attribute `severity_text`: the name of a syslog priority.
    Severity,
    /// An attribute of this name.
    Renamed(&'static str),
    /// An attribute of the field's own name.
    Attribute,
    /// The address of the entry within the journal of its sender. Not stored.
    Cursor,
    /// Not stored.
    Dropped,
}

/// What becomes of a field with this name.
pub(super) fn field_use(name: &[u8]) -> FieldUse {
    use FieldUse::{Cursor, Dropped, Label, Line, Renamed, Severity, Time};
    match name {
        b"MESSAGE" => Line,
        b"__REALTIME_TIMESTAMP" => Time,
        b"__CURSOR" => Cursor,
        b"_HOSTNAME" => Label(HOST_NAME),
        b"SYSLOG_IDENTIFIER" => Label(SERVICE_NAME),
        b"_SYSTEMD_UNIT" => Label("unit"),
        b"PRIORITY" => Severity,
        b"_PID" => Renamed("process.pid"),
        b"_COMM" => Renamed("process.executable.name"),
        b"_EXE" => Renamed("process.executable.path"),
        b"_CMDLINE" => Renamed("process.command_line"),
        b"_UID" => Renamed("process.user.id"),
        b"_MACHINE_ID" => Renamed("host.id"),
        b"CODE_FILE" => Renamed("code.file.path"),
        b"CODE_LINE" => Renamed("code.line.number"),
        b"CODE_FUNC" => Renamed("code.function.name"),
        b"CONTAINER_NAME" => Renamed("container.name"),
        b"CONTAINER_ID_FULL" => Renamed("container.id"),
        b"IMAGE_NAME" => Renamed("container.image.name"),
        b"SYSLOG_PID" => Renamed("syslog.procid"),
        name if name.starts_with(b"__") => Dropped,
        _ => FieldUse::Attribute,
    }
}
