//! What is kept of a pod, and how it is read from JSON.
//!
//! Objects come as the server's `Pod` or as `PartialObjectMetadata`; both have the member `metadata`, and only that is read.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The longest name, namespace or id, in bytes: the longest of Kubernetes.
const NAME_BYTES_MAX: usize = 253;

/// The most labels that are kept of a pod.
const LABELS_MAX: usize = 256;

/// The most bytes of their names and values.
const LABEL_BYTES_MAX: usize = 16 << 10;

/// The longest value of an annotation that is read, in bytes.
const ANNOTATION_BYTES_MAX: usize = 1 << 10;

/// A pod, as far as its logs are concerned.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodMetadata {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its unique id.
    pub uid: String,
    /// Of a static pod the id by which the kubelet names its directory of logs: the API server has another one.
    pub static_uid: Option<String>,
    /// Its labels, sorted by name. At most 256 with 16 KiB.
    pub labels: Vec<(String, String)>,
    /// How many labels are left out because of these limits.
    pub labels_left_out: usize,
    /// The name of the service that an annotation states.
    pub stated_service: Option<String>,
    /// What controls the pod.
    pub owner: Option<PodOwner>,
}

/// What controls a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodOwner {
    /// The group of its kind, such as `apps`.
    pub group: String,
    /// Its kind, such as `ReplicaSet`.
    pub kind: String,
    /// Its name.
    pub name: String,
}

/// An object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidObject {
    /// It is no JSON of the expected form.
    #[error("unexpected JSON: {0}")]
    Json(String),
    /// A pod has no name, namespace or id, or one that is too long.
    #[error("a pod without name, namespace or id")]
    Unnamed,
    /// An event is of a type that is unknown.
    #[error("an event of the type `{0}`")]
    Type(String),
    /// There is no version from which changes can be requested.
    #[error("no resourceVersion")]
    Version,
}

impl From<serde_json::Error> for InvalidObject {
    fn from(error: serde_json::Error) -> Self {
        // The message may quote the input.
        Self::Json(error.to_string().chars().take(200).collect())
    }
}

impl PodMetadata {
    /// The value of a label.
    pub fn label(&self, name: &str) -> Option<&str> {
        let at = self.labels.binary_search_by(|(label, _)| label.as_str().cmp(name)).ok()?;
        self.labels.get(at).map(|(_, value)| value.as_str())
    }

    /// What the pod is a part of, as an attribute of OpenTelemetry's conventions and its value.
    ///
    /// A Deployment owns its pods by a ReplicaSet, which is named after it and the label `pod-template-hash`. A pod that a person
    /// or a controller of another kind made gives `None`.
    ///
    /// ```
    /// # use bucksaw_kubernetes::{PodMetadata, PodOwner};
    /// let owner = PodOwner { group: "apps".into(), kind: "ReplicaSet".into(), name: "cart-7d9f".into() };
    /// let labels = vec![("pod-template-hash".to_owned(), "7d9f".to_owned())];
    /// let pod = PodMetadata { labels, owner: Some(owner), ..PodMetadata::default() };
    /// assert_eq!(pod.workload(), Some(("k8s.deployment.name", "cart")));
    /// ```
    pub fn workload(&self) -> Option<(&'static str, &str)> {
        let PodOwner { group, kind, name } = self.owner.as_ref()?;
        let attribute = match (group.as_str(), kind.as_str()) {
            ("apps", "ReplicaSet") => {
                let hash = self.label("pod-template-hash").filter(|hash| !hash.is_empty());
                let deployment = hash.and_then(|hash| name.strip_suffix(hash)?.strip_suffix('-'));
                match deployment.filter(|name| !name.is_empty()) {
                    Some(deployment) => return Some(("k8s.deployment.name", deployment)),
                    None => "k8s.replicaset.name",
                }
            }
            ("apps", "StatefulSet") => "k8s.statefulset.name",
            ("apps", "DaemonSet") => "k8s.daemonset.name",
            ("batch", "Job") => "k8s.job.name",
            _ => return None,
        };
        Some((attribute, name))
    }

    /// The name of the service that the pod states: by the annotation `resource.opentelemetry.io/service.name`, or else by the
    /// label `app.kubernetes.io/name`.
    pub fn service(&self) -> Option<&str> {
        let stated = self.stated_service.as_deref().filter(|name| !name.is_empty());
        stated.or_else(|| self.label("app.kubernetes.io/name").filter(|name| !name.is_empty()))
    }

    /// Whether the kubelet names this pod's directory of logs by this id.
    pub(crate) fn has_uid(&self, uid: &str) -> bool {
        self.uid == uid || self.static_uid.as_deref() == Some(uid)
    }
}

/// An object with its metadata.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ObjectBody {
    pub(crate) metadata: Option<MetadataBody>,
}

/// The metadata of a pod, of a bookmark or of a list.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct MetadataBody {
    name: Option<String>,
    namespace: Option<String>,
    uid: Option<String>,
    pub(crate) resource_version: Option<String>,
    #[serde(rename = "continue")]
    pub(crate) continue_token: Option<String>,
    labels: Option<BTreeMap<String, Option<String>>>,
    annotations: Option<AnnotationsBody>,
    owner_references: Option<Vec<OwnerBody>>,
}

/// The annotations that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct AnnotationsBody {
    #[serde(rename = "kubernetes.io/config.mirror")]
    mirror: Option<String>,
    #[serde(rename = "resource.opentelemetry.io/service.name")]
    service: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct OwnerBody {
    api_version: Option<String>,
    kind: Option<String>,
    name: Option<String>,
    controller: Option<bool>,
}

impl MetadataBody {
    /// The version, if it can be used in a request.
    pub(crate) fn version(&self) -> Option<String> {
        self.resource_version.clone().filter(|version| !version.is_empty() && version.len() <= NAME_BYTES_MAX)
    }

    /// The pod.
    pub(crate) fn into_pod(self) -> Result<PodMetadata, InvalidObject> {
        let named = |name: Option<String>| {
            name.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX).ok_or(InvalidObject::Unnamed)
        };
        let (namespace, name, uid) = (named(self.namespace)?, named(self.name)?, named(self.uid)?);
        let AnnotationsBody { mirror, service } = self.annotations.unwrap_or_default();
        let (mut labels, mut bytes, mut labels_left_out) = (Vec::new(), 0, 0);
        for (label, value) in self.labels.unwrap_or_default() {
            let value = value.unwrap_or_default();
            let with_this = bytes + label.len() + value.len();
            if labels.len() == LABELS_MAX || with_this > LABEL_BYTES_MAX {
                labels_left_out += 1;
                continue;
            }
            bytes = with_this;
            labels.push((label, value));
        }
        Ok(PodMetadata {
            namespace,
            name,
            uid,
            static_uid: mirror.filter(|uid| !uid.is_empty() && uid.len() <= NAME_BYTES_MAX),
            labels,
            labels_left_out,
            stated_service: service.filter(|service| service.len() <= ANNOTATION_BYTES_MAX),
            owner: self.owner_references.and_then(controller),
        })
    }
}

/// The owner that controls a pod.
fn controller(owners: Vec<OwnerBody>) -> Option<PodOwner> {
    let owner = owners.into_iter().find(|owner| owner.controller == Some(true))?;
    let named = |name: Option<String>| name.filter(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX);
    let version = owner.api_version.unwrap_or_default();
    let group = version.split_once('/').map_or("", |(group, _)| group);
    Some(PodOwner {
        group: group.chars().take(NAME_BYTES_MAX).collect(),
        kind: named(owner.kind)?,
        name: named(owner.name)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<PodMetadata, InvalidObject> {
        let body: ObjectBody = serde_json::from_str(json)?;
        body.metadata.unwrap_or_default().into_pod()
    }

    #[test]
    fn the_metadata_of_a_pod_is_read() {
        let pod = read(
            r#"{"kind":"Pod","metadata":{"name":"cart-7d9f-x","namespace":"shop","uid":"u1","resourceVersion":"7",
            "labels":{"b":"2","a":"1","empty":"","pod-template-hash":"7d9f"},
            "annotations":{"kubernetes.io/config.mirror":"hash","resource.opentelemetry.io/service.name":"till","x":"y"},
            "ownerReferences":[{"kind":"Other","name":"o"},
              {"apiVersion":"apps/v1","kind":"ReplicaSet","name":"cart-7d9f","controller":true}],
            "managedFields":[{"fieldsV1":{"f:a":{}}}]},"spec":{"nodeName":"n"}}"#,
        )
        .unwrap();
        assert_eq!((pod.namespace.as_str(), pod.name.as_str(), pod.uid.as_str()), ("shop", "cart-7d9f-x", "u1"));
        assert_eq!((pod.label("a"), pod.label("empty"), pod.label("c")), (Some("1"), Some(""), None));
        assert_eq!((pod.static_uid.as_deref(), pod.service()), (Some("hash"), Some("till")));
        assert_eq!(pod.workload(), Some(("k8s.deployment.name", "cart")));
    }

    #[test]
    fn owners_name_workloads() {
        let check = |group: &str, kind: &str, name: &str, hash: &str, want: Option<(&str, &str)>| {
            let owner = PodOwner { group: group.to_owned(), kind: kind.to_owned(), name: name.to_owned() };
            let labels = vec![("pod-template-hash".to_owned(), hash.to_owned())];
            let pod = PodMetadata { labels, owner: Some(owner), ..PodMetadata::default() };
            assert_eq!(pod.workload(), want, "{group} {kind} {name}");
        };
        check("apps", "ReplicaSet", "a-b-7d9f", "7d9f", Some(("k8s.deployment.name", "a-b")));
        // No Deployment has made these.
        check("apps", "ReplicaSet", "cart", "7d9f", Some(("k8s.replicaset.name", "cart")));
        check("apps", "ReplicaSet", "cart7d9f", "7d9f", Some(("k8s.replicaset.name", "cart7d9f")));
        check("apps", "ReplicaSet", "-7d9f", "7d9f", Some(("k8s.replicaset.name", "-7d9f")));
        check("apps", "ReplicaSet", "cart-", "", Some(("k8s.replicaset.name", "cart-")));
        check("apps", "StatefulSet", "db", "", Some(("k8s.statefulset.name", "db")));
        check("apps", "DaemonSet", "log", "", Some(("k8s.daemonset.name", "log")));
        check("batch", "Job", "backup-2911", "", Some(("k8s.job.name", "backup-2911")));
        check("batch.example.com", "Job", "x", "", None);
        check("", "Node", "node-1", "", None);
    }

    #[test]
    fn what_is_missing_or_null_is_no_error() {
        let pod = read(
            r#"{"metadata":{"name":"p","namespace":"n","uid":"u","labels":null,"annotations":null,
            "ownerReferences":null,"resourceVersion":null}}"#,
        );
        assert_eq!(
            pod.unwrap(),
            PodMetadata { namespace: "n".into(), name: "p".into(), uid: "u".into(), ..PodMetadata::default() }
        );
        assert_eq!(read(r#"{"metadata":{"name":"p","uid":"u"}}"#), Err(InvalidObject::Unnamed));
        assert_eq!(read(r#"{}"#), Err(InvalidObject::Unnamed));
        assert_eq!(read(&format!(r#"{{"metadata":{{"name":"{}"}}}}"#, "x".repeat(300))), Err(InvalidObject::Unnamed));
        for json in ["", "[1]", "{\"metadata\":3}", r#"{"metadata":{"labels":{"a":1}}}"#] {
            assert!(matches!(read(json), Err(InvalidObject::Json(_))), "{json}");
        }
    }

    #[test]
    fn labels_are_limited() {
        let labels: BTreeMap<String, String> = (0..1_000).map(|at| (format!("l{at:04}"), "x".repeat(at))).collect();
        let json = serde_json::json!({"metadata": {"name": "p", "namespace": "n", "uid": "u", "labels": labels}});
        let pod = read(&json.to_string()).unwrap();
        let bytes: usize = pod.labels.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(pod.labels.len() <= LABELS_MAX && bytes <= LABEL_BYTES_MAX);
        assert_eq!(pod.labels.len() + pod.labels_left_out, 1_000);
    }
}
