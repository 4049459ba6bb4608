//! Watches: their events held back, lost, cut off, replaced by an error.

use crate::support::{Next, Setting, WATCH, Way};
use fault_proxy::{Answer, Ending, EventFate, EventType, Events, Fate, Fault, Match, Portion, Verb};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_passes_event_by_event_and_each_is_recorded() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let mut watch = at.client().await.follow(WATCH).await;
        assert_eq!(watch.status, 200);
        at.server.send_event("ADDED", "a", 5);
        assert_eq!(watch.event().await, "ADDED a", "{way:?}");
        // Two events in one chunk, the second in two.
        at.server.send("{\"type\":\"MODIFIED\",\"object\":{\"metadata\":{\"name\":\"b\"}}}\n{\"type\":\"DEL");
        assert_eq!(watch.event().await, "MODIFIED b");
        at.server.send("ETED\",\"object\":{\"metadata\":{\"name\":\"c\"}}}\n");
        assert_eq!(watch.event().await, "DELETED c");
        let events = at.proxy.events();
        let seen: Vec<_> =
            events.iter().map(|event| (event.number, event.kind, event.name.as_str())).collect();
        let added = [(1, EventType::Added, "a"), (2, EventType::Modified, "b"), (3, EventType::Deleted, "c")];
        assert_eq!(seen, added);
        assert_eq!((events[0].watch, events[0].resource_version.as_str()), (1, "5"));
        assert_eq!((events[0].resource.as_str(), events[0].namespace.as_str()), ("deployments", "default"));
        let record = at.proxy.requests().remove(0);
        assert_eq!((record.verb, record.status, record.fate), (Verb::Watch, Some(200), Fate::Open));
        at.server.send("no line feed");
        at.server.end_watches();
        assert_eq!(watch.next().await, Next::End, "its last bytes are no whole line");
        ended(&at, Fate::Passed).await;
    }
}

/// Waits until the first request ended so.
async fn ended(at: &Setting, fate: Fate) {
    at.proxy
        .until(&format!("{fate:?}"), |all| all.first().filter(|first| first.fate == fate).map(|_| ()))
        .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_cut_after_so_many_events_and_the_client_has_each_of_them() {
    for way in Way::ALL {
        for events in [0, 1, 3] {
            let at = Setting::new(way).await;
            let rule = at.proxy.rule(Match::verb(Verb::Watch), Fault::CutAfter(Portion::Events(events)));
            let mut watch = at.client().await.follow(WATCH).await;
            for number in 0..5 {
                at.server.send_event("ADDED", &format!("a{number}"), number);
            }
            for number in 0..events {
                assert_eq!(watch.event().await, format!("ADDED a{number}"), "{way:?}");
            }
            assert_eq!(watch.next().await, Next::Cut(String::new()), "{way:?}, after {events}");
            rule.hit(1).await;
            ended(&at, Fate::Cut).await;
            at.server.until_left().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_cut_in_the_middle_of_an_event() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let _rule = at.proxy.rule(Match::verb(Verb::Watch), Fault::CutAfter(Portion::Bytes(7)));
        let mut watch = at.client().await.follow(WATCH).await;
        at.server.send_event("ADDED", "a", 1);
        assert_eq!(watch.next().await, Next::Cut("{\"objec".into()), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protobuf_watch_passes_unread_and_is_cut_by_bytes() {
    let at = Setting::new(Way::TlsHttp2).await;
    let rule = at.proxy.rule(Match::verb(Verb::Watch).nth(2), Fault::CutAfter(Portion::Bytes(6)));
    let path = format!("{WATCH}&protobuf");
    let (mut whole, mut cut) = (at.client().await.follow(&path).await, at.client().await.follow(&path).await);
    at.server.send("\0\0\0\u{3}abc\0\0\n");
    assert_eq!(whole.next().await, Next::Line("\0\0\0\u{3}abc\0\0".into()));
    assert_eq!(cut.next().await, Next::Cut("\0\0\0\u{3}ab".into()));
    rule.hit(1).await;
    assert!(at.proxy.events().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_error_event_ends_a_watch_at_its_start_or_later() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let gone = || Fault::ErrorEventAfter(0, Answer::gone());
        let first = at.proxy.rule(Match::verb(Verb::Watch).nth(1), gone());
        let mut watch = at.client().await.follow(WATCH).await;
        assert_eq!((watch.event().await.as_str(), watch.next().await), ("ERROR 410", Next::End), "{way:?}");
        first.hit(1).await;
        ended(&at, Fate::ErrorEvent).await;
        let _second =
            at.proxy.rule(Match::verb(Verb::Watch).nth(1), Fault::ErrorEventAfter(1, Answer::internal()));
        let mut watch = at.client().await.follow(WATCH).await;
        at.server.send_event("ADDED", "a", 1);
        at.server.send_event("ADDED", "b", 2);
        assert_eq!(watch.event().await, "ADDED a");
        assert_eq!((watch.event().await.as_str(), watch.next().await), ("ERROR 500", Next::End), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn held_events_come_later_in_order_and_others_pass() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let dam = at.proxy.hold_events(Events::of("deployments").name("a").types([EventType::Modified]));
        let (mut one, mut two) =
            (at.client().await.follow(WATCH).await, at.client().await.follow(WATCH).await);
        at.server.send_event("ADDED", "a", 1);
        at.server.send_event("MODIFIED", "a", 2);
        at.server.send_event("MODIFIED", "a", 3);
        at.server.send_event("MODIFIED", "b", 4);
        at.server.send_event("BOOKMARK", "", 5);
        at.server.send_event("DELETED", "a", 6);
        at.server.send_event("ADDED", "c", 7);
        dam.held_at_least(4).await;
        for watch in [&mut one, &mut two] {
            for expected in ["ADDED a", "MODIFIED b", "ADDED c"] {
                assert_eq!(watch.event().await, expected, "{way:?}");
            }
        }
        assert_eq!(dam.held(), 4);
        assert!(at.proxy.events().iter().any(|event| event.fate == EventFate::Held));
        dam.release();
        for watch in [&mut one, &mut two] {
            for expected in ["MODIFIED a", "MODIFIED a", "BOOKMARK ", "DELETED a"] {
                assert_eq!(watch.event().await, expected, "{way:?}");
            }
        }
        at.server.send_event("MODIFIED", "a", 8);
        assert_eq!(one.event().await, "MODIFIED a", "the dam is gone");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn discarded_events_are_lost_and_the_watch_goes_on_until_the_test_ends_it() {
    let at = Setting::new(Way::Http1).await;
    let dam = at.proxy.hold_events(Events::of("deployments").nth(2));
    let mut watch = at.client().await.follow(WATCH).await;
    at.server.send_event("ADDED", "a", 1);
    at.server.send_event("ADDED", "b", 2);
    dam.held_at_least(1).await;
    dam.discard();
    at.server.send_event("ADDED", "c", 3);
    assert_eq!((watch.event().await, watch.event().await), ("ADDED a".into(), "ADDED c".into()));
    let fates: Vec<_> = at.proxy.events().iter().map(|event| event.fate).collect();
    assert_eq!(fates[1], EventFate::Lost);
    let ending = Ending::ErrorEvent(Answer::gone());
    assert_eq!(at.proxy.end_watches(&Match::any().resource("foos"), &ending), 0);
    assert_eq!(at.proxy.end_watches(&Match::any().resource("deployments"), &ending), 1);
    assert_eq!((watch.event().await.as_str(), watch.next().await), ("ERROR 410", Next::End));
    assert_eq!(at.proxy.end_watches(&Match::any(), &ending), 0, "none is open");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_server_sent_before_it_ended_a_watch_is_held_and_then_passed() {
    let at = Setting::new(Way::Http2).await;
    let dam = at.proxy.hold_events(Events::any());
    let mut watch = at.client().await.follow(WATCH).await;
    at.server.send_event("ADDED", "a", 1);
    at.server.end_watches();
    dam.held_at_least(1).await;
    dam.release();
    assert_eq!((watch.event().await.as_str(), watch.next().await), ("ADDED a", Next::End));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_test_ends_open_watches_in_each_way() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        for (ending, next, fate) in
            [(Ending::Close, Next::End, Fate::Passed), (Ending::Cut, Next::Cut(String::new()), Fate::Cut)]
        {
            let mut watch = at.client().await.follow(WATCH).await;
            // Registered once an event got through.
            at.server.send_event("ADDED", "a", 1);
            assert_eq!(watch.event().await, "ADDED a");
            assert_eq!(at.proxy.end_watches(&Match::any(), &ending), 1, "{way:?}");
            assert_eq!(watch.next().await, next, "{way:?}");
            ended(&at, fate).await;
            at.server.until_left().await;
            at.proxy.clear();
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_watch_says_nothing_more_and_ends_with_its_client() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let rule = at.proxy.rule(Match::verb(Verb::Watch).nth(1), Fault::StallAfter(Portion::Events(1)));
        let (mut stalled, mut other) =
            (at.client().await.follow(WATCH).await, at.client().await.follow(WATCH).await);
        at.server.send_event("ADDED", "a", 1);
        at.server.send_event("ADDED", "b", 2);
        assert_eq!(stalled.event().await, "ADDED a");
        assert_eq!((other.event().await, other.event().await), ("ADDED a".into(), "ADDED b".into()));
        rule.hit(1).await;
        ended(&at, Fate::Stalled).await;
        assert!(futures::FutureExt::now_or_never(stalled.next()).is_none(), "{way:?}");
        drop((stalled, other));
        at.server.until_left().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_that_the_server_breaks_off_is_cut_and_its_held_events_are_lost() {
    for way in Way::ALL {
        let at = Setting::new(way).await;
        let dam = at.proxy.hold_events(Events::any());
        let mut watch = at.client().await.follow(WATCH).await;
        at.server.send_event("ADDED", "a", 1);
        dam.held_at_least(1).await;
        at.server.cut_watches();
        assert_eq!(watch.next().await, Next::Cut(String::new()), "{way:?}");
        ended(&at, Fate::Unreachable).await;
        assert_eq!((dam.held(), at.proxy.events()[0].fate), (0, EventFate::Lost));
    }
}
