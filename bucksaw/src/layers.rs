//! Merges the layers of the configuration: flag over environment over file over default.
//!
//! Every long flag has one name in three spellings: `--retention-age`, the variable `BUCKSAW_RETENTION_AGE`, and the
//! key `retention-age` (or `retention_age`) of the TOML file that `--config` names. A key at the top of the file
//! applies to every command with that flag, a key in a table named after a command only to that command, with
//! precedence:
//!
//! ```toml
//! addr = "http://logs.example.com:7650"   # query, tail and status
//! [serve]
//! data-dir = "/var/lib/bucksaw"
//! join = ["10.0.0.1:7659", "10.0.0.2:7659"]
//! ```
//! Values of the file become the defaults of their flags before the arguments are parsed, so the parser applies the
//! precedence. All values are checked, also for other commands.

use std::collections::BTreeSet;
use std::path::Path;

use anyhow::{Context, anyhow, bail};
use bucksaw_env::{Fs, real};
use clap::builder::Resettable;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};
use toml::{Table, Value};

use crate::argument_error;
use crate::values::switch;
use crate::variable::{is_own, variable};

/// Largest file in bytes, a thousand times what one needs.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// The origin of a value, lowest precedence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Layer {
    Default,
    File,
    Environment,
    Flag,
}

/// The commands and their flags, with the values of a file as defaults.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    pub(crate) tree: Command,
    /// The flags that the file sets, by command and id.
    filed: BTreeSet<(String, String)>,
}

/// The flags of a command that have a variable and a key: all but help.
pub(crate) fn settable(command: &Command) -> impl Iterator<Item = &Arg> {
    command.get_arguments().filter(|arg| is_settable(arg))
}

/// The commands with such flags.
pub(crate) fn settable_commands(tree: &Command) -> impl Iterator<Item = &Command> {
    tree.get_subcommands().filter(|command| settable(command).next().is_some())
}

fn is_settable(arg: &Arg) -> bool {
    let says_something = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append | ArgAction::SetTrue);
    arg.get_long().is_some() && says_something
}

impl Layers {
    /// The commands with the environment variable of every flag.
    pub(crate) fn new(tree: Command) -> Self {
        Self { tree: with_variables(tree), filed: BTreeSet::new() }
    }

    /// Makes the values of a file the defaults of their flags. Fails on unknown keys and wrong values.
    pub(crate) fn with_file(self, path: &Path) -> anyhow::Result<Self> {
        let text = read(path).with_context(|| format!("cannot read the configuration file {}", path.display()))?;
        self.with_text(&text, &path.display().to_string())
    }

    fn with_text(mut self, text: &str, name: &str) -> anyhow::Result<Self> {
        let file: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
            let line = before.matches('\n').count() + 1;
            anyhow!("{name}:{line}: this is not TOML: {}", error.message().replace('\n', " "))
        })?;
        let (tables, top): (Vec<_>, Vec<_>) = file.iter().partition(|(_, value)| value.is_table());
        for (key, value) in top {
            self.set_everywhere(key, value).with_context(|| name.to_owned())?;
        }
        for (command, table) in tables {
            self.set_table(command, table).with_context(|| name.to_owned())?;
        }
        Ok(self)
    }

    /// The origin of the value of a flag.
    pub(crate) fn layer(&self, command: &str, matches: &ArgMatches, id: &str) -> Layer {
        match matches.value_source(id) {
            Some(ValueSource::CommandLine) => Layer::Flag,
            Some(ValueSource::EnvVariable) => Layer::Environment,
            _ if self.filed.contains(&(command.to_owned(), id.to_owned())) => Layer::File,
            _ => Layer::Default,
        }
    }

    /// Sets a flag of every command that has it.
    fn set_everywhere(&mut self, key: &str, value: &Value) -> anyhow::Result<()> {
        let long = key.replace('_', "-");
        let commands = || self.tree.get_subcommands();
        let having: Vec<String> = commands()
            .filter(|command| !is_own(command.get_name(), &long))
            .filter(|command| settable(command).any(|arg| arg.get_long() == Some(&long)))
            .map(|command| command.get_name().to_owned())
            .collect();
        if having.is_empty() {
            let flags = commands().flat_map(settable).filter_map(Arg::get_long);
            let tables = settable_commands(&self.tree).map(Command::get_name);
            bail!("no command has a flag --{long}: {}", advice(key, flags.chain(tables)));
        }
        for command in having {
            self.set(&command, &long, key, value).with_context(|| {
                format!("`{key}` is above all tables and applies to `bucksaw {command}` too; use a table [COMMAND]")
            })?;
        }
        Ok(())
    }

    fn set_table(&mut self, name: &str, table: &Value) -> anyhow::Result<()> {
        let Some(command) = settable_commands(&self.tree).find(|command| command.get_name() == name) else {
            let names = settable_commands(&self.tree).map(Command::get_name);
            bail!("[{name}] is not the name of a command with flags: {}", advice(name, names));
        };
        let flags: Vec<String> = settable(command).filter_map(Arg::get_long).map(str::to_owned).collect();
        let mut seen = BTreeSet::new();
        for (key, value) in table.as_table().into_iter().flatten() {
            let long = key.replace('_', "-");
            if !flags.contains(&long) {
                bail!("`bucksaw {name}` has no flag --{long}: {}", advice(key, flags.iter().map(String::as_str)));
            }
            if !seen.insert(long.clone()) {
                bail!("[{name}] has `{long}` twice, with a dash and with an underscore: omit one of them");
            }
            self.set(name, &long, key, value)?;
        }
        Ok(())
    }

    /// Makes a value the default of one flag of one command.
    fn set(&mut self, command: &str, long: &str, key: &str, value: &Value) -> anyhow::Result<()> {
        let flags = self.tree.find_subcommand(command).into_iter().flat_map(settable);
        let found = flags.filter(|arg| arg.get_long() == Some(long)).last().cloned();
        let arg = found.with_context(|| format!("`bucksaw {command}` has no flag --{long}"))?;
        let checked = texts(&arg, value).and_then(|values| {
            values.iter().try_for_each(|text| try_value(&arg, long, text))?;
            Ok(values)
        });
        let values = checked.with_context(|| format!("`{key}` of `bucksaw {command}`"))?;
        let id = arg.get_id().clone();
        self.filed.insert((command.to_owned(), id.to_string()));
        let set = |arg: Arg| if *arg.get_id() == id { arg.default_values(values.clone()) } else { arg };
        // `mut_subcommand` and `mut_arg` would move it to the end of the help.
        self.tree = std::mem::take(&mut self.tree)
            .mut_subcommands(|sub| if sub.get_name() == command { sub.mut_args(set) } else { sub });
        Ok(())
    }
}

fn with_variables(command: Command) -> Command {
    let of = command.get_name().to_owned();
    let with_variable = |arg: Arg| {
        let Some(name) = arg.get_long().filter(|_| is_settable(&arg)).map(|long| variable(&of, long)) else {
            return arg;
        };
        let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
        let arg = if is_switch { arg.value_parser(switch) } else { arg };
        arg.env(name).hide_env(true)
    };
    command.mut_args(with_variable).mut_subcommands(with_variables)
}

fn read(path: &Path) -> anyhow::Result<String> {
    let file = real::Fs.open(path)?;
    let size = file.size()?;
    if size > FILE_BYTES_MAX {
        bail!("it has {size} bytes, {FILE_BYTES_MAX} are allowed: is it the right file?");
    }
    let mut bytes = vec![0; usize::try_from(size)?];
    file.read_exact_at(0, &mut bytes)?;
    String::from_utf8(bytes).context("it is not UTF-8")
}

/// A value of the file as texts of the command line; several only for a repeatable flag.
fn texts(arg: &Arg, value: &Value) -> anyhow::Result<Vec<String>> {
    let switch = matches!(arg.get_action(), ArgAction::SetTrue);
    match value {
        Value::Boolean(on) if switch => Ok(vec![on.to_string()]),
        _ if switch => bail!("expected true or false"),
        Value::Array(list) if matches!(arg.get_action(), ArgAction::Append) => list.iter().map(text).collect(),
        value => Ok(vec![text(value)?]),
    }
}

fn text(value: &Value) -> anyhow::Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Integer(number) => Ok(number.to_string()),
        Value::Float(number) => Ok(number.to_string()),
        Value::Datetime(time) => Ok(time.to_string()),
        Value::Boolean(_) => bail!("expected a text or a number, found true or false"),
        Value::Array(_) => bail!("expected one value, found a list"),
        Value::Table(_) => bail!("expected one value, found a table"),
    }
}

/// Checks one value by parsing it as the only argument, without the flags that it needs or excludes.
fn try_value(arg: &Arg, long: &str, text: &str) -> anyhow::Result<()> {
    if matches!(arg.get_action(), ArgAction::SetTrue) {
        return Ok(());
    }
    let arg = arg.clone().env(None::<&str>).requires(Resettable::Reset).conflicts_with(Resettable::Reset);
    let alone = Command::new("bucksaw").no_binary_name(true).arg(arg);
    match alone.try_get_matches_from([format!("--{long}={text}")]) {
        Ok(_) => Ok(()),
        Err(error) => bail!(argument_error::describe(&error, None)),
    }
}

/// Suggests a similar name, or the list of all.
fn advice<'a>(given: &str, names: impl Iterator<Item = &'a str>) -> String {
    let given = given.replace('_', "-");
    let near = names
        .map(|name| (strsim::damerau_levenshtein(&given, name), name))
        .filter(|(distance, name)| *distance <= 1 + name.len() / 4)
        .min();
    near.map_or_else(|| "see docs/config.md for all keys".to_owned(), |(_, name)| format!("did you mean `{name}`?"))
}

#[cfg(test)]
mod tests;
