//! What holds for all commands, and the document that is written from them.

mod examples;
mod flags;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use clap::{Arg, ArgAction, Command as Tree};

use crate::layers::settable;
use crate::variable::variable;

/// The commands as they are parsed, with the parts that the parser adds.
fn tree() -> Tree {
    let mut tree = super::tree().tree;
    tree.build();
    tree
}

fn all(tree: &Tree) -> Vec<&Tree> {
    std::iter::once(tree).chain(tree.get_subcommands().flat_map(all)).collect()
}

#[test]
fn the_tree_is_sound() {
    super::tree().tree.debug_assert();
}

#[test]
fn every_flag_is_explained_and_has_a_variable() {
    let tree = tree();
    for command in all(&tree).into_iter().filter(|command| command.get_name() != "help") {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for arg in command.get_arguments().filter(|arg| arg.get_long() != Some("help")) {
            let (name, help) = (arg.get_id(), arg.get_help().map(ToString::to_string));
            assert!(help.is_some_and(|help| !help.is_empty()), "{name}");
            if arg.get_long().is_some() && arg.get_long() != Some("version") {
                let wanted = variable(command.get_name(), arg.get_long().unwrap());
                assert_eq!(arg.get_env().and_then(|env| env.to_str()), Some(wanted.as_str()), "{name}");
                assert!(wanted.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_'), "{wanted}");
            }
        }
    }
}

#[test]
fn no_variable_is_a_switch_here_and_a_value_there() {
    let tree = tree();
    let mut switches = BTreeMap::new();
    for command in tree.get_subcommands() {
        for arg in settable(command) {
            let variable = variable(command.get_name(), arg.get_long().unwrap());
            let switch = matches!(arg.get_action(), ArgAction::SetTrue);
            assert_eq!(*switches.entry(variable.clone()).or_insert(switch), switch, "{variable}");
        }
    }
}

#[test]
fn no_key_is_also_the_name_of_a_command() {
    let tree = tree();
    let commands: BTreeSet<&str> = tree.get_subcommands().map(Tree::get_name).collect();
    let keys = tree.get_subcommands().flat_map(settable).filter_map(Arg::get_long).filter(|long| *long != "config");
    assert_eq!(keys.filter(|key| commands.contains(key)).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_document_is_fresh() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/config.md");
    let want = document();
    if std::env::var_os("UPDATE").is_some() {
        #[expect(clippy::disallowed_methods, reason = "the document is no file of a node")]
        std::fs::write(&path, &want).unwrap();
    }
    let have = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(have == want, "docs/config.md is stale: run `UPDATE=1 cargo test -p bucksaw`");
}

const INTRODUCTION: &str = "\
# Configuration

Every flag is also an environment variable and a key of the TOML file that `--config` (or `BUCKSAW_CONFIG`) names.
A flag wins over a variable, a variable over the file, the file over the default.
A key at the top of the file applies to every command that has such a flag; a key in a table named after a command applies to that command, and wins.
A flag whose variable is named after its command, as `BUCKSAW_TAIL_SINCE`, has its key in the table of that command only.
Dashes and underscores are the same in keys.
A key that no command knows is an error, and so is a value that its flag does not take.
Lists are arrays in the file and have commas between their values in a variable.
Switches are `true` or `false`, in a variable also `1` or `0`.
Sizes are bytes, or numbers with `K`, `M`, `G` or `T` (also `KB`, `KiB` and so on), which are powers of 1024.
Ages and other durations are numbers with `ms`, `s`, `m`, `h`, `d` or `w`, as in `1h30m` or `1.5h`; [times.md](times.md) has all forms of times.

```toml
addr = \"http://logs.example.com:7650\" # for query, tail and status

[serve]
data-dir = \"/var/lib/bucksaw\"
join = [\"10.0.0.1:7659\", \"10.0.0.2:7659\"]
retention-age = \"30d\"
```

`bucksaw config check` checks a file, `bucksaw config show` prints the settings in use and where each came from.

This page is written from the program by a test; `UPDATE=1 cargo test -p bucksaw` writes it anew.
";

fn document() -> String {
    let tree = super::tree().tree;
    let mut text = INTRODUCTION.to_owned();
    for command in tree.get_subcommands().filter(|command| settable(command).next().is_some()) {
        let name = command.get_name();
        write!(text, "\n## bucksaw {name}\n\n{}.\n\n", command.get_about().unwrap()).unwrap();
        text.push_str("| flag | variable | key | default | meaning |\n| --- | --- | --- | --- | --- |\n");
        for arg in settable(command) {
            let long = arg.get_long().unwrap();
            let short = arg.get_short().map(|short| format!("`-{short}`, ")).unwrap_or_default();
            let value = match arg.get_value_names() {
                Some([name, ..]) if !matches!(arg.get_action(), ArgAction::SetTrue) => format!(" {name}"),
                _ => String::new(),
            };
            writeln!(
                text,
                "| {short}`--{long}{value}` | `{}` | `{long}` | {} | {} |",
                variable(name, long),
                default(arg),
                meaning(arg)
            )
            .unwrap();
        }
    }
    text
}

fn default(arg: &Arg) -> String {
    let values: Vec<&str> = arg.get_default_values().iter().map(|value| value.to_str().unwrap()).collect();
    match (values.as_slice(), arg.get_action()) {
        ([], ArgAction::SetTrue) => "`false`".to_owned(),
        ([], _) => String::new(),
        (values, _) => format!("`{}`", values.join(",")),
    }
}

fn meaning(arg: &Arg) -> String {
    let mut meaning = arg.get_long_help().or(arg.get_help()).unwrap().to_string();
    meaning = meaning.split("\n\n").map(str::trim).collect::<Vec<_>>().join(". ").replace('\n', " ");
    let possible = arg.get_possible_values();
    let names: Vec<String> = possible.iter().map(|value| format!("`{}`", value.get_name())).collect();
    let is_explained = names.iter().all(|name| meaning.contains(name));
    if !is_explained && !arg.is_hide_possible_values_set() && !matches!(arg.get_action(), ArgAction::SetTrue) {
        meaning = format!("{}: {}", meaning.trim_end_matches('.'), names.join(", "));
    }
    meaning.replace('|', "\\|")
}
