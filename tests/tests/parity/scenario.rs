//! The scenario: cases, each in a namespace of its own, that take their steps together in rounds.

use crate::lab::Side;
use crate::state::State;
use serde_json::{Value, json};
use tests::objects::{at, foo};

/// What a person does.
pub(crate) enum Act {
    CreateFoo(Value),
    PatchFoo(&'static str, Value),
    DeleteFoo(&'static str),
    CreateDeployment(Value),
    PatchDeployment(&'static str, Value),
    Scale(&'static str, u8),
    DeleteDeployment(&'static str),
    /// Comes before the next act, where the order of two would be chance.
    Wait(Expect),
}

/// What a state must be before it is looked at. Where nothing is to happen there is none, and the round's canary
/// has to do.
#[derive(Clone, Debug)]
pub(crate) enum Expect {
    /// A Deployment has this value.
    Deployment(&'static str, &'static str, Value),
    /// There is no such Deployment.
    NoDeployment(&'static str),
    /// There is no such Foo.
    NoFoo(&'static str),
    /// The Foo controls this Deployment.
    Owns(&'static str, &'static str),
    /// An Event with this reason tells of a Foo.
    Event(&'static str, &'static str),
}

/// One step of a case.
#[derive(Default)]
pub(crate) struct Step {
    /// What the report calls it; empty where the case only waits for the others.
    pub(crate) name: &'static str,
    pub(crate) acts: Vec<Act>,
    /// On both sides.
    pub(crate) both: Vec<Expect>,
    /// Of the Go original alone.
    pub(crate) go: Vec<Expect>,
    /// Of the host alone.
    pub(crate) host: Vec<Expect>,
}

/// A case: what happens in one namespace.
pub(crate) struct Case {
    /// Its name, and that of the namespace.
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<Step>,
}

/// In this round, from 0, the controller is down while the acts are done.
pub(crate) const RESTART: usize = 3;

/// How many rounds the cases take.
pub(crate) fn rounds(cases: &[Case]) -> usize {
    cases.iter().map(|case| case.steps.len()).max().unwrap_or_default()
}

impl Case {
    /// What the report calls the step of a round; empty where the case only waits. The restart is a step of each.
    pub(crate) fn title(&self, round: usize) -> &'static str {
        match self.steps.get(round).map_or("", |step| step.name) {
            "" if round == RESTART => "restart",
            name => name,
        }
    }
}

impl Expect {
    pub(crate) fn holds(&self, state: &State) -> bool {
        match self {
            Self::Deployment(name, pointer, value) => {
                state.deployments.get(*name).is_some_and(|one| at(one, pointer) == value)
            }
            Self::NoDeployment(name) => !state.deployments.contains_key(*name),
            Self::NoFoo(name) => !state.foos.contains_key(*name),
            Self::Owns(foo, name) => {
                let (foo, deployment) = (state.foos.get(*foo), state.deployments.get(*name));
                foo.zip(deployment).is_some_and(|(foo, deployment)| crate::state::owns(foo, deployment))
            }
            Self::Event(foo, reason) => {
                let told =
                    |event: &Value| at(event, "/involvedObject/name") == *foo && event["reason"] == *reason;
                state.events.iter().any(told)
            }
        }
    }
}

impl Step {
    /// What does not hold yet on one side. What the API refused has no consequences.
    pub(crate) fn missing(&self, side: Side, refused: bool, state: &State) -> Option<&Expect> {
        let own = if side == Side::Go { &self.go } else { &self.host };
        self.both.iter().chain(own).find(|expect| !refused && !expect.holds(state))
    }

    fn both(mut self, expect: Expect) -> Self {
        self.both.push(expect);
        self
    }

    fn go(mut self, expect: Expect) -> Self {
        self.go.push(expect);
        self
    }

    fn host(mut self, expect: Expect) -> Self {
        self.host.push(expect);
        self
    }
}

fn step(name: &'static str, acts: impl Into<Vec<Act>>) -> Step {
    Step { name, acts: acts.into(), ..Step::default() }
}

fn pause() -> Step {
    Step::default()
}

fn case(name: &'static str, steps: impl Into<Vec<Step>>) -> Case {
    Case { name, steps: steps.into() }
}

fn replicas(name: &'static str, number: u8) -> Expect {
    Expect::Deployment(name, "/spec/replicas", number.into())
}

fn named(name: &'static str, replicas: impl Into<Value>) -> Act {
    Act::PatchFoo(name, json!({"spec": {"replicas": replicas.into()}}))
}

fn renamed(name: &'static str, deployment: &str) -> Act {
    Act::PatchFoo(name, json!({"spec": {"deploymentName": deployment}}))
}

fn unnamed(name: &str, deployment: &str) -> Value {
    let mut foo = foo(name, deployment);
    foo["spec"] = json!({"deploymentName": deployment});
    foo
}

fn with_replicas(name: &str, deployment: &str, replicas: i64) -> Value {
    let mut foo = foo(name, deployment);
    foo["spec"]["replicas"] = replicas.into();
    foo
}

/// 63 characters: the longest that a label takes.
pub(crate) const LONG: &str = "long-name-long-name-long-name-long-name-long-name-long-name-123";
/// 64 characters.
pub(crate) const LONGER: &str = "long-name-long-name-long-name-long-name-long-name-long-name-1234";

/// All cases.
pub(crate) fn cases() -> Vec<Case> {
    use Act::{
        CreateDeployment, CreateFoo, DeleteDeployment, DeleteFoo, PatchDeployment, PatchFoo, Scale, Wait,
    };
    use Expect::{Event, NoDeployment, NoFoo, Owns};
    let image = "/spec/template/spec/containers/0/image";
    let held = {
        let mut foo = foo("a", "web");
        foo["metadata"]["finalizers"] = json!(["example.com/hold"]);
        foo
    };
    let by_hand = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": image}]}}}});
    vec![
        case(
            "replicas",
            [
                step("create", [CreateFoo(foo("a", "web"))]).both(Owns("a", "web")),
                step("edit replicas", [named("a", 3)]).both(replicas("web", 3)),
                step("clear replicas", [named("a", Value::Null)]),
                pause(),
                step("scale by hand what is not named", [Scale("web", 5)]).both(replicas("web", 5)),
                step("name replicas again", [named("a", 2)]).both(replicas("web", 2)),
                step("scale by hand what is named", [Scale("web", 4)]).both(replicas("web", 2)),
            ],
        ),
        case(
            "replicas-never-named",
            [
                step("create", [CreateFoo(unnamed("a", "web"))]).both(Owns("a", "web")),
                step("scale by hand", [Scale("web", 3)]).both(replicas("web", 3)),
                step("delete the Deployment", [DeleteDeployment("web")]).both(replicas("web", 1)),
            ],
        ),
        case(
            "rename",
            [
                step("create", [CreateFoo(foo("a", "web-a"))]).both(Owns("a", "web-a")),
                step("edit deploymentName", [renamed("a", "web-b")])
                    .both(Owns("a", "web-b"))
                    .host(NoDeployment("web-a")),
                step("and back", [renamed("a", "web-a")])
                    .both(Owns("a", "web-a"))
                    .host(NoDeployment("web-b")),
                pause(),
                step("delete the Foo", [DeleteFoo("a")])
                    .both(NoFoo("a"))
                    .both(NoDeployment("web-a"))
                    .both(NoDeployment("web-b")),
            ],
        ),
        case(
            "rename-onto-a-foreign-one",
            [
                step("create", [CreateFoo(foo("a", "web")), CreateDeployment(tests::deployment("theirs"))])
                    .both(Owns("a", "web")),
                step("edit deploymentName", [renamed("a", "theirs")]).both(Event("a", "ErrResourceExists")),
                step("and back", [renamed("a", "web")]),
            ],
        ),
        case(
            "foreign-deployment",
            [
                step("create", [CreateDeployment(tests::deployment("web")), CreateFoo(foo("a", "web"))])
                    .both(Event("a", "ErrResourceExists")),
                step("free the name", [DeleteDeployment("web")]).both(Owns("a", "web")),
            ],
        ),
        case(
            "two-foos-of-one-deployment",
            [
                step(
                    "create",
                    [
                        CreateFoo(foo("a", "web")),
                        Wait(Owns("a", "web")),
                        CreateFoo(with_replicas("b", "web", 2)),
                    ],
                )
                .both(Event("b", "ErrResourceExists")),
                step("delete the first", [DeleteFoo("a")]).both(Owns("b", "web")).both(replicas("web", 2)),
            ],
        ),
        case(
            "deployment-deleted",
            [
                step("create", [CreateFoo(with_replicas("a", "web", 2))]).both(Owns("a", "web")),
                step("delete the Deployment", [DeleteDeployment("web")]).both(replicas("web", 2)),
            ],
        ),
        case(
            "foo-deleted",
            [
                step("create", [CreateFoo(foo("a", "web"))]).both(Owns("a", "web")),
                step("delete the Foo", [DeleteFoo("a")]).both(NoFoo("a")).both(NoDeployment("web")),
                step("create it again", [CreateFoo(foo("a", "web"))]).both(Owns("a", "web")),
            ],
        ),
        case(
            "finalizer",
            [
                step("create a Foo with a finalizer", [CreateFoo(held)]).both(Owns("a", "web")),
                step("delete the Foo", [DeleteFoo("a")]),
                step("delete the Deployment", [DeleteDeployment("web")])
                    .go(replicas("web", 1))
                    .host(NoDeployment("web")),
                pause(),
                step("take the finalizer off", [PatchFoo("a", json!({"metadata": {"finalizers": null}}))])
                    .both(NoFoo("a"))
                    .both(NoDeployment("web")),
            ],
        ),
        case(
            "empty-name",
            [
                step("create without a name", [CreateFoo(foo("a", ""))]).host(Event("a", "InvalidSpec")),
                step("name it", [renamed("a", "web")]).both(Owns("a", "web")),
                step("clear the name", [renamed("a", "")]).host(Event("a", "InvalidSpec")),
            ],
        ),
        case(
            "invalid-name",
            [
                step("create with a name that Kubernetes refuses", [CreateFoo(foo("a", "A_b"))])
                    .host(Event("a", "InvalidSpec")),
                step("name it", [renamed("a", "web")]).both(Owns("a", "web")),
            ],
        ),
        case(
            "replicas-out-of-range",
            [
                step(
                    "create with 0, 11 and -1",
                    [
                        CreateFoo(with_replicas("zero", "zero", 0)),
                        CreateFoo(with_replicas("eleven", "eleven", 11)),
                        CreateFoo(with_replicas("minus", "minus", -1)),
                    ],
                ),
                step("create with 10", [CreateFoo(with_replicas("ten", "ten", 10))]).both(Owns("ten", "ten")),
                step("edit to 11", [named("ten", 11)]),
            ],
        ),
        case(
            "names-of-63-characters",
            [
                step("create", [CreateFoo(foo(LONG, LONG))]).both(Owns(LONG, LONG)),
                step("edit replicas", [named(LONG, 2)]).both(replicas(LONG, 2)),
            ],
        ),
        case(
            "foo-name-of-64-characters",
            [
                step("create", [CreateFoo(foo(LONGER, "web"))]).host(Owns(LONGER, "web")),
                step("edit replicas", [named(LONGER, 2)]).host(replicas("web", 2)),
            ],
        ),
        case(
            "image-by-hand",
            [
                step("create", [CreateFoo(foo("a", "web"))]).both(Owns("a", "web")),
                step("edit the image", [PatchDeployment("web", by_hand("nginx:edited"))])
                    .go(Expect::Deployment("web", image, "nginx:edited".into()))
                    .host(Expect::Deployment("web", image, "nginx:latest".into())),
                step("edit the Foo's replicas", [named("a", 2)])
                    .both(replicas("web", 2))
                    .both(Expect::Deployment("web", image, "nginx:latest".into())),
            ],
        ),
        case(
            "label-by-hand",
            [
                step("create", [CreateFoo(foo("a", "web"))]).both(Owns("a", "web")),
                step(
                    "add a label, an annotation, a field",
                    [PatchDeployment(
                        "web",
                        json!({
                            "metadata": {"labels": {"team": "x"}, "annotations": {"note": "x"}},
                            "spec": {"minReadySeconds": 1},
                        }),
                    )],
                ),
                step("edit the Foo's replicas", [named("a", 2)]).both(replicas("web", 2)),
            ],
        ),
        case(
            "restart",
            [
                step(
                    "create",
                    [
                        CreateFoo(foo("edited", "edited")),
                        CreateFoo(foo("bereft", "bereft")),
                        CreateFoo(foo("deleted", "deleted")),
                    ],
                )
                .both(Owns("edited", "edited"))
                .both(Owns("bereft", "bereft"))
                .both(Owns("deleted", "deleted")),
                pause(),
                pause(),
                step(
                    "while it is down: edit, delete a Deployment, delete a Foo, create one",
                    [
                        named("edited", 3),
                        DeleteDeployment("bereft"),
                        DeleteFoo("deleted"),
                        CreateFoo(foo("new", "new")),
                    ],
                )
                .both(replicas("edited", 3))
                .both(Owns("bereft", "bereft"))
                .both(NoFoo("deleted"))
                .both(NoDeployment("deleted"))
                .both(Owns("new", "new")),
            ],
        ),
    ]
}
