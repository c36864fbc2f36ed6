//! `bucksaw token`: makes, lists and revokes the tokens of an auth file.

mod auth_file;
mod expiry;

use std::path::PathBuf;

use anyhow::{Context as _, bail};
use bucksaw_auth::{AccessScope, Principal, new_token};
use bucksaw_record::{Labels, Millis, time};
use clap::{Args, Subcommand};

use crate::exit::Exit;
use crate::failure::print_error;
use crate::print::Out;
use crate::text_table::TextTable;
use crate::values::{ByteSize, all_labels, count};
use auth_file::{AuthFile, NewToken};
use expiry::Expiry;

/// Make, list and revoke the tokens of an auth file
///
/// A node with --auth-file answers only clients with a token of that file, and reads the file again when it changes. All nodes of a
/// cluster need the same file. See docs/security.md.
#[derive(Clone, Debug, Args)]
pub(crate) struct TokenArgs {
    #[command(subcommand)]
    action: TokenAction,
}

/// The auth file.
#[derive(Clone, Debug, Args)]
struct AuthFileArgs {
    /// Auth file of the nodes
    #[arg(long, value_name = "FILE")]
    auth_file: PathBuf,
}

#[derive(Clone, Debug, Subcommand)]
enum TokenAction {
    Add(Box<AddArgs>),
    /// List the tokens, without the tokens themselves: the file has only their digests
    List {
        #[command(flatten)]
        file: AuthFileArgs,
    },
    /// Remove a token: nodes refuse it as soon as they read the file again, within seconds
    Revoke {
        /// Name of the token
        #[arg(value_name = "NAME")]
        name: String,
        #[command(flatten)]
        file: AuthFileArgs,
    },
}

/// Make a token and print it, once
///
/// The file gets the SHA-256 of the token, so the token itself cannot be shown again. Comments in the file are kept.
#[derive(Clone, Debug, Args)]
struct AddArgs {
    /// Name of the token, for lists, logs and the audit trail
    #[arg(value_name = "NAME")]
    name: String,

    #[command(flatten)]
    file: AuthFileArgs,

    /// What the token allows: ingest, read or admin; repeatable
    ///
    /// `ingest` writes records, `read` reads them, `admin` operates nodes.
    #[arg(long = "scope", value_name = "SCOPE", value_delimiter = ',', required = true)]
    scopes: Vec<AccessScope>,

    /// Label that all records get which are written with the token, and that all have which it reads; repeatable
    #[arg(long = "label", value_name = "K=V", value_parser = Labels::parse)]
    labels: Vec<Labels>,

    /// Tenant that requests with the token may choose by the header X-Scope-OrgID; repeatable
    #[arg(long = "tenant", value_name = "NAME", value_delimiter = ',')]
    tenants: Vec<String>,

    /// When the token expires: after a time such as 90d, or at a time such as 2030-01-01T00:00:00Z
    #[arg(long, value_name = "WHEN")]
    expires: Option<Expiry>,

    /// The most text that a node accepts with the token, per second
    #[arg(long, value_name = "SIZE")]
    bytes_per_second: Option<ByteSize>,

    /// The most queries with the token at the same time, at one node
    #[arg(long, value_name = "N", value_parser = count)]
    queries_max: Option<u64>,

    /// Whether the digest of the token is also a password of Fluentd's forward protocol
    ///
    /// That protocol needs a password that the node knows. With this, who reads the auth file can send as this token by Fluentd.
    #[arg(long)]
    fluentd: bool,
}

pub(crate) fn run(args: TokenArgs) -> anyhow::Result<Exit> {
    match args.action {
        TokenAction::Add(args) => add(*args),
        TokenAction::List { file } => list(&file),
        TokenAction::Revoke { name, file } => revoke(&name, &file),
    }
}

fn add(args: AddArgs) -> anyhow::Result<Exit> {
    let mut file = AuthFile::open_or_new(&args.file.auth_file)?;
    let mut random = [0; 32];
    getrandom::fill(&mut random).context("the system gives no random numbers")?;
    let token = new_token(random);
    let new = NewToken {
        name: &args.name,
        token: &token,
        scopes: &args.scopes,
        labels: all_labels(&args.labels)?,
        tenants: &args.tenants,
        expires: args.expires.map(|expires| expires.at(now())),
        bytes_per_second: args.bytes_per_second.map(|bytes| bytes.0),
        queries_max: args.queries_max,
        fluentd: args.fluentd,
    };
    file.add(&new)?;
    file.write()?;
    if args.fluentd {
        print_error(&format!(
            "for Fluentd: user name {}, password: the SHA-256 of the token in hexadecimal digits, as in 'printf %s TOKEN | sha256sum'",
            args.name
        ));
    }
    Out::print(format!("{}\n", token.expose()).as_bytes())
}

fn list(file: &AuthFileArgs) -> anyhow::Result<Exit> {
    let rules = AuthFile::open(&file.auth_file)?.rules()?;
    let mut table = TextTable::new(vec!["name", "scopes", "labels", "tenants", "expires", "limits"]);
    for principal in rules.tokens() {
        let labels = (!principal.labels.is_empty()).then(|| principal.labels.to_string());
        let tenants = (!principal.tenants.is_empty()).then(|| principal.tenants.join(","));
        let (name, scopes) = (principal.name.clone(), principal.scopes.to_string());
        table.push(vec![Some(name), Some(scopes), labels, tenants, expires(principal), limits(principal)]);
    }
    Out::print(table.to_string().as_bytes())
}

fn expires(principal: &Principal) -> Option<String> {
    let at = principal.expires?;
    let shown = time::format_rfc3339(at, 0);
    Some(if now() >= at { format!("{shown} (expired)") } else { shown })
}

fn limits(principal: &Principal) -> Option<String> {
    let limits = principal.limits;
    let bytes = limits.bytes_per_second.map(|bytes| format!("{bytes} bytes/s"));
    let queries = limits.queries_max.map(|queries| format!("{queries} queries"));
    let all: Vec<String> = bytes.into_iter().chain(queries).collect();
    (!all.is_empty()).then(|| all.join(", "))
}

fn revoke(name: &str, file: &AuthFileArgs) -> anyhow::Result<Exit> {
    let mut auth_file = AuthFile::open(&file.auth_file)?;
    if !auth_file.revoke(name)? {
        bail!("{} has no token {name}: see 'bucksaw token list'", file.auth_file.display());
    }
    auth_file.write()?;
    Ok(Exit::Done)
}

fn now() -> Millis {
    Millis(bucksaw_env::Env::real().clock.unix_ms())
}
