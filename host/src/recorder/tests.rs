//! The recorder against a sink that remembers, fails or hangs.

use super::*;
use contract::EventType;
use serde_json::json;
use std::sync::{Mutex, PoisonError};
use tokio::sync::Notify;

fn observed(name: &str, message: &str) -> Observed {
    Observed {
        namespace: "default".to_owned(),
        name: name.to_owned(),
        uid: format!("uid-{name}"),
        kind: "Foo",
        api_version: "samplecontroller.k8s.io/v1alpha1",
        resource_version: "7".to_owned(),
        r#type: EventType::Normal,
        reason: "Synced".to_owned(),
        message: message.to_owned(),
    }
}

#[derive(Clone, Debug, PartialEq)]
enum Call {
    Create(Value),
    Patch(String, Value),
}

#[derive(Default)]
struct Remembering {
    calls: Mutex<Vec<Call>>,
    /// What the next calls answer; then all succeed.
    answers: Mutex<std::collections::VecDeque<SinkError>>,
    /// Calls wait for this, if it is there.
    gate: Option<Notify>,
    always: Option<SinkError>,
}

impl Remembering {
    fn calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn answer(&self, call: Call) -> Result<(), SinkError> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).push(call);
        if let Some(gate) = &self.gate {
            gate.notified().await;
        }
        let answer = self.answers.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        answer.or_else(|| self.always.clone()).map_or(Ok(()), Err)
    }
}

impl Sink for Remembering {
    async fn create(&self, namespace: &str, event: &Value) -> Result<(), SinkError> {
        assert_eq!(event["metadata"]["namespace"], namespace);
        self.answer(Call::Create(event.clone())).await
    }

    async fn patch(&self, _: &str, name: &str, patch: &Value) -> Result<(), SinkError> {
        self.answer(Call::Patch(name.to_owned(), patch.clone())).await
    }
}

fn recorder(sink: &Arc<Remembering>) -> (Recorder, impl Future<Output = ()> + Send + 'static) {
    Recorder::with_source(
        Source::new("sample-controller", "node-1"),
        Arc::clone(sink),
        CancellationToken::new(),
    )
}

#[tokio::test(start_paused = true)]
async fn an_event_is_created_and_then_counted() {
    let sink = Arc::new(Remembering::default());
    let (recorder, sending) = recorder(&sink);
    recorder.record(observed("a", "done"));
    recorder.record(observed("a", "done"));
    let stats = recorder.clone();
    drop(recorder);
    let sending = tokio::spawn(sending);
    while stats.stats().written < 2 {
        tokio::task::yield_now().await;
    }
    drop(stats);
    sending.await.unwrap();
    let calls = sink.calls();
    let [Call::Create(event), Call::Patch(name, patch)] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(event["metadata"]["name"], **name);
    assert_eq!((&patch["count"], &patch["message"]), (&json!(2), &json!("done")));
}

#[tokio::test(start_paused = true)]
async fn an_event_that_is_gone_is_created_anew_with_its_count() {
    let sink = Arc::new(Remembering::default());
    let (recorder, sending) = recorder(&sink);
    let sending = tokio::spawn(sending);
    recorder.record(observed("a", "done"));
    while recorder.stats().written < 1 {
        tokio::task::yield_now().await;
    }
    sink.answers.lock().unwrap().push_back(SinkError::NotFound);
    recorder.record(observed("a", "done"));
    drop(recorder);
    sending.await.unwrap();
    let calls = sink.calls();
    let [Call::Create(first), Call::Patch(..), Call::Create(again)] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!(first["metadata"], again["metadata"]);
    assert_eq!((&again["count"], &again["firstTimestamp"]), (&json!(2), &first["firstTimestamp"]));
}

#[tokio::test(start_paused = true)]
async fn an_unavailable_server_is_tried_again_for_30_seconds_and_a_refusal_is_not() {
    let unavailable = SinkError::Unavailable("reset".to_owned());
    let sink = Arc::new(Remembering { always: Some(unavailable), ..Remembering::default() });
    let (recorder, sending) = recorder(&sink);
    let sending = tokio::spawn(sending);
    let start = Instant::now();
    recorder.record(observed("a", "done"));
    while recorder.stats().failed < 1 {
        sleep(Duration::from_millis(100)).await;
    }
    // At 0, 0.5, 1.5, 3.5, 7.5 and 15.5 s.
    assert_eq!(sink.calls().len(), 6);
    assert!(start.elapsed() < RETRY_FOR);
    drop(recorder);
    sending.await.unwrap();

    for error in
        [SinkError::Refused("no".to_owned()), SinkError::Moot("exists".to_owned()), SinkError::NotFound]
    {
        let sink = Arc::new(Remembering { always: Some(error), ..Remembering::default() });
        let (recorder, sending) = self::recorder(&sink);
        let sending = tokio::spawn(sending);
        recorder.record(observed("a", "done"));
        while recorder.stats().failed < 1 {
            tokio::task::yield_now().await;
        }
        assert_eq!(sink.calls().len(), 1);
        drop(recorder);
        sending.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_succeeds_with_the_same_name() {
    let sink = Arc::new(Remembering::default());
    sink.answers.lock().unwrap().push_back(SinkError::Unavailable("reset".to_owned()));
    let (recorder, sending) = recorder(&sink);
    let sending = tokio::spawn(sending);
    recorder.record(observed("a", "done"));
    while recorder.stats().written < 1 {
        sleep(Duration::from_millis(100)).await;
    }
    let calls = sink.calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0], calls[1]);
    drop(recorder);
    sending.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_stop_ends_the_retries_but_not_the_recording() {
    let stop = CancellationToken::new();
    let sink = Arc::new(Remembering::default());
    sink.answers.lock().unwrap().push_back(SinkError::Unavailable("reset".to_owned()));
    let (recorder, sending) = Recorder::new(Arc::clone(&sink), stop.clone());
    let sending = tokio::spawn(sending);
    stop.cancel();
    let start = Instant::now();
    recorder.record(observed("a", "of a run that was in flight"));
    recorder.record(observed("b", "of another"));
    drop(recorder);
    sending.await.unwrap();
    assert_eq!((sink.calls().len(), start.elapsed()), (2, Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn the_end_waits_two_seconds_for_a_sink_that_hangs() {
    let sink = Arc::new(Remembering { gate: Some(Notify::new()), ..Remembering::default() });
    let (recorder, sending) = recorder(&sink);
    recorder.record(observed("a", "done"));
    drop(recorder);
    let start = Instant::now();
    sending.await;
    assert_eq!((sink.calls().len(), start.elapsed()), (1, DRAIN_WITHIN));
}

#[tokio::test(start_paused = true)]
async fn what_finds_no_room_is_dropped_and_counted() {
    let sink = Arc::new(Remembering::default());
    let (recorder, sending) = recorder(&sink);
    for _ in 0..LANE_CAPACITY {
        recorder.record(observed("a", "done"));
    }
    assert_eq!(recorder.stats().overflowed, 0);
    recorder.record(observed("a", "done"));
    assert_eq!(recorder.stats().overflowed, 1);
    drop(sending);
    recorder.record(observed("b", "done"));
    assert_eq!(recorder.stats().overflowed, 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_whose_event_hangs_does_not_hold_up_all_others() {
    let sink = Arc::new(Remembering { gate: Some(Notify::new()), ..Remembering::default() });
    let (recorder, sending) = recorder(&sink);
    let sending = tokio::spawn(sending);
    for n in 0..200 {
        recorder.record(observed(&format!("foo-{n}"), "done"));
    }
    while sink.calls().len() < LANES {
        tokio::task::yield_now().await;
    }
    sending.abort();
    assert_eq!(sink.calls().len(), LANES);
}
