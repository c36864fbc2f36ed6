//! `bucksaw config`: checks a configuration file, or shows the resulting settings.

use bucksaw_kafka::ClientOption;
use clap::{Arg, ArgAction, Args, Subcommand};

use crate::exit::Exit;
use crate::failure::UsageError;
use crate::layers::{Layer, Layers, settable, settable_commands};
use crate::print::Out;
use crate::variable::variable;

/// Check the configuration, or show the resulting settings
#[derive(Clone, Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Clone, Debug, Subcommand)]
enum Action {
    /// Check the file named by --config and exit
    Check,
    /// Print the settings in use and the origin of each
    ///
    /// The output is itself a configuration file.
    Show {
        /// Command to show; defaults to all
        #[arg(value_name = "COMMAND")]
        command: Option<String>,
    },
}

pub(crate) fn run(args: ConfigArgs, layers: &Layers) -> anyhow::Result<Exit> {
    // Parsing the arguments has checked the file.
    let Action::Show { command } = args.action else { return Ok(Exit::Done) };
    let mut text = String::new();
    let mut commands = settable_commands(&layers.tree).map(clap::Command::get_name);
    match command {
        None => commands.try_for_each(|name| show(layers, name, &mut text))?,
        Some(name) if commands.any(|known| known == name) => show(layers, &name, &mut text)?,
        Some(name) => {
            let message = format!("`{name}` is not a command with settings: see 'bucksaw --help' for the commands");
            return Err(UsageError(message).into());
        }
    }
    Out::print(text.as_bytes())
}

/// Appends the table of one command.
fn show(layers: &Layers, name: &str, text: &mut String) -> anyhow::Result<()> {
    // Parses the command without arguments, so none may be required.
    let tree = layers.tree.clone().mut_subcommands(|sub| sub.mut_args(|arg| arg.required(false)));
    let matches = tree.try_get_matches_from(["bucksaw", name])?;
    let (Some((_, matches)), Some(command)) = (matches.subcommand(), layers.tree.find_subcommand(name)) else {
        return Ok(());
    };
    if !text.is_empty() {
        text.push('\n');
    }
    text.push_str(&format!("[{name}]\n"));
    for arg in settable(command) {
        let (id, long) = (arg.get_id().as_str(), arg.get_long().unwrap_or_default());
        let origin = match layers.layer(name, matches, id) {
            Layer::Default => "default".to_owned(),
            Layer::File => "file".to_owned(),
            Layer::Environment => variable(name, long),
            Layer::Flag => "flag".to_owned(),
        };
        let values = matches.get_raw(id).into_iter().flatten();
        let values: Vec<String> = values.map(|value| shown(id, &value.to_string_lossy())).collect();
        text.push_str(&match toml_value(arg, &values) {
            Some(value) => format!("{long} = {value} # {origin}\n"),
            None => format!("# {long} is not set\n"),
        });
    }
    Ok(())
}

/// The text of a value, without secrets.
fn shown(id: &str, value: &str) -> String {
    let option = if id == "kafka_option" { ClientOption::parse(value).ok() } else { None };
    option.map_or_else(|| value.to_owned(), |option| option.to_string())
}

/// The values of a flag in TOML, if it has any.
fn toml_value(arg: &Arg, values: &[String]) -> Option<String> {
    let quoted = |value: &String| toml::Value::String(value.clone()).to_string();
    match (arg.get_action(), values) {
        (_, []) => None,
        (ArgAction::SetTrue, [value, ..]) => Some(value.clone()),
        (ArgAction::Append, values) => Some(format!("[{}]", values.iter().map(quoted).collect::<Vec<_>>().join(", "))),
        (_, [value, ..]) => Some(quoted(value)),
    }
}
