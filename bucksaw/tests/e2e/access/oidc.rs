//! Users of an identity provider: `oidc-provider` for Node.js, which is certified for OpenID Connect.

use std::collections::BTreeMap;
use std::fs;

use bucksaw_faults::http::Response;

use super::auth_node::AuthNode;
use crate::child_process::ChildProcess;
use crate::client::call;
use crate::senders::{client_script, node_js};
use crate::wait::wait_until;

/// A browser: keeps cookies, of all hosts alike.
#[derive(Default)]
struct Browser {
    cookies: BTreeMap<String, String>,
}

impl Browser {
    fn get(&mut self, url: &str) -> Response {
        let (host, target) = url.strip_prefix("http://").unwrap().split_once('/').unwrap();
        let cookies: Vec<String> = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let cookies = cookies.join("; ");
        let answer = call(host, "GET", &format!("/{target}"), &[("Cookie", &cookies)], b"").unwrap();
        for (_, cookie) in answer.headers.iter().filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie")) {
            let (name, value) = cookie.split(';').next().unwrap().split_once('=').unwrap();
            match value {
                "" => drop(self.cookies.remove(name)),
                value => drop(self.cookies.insert(name.to_owned(), value.to_owned())),
            }
        }
        answer
    }

    /// Follows redirects of the provider, up to the one that leads back to the node.
    fn follow(&mut self, mut url: String, back: &str) -> String {
        for _ in 0..5 {
            if url.starts_with(back) {
                return url;
            }
            let answer = self.get(&url);
            assert_eq!(answer.status, 303, "{url}: {}", answer.text());
            let to = answer.header("location").unwrap();
            let (origin, _) = url.split_at("http://".len() + url["http://".len()..].find('/').unwrap());
            url = if to.starts_with('/') { format!("{origin}{to}") } else { to.to_owned() };
        }
        panic!("the provider does not lead back: {url}");
    }
}

#[test]
fn users_log_in_at_an_identity_provider() {
    let node = AuthNode::start(&[], &[("writer", &["--scope", "ingest"])]);
    let address = node.server.address("http").to_owned();
    let (origin, back) = (format!("http://{address}"), format!("http://{address}/auth/callback"));
    let mut provider = ChildProcess::start(node_js().arg(client_script("identity_provider.js")).arg(&back));
    let issuer = provider.line();
    let secret = node.auth_file().with_file_name("oidc.secret");
    fs::write(&secret, "a secret: with signs & more\n").unwrap();
    let tokens = fs::read_to_string(node.auth_file()).unwrap();
    let more = format!(
        "\n[oidc]\nissuer = \"{issuer}\"\nclient_id = \"bucksaw\"\nclient_secret_file = \"{}\"\nredirect_url = \"{back}\"\n\
         scopes = [\"email\", \"groups\"]\n\n[[group]]\nname = \"sre\"\nscopes = [\"read\"]\nlabels = {{ tenant = \"a\" }}\n",
        secret.display()
    );
    fs::write(node.auth_file(), tokens + &more).unwrap();
    let mut ada = Browser::default();
    wait_until("the node knows the provider", || {
        ada.get(&format!("{origin}/api/v1/login")).json()["provider"] == issuer.as_str()
    });

    let begin = ada.get(&format!("{origin}/auth/login"));
    assert_eq!(begin.status, 303, "{}", begin.text());
    let cookie = begin.header("set-cookie").unwrap();
    assert!(cookie.contains("; HttpOnly; SameSite=Lax") && cookie.contains("Path=/auth"), "{cookie}");
    let callback = ada.follow(begin.header("location").unwrap().to_owned(), &back);
    // A browser that has begun no log-in, or another one, is not logged in by this link.
    let mut other = Browser::default();
    assert_eq!(other.get(&callback).status, 401);
    other.get(&format!("{origin}/auth/login"));
    assert_eq!(other.get(&callback).status, 401);
    let done = ada.get(&callback);
    assert_eq!((done.status, done.header("location")), (303, Some("/")), "{}", done.text());
    assert!(
        done.headers
            .iter()
            .any(|(_, value)| value.starts_with("bucksaw_token=ey") && value.contains("; SameSite=Strict"))
    );
    assert!(!ada.cookies.contains_key("bucksaw_login"), "the log-in is over");
    let session = ada.get(&format!("{origin}/api/v1/session")).json();
    assert_eq!((&session["name"], &session["labels"]["tenant"]), (&"ada@example.org".into(), &"a".into()), "{session}");
    // A code works once.
    let mut again = Browser { cookies: BTreeMap::from([("bucksaw_login".to_owned(), cookie_value(cookie))]) };
    assert_eq!(again.get(&callback).status, 401);

    // The ID token is a credential of the API, too; what its user may not do stays refused.
    let token = ada.cookies["bucksaw_token"].clone();
    assert_eq!(node.status_of("GET", "/api/v1/count", Some(&token), &[]), 200);
    assert_eq!(node.status_of("POST", "/api/v1/ingest", Some(&token), &[]), 403);
    let (head, rest) = token.split_once('.').unwrap();
    let (claims, signature) = rest.split_once('.').unwrap();
    for forged in
        [format!("{head}.{claims}."), format!("{head}.{claims}.{}", signature.replace(&signature[..4], "AAAA"))]
    {
        assert_eq!(node.status_of("GET", "/api/v1/count", Some(&forged), &[]), 401);
    }

    // A user without a group of the file has no rights.
    call(issuer.strip_prefix("http://").unwrap(), "POST", "/user/bob", &[], b"").unwrap();
    let mut bob = Browser::default();
    let begin = bob.get(&format!("{origin}/auth/login"));
    let callback = bob.follow(begin.header("location").unwrap().to_owned(), &back);
    assert_eq!(bob.get(&callback).status, 303);
    assert_eq!(bob.get(&format!("{origin}/api/v1/session")).status, 401);

    // Keys that are known stay in use while the provider is away.
    drop(provider);
    assert_eq!(ada.get(&format!("{origin}/api/v1/session")).status, 200);
}

fn cookie_value(cookie: &str) -> String {
    cookie.split(';').next().unwrap().split_once('=').unwrap().1.to_owned()
}
