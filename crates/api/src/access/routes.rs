//! Routes with their rules.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::routing::MethodRouter;

use super::route_rule::RouteRule;
use super::{AccessCheck, ErrorForm, RouteAccess};
use crate::app::App;

/// Routes that each have a rule.
#[derive(Debug, Default)]
pub(crate) struct Routes {
    router: Router<App>,
    rules: BTreeMap<&'static str, RouteRule>,
}

impl Routes {
    /// Adds a route of Bucksaw's own API.
    pub(crate) fn route(self, path: &'static str, access: RouteAccess, handler: MethodRouter<App>) -> Self {
        self.route_of(ErrorForm::Json, path, access, handler)
    }

    /// Adds a route of a protocol.
    pub(crate) fn route_of(
        mut self,
        form: ErrorForm,
        path: &'static str,
        access: RouteAccess,
        handler: MethodRouter<App>,
    ) -> Self {
        self.rules.insert(path, RouteRule { access, form });
        Self { router: self.router.route(path, handler), rules: self.rules }
    }

    /// Adds all routes of another set.
    pub(crate) fn merge(mut self, other: Self) -> Self {
        self.rules.extend(other.rules);
        Self { router: self.router.merge(other.router), rules: self.rules }
    }

    /// The paths with their rules.
    pub(crate) fn list(&self) -> impl Iterator<Item = (&'static str, RouteAccess)> {
        self.rules.iter().map(|(path, rule)| (*path, rule.access))
    }

    /// The router, and the check of the rules for a layer around it.
    pub(crate) fn with_check(self, app: &App, listener: &'static str) -> (Router<App>, Arc<AccessCheck>) {
        (self.router, Arc::new(AccessCheck::new(app, listener, self.rules)))
    }
}
