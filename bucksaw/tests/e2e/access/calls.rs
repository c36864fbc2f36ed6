//! Every method of gRPC × no credential, a wrong one, one without the scope.

use bucksaw_api::RouteAccess::{self, Ingest, Read};
use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::Request;
use hyper_util::rt::{TokioExecutor, TokioIo};

use super::auth_node::AuthNode;

const METHODS: [(&str, RouteAccess); 5] = [
    ("/opentelemetry.proto.collector.logs.v1.LogsService/Export", Ingest),
    ("/bucksaw.v1.Bucksaw/Ingest", Ingest),
    ("/bucksaw.v1.Bucksaw/Query", Read),
    ("/bucksaw.v1.Bucksaw/Count", Read),
    ("/bucksaw.v1.Bucksaw/Tail", Read),
];

/// The status of a call with an empty message.
async fn grpc_status(address: &str, method: &str, token: Option<&str>) -> String {
    let stream = tokio::net::TcpStream::connect(address).await.unwrap();
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let mut request = Request::post(format!("http://{address}{method}")).header("content-type", "application/grpc");
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    let response = sender.send_request(request.body(Full::new(Bytes::from_static(&[0; 5]))).unwrap()).await.unwrap();
    let (head, mut body) = response.into_parts();
    let text =
        |headers: &hyper::HeaderMap| headers.get("grpc-status").map(|status| status.to_str().unwrap().to_owned());
    if let Some(status) = text(&head.headers) {
        return status;
    }
    if method.ends_with("/Tail") {
        return "open".to_owned();
    }
    while let Some(frame) = body.frame().await {
        if let Some(status) = frame.unwrap().trailers_ref().and_then(text) {
            return status;
        }
    }
    "none".to_owned()
}

#[test]
fn each_method_refuses_clients_without_the_right_credential() {
    assert_eq!(bucksaw_api::grpc_methods(), METHODS, "a new method needs a row in the table of this test");
    let tokens: [(&str, &[&str]); 2] = [("reader", &["--scope", "read"]), ("writer", &["--scope", "ingest"])];
    let node = AuthNode::start(&["--listen-otlp", "127.0.0.1:0"], &tokens);
    let address = node.server.address("otlp").to_owned();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let status = |method: &str, token: Option<&str>| runtime.block_on(grpc_status(&address, method, token));
    for (method, access) in METHODS {
        let (right, other) = if access == Read { ("reader", "writer") } else { ("writer", "reader") };
        assert_eq!(status(method, None), "16", "{method} without a credential");
        assert_eq!(status(method, Some(&node.token(other))), "7", "{method} without the scope");
        let right = status(method, Some(&node.token(right)));
        assert!(right != "16" && right != "7", "{method} with the right credential: {right}");
    }
    assert_eq!(status("/bucksaw.v1.Bucksaw/Count", Some("bks_wrong")), "16");
    assert_eq!(status("/bucksaw.v1.Bucksaw/NoSuchMethod", None), "16");
    assert_eq!(status("/bucksaw.v1.Bucksaw/NoSuchMethod", Some(&node.token("reader"))), "12");
}
