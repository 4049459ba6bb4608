//! Why a run failed, how it goes on, and who is told.
//!
//! Owns: the closed set of reasons (metric labels, Event and condition reasons) and the class of
//! each. Must not know where a failure comes from: the host maps engine and API errors to these.

use std::fmt;

/// How a failed run goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Class {
    /// Part of normal work (a conflict, a full instance pool): run again soon, tell nobody.
    Quiet,
    /// Run again with growing delays; told at once if [`Failure::immediate`], else from the third
    /// attempt in a row.
    Retry,
    /// Trying again changes nothing: told at once, no run before the Foo, the Deployment, the guest
    /// or its parameters change, or the resync comes.
    Permanent,
}

/// The closed set of reasons. [`Reason::as_str`] is the reason of the Event and of the condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reason {
    /// A Deployment of that name is not controlled by this Foo.
    ErrResourceExists,
    /// `spec` of the Foo is not of the API's form (only without the CRD's validation).
    InvalidSpec,
    /// The guest's answer breaks the contract.
    InvalidAnswer,
    /// The guest answered `retry`.
    GuestRetry,
    /// The guest answered `permanent`.
    GuestPermanent,
    /// The call used up its fuel.
    FuelExhausted,
    /// The call passed its deadline.
    DeadlineExceeded,
    /// The call asked for more memory or larger tables than allowed.
    MemoryLimitExceeded,
    /// The guest's stack overflowed.
    StackOverflow,
    /// The guest trapped (a panic, `unreachable`, a bad memory access).
    GuestTrapped,
    /// The answer is larger than allowed.
    AnswerTooLarge,
    /// The host's own fault, not the guest's.
    HostFault,
    /// No instance was free in time.
    PoolExhausted,
    /// No guest is loaded yet.
    NoGuest,
    /// The object changed, or is another one, since the plan was made (409, or 422 for the uid).
    Conflict,
    /// The Deployment exists although the cache has none (409 `AlreadyExists`).
    AlreadyExists,
    /// The namespace is being deleted (403 with that cause): the work ends here.
    NamespaceTerminating,
    /// The API refused the request for lack of a right or for a quota (403).
    Forbidden,
    /// The API refused the object itself (400, 422).
    ApiRejected,
    /// The API has no such resource or object (404).
    NotFound,
    /// The API asked to slow down (429).
    TooManyRequests,
    /// The API could not be reached, or did not answer in time.
    ApiUnavailable,
    /// The API answered with another error.
    ApiError,
}

impl Reason {
    /// Each reason there is, for metrics that name all of them from the start.
    pub const ALL: [Self; 23] = [
        Self::ErrResourceExists,
        Self::InvalidSpec,
        Self::InvalidAnswer,
        Self::GuestRetry,
        Self::GuestPermanent,
        Self::FuelExhausted,
        Self::DeadlineExceeded,
        Self::MemoryLimitExceeded,
        Self::StackOverflow,
        Self::GuestTrapped,
        Self::AnswerTooLarge,
        Self::HostFault,
        Self::PoolExhausted,
        Self::NoGuest,
        Self::Conflict,
        Self::AlreadyExists,
        Self::NamespaceTerminating,
        Self::Forbidden,
        Self::ApiRejected,
        Self::NotFound,
        Self::TooManyRequests,
        Self::ApiUnavailable,
        Self::ApiError,
    ];

    /// One word in CamelCase, as Events and conditions carry it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ErrResourceExists => foo_api::REASON_RESOURCE_EXISTS,
            Self::InvalidSpec => "InvalidSpec",
            Self::InvalidAnswer => "InvalidAnswer",
            Self::GuestRetry => "GuestRetry",
            Self::GuestPermanent => "GuestPermanent",
            Self::FuelExhausted => "FuelExhausted",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::MemoryLimitExceeded => "MemoryLimitExceeded",
            Self::StackOverflow => "StackOverflow",
            Self::GuestTrapped => "GuestTrapped",
            Self::AnswerTooLarge => "AnswerTooLarge",
            Self::HostFault => "HostFault",
            Self::PoolExhausted => "PoolExhausted",
            Self::NoGuest => "NoGuest",
            Self::Conflict => "Conflict",
            Self::AlreadyExists => "AlreadyExists",
            Self::NamespaceTerminating => "NamespaceTerminating",
            Self::Forbidden => "Forbidden",
            Self::ApiRejected => "ApiRejected",
            Self::NotFound => "NotFound",
            Self::TooManyRequests => "TooManyRequests",
            Self::ApiUnavailable => "ApiUnavailable",
            Self::ApiError => "ApiError",
        }
    }

    /// The class of a failure with this reason, unless whoever made it knows better.
    pub fn class(self) -> Class {
        match self {
            Self::InvalidSpec | Self::InvalidAnswer | Self::GuestPermanent | Self::ApiRejected => {
                Class::Permanent
            }
            Self::PoolExhausted
            | Self::NoGuest
            | Self::Conflict
            | Self::AlreadyExists
            | Self::NamespaceTerminating => Class::Quiet,
            Self::ErrResourceExists
            | Self::GuestRetry
            | Self::FuelExhausted
            | Self::DeadlineExceeded
            | Self::MemoryLimitExceeded
            | Self::StackOverflow
            | Self::GuestTrapped
            | Self::AnswerTooLarge
            | Self::HostFault
            | Self::Forbidden
            | Self::NotFound
            | Self::TooManyRequests
            | Self::ApiUnavailable
            | Self::ApiError => Class::Retry,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Why a run failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason}: {message}")]
pub struct Failure {
    /// The closed set, for programs.
    pub reason: Reason,
    /// One clean line of at most 1,024 bytes, for people; constant for a constant state.
    pub message: String,
    /// How the run goes on.
    pub class: Class,
    /// Told at the first attempt. Permanent failures always are, quiet ones never.
    pub immediate: bool,
}

impl Failure {
    /// A failure of the class that its reason has, its message cut to one clean line.
    pub fn new(reason: Reason, message: &str) -> Self {
        let class = reason.class();
        Self {
            reason,
            message: contract::one_line(message, contract::MAX_CONDITION_MESSAGE_BYTES),
            class,
            immediate: class == Class::Permanent || reason == Reason::ErrResourceExists,
        }
    }

    /// Whether this failure, after `failures` failed attempts in a row before it, is shown as an
    /// Event and as conditions.
    pub fn visible(&self, failures: u32) -> bool {
        match self.class {
            Class::Quiet => false,
            Class::Retry => self.immediate || failures.saturating_add(1) >= VISIBLE_AT_ATTEMPT,
            Class::Permanent => true,
        }
    }
}

/// A failure that survives this many attempts is told.
const VISIBLE_AT_ATTEMPT: u32 = 3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_has_a_word_of_its_own() {
        let words: std::collections::BTreeSet<_> = Reason::ALL.iter().map(|r| r.as_str()).collect();
        assert_eq!(words.len(), Reason::ALL.len());
        assert!(words.iter().all(|w| w.chars().all(|c| c.is_ascii_alphanumeric())));
    }

    #[test]
    fn invariant_9_failures_are_visible_when_permanent_or_at_the_third_attempt_and_never_when_quiet() {
        let retry = Failure::new(Reason::GuestRetry, "x");
        assert!(!retry.visible(0) && !retry.visible(1));
        assert!(retry.visible(2) && retry.visible(u32::MAX));
        assert!(Failure::new(Reason::GuestPermanent, "x").visible(0));
        assert!(Failure::new(Reason::ErrResourceExists, "x").visible(0));
        for quiet in
            [Reason::Conflict, Reason::AlreadyExists, Reason::PoolExhausted, Reason::NamespaceTerminating]
        {
            assert!(!Failure::new(quiet, "x").visible(100));
        }
    }

    #[test]
    fn invariant_9_the_text_is_one_clean_line() {
        assert_eq!(Failure::new(Reason::GuestRetry, "a\nb\u{1b}[0m").message, "a b [0m");
        assert_eq!(Failure::new(Reason::GuestRetry, &"x".repeat(9_000)).message.len(), 1_024);
    }
}
