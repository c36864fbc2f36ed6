//! Files as a layer. `tests/it` tests the precedence of flags, variables and files in the program.

use clap::Command;

use super::*;
use crate::cli;

fn with_text(text: &str) -> Result<Layers, String> {
    cli::tree().with_text(text, "x.toml").map_err(|error| format!("{error:#}"))
}

/// The values of a flag when nothing is on the command line.
fn values(layers: &Layers, command: &str, id: &str) -> Vec<String> {
    let tree = layers.tree.clone().mut_subcommands(|sub| sub.mut_args(|arg| arg.env(None::<&str>)));
    let matches = tree.try_get_matches_from(["bucksaw", command]).unwrap();
    let (_, matches) = matches.subcommand().unwrap();
    let raw = matches.get_raw(id).into_iter().flatten();
    raw.map(|value| value.to_str().unwrap().to_owned()).collect()
}

#[test]
fn files_set_defaults() {
    let check = |text: &str, command: &str, id: &str, want: &[&str]| {
        assert_eq!(values(&with_text(text).unwrap(), command, id), want, "{text}");
    };
    check("", "serve", "data_dir", &["./bucksaw-data"]);
    check("data-dir = '/a'", "serve", "data_dir", &["/a"]);
    check("data_dir = '/a'", "serve", "data_dir", &["/a"]);
    check("data_dir = '/a'\n[serve]\ndata-dir = '/b'", "serve", "data_dir", &["/b"]);
    check("[serve]\njoin = ['a:1', 'b:2']", "serve", "join", &["a:1", "b:2"]);
    check("[serve]\njoin = 'a:1,b:2'", "serve", "join", &["a:1", "b:2"]);
    check("[serve]\nlisten = ''", "serve", "listen", &[""]);
    check("[serve]\nsegment-max-bytes = 65536", "serve", "segment_max_bytes", &["65536"]);
    check("[query]\nfrom = 2026-11-20T23:10:00Z", "query", "from", &["2026-11-20T23:10:00Z"]);
    check("[query]\nstats = true", "query", "stats", &["true"]);
    check("[query]\nstats = false", "query", "stats", &["false"]);
    // A flag that needs another, and one that also excludes another.
    check("[plan]\ncpu-period = '50ms'", "plan", "cpu_period", &["50ms"]);
    check("[plan]\nstore-nodes = 3", "plan", "store_nodes", &["3"]);
    check("[generate]\nrate = 0.5", "generate", "rate", &["0.5"]);
    check("addr = 'http://a'", "tail", "addr", &["http://a"]);
    // The range of queries is not the history of a tail.
    check("since = '2h'", "query", "since", &["2h"]);
    check("since = '2h'", "tail", "since", &[]);
    check("[tail]\nsince = '2h'", "tail", "since", &["2h"]);
    check("[query]\naddr = 'http://a'", "tail", "addr", &["http://127.0.0.1:7650"]);
}

#[test]
fn errors_in_files_are_reported() {
    let check = |text: &str, want: &str| {
        let got = with_text(text).expect_err(text);
        assert!(got.starts_with("x.toml") && got.contains(want) && !got.contains('\n'), "{text}\n  {got}");
    };
    check("a", "x.toml:1: this is not TOML: ");
    check("addr = 'http://a'\n\n[serve\n", "x.toml:3: this is not TOML: ");
    check("data-dri = '/a'", "no command has a flag --data-dri: did you mean `data-dir`?");
    check("serv = 1", "did you mean `serve`?");
    check("zzz = 1", "no command has a flag --zzz: see docs/config.md");
    check("help = true", "no command has a flag --help");
    check("config = 'y.toml'", "no command has a flag --config");
    check("[sevre]", "[sevre] is not the name of a command with flags: did you mean `serve`?");
    check("[completions]", "[completions] is not the name of a command with flags");
    check(
        "[serve]\nretention_ages = '1d'",
        "`bucksaw serve` has no flag --retention-ages: did you mean `retention-age`?",
    );
    check("[serve]\nqueyr = 1", "`bucksaw serve` has no flag --queyr: see docs/config.md");
    check("[serve]\ndata-dir = 'a'\ndata_dir = 'b'", "twice");
    check("[query]\nstats = 1", "expected true or false");
    check("[serve]\nlisten = true", "expected a text or a number");
    check("[serve]\nlisten = ['a:1']", "expected one value, found a list");
    check("[serve]\njoin = [['a:1']]", "expected one value, found a list");
    check("[serve]\nlisten = 'nowhere'", "`listen` of `bucksaw serve`: --listen 'nowhere': expected HOST:PORT");
    check("[serve]\nreplication_factor = 0", "expected a whole number from 1 to 64");
    check("count = 5", "`bucksaw query` too; use a table [COMMAND]");
    check("[query]\naddr = 'ftp://a'", "expected the address of a node");
}

#[test]
fn help_does_not_change_its_order() {
    let names = |layers: &Layers| -> Vec<String> {
        let commands = layers.tree.get_subcommands();
        commands.flat_map(Command::get_arguments).map(|arg| arg.get_id().to_string()).collect()
    };
    assert_eq!(names(&cli::tree()), names(&with_text("addr = 'http://a'\n[serve]\nlisten = 'a:1'").unwrap()));
}
