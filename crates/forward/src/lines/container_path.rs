//! What the path of a log file says about its container.
//!
//! ```text
//!   …/var/log/pods/<namespace>_<pod>_<uid>/<container>/<restarts>.log
//!   …/var/log/containers/<pod>_<namespace>_<container>-<container id>.log      a link to a file below var/log/pods
//!   …/var/lib/docker/containers/<container id>/<container id>-json.log
//! ```
//! The directories may be mounted anywhere, as in an agent that itself runs in a container.

use std::path::Path;

/// A pod of Kubernetes by its names.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodRef {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub pod: String,
}

/// A container, as far as the path of its log names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerRef {
    /// The pod to which it belongs.
    pub pod: Option<PodRef>,
    /// The unique id of the pod; of a static pod a hash.
    pub pod_uid: Option<String>,
    /// Its name in the pod.
    pub container: Option<String>,
    /// Its id at the runtime.
    pub container_id: Option<String>,
}

impl ContainerRef {
    /// The container of a log file; `None` if the file is in none of the directories.
    ///
    /// ```
    /// # use bucksaw_forward::ContainerRef;
    /// let container = ContainerRef::of_path("/var/log/pods/shop_cart-7d9f_b3c1/web/0.log".as_ref()).unwrap();
    /// assert_eq!(container.pod.unwrap().namespace, "shop");
    /// assert_eq!(container.container.as_deref(), Some("web"));
    /// ```
    pub fn of_path(path: &Path) -> Option<Self> {
        let parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
        let below = |directory: &[&str]| {
            let at = parts.windows(directory.len()).position(|window| window == directory)?;
            parts.get(at + directory.len()..).filter(|rest| !rest.is_empty())
        };
        if let Some(rest) = below(&["var", "log", "pods"]) {
            return Some(Self::of_pod_directory(rest));
        }
        if let Some(rest) = below(&["var", "lib", "docker", "containers"]) {
            let container_id = rest.first().filter(|_| rest.len() > 1).cloned();
            return Some(Self { container_id, ..Self::default() });
        }
        below(&["var", "log", "containers"]).map(|rest| rest.last().map(|name| Self::of_link(name)).unwrap_or_default())
    }

    /// This container, completed by what another path of its log says.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            pod: self.pod.or(other.pod),
            pod_uid: self.pod_uid.or(other.pod_uid),
            container: self.container.or(other.container),
            container_id: self.container_id.or(other.container_id),
        }
    }

    fn of_pod_directory(rest: &[String]) -> Self {
        let [pod, inner @ ..] = rest else { return Self::default() };
        // Names of namespaces and pods have no underscore.
        let mut names = pod.splitn(3, '_').map(str::to_owned);
        let (Some(namespace), Some(pod), pod_uid) = (names.next(), names.next(), names.next()) else {
            return Self::default();
        };
        let container = inner.first().filter(|_| inner.len() > 1).cloned();
        Self { pod: Some(PodRef { namespace, pod }), pod_uid, container, container_id: None }
    }

    fn of_link(name: &str) -> Self {
        let mut names = name.splitn(3, '_');
        let (Some(pod), Some(namespace), Some(rest)) = (names.next(), names.next(), names.next()) else {
            return Self::default();
        };
        let rest = rest.split_once(".log").map_or(rest, |(name, _)| name);
        let is_id = |id: &str| !id.is_empty() && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (container, container_id) = match rest.rsplit_once('-').filter(|(_, id)| is_id(id)) {
            Some((container, id)) => (container, Some(id.to_owned())),
            None => (rest, None),
        };
        let pod = PodRef { namespace: namespace.to_owned(), pod: pod.to_owned() };
        Self { pod: Some(pod), pod_uid: None, container: Some(container.to_owned()), container_id }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `namespace/pod/uid/container/id`, with `-` for what is missing.
    fn show(path: &str) -> String {
        let Some(found) = ContainerRef::of_path(Path::new(path)) else { return "none".to_owned() };
        let or = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let (namespace, pod) = found.pod.map(|pod| (pod.namespace, pod.pod)).unzip();
        [or(namespace), or(pod), or(found.pod_uid), or(found.container), or(found.container_id)].join("/")
    }

    #[test]
    fn paths_name_containers() {
        let check = |path: &str, want: &str| assert_eq!(show(path), want, "{path}");
        check("/var/log/pods/shop_cart-7d9f_b3c1-22/web/0.log", "shop/cart-7d9f/b3c1-22/web/-");
        check("/host/var/log/pods/shop_cart_b3/web/1.log.20261124-101112", "shop/cart/b3/web/-");
        check("/var/log/pods/shop_cart/0.log", "shop/cart/-/-/-");
        check("/var/log/pods/odd/0.log", "-/-/-/-/-");
        check("/var/log/containers/cart-7d9f_shop_web-0123abcdef.log", "shop/cart-7d9f/-/web/0123abcdef");
        check("/var/log/containers/cart_shop_my-web.log", "shop/cart/-/my-web/-");
        check("/var/log/containers/odd.log", "-/-/-/-/-");
        check("/var/lib/docker/containers/0a1b/0a1b-json.log", "-/-/-/-/0a1b");
        check("/var/log/pods", "none");
        check("/var/log/podsx/a_b_c/d/0.log", "none");
        check("/var/log/syslog", "none");
        check("", "none");
    }

    #[test]
    fn paths_complete_each_other() {
        let link = ContainerRef::of_path(Path::new("/var/log/containers/cart_shop_web-0a.log")).unwrap();
        let target = ContainerRef::of_path(Path::new("/var/log/pods/shop_cart_b3/web/0.log")).unwrap();
        let both = link.or(target);
        assert_eq!((both.pod_uid.as_deref(), both.container_id.as_deref()), (Some("b3"), Some("0a")));
    }
}
