//! Flags of the labels of pods.

use std::path::PathBuf;
use std::time::Duration;

use bucksaw_forward::{PodLabelChoice, PodLabelConfig};
use bucksaw_kubernetes::{
    ApiAddress, CREDENTIALS_DIR, CacheLimits, InvalidApiAddress, KubernetesConfig, PodDirectory, WatchTiming,
};
use clap::Args;

use crate::failure::UsageError;
use crate::values::machine_name;

/// The variable with the name of the Kubernetes node.
const NODE_VARIABLE: &str = "NODE_NAME";

/// How long the first lines of a pod wait for its labels.
const LABEL_WAIT: Duration = Duration::from_secs(5);

/// Whether and how records get the labels of their pods.
#[derive(Clone, Debug, Args)]
pub(crate) struct KubernetesArgs {
    /// Label records of pods with the labels and the workload of their pod, by watching the API server of Kubernetes
    ///
    /// For files below /var/log/pods and /var/log/containers. See docs/containers.md.
    #[arg(long)]
    kubernetes: bool,

    /// API server to watch, if it is not that of the cluster in which the agent runs; turns --kubernetes on
    ///
    /// http:// is for this machine only, as with `kubectl proxy`.
    #[arg(long, value_name = "URL", value_parser = ApiAddress::parse)]
    kubernetes_api: Option<ApiAddress>,

    /// Labels of pods that records get, such as app or app.kubernetes.io/*; none if empty
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "*")]
    kubernetes_labels: Vec<String>,

    /// Node whose pods are watched, and label k8s.node.name of their records
    ///
    /// Defaults to the variable NODE_NAME, which the manifest of an agent sets, or else to the name of this machine.
    #[arg(long, value_name = "NAME")]
    kubernetes_node: Option<String>,

    /// Directory with the files token and ca.crt, which are read again when they change
    #[arg(long, value_name = "DIR", default_value = CREDENTIALS_DIR)]
    kubernetes_credentials: PathBuf,
}

impl KubernetesArgs {
    /// Whether pods are watched.
    pub(super) fn is_on(&self) -> bool {
        self.kubernetes || self.kubernetes_api.is_some()
    }

    /// The name of the node. An agent in a pod has the host name of the pod.
    pub(super) fn node(&self) -> String {
        let named = self.kubernetes_node.clone().or_else(|| std::env::var(NODE_VARIABLE).ok());
        named.filter(|name| !name.is_empty()).unwrap_or_else(machine_name)
    }

    /// What to watch and which labels to take; `None` if pods are not watched.
    pub(super) fn config(&self) -> anyhow::Result<Option<(KubernetesConfig, PodLabelConfig)>> {
        if !self.is_on() {
            return Ok(None);
        }
        let api = self.kubernetes_api.clone().map_or_else(own_server, Ok);
        let api = api.map_err(|error| {
            UsageError(format!("--kubernetes: {error}: name the server by --kubernetes-api, or run the agent in a pod"))
        })?;
        let kubernetes = KubernetesConfig {
            api,
            credentials_dir: self.kubernetes_credentials.clone(),
            node: self.node(),
            timing: WatchTiming::default(),
        };
        let choice = PodLabelChoice::new(self.kubernetes_labels.iter().map(String::as_str));
        let pods = PodDirectory::new(CacheLimits::default());
        Ok(Some((kubernetes, PodLabelConfig { pods, choice, wait: LABEL_WAIT })))
    }
}

/// The server of the cluster in which the process runs.
fn own_server() -> Result<ApiAddress, InvalidApiAddress> {
    let [host, port] = ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"].map(|name| std::env::var(name).ok());
    ApiAddress::in_cluster(host.as_deref(), port.as_deref())
}
