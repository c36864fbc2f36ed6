//! A watch of the stub.

use std::path::Path;
use std::time::Duration;

use bucksaw_env::Env;
use bucksaw_fixtures::{KubernetesStub, stub_pod, wait_until};
use bucksaw_kubernetes::{
    ApiAddress, CacheLimits, KubernetesConfig, KubernetesStatus, PodDirectory, WatchTiming, watch_pods,
};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// The node whose pods are watched.
pub(crate) const NODE: &str = "node 1";

pub(crate) struct Watched {
    pub(crate) pods: PodDirectory,
    pub(crate) stop: watch::Sender<bool>,
    pub(crate) task: JoinHandle<()>,
    env: Env,
}

impl Watched {
    pub(crate) fn start(url: &str, credentials: &Path) -> Self {
        let timing = WatchTiming {
            retry_min: Duration::from_millis(5),
            retry_max: Duration::from_millis(50),
            ..WatchTiming::default()
        };
        Self::start_with(url, credentials, timing)
    }

    pub(crate) fn start_with(url: &str, credentials: &Path, timing: WatchTiming) -> Self {
        let config = KubernetesConfig {
            api: ApiAddress::parse(url).unwrap(),
            credentials_dir: credentials.to_owned(),
            node: NODE.to_owned(),
            timing,
        };
        let (pods, env, (stop, stopping)) =
            (PodDirectory::new(CacheLimits::default()), Env::real(), watch::channel(false));
        let task = tokio::spawn(watch_pods(config, pods.clone(), env.clone(), stopping));
        Self { pods, stop, task, env }
    }

    pub(crate) fn status(&self) -> KubernetesStatus {
        self.pods.status(self.env.clock.uptime())
    }

    /// The label `app` of a pod; empty if the pod is unknown.
    pub(crate) fn app(&self, name: &str) -> String {
        let pod = self.pods.find("shop", name, None);
        pod.and_then(|pod| pod.label("app").map(str::to_owned)).unwrap_or_default()
    }

    pub(crate) async fn wait_app(&self, name: &str, want: &str) {
        wait_until(&format!("{name} has the label {want}"), || self.app(name) == want).await;
    }

    /// Waits for a state without error.
    pub(crate) async fn wait_synced(&self) {
        wait_until("the pods are watched", || self.status().is_synced).await;
    }
}

/// Adds or changes a pod of the watched node.
pub(crate) fn put(stub: &KubernetesStub, name: &str, app: &str) {
    stub.put(stub_pod("shop", name, &format!("uid-{name}"), NODE, &[("app", app)]));
}

/// Waits until this number of watches run at the server.
pub(crate) async fn wait_watches(stub: &KubernetesStub, count: usize) {
    wait_until("the watches run", || stub.watches() == count).await;
}
