//! Two tenants on a cluster: the answers to one of them equal those of a cluster that never had the records of the other.

use super::*;
use crate::tests::tenants::{EXPRESSIONS, OTHER_STREAMS, OWN_STREAMS, drawn_steps, own_scope, transcript};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn a_tenant_gets_the_answers_of_a_cluster_without_the_others(
        steps in drawn_steps(),
        expr in prop::sample::select(EXPRESSIONS.to_vec()),
        (from, to) in (0_u64..60_000, 0_u64..60_000),
        asked in 0_usize..3,
    ) {
        let open = || {
            EngineCluster::of((0..3).map(|_| TestEngine::with_pool(sim::Fs::new(), Config::default(), 1, ScanPool::inline())).collect())
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let (mut both, mut alone) = (open(), open());
            let (scoped, plain) = (request(expr).within(Some(own_scope())), request(expr));
            let mut tails =
                (both.scatters[asked].tail(&scoped).unwrap(), alone.scatters[asked].tail(&plain).unwrap());
            assert_eq!(drain_tail(&mut tails.0).await, drain_tail(&mut tails.1).await);
            for (number, (what, wait, (is_own, line), late, stream)) in (1_u32..).zip(steps) {
                let node = stream % 3;
                match what {
                    0 => [&both, &alone].into_iter().for_each(|cluster| cluster.nodes[node].move_to_store()),
                    1 => [&both, &alone]
                        .into_iter()
                        .for_each(|cluster| drop(cluster.nodes[node].store.compact(&|| false))),
                    2 => [&both, &alone]
                        .into_iter()
                        .for_each(|cluster| cluster.nodes.iter().for_each(|node| node.advance_clock(wait))),
                    kind => {
                        let late = if kind == 3 { late } else { 0 };
                        let now = both.nodes[node].clock.unix_ms();
                        let producer = Producer::new(u64::from(kind) * 2 + u64::from(is_own));
                        let id = Id::new(Millis(now - late), producer, number);
                        let nodes = [node, (node + 1) % 3, (node + 2) % 3];
                        let nodes = &nodes[..usize::from(kind % 3) + 1];
                        if is_own {
                            both.put(nodes, id, OWN_STREAMS[stream % 3], &line);
                            alone.put(nodes, id, OWN_STREAMS[stream % 3], &line);
                        } else {
                            both.put(nodes, id, OTHER_STREAMS[stream % 5], &line);
                        }
                    }
                }
            }
            assert_eq!(drain_tail(&mut tails.0).await, drain_tail(&mut tails.1).await);
            let time = (Millis(START - 5_000 + from), Millis(START - 5_000 + from + to));
            let plain = Request::new(plain.expr, time.0, time.1);
            let scoped = plain.clone().within(Some(own_scope()));
            let ids: Vec<Id> = both.all().into_keys().collect();
            let (of_both, of_one) = (answers(&both.scatters[asked]), answers(&alone.scatters[asked]));
            let answered = transcript(&of_both, &scoped, &ids, false).await;
            assert_eq!(answered, transcript(&of_one, &plain, &ids, false).await);
            let answered = transcript(&of_both, &scoped, &ids, true).await;
            assert_eq!(answered, transcript(&of_one, &scoped, &ids, true).await);
        });
    }
}

/// A node that would ignore the scope refuses the request, so it is missing from the answer.
#[tokio::test(start_paused = true)]
async fn every_request_of_a_scoped_client_carries_its_scope() {
    let mut cluster = EngineCluster::new(2);
    cluster.put(&[1], id(1), OTHER_STREAMS[0], "x");
    cluster.put(&[1], id(2), OWN_STREAMS[0], "x");
    let scoped = request("x").within(Some(own_scope()));
    assert_eq!(lines(&cluster.scatters[0], &scoped).await, ["x"]);
    for name in ["query/search", "query/count", "query/streams", "query/tail"] {
        let encoded = String::from_utf8(ScatterRequest::new(&scoped).encode()).unwrap();
        assert!(encoded.contains(r#""version":4"#) && encoded.contains(r#""scope":{"tenant":"a"}"#), "{encoded}");
        let damaged = encoded.replace(r#"{"tenant":"a"}"#, r#"{"tenant":7}"#);
        let error = cluster.scatters[0].server.serve(name, Body::whole(damaged.into_bytes())).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::Other, "{name}");
    }
}
