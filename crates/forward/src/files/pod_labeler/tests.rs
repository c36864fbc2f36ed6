use bucksaw_kubernetes::{CacheLimits, PodDirectory, PodMetadata, PodOwner};
use bucksaw_record::Labels;

use super::*;
use crate::PodLabelChoice;

const WAIT: Duration = Duration::from_secs(5);
const PATH: &str = "/var/log/pods/shop_cart-7d9f-x_u1/web/0.log";

fn pod(uid: &str, labels: &[(&str, &str)]) -> PodMetadata {
    let mut labels: Vec<(String, String)> =
        labels.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    labels.sort();
    PodMetadata {
        namespace: "shop".to_owned(),
        name: "cart-7d9f-x".to_owned(),
        uid: uid.to_owned(),
        labels,
        ..PodMetadata::default()
    }
}

fn labeler(choice: PodLabelChoice) -> (PodLabeler, PodDirectory) {
    let pods = PodDirectory::new(CacheLimits::default());
    (PodLabeler::new(PodLabelConfig { pods: pods.clone(), choice, wait: WAIT }), pods)
}

fn stream(config: &Config, path: &str) -> FileStream {
    FileStream::new(config, &bucksaw_env::sim::Fs::new(), Path::new(path))
}

/// A label of the stream, or nothing.
fn label<'a>(stream: &'a FileStream, name: &str) -> &'a str {
    stream.labels.get(name).unwrap_or_default()
}

#[test]
fn a_pod_names_its_service_workload_and_labels() {
    let (mut labeler, pods) = labeler(PodLabelChoice::default());
    let config = Config::default();
    let mut stream = stream(&config, PATH);
    assert_eq!(label(&stream, "service.name"), "web");
    let before = stream.encoded_labels.clone();
    let owner = PodOwner { group: "apps".to_owned(), kind: "ReplicaSet".to_owned(), name: "cart-7d9f".to_owned() };
    let labels = [
        ("app.kubernetes.io/name", "cart"),
        ("pod-template-hash", "7d9f"),
        ("empty", ""),
        ("team/x", "a"),
        ("team_x", "b"),
        (&"x".repeat(200), "c"),
    ];
    pods.apply(PodMetadata { owner: Some(owner), ..pod("u1", &labels) });
    assert!(labeler.prepare(&config, &mut stream, (FileKey(1), Path::new(PATH)), Duration::ZERO));
    for (name, want) in [
        ("service.name", "cart"),
        ("k8s.deployment.name", "cart"),
        ("k8s.container.name", "web"),
        ("k8s.pod.label.app.kubernetes.io_name", "cart"),
        ("k8s.pod.label.pod-template-hash", "7d9f"),
        ("k8s.pod.label.team_x", "a"),
        ("k8s.pod.label.empty", ""),
    ] {
        assert_eq!(label(&stream, name), want, "{name}");
    }
    assert!(stream.encoded_labels != before);
    // One is too long, one has the name of another.
    assert_eq!(labeler.status(&HashMap::from([(FileKey(1), stream)]), Duration::ZERO).left_out_labels, 2);
}

#[test]
fn labels_of_the_user_have_precedence_and_the_choice_limits_those_of_the_pod() {
    let (mut labeler, pods) = labeler(PodLabelChoice::new(["app", "team/*", ""]));
    let config = Config { labels: Labels::parse("service.name=mine").unwrap(), ..Config::default() };
    let mut stream = stream(&config, PATH);
    pods.apply(pod("u1", &[("app", "cart"), ("app2", "x"), ("team/a", "y"), ("app.kubernetes.io/name", "cart")]));
    labeler.prepare(&config, &mut stream, (FileKey(1), Path::new(PATH)), Duration::ZERO);
    assert_eq!(label(&stream, "service.name"), "mine");
    let of_pod: Vec<&str> =
        stream.labels.iter().map(|(name, _)| name).filter(|name| name.starts_with("k8s.pod.label.")).collect();
    assert_eq!(of_pod, ["k8s.pod.label.app", "k8s.pod.label.team_a"]);
}

#[test]
fn a_stream_has_as_many_labels_as_it_can() {
    let (mut labeler, pods) = labeler(PodLabelChoice::default());
    let config = Config::default();
    let mut stream = stream(&config, PATH);
    let names: Vec<String> = (0..100).map(|number| format!("l{number:03}")).collect();
    pods.apply(pod("u1", &names.iter().map(|name| (name.as_str(), "x")).collect::<Vec<_>>()));
    labeler.prepare(&config, &mut stream, (FileKey(1), Path::new(PATH)), Duration::ZERO);
    assert_eq!(stream.labels.iter().count(), Labels::COUNT_MAX);
    assert_eq!((label(&stream, "k8s.pod.uid"), label(&stream, "k8s.pod.label.l000")), ("u1", "x"));
    let known = stream.labels.iter().filter(|(name, _)| name.starts_with("k8s.pod.label.")).count() as u64;
    assert_eq!(labeler.status(&HashMap::from([(FileKey(1), stream)]), Duration::ZERO).left_out_labels, 100 - known);
}

#[test]
fn text_waits_for_its_pod_for_a_limited_time() {
    let (mut labeler, pods) = labeler(PodLabelChoice::default());
    let config = Config::default();
    let at = Duration::from_secs;
    let mut first = stream(&config, PATH);
    let path = Path::new(PATH);
    assert!(!labeler.prepare(&config, &mut first, (FileKey(1), path), at(10)));
    assert_eq!((labeler.take_held(), labeler.take_held()), (vec![FileKey(1)], vec![]));
    assert_eq!(labeler.take_released(at(14)), []);
    assert_eq!(labeler.status(&HashMap::new(), at(14)).waiting_files, 1);
    // Another pod becomes known: it may have been this one.
    pods.apply(pod("u2", &[("app", "other")]));
    assert_eq!(labeler.take_released(at(14)), [FileKey(1)]);
    assert!(!labeler.prepare(&config, &mut first, (FileKey(1), path), at(14)));
    assert_eq!((labeler.take_released(at(14)), labeler.take_released(at(15))), (vec![], vec![FileKey(1)]));
    assert!(labeler.prepare(&config, &mut first, (FileKey(1), path), at(15)));
    labeler.note_written(&first, 3);
    assert_eq!(label(&first, "k8s.pod.label.app"), "");
    // A rotated file of the same pod does not wait again, a pod of another id does.
    assert!(labeler.prepare(&config, &mut stream(&config, PATH), (FileKey(2), path), at(16)));
    let other = "/var/log/pods/shop_cart-7d9f-x_u3/web/0.log";
    assert!(!labeler.prepare(&config, &mut stream(&config, other), (FileKey(3), Path::new(other)), at(16)));
    labeler.retain(&HashMap::new());
    assert_eq!(labeler.take_released(at(99)), []);
    // Later text has the labels, also when the pod is gone.
    pods.apply(pod("u1", &[("app", "cart")]));
    assert!(labeler.prepare(&config, &mut first, (FileKey(1), path), at(16)));
    assert_eq!(label(&first, "k8s.pod.label.app"), "cart");
    labeler.note_written(&first, 4);
    pods.apply(pod("u1", &[("app", "cart2")]));
    assert!(labeler.prepare(&config, &mut first, (FileKey(1), path), at(17)));
    assert_eq!(label(&first, "k8s.pod.label.app"), "cart2");
    assert_eq!(labeler.status(&HashMap::new(), at(17)).unlabelled_records, 3);
}

#[test]
fn files_of_no_pod_do_not_wait() {
    let (mut labeler, _) = labeler(PodLabelChoice::default());
    let config = Config::default();
    for path in ["/var/log/syslog", "/var/lib/docker/containers/0a/0a-json.log"] {
        let mut stream = stream(&config, path);
        assert!(labeler.prepare(&config, &mut stream, (FileKey(1), Path::new(path)), Duration::ZERO));
        labeler.note_written(&stream, 1);
    }
    assert_eq!(labeler.status(&HashMap::new(), Duration::ZERO).unlabelled_records, 0);
}
