//! Requests that wait for the test, and closures around them.

use crate::support::{DEPLOYMENTS, Setting, Way};
use fault_proxy::{Answer, Fate, Match, Record, Verb};
use futures::FutureExt as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_waits_for_each_decision() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let hold = at.proxy.hold(Match::verb(Verb::Delete));
        let path = format!("{DEPLOYMENTS}/web");

        let mut client = at.ask("DELETE", &path);
        let held = hold.arrived().await;
        assert_eq!((held.request().number, held.request().name.as_str()), (1, "web"));
        assert_eq!(at.server.asked().len(), 0);
        assert!((&mut client).now_or_never().is_none());
        held.forward();
        assert_eq!(client.await.expect("no panic").expect("an answer").status, 200);
        assert_eq!(at.server.asked().len(), 1);

        let client = at.ask("DELETE", &path);
        hold.arrived().await.close();
        client.await.expect("no panic").expect_err("closed");
        assert_eq!(at.server.asked().len(), 1);

        let client = at.ask("DELETE", &path);
        hold.arrived().await.answer(Answer::conflict());
        assert_eq!(client.await.expect("no panic").expect("an answer").status, 409);
        assert_eq!(at.server.asked().len(), 1);

        let mut client = at.ask("DELETE", &path);
        let mut held = hold.arrived().await;
        assert_eq!((held.apply().await, held.apply().await), (Some(200), Some(200)), "asked once");
        assert_eq!(at.server.asked().len(), 2);
        assert!((&mut client).now_or_never().is_none());
        held.close();
        client.await.expect("no panic").expect_err("closed");

        let client = at.ask("DELETE", &path);
        let mut held = hold.arrived().await;
        held.apply().await;
        held.forward();
        assert_eq!(client.await.expect("no panic").expect("an answer").status, 200);
        assert_eq!(at.server.asked().len(), 3);

        hold.lift();
        assert_eq!(at.ask("DELETE", &path).await.expect("no panic").expect("an answer").status, 200);
        let fates: Vec<Fate> = at.proxy.requests().iter().map(|record| record.fate).collect();
        let expected = [
            Fate::Passed,
            Fate::DroppedBefore,
            Fate::Answered,
            Fate::DroppedAfter,
            Fate::Passed,
            Fate::Passed,
        ];
        assert_eq!(fates, expected, "{way:?}");
        assert_eq!(hold.hits(), 5);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_whose_client_was_killed_can_still_reach_the_server() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let hold = at.proxy.hold(Match::writes());
        let client = at.ask("POST", DEPLOYMENTS);
        let mut held = hold.arrived().await;
        client.abort();
        assert!(client.await.expect_err("aborted").is_cancelled());
        assert_eq!(held.apply().await, Some(200), "{way:?}");
        assert_eq!(at.server.asked(), [format!("POST {DEPLOYMENTS}")]);
        held.forward();
        // Whether the client's end was seen by then is a race that changes nothing.
        let ends = |all: &[Record]| matches!(all[0].fate, Fate::DroppedAfter | Fate::Passed).then_some(());
        at.proxy.until("an end", ends).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_that_is_let_go_of_is_forwarded() {
    let at = Setting::new(Way::Http1).await;
    let hold = at.proxy.hold(Match::any());
    let client = at.ask("GET", DEPLOYMENTS);
    drop(hold.arrived().await);
    assert_eq!(client.await.expect("no panic").expect("an answer").status, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closures_run_to_their_end_before_the_server_and_before_the_client() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let steps = Arc::new(AtomicUsize::new(0));
        let (url, counted) = (at.server.url.clone(), steps.clone());
        let before = at.proxy.before(Match::verb(Verb::Patch).nth(2), move |record| {
            let (url, counted) = (url.clone(), counted.clone());
            async move {
                assert_eq!((record.number, record.status), (2, None));
                // Somebody else's write, past the proxy.
                let address = url.trim_start_matches("http://").to_owned();
                let mut stream = tokio::net::TcpStream::connect(address).await.expect("a connection");
                let request = b"DELETE /other HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";
                tokio::io::AsyncWriteExt::write_all(&mut stream, request).await.expect("written");
                let mut answer = String::new();
                tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.expect("an answer");
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
        let counted = steps.clone();
        let after = at.proxy.after(Match::verb(Verb::Patch).nth(2), move |record| {
            let counted = counted.clone();
            async move {
                assert_eq!(record.status, Some(200));
                tokio::task::yield_now().await;
                counted.fetch_add(10, Ordering::SeqCst);
            }
        });
        let mut client = at.client().await;
        client.ask("PATCH", "/a", "{}").await.expect("an answer");
        assert_eq!(steps.load(Ordering::SeqCst), 0, "not its turn");
        client.ask("PATCH", "/b", "{}").await.expect("an answer");
        assert_eq!(steps.load(Ordering::SeqCst), 11);
        assert_eq!(at.server.asked(), ["PATCH /a", "DELETE /other", "PATCH /b"], "{way:?}");
        assert_eq!((before.hits(), after.hits()), (1, 1));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[should_panic(expected = "a closure of the fault proxy panicked")]
async fn a_panic_in_a_closure_is_not_passed_over() {
    let at = Setting::new(Way::Http1).await;
    let rule = at.proxy.before(Match::any(), |_| async { panic!("on purpose") });
    assert_eq!(at.client().await.ask("GET", "/", "").await.expect("an answer").status, 200);
    assert_eq!(rule.hits(), 1);
}
