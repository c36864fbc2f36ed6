//! Who may do what: every path, method, port and protocol refuses clients without the right credential.

mod auth_node;
mod calls;
mod connections;
mod erase;
mod http_table;
mod oidc;
mod tenants;
mod tokens;
