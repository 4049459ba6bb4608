//! A guest's answer, folded into one: the place where contradictions and what breaks the contract's
//! limits are refused.
//!
//! Owns: the limits of each action but the manifest's (`manifest.rs`). Must not know the snapshot.

use crate::failure::{Failure, Reason};
use contract::{Action, ConditionUpdate, Event, StatusUpdate, one_line};
use std::collections::BTreeSet;
use std::time::Duration;

/// All that an answer says, each thing at most once.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Folded {
    /// Which action it was, and the manifest of `apply-deployment`.
    pub(crate) apply: Option<(Place, String)>,
    /// `delete-deployment`.
    pub(crate) delete: bool,
    pub(crate) status: Option<StatusUpdate>,
    pub(crate) events: Vec<Event>,
    pub(crate) requeue_after: Option<Duration>,
}

/// Where in the answer an action stands, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    position: usize,
    total: usize,
    name: &'static str,
}

impl Place {
    /// The whole answer is refused, and the message says for which action.
    pub(crate) fn refuse(self, message: impl AsRef<str>) -> Failure {
        let Self { position, total, name } = self;
        let message = format!("action {position} of {total} ({name}): {}", message.as_ref());
        Failure::new(Reason::InvalidAnswer, &message)
    }
}

/// Folds the actions.
///
/// # Errors
/// [`Reason::InvalidAnswer`], for the first action that breaks the contract.
pub(crate) fn fold(actions: Vec<Action>) -> Result<Folded, Failure> {
    let total = actions.len();
    let mut folded = Folded::default();
    for (index, action) in actions.into_iter().enumerate() {
        let place = Place { position: index + 1, total, name: name(&action) };
        match action {
            Action::ApplyDeployment(manifest) => {
                if folded.delete {
                    return Err(place.refuse("contradicts delete-deployment in the same answer"));
                }
                once(place, folded.apply.is_none())?;
                folded.apply = Some((place, manifest));
            }
            Action::DeleteDeployment => {
                if folded.apply.is_some() {
                    return Err(place.refuse("contradicts apply-deployment in the same answer"));
                }
                once(place, !folded.delete)?;
                folded.delete = true;
            }
            Action::SetStatus(update) => {
                once(place, folded.status.is_none())?;
                folded.status = Some(status(update).map_err(|message| place.refuse(message))?);
            }
            Action::RecordEvent(event) => {
                if folded.events.len() >= contract::MAX_EVENTS {
                    let max = contract::MAX_EVENTS;
                    return Err(place.refuse(format!("at most {max} Events in one answer")));
                }
                folded.events.push(clean_event(&event).map_err(|message| place.refuse(message))?);
            }
            Action::RequeueAfter(seconds) => {
                once(place, folded.requeue_after.is_none())?;
                let range = contract::REQUEUE_AFTER_SECONDS;
                if !range.contains(&seconds) {
                    let (min, max) = (range.start(), range.end());
                    return Err(place.refuse(format!("{seconds} seconds, possible are {min} to {max}")));
                }
                folded.requeue_after = Some(Duration::from_secs(seconds.into()));
            }
        }
    }
    Ok(folded)
}

fn name(action: &Action) -> &'static str {
    match action {
        Action::ApplyDeployment(_) => "apply-deployment",
        Action::DeleteDeployment => "delete-deployment",
        Action::SetStatus(_) => "set-status",
        Action::RecordEvent(_) => "record-event",
        Action::RequeueAfter(_) => "requeue-after",
    }
}

fn once(place: Place, first: bool) -> Result<(), Failure> {
    if first { Ok(()) } else { Err(place.refuse("a second one in the same answer")) }
}

fn status(mut update: StatusUpdate) -> Result<StatusUpdate, String> {
    if update.available_replicas < 0 {
        return Err(format!("available-replicas is {}, must not be negative", update.available_replicas));
    }
    let count = update.conditions.len();
    if count > contract::MAX_CONDITIONS {
        return Err(format!("{count} conditions, at most {} are possible", contract::MAX_CONDITIONS));
    }
    let mut types = BTreeSet::new();
    for condition in &mut update.conditions {
        check_condition(condition)?;
        if !types.insert(condition.r#type.as_str()) {
            return Err(format!("condition {} twice", condition.r#type));
        }
        condition.message = one_line(&condition.message, contract::MAX_CONDITION_MESSAGE_BYTES);
    }
    Ok(update)
}

fn check_condition(condition: &ConditionUpdate) -> Result<(), String> {
    let ConditionUpdate { r#type, reason, .. } = condition;
    let shown = contract::truncate(r#type, 100);
    if foo_api::HOST_CONDITIONS.contains(&r#type.as_str()) {
        return Err(format!("condition {shown} is the host's"));
    }
    if r#type.len() > contract::MAX_CONDITION_TYPE_BYTES || !is_condition_type(r#type) {
        let max = contract::MAX_CONDITION_TYPE_BYTES;
        return Err(format!(
            "condition type {shown:?} is not of the form CamelCase or domain/CamelCase, up to {max} bytes"
        ));
    }
    if reason.len() > contract::MAX_CONDITION_REASON_BYTES || !is_reason(reason) {
        let max = contract::MAX_CONDITION_REASON_BYTES;
        let reason = contract::truncate(reason, 100);
        return Err(format!(
            "reason {reason:?} of condition {shown} is not one word of letters, digits, '_', ',' and ':' \
             that starts with a letter, 1 to {max} bytes"
        ));
    }
    Ok(())
}

/// `metav1.Condition.type`: an optional DNS-1123 subdomain and a slash, then a qualified name.
fn is_condition_type(text: &str) -> bool {
    let (prefix, name) = match text.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, text),
    };
    let bytes = name.as_bytes();
    let ends = [bytes.first(), bytes.last()];
    prefix.is_none_or(|prefix| foo_api::validate_deployment_name(prefix).is_ok())
        && ends.iter().all(|end| end.is_some_and(u8::is_ascii_alphanumeric))
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(b))
}

/// `metav1.Condition.reason`.
fn is_reason(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_')
        && bytes.iter().all(|b| b.is_ascii_alphanumeric() || b"_,:".contains(b))
}

fn clean_event(event: &Event) -> Result<Event, String> {
    let reason = one_line(&event.reason, contract::MAX_EVENT_REASON_BYTES);
    if reason.is_empty() {
        return Err("the reason of the Event is empty".to_owned());
    }
    let message = one_line(&event.message, contract::MAX_EVENT_MESSAGE_BYTES);
    Ok(Event { r#type: event.r#type, reason, message })
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::{ConditionStatus, EventType};

    fn refused(actions: Vec<Action>) -> String {
        let failure = fold(actions).unwrap_err();
        assert_eq!(failure.reason, Reason::InvalidAnswer);
        assert!(failure.immediate);
        failure.message
    }

    fn condition(r#type: &str, reason: &str) -> Action {
        let condition = ConditionUpdate {
            r#type: r#type.to_owned(),
            status: ConditionStatus::True,
            reason: reason.to_owned(),
            message: "a\nb".to_owned(),
        };
        Action::SetStatus(StatusUpdate { available_replicas: 1, conditions: vec![condition] })
    }

    fn event() -> Action {
        Action::RecordEvent(Event {
            r#type: EventType::Normal,
            reason: "R".repeat(200),
            message: "é".repeat(2_000),
        })
    }

    #[test]
    fn an_answer_that_contradicts_itself_is_refused_whole() {
        let apply = || Action::ApplyDeployment("{}".to_owned());
        assert_eq!(
            refused(vec![apply(), Action::DeleteDeployment]),
            "action 2 of 2 (delete-deployment): contradicts apply-deployment in the same answer"
        );
        assert!(refused(vec![Action::DeleteDeployment, apply()]).contains("contradicts"));
        for twice in [apply(), Action::DeleteDeployment, condition("A", "B"), Action::RequeueAfter(1)] {
            assert!(refused(vec![twice.clone(), twice]).ends_with("a second one in the same answer"));
        }
    }

    #[test]
    fn eight_events_are_taken_and_nine_refused() {
        assert_eq!(fold(vec![event(); 8]).unwrap().events.len(), 8);
        assert!(refused(vec![event(); 9]).contains("at most 8"));
    }

    #[test]
    fn case_9_text_of_events_is_cut_between_characters() {
        let folded = fold(vec![event()]).unwrap();
        assert_eq!(folded.events[0].reason.len(), 128);
        assert_eq!(folded.events[0].message.len(), 1_024);
    }

    #[test]
    fn an_event_has_a_reason() {
        let event = |reason: &str| {
            let reason = reason.to_owned();
            vec![Action::RecordEvent(Event { r#type: EventType::Normal, reason, message: String::new() })]
        };
        assert!(fold(event("R")).is_ok());
        for none in ["", " \n"] {
            assert!(refused(event(none)).ends_with("the reason of the Event is empty"));
        }
    }

    #[test]
    fn requeue_after_is_one_second_to_one_day() {
        for seconds in [1, 86_400] {
            let folded = fold(vec![Action::RequeueAfter(seconds)]).unwrap();
            assert_eq!(folded.requeue_after, Some(Duration::from_secs(seconds.into())));
        }
        for seconds in [0, 86_401, u32::MAX] {
            assert!(refused(vec![Action::RequeueAfter(seconds)]).contains("1 to 86400"));
        }
    }

    #[test]
    fn sixteen_conditions_are_taken_and_seventeen_refused() {
        let many = |count: usize| {
            let conditions = (0..count).map(|n| ConditionUpdate {
                r#type: format!("C{n}"),
                status: ConditionStatus::Unknown,
                reason: "R".to_owned(),
                message: String::new(),
            });
            vec![Action::SetStatus(StatusUpdate { available_replicas: 0, conditions: conditions.collect() })]
        };
        assert!(fold(many(16)).is_ok());
        assert!(refused(many(17)).contains("at most 16"));
    }

    #[test]
    fn conditions_have_the_form_of_metav1() {
        let longest = format!("a.b/{}", "C".repeat(312));
        for r#type in ["A", "Scaled", "example.com/Scaled_x.y-z", &longest] {
            assert!(fold(vec![condition(r#type, "Ok")]).is_ok(), "{type}");
        }
        let too_long = format!("{longest}C");
        for r#type in ["", "-a", "a b", "/a", "a/", "A_/b", "a/b/c", &too_long] {
            assert!(refused(vec![condition(r#type, "Ok")]).contains("condition type"), "{type}");
        }
        for reason in ["A", "a_", "A:b,c_1", &"R".repeat(1_024)] {
            assert!(fold(vec![condition("A", reason)]).is_ok(), "{reason}");
        }
        for reason in ["", "1a", "a:", "a b", &"R".repeat(1_025)] {
            assert!(refused(vec![condition("A", reason)]).contains("reason"), "{reason}");
        }
    }

    #[test]
    fn the_hosts_conditions_cannot_be_set_and_none_twice() {
        for host in foo_api::HOST_CONDITIONS {
            assert!(refused(vec![condition(host, "Ok")]).ends_with("is the host's"));
        }
        let Action::SetStatus(mut update) = condition("A", "B") else { unreachable!() };
        update.conditions.push(update.conditions[0].clone());
        assert!(refused(vec![Action::SetStatus(update)]).ends_with("condition A twice"));
    }

    #[test]
    fn messages_of_conditions_become_one_line() {
        let status = fold(vec![condition("A", "B")]).unwrap().status.unwrap();
        assert_eq!(status.conditions[0].message, "a b");
    }

    #[test]
    fn available_replicas_is_not_negative() {
        let set = |available_replicas| {
            vec![Action::SetStatus(StatusUpdate { available_replicas, ..StatusUpdate::default() })]
        };
        assert!(fold(set(0)).is_ok());
        assert!(refused(set(-1)).contains("must not be negative"));
    }
}
