//! Which requests and which watch events a rule is about.

use crate::events::{EventRecord, EventType};
use crate::record::{Record, Verb};
use std::fmt;
use std::sync::Arc;

/// Which of the requests that fit: counted from 1, from when the rule was set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    Every,
    Nth(usize),
    From(usize),
    Times(usize),
}

impl Turn {
    pub(crate) fn includes(self, count: usize) -> bool {
        match self {
            Self::Every => true,
            Self::Nth(n) => count == n,
            Self::From(n) => count >= n,
            Self::Times(n) => count <= n,
        }
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Every => Ok(()),
            Self::Nth(n) => write!(f, ", only number {n}"),
            Self::From(n) => write!(f, ", from number {n}"),
            Self::Times(n) => write!(f, ", the first {n}"),
        }
    }
}

type Condition<T> = Option<Arc<dyn Fn(&T) -> bool + Send + Sync>>;

/// Which requests. Everything that is said must hold; what is not said does not matter.
///
/// `Match::verb(Verb::Patch).resource("deployments").name("web").nth(1)`
#[derive(Clone)]
#[must_use]
pub struct Match {
    verbs: Vec<Verb>,
    resource: Option<String>,
    group: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    user_agent: Option<String>,
    condition: Condition<Record>,
    pub(crate) turn: Turn,
}

impl Match {
    /// Every request.
    pub fn any() -> Self {
        Self {
            verbs: Vec::new(),
            resource: None,
            group: None,
            namespace: None,
            name: None,
            user_agent: None,
            condition: None,
            turn: Turn::Every,
        }
    }

    /// Requests with this verb.
    pub fn verb(verb: Verb) -> Self {
        Self::verbs([verb])
    }

    /// Requests with one of these verbs.
    pub fn verbs(verbs: impl IntoIterator<Item = Verb>) -> Self {
        Self { verbs: verbs.into_iter().collect(), ..Self::any() }
    }

    /// Everything that changes something.
    pub fn writes() -> Self {
        Self::verbs([Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection])
    }

    /// The resource, as a role names it: `foos` is the Foos without their subresources, `foos/status` the
    /// status, `foos/*` all of them.
    pub fn resource(mut self, resource: &str) -> Self {
        self.resource = Some(resource.to_owned());
        self
    }

    /// The API group; empty for the core group.
    pub fn group(mut self, group: &str) -> Self {
        self.group = Some(group.to_owned());
        self
    }

    /// The namespace.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The object's name. A create has the name that is in its JSON body.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// What the user agent begins with.
    pub fn user_agent(mut self, prefix: &str) -> Self {
        self.user_agent = Some(prefix.to_owned());
        self
    }

    /// Anything else.
    pub fn when(mut self, condition: impl Fn(&Record) -> bool + Send + Sync + 'static) -> Self {
        self.condition = Some(Arc::new(condition));
        self
    }

    /// Only the n-th request that fits, counted from 1 and from when the rule is set.
    pub fn nth(mut self, n: usize) -> Self {
        self.turn = Turn::Nth(n);
        self
    }

    /// The n-th request that fits and all after it.
    pub fn from(mut self, n: usize) -> Self {
        self.turn = Turn::From(n);
        self
    }

    /// The first n requests that fit.
    pub fn times(mut self, n: usize) -> Self {
        self.turn = Turn::Times(n);
        self
    }

    /// Whether a request fits, its turn aside.
    pub fn fits(&self, record: &Record) -> bool {
        (self.verbs.is_empty() || self.verbs.contains(&record.verb))
            && self.resource.as_ref().is_none_or(|resource| fits_resource(resource, record))
            && self.group.as_ref().is_none_or(|group| *group == record.group)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == record.namespace)
            && self.name.as_ref().is_none_or(|name| *name == record.name)
            && self.user_agent.as_ref().is_none_or(|prefix| record.user_agent.starts_with(prefix))
            && self.condition.as_ref().is_none_or(|condition| condition(record))
    }
}

fn fits_resource(resource: &str, record: &Record) -> bool {
    match resource.split_once('/') {
        None => record.resource == resource && record.subresource.is_empty(),
        Some((resource, "*")) => record.resource == resource,
        Some((resource, subresource)) => record.resource == resource && record.subresource == subresource,
    }
}

impl fmt::Display for Match {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verbs: Vec<&str> = self.verbs.iter().map(|verb| verb.as_str()).collect();
        write!(f, "{}", if verbs.is_empty() { "any request".to_owned() } else { verbs.join("|") })?;
        labelled(f, " ", self.resource.as_deref())?;
        labelled(f, " of group ", self.group.as_deref())?;
        labelled(f, " in namespace ", self.namespace.as_deref())?;
        labelled(f, " named ", self.name.as_deref())?;
        labelled(f, " by ", self.user_agent.as_deref())?;
        labelled(f, "", self.condition.as_ref().map(|_| ", on a condition"))?;
        write!(f, "{}", self.turn)
    }
}

/// Which events of JSON watches. Everything that is said must hold; what is not said does not matter.
///
/// `Events::of("deployments").name("web").types([EventType::Modified])`
#[derive(Clone)]
#[must_use]
pub struct Events {
    resource: Option<String>,
    namespace: Option<String>,
    name: Option<String>,
    types: Vec<EventType>,
    user_agent: Option<String>,
    condition: Condition<EventRecord>,
    pub(crate) turn: Turn,
}

impl Events {
    /// Every event about an object. (Bookmarks are held back by themselves while an event before them is.)
    pub fn any() -> Self {
        Self {
            resource: None,
            namespace: None,
            name: None,
            types: Vec::new(),
            user_agent: None,
            condition: None,
            turn: Turn::Every,
        }
    }

    /// Events of watches of this resource.
    pub fn of(resource: &str) -> Self {
        Self { resource: Some(resource.to_owned()), ..Self::any() }
    }

    /// The namespace of the object.
    pub fn namespace(mut self, namespace: &str) -> Self {
        self.namespace = Some(namespace.to_owned());
        self
    }

    /// The name of the object.
    pub fn name(mut self, name: &str) -> Self {
        self.name = Some(name.to_owned());
        self
    }

    /// One of these types.
    pub fn types(mut self, types: impl IntoIterator<Item = EventType>) -> Self {
        self.types = types.into_iter().collect();
        self
    }

    /// What the watching client's user agent begins with.
    pub fn user_agent(mut self, prefix: &str) -> Self {
        self.user_agent = Some(prefix.to_owned());
        self
    }

    /// Anything else.
    pub fn when(mut self, condition: impl Fn(&EventRecord) -> bool + Send + Sync + 'static) -> Self {
        self.condition = Some(Arc::new(condition));
        self
    }

    /// Only the n-th event that fits, counted from 1 over all watches and from when the dam is set.
    pub fn nth(mut self, n: usize) -> Self {
        self.turn = Turn::Nth(n);
        self
    }

    /// The n-th event that fits and all after it.
    pub fn from(mut self, n: usize) -> Self {
        self.turn = Turn::From(n);
        self
    }

    /// The first n events that fit.
    pub fn times(mut self, n: usize) -> Self {
        self.turn = Turn::Times(n);
        self
    }

    /// Whether an event fits, its turn aside.
    pub fn fits(&self, event: &EventRecord) -> bool {
        event.kind.is_about_an_object()
            && (self.types.is_empty() || self.types.contains(&event.kind))
            && self.resource.as_ref().is_none_or(|resource| *resource == event.resource)
            && self.namespace.as_ref().is_none_or(|namespace| *namespace == event.namespace)
            && self.name.as_ref().is_none_or(|name| *name == event.name)
            && self.user_agent.as_ref().is_none_or(|prefix| event.user_agent.starts_with(prefix))
            && self.condition.as_ref().is_none_or(|condition| condition(event))
    }
}

impl fmt::Display for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let types: Vec<&str> = self.types.iter().map(|kind| kind.as_str()).collect();
        write!(f, "{}", if types.is_empty() { "any event".to_owned() } else { types.join("|") })?;
        labelled(f, " of ", self.resource.as_deref())?;
        labelled(f, " in namespace ", self.namespace.as_deref())?;
        labelled(f, " named ", self.name.as_deref())?;
        labelled(f, " watched by ", self.user_agent.as_deref())?;
        labelled(f, "", self.condition.as_ref().map(|_| ", on a condition"))?;
        write!(f, "{}", self.turn)
    }
}

fn labelled(f: &mut fmt::Formatter<'_>, label: &str, value: Option<&str>) -> fmt::Result {
    value.map_or(Ok(()), |value| write!(f, "{label}{value}"))
}
