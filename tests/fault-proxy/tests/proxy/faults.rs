//! Each fault on a plain request, obeyed where it is due and absent where it is not.

use crate::support::{DEPLOYMENTS, Next, Setting, Way};
use fault_proxy::{Answer, Fate, Fault, Match, Portion, Verb};
use futures::FutureExt as _;

fn web() -> String {
    format!("{DEPLOYMENTS}/web")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_a_status_of_the_api_and_the_server_never_sees_the_request() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let answers = [
            (Answer::bad_request("no"), 400, "BadRequest"),
            (Answer::unauthorized(), 401, "Unauthorized"),
            (Answer::forbidden("no"), 403, "Forbidden"),
            (Answer::not_found(), 404, "NotFound"),
            (Answer::conflict(), 409, "Conflict"),
            (Answer::already_exists(), 409, "AlreadyExists"),
            (Answer::gone(), 410, "Expired"),
            (Answer::invalid(), 422, "Invalid"),
            (Answer::too_many(7), 429, "TooManyRequests"),
            (Answer::internal(), 500, "InternalError"),
            (Answer::unavailable(), 503, "ServiceUnavailable"),
            (Answer::timeout(), 504, "Timeout"),
        ];
        let mut client = at.client().await;
        for (answer, code, reason) in answers {
            let rule = at.proxy.rule(Match::verb(Verb::Patch), Fault::Answer(answer));
            let heard = client.ask("PATCH", &web(), "{}").await.expect("an answer");
            rule.lift();
            assert_eq!((heard.status, &heard.json["reason"]), (code, &reason.into()), "{way:?}");
            assert_eq!((&heard.json["kind"], &heard.json["code"]), (&"Status".into(), &code.into()));
            assert_eq!(heard.headers["content-type"], "application/json");
            assert_eq!(heard.headers.get("retry-after").is_some(), matches!(code, 429 | 504));
            assert_eq!(rule.hits(), 1);
        }
        assert_eq!(at.server.asked(), [""; 0]);
        assert!(at.proxy.requests().iter().all(|record| record.fate == Fate::Answered));
        // The same connection goes on.
        assert_eq!(client.ask("PATCH", &web(), "{}").await.expect("an answer").status, 200);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_dropped_before_is_closed_and_the_server_never_sees_it() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let rule = at.proxy.rule(Match::verb(Verb::Patch).nth(1), Fault::DropBefore);
        at.client().await.ask("PATCH", &web(), "{}").await.expect_err("closed");
        rule.hit(1).await;
        assert_eq!(at.server.asked(), [""; 0], "{way:?}");
        assert_eq!(at.client().await.ask("PATCH", &web(), "{}").await.expect("an answer").status, 200);
        let fates: Vec<_> = at.proxy.requests().iter().map(|record| (record.status, record.fate)).collect();
        assert_eq!(fates, [(None, Fate::DroppedBefore), (Some(200), Fate::Passed)]);
        assert_eq!(rule.hits(), 1);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_dropped_after_was_done_by_the_server_and_the_client_hears_nothing() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let rule = at.proxy.rule(Match::verb(Verb::Create).name("web"), Fault::DropAfter);
        let body = r#"{"metadata":{"name":"web"}}"#;
        at.client().await.ask("POST", DEPLOYMENTS, body).await.expect_err("closed");
        rule.hit(1).await;
        assert_eq!(at.server.asked(), [format!("POST {DEPLOYMENTS}")], "{way:?}");
        let record = &at.proxy.writes()[0];
        assert_eq!(
            (record.status, record.fate, record.name.as_str()),
            (Some(200), Fate::DroppedAfter, "web")
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_http_2_a_dropped_request_leaves_its_connection_to_the_others() {
    let at = Setting::new(Way::TlsHttp2).await;
    let _rule = at.proxy.rule(Match::verb(Verb::Patch), Fault::DropBefore);
    let mut client = at.client().await;
    client.ask("PATCH", &web(), "{}").await.expect_err("reset");
    assert_eq!(client.ask("GET", &web(), "").await.expect("an answer").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_answer_is_cut_after_so_many_bytes_and_not_where_it_is_shorter() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        for bytes in [0, 1, 12] {
            let rule = at.proxy.rule(Match::any(), Fault::CutAfter(Portion::Bytes(bytes)));
            let mut answer = at.client().await.follow(&web()).await;
            assert_eq!(answer.status, 200);
            let Next::Cut(got) = answer.next().await else { panic!("it came to a proper end") };
            assert_eq!(got.len(), bytes, "{way:?}");
            rule.lift();
            assert_eq!(rule.hits(), 1);
        }
        let rule = at.proxy.rule(Match::any(), Fault::CutAfter(Portion::Bytes(100_000)));
        assert_eq!(at.client().await.follow(&web()).await.next().await, Next::End);
        assert_eq!(rule.hits(), 0);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_swallowed_request_gets_no_answer_and_nothing_is_closed() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let holes = at.proxy.rule(Match::verb(Verb::Patch).nth(1), Fault::BlackHole);
        let stalls = at.proxy.rule(Match::verb(Verb::Update), Fault::StallAfter(Portion::Bytes(5)));
        let (mut swallowed, mut stalled) = (at.ask("PATCH", &web()), at.ask("PUT", &web()));
        holes.hit(1).await;
        stalls.hit(1).await;
        assert_eq!(at.client().await.ask("PATCH", &web(), "{}").await.expect("an answer").status, 200);
        assert!((&mut swallowed).now_or_never().is_none(), "{way:?}");
        assert!((&mut stalled).now_or_never().is_none(), "{way:?}");
        let mut asked = at.server.asked();
        asked.sort();
        assert_eq!(asked, [format!("PATCH {}", web()), format!("PUT {}", web())]);
        drop(at);
        swallowed.await.expect("no panic").expect_err("the proxy's end closes it");
        stalled.await.expect("no panic").expect_err("the proxy's end closes it");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rules_act_on_their_turn_and_the_first_that_is_due_decides() {
    let at = Setting::new(Way::Http1).await;
    let second = at.proxy.rule(Match::verb(Verb::Patch).nth(2), Fault::Answer(Answer::conflict()));
    let first_two = at.proxy.rule(Match::verb(Verb::Patch).times(2), Fault::Answer(Answer::internal()));
    let from_four = at.proxy.rule(Match::verb(Verb::Patch).from(4), Fault::Answer(Answer::unavailable()));
    let mut client = at.client().await;
    let mut statuses = Vec::new();
    for _ in 0..5 {
        statuses.push(client.ask("PATCH", &web(), "{}").await.expect("an answer").status);
        client.ask("GET", &web(), "").await.expect("reads do not count");
    }
    assert_eq!(statuses, [500, 409, 200, 503, 503]);
    assert_eq!((second.hits(), first_two.hits(), from_four.hits()), (1, 1, 2));
    from_four.lift();
    assert_eq!(client.ask("PATCH", &web(), "{}").await.expect("an answer").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn matches_look_at_verb_resource_namespace_name_agent_and_anything() {
    let at = Setting::new(Way::Http1).await;
    let mut client = at.client().await;
    client
        .ask_as("a/1", None, "PUT", "/apis/g/v1/namespaces/n/foos/x/status", "{}")
        .await
        .expect("an answer");
    let record = at.proxy.requests().remove(0);
    let fitting = [
        Match::any(),
        Match::writes(),
        Match::verbs([Verb::Get, Verb::Update]).resource("foos/status").group("g").namespace("n").name("x"),
        Match::any().resource("foos/*").user_agent("a/"),
        Match::any().when(|record| record.body == "{}"),
    ];
    let others = [
        Match::verb(Verb::Patch),
        Match::any().resource("foos"),
        Match::any().resource("foos/scale"),
        Match::any().resource("bars/*"),
        Match::any().group(""),
        Match::any().namespace("m"),
        Match::any().name("y"),
        Match::any().user_agent("b"),
        Match::any().when(|record| record.body.is_empty()),
    ];
    assert!(fitting.iter().all(|matching| matching.fits(&record)));
    assert!(!others.iter().any(|matching| matching.fits(&record)));
    assert_eq!(record.to_string(), "#1 update foos/status n/x: 200 (Passed)");
    assert_eq!(
        Match::verb(Verb::Patch).resource("foos").name("x").nth(2).to_string(),
        "patch foos named x, only number 2"
    );
}

#[tokio::test]
#[should_panic(expected = "1 requests: delete foos")]
async fn a_wait_that_comes_to_nothing_says_what_came_instead() {
    let at = Setting::new(Way::Http1).await;
    at.client().await.ask("PATCH", &web(), "{}").await.expect("an answer");
    tokio::time::pause(); // nothing but the wait is under way
    at.proxy.seen(Match::verb(Verb::Delete).resource("foos"), 1).await;
}
