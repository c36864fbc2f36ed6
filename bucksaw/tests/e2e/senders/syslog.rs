//! Unmodified syslog senders: `logger`, rsyslog and syslog-ng.

use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{SenderRecord, all_are_stored, client_file, debian_program};
use crate::child_process::ChildProcess;
use crate::node::TestServer;
use crate::wait::wait_until;

/// Messages that each daemon forwards.
const MESSAGES: usize = 300;

/// The number of the last message, by which `logger` repeats nothing.
const LOGGED: usize = 50;

fn node() -> (TestServer, PathBuf, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("log");
    let node =
        TestServer::start(&["--listen-syslog", "127.0.0.1:0", "--listen-syslog-socket", socket.to_str().unwrap()]);
    (node, socket, dir)
}

/// Runs `logger` with a file of lines, each of which it sends as a message.
fn logger(arguments: &[&str], name: &str, dir: &Path) -> Vec<String> {
    let lines: Vec<String> = (0..LOGGED).map(|n| format!("{name} order {n} of \"Müller\" took {} ms", n * 7)).collect();
    let file = dir.join(name);
    std::fs::write(&file, lines.join("\n") + "\n").unwrap();
    let sent =
        Command::new("logger").args(arguments).args(["-t", name, "-p", "local3.warning", "-f"]).arg(file).status();
    assert!(sent.is_ok_and(|status| status.success()), "logger of util-linux failed");
    lines
}

#[test]
fn logger_over_every_transport() {
    let (node, socket, dir) = node();
    let port = node.address("syslog").rsplit_once(':').unwrap().1;
    let (to, unix) = (["-n", "127.0.0.1", "-P", port], ["-u", socket.to_str().unwrap()]);
    let with = |more: &[&'static str]| to.iter().copied().chain(more.iter().copied()).collect::<Vec<_>>();
    let transports = [
        ("octets", with(&["-T", "--octet-count", "--rfc5424"])),
        ("lines", with(&["-T", "--rfc5424"])),
        ("bsd", with(&["-T", "--rfc3164"])),
        ("udp", with(&["-d", "--rfc5424"])),
        ("unix", unix.to_vec()),
    ];
    let mut stated = Vec::new();
    for (name, arguments) in transports {
        for line in logger(&arguments, name, dir.path()) {
            let attributes = json!({"severity_text": "warning", "syslog.facility": "local3"});
            stated
                .push(SenderRecord(json!({"line": line, "labels": {"service.name": name}, "attributes": attributes})));
        }
    }
    all_are_stored(&node, &stated);
    assert_eq!(node.metric("bucksaw_ingest_rejected_records_total{source=\"syslog\"}"), 0.0);
}

/// Sends messages of RFC 5424 to the socket of a daemon, and states how a node stores them. rsyslog and syslog-ng keep structured
/// data, and rsyslog replaces line ends.
fn send_to_daemon(socket: &Path) -> Vec<SenderRecord> {
    wait_until("the daemon listens", || UnixDatagram::unbound().unwrap().connect(socket).is_ok());
    let out = UnixDatagram::unbound().unwrap();
    out.connect(socket).unwrap();
    let mut stated = Vec::new();
    for n in 0..MESSAGES {
        let line = format!("order {n} of Müller took {} ms", n * 7);
        let (time, trace) =
            (format!("2026-11-20T10:{:02}:{:02}.123456Z", n / 60 % 60, n % 60), format!("4bf92f{n:026}"));
        let message = format!("<156>1 {time} web1 shop 77 ID{n} [trace@32473 id=\"{trace}\" q=\"a\\\"b\"] {line}");
        out.send(message.as_bytes()).unwrap();
        let attributes = json!({
            "severity_text": "warning", "syslog.facility": "local3", "syslog.procid": "77", "syslog.msgid": format!("ID{n}"),
            "trace@32473.id": trace, "trace@32473.q": "a\"b",
        });
        stated.push(SenderRecord(
            json!({"line": line, "labels": {"service.name": "shop", "host.name": "web1"}, "attributes": attributes}),
        ));
    }
    stated
}

fn start_daemon(mut command: Command, arguments: &[&str]) -> ChildProcess {
    ChildProcess::start(command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null()))
}

/// The only directory of this name below the libraries of Debian's packages.
fn modules(name: &str) -> String {
    let root = client_file("debian/usr/lib");
    let directories = std::fs::read_dir(&root).unwrap().map(|entry| entry.unwrap().path().join(name));
    directories.chain([root.join(name)]).find(|path| path.is_dir()).unwrap().display().to_string()
}

#[test]
fn rsyslog() {
    let (node, _, dir) = node();
    let (at, port) = (dir.path().display().to_string(), node.address("syslog").rsplit_once(':').unwrap().1);
    let config = format!(
        r#"global(workDirectory="{at}" net.enableDNS="off")
module(load="imuxsock" SysSock.Use="off")
input(type="imuxsock" socket="{at}/in" useSpecialParser="off" parseHostname="on")
template(name="rfc5424" type="string" string="<%PRI%>1 %TIMESTAMP:::date-rfc3339% %HOSTNAME% %APP-NAME% %PROCID% %MSGID% %STRUCTURED-DATA% %msg%")
action(type="omfwd" target="127.0.0.1" port="{port}" protocol="tcp" TCP_Framing="octet-counted" template="rfc5424"
  action.resumeRetryCount="-1" queue.type="LinkedList")
"#
    );
    let (file, pid) = (format!("{at}/rsyslog.conf"), format!("{at}/pid"));
    std::fs::write(&file, config).unwrap();
    let _daemon =
        start_daemon(debian_program("usr/sbin/rsyslogd"), &["-n", "-i", &pid, "-f", &file, "-M", &modules("rsyslog")]);
    let stated = send_to_daemon(&dir.path().join("in"));
    all_are_stored(&node, &stated);
}

#[test]
fn syslog_ng() {
    let (node, _, dir) = node();
    let (at, port) = (dir.path().display().to_string(), node.address("syslog").rsplit_once(':').unwrap().1);
    let versions = std::fs::read_dir(client_file("debian/usr/lib/syslog-ng")).unwrap();
    let modules = versions.map(|entry| entry.unwrap().path()).find(|path| path.is_dir()).unwrap();
    let version = modules.file_name().unwrap().to_str().unwrap();
    let config = format!(
        r#"@version: {version}
options {{ keep-hostname(yes); }};
source s {{ unix-dgram("{at}/in" flags(syslog-protocol)); }};
destination d {{ syslog("127.0.0.1" port({port}) transport("tcp")); }};
log {{ source(s); destination(d); }};
"#
    );
    let file = |name: &str| format!("{at}/{name}");
    std::fs::write(file("ng.conf"), config).unwrap();
    let (conf, persist, pid, control) = (file("ng.conf"), file("persist"), file("pid"), file("control"));
    let modules = modules.display().to_string();
    let arguments =
        ["-F", "--no-caps", "-f", &conf, "--persist-file", &persist, "--pidfile", &pid, "--control", &control];
    let _daemon =
        start_daemon(debian_program("usr/sbin/syslog-ng"), &[&arguments[..], &["--module-path", &modules]].concat());
    let stated = send_to_daemon(&dir.path().join("in"));
    all_are_stored(&node, &stated);
}
