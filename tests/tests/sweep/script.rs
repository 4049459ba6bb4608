//! The scenario: that of the side-by-side run with the Go original, in chapters that each begin and end with an empty
//! namespace, so that a point runs no more than its chapter.

use serde_json::{Value, json};
use tests::foo;

/// As long as a label may be, and with it the name of a Foo that is not hashed.
pub(crate) const FOO_63: &str = "foo-0123456789012345678901234567890123456789012345678901234567x";
/// A Deployment's may be longer; this is the usual limit.
pub(crate) const WEB_63: &str = "web-0123456789012345678901234567890123456789012345678901234567x";

const _: () = assert!(FOO_63.len() == 63 && WEB_63.len() == 63);

/// What somebody does.
#[derive(Clone, Debug)]
pub(crate) enum Do {
    /// Creates this Foo.
    CreateFoo(Value),
    /// Merge-patches a Foo.
    ChangeFoo(&'static str, Value),
    /// Tries to merge-patch a Foo, and is answered 422.
    RefusedChange(&'static str, Value),
    /// Deletes a Foo; its Deployments go with it.
    DeleteFoo(&'static str),
    /// Somebody's Deployment of this name appears.
    CreateForeign(&'static str),
    /// It is deleted by who made it.
    DeleteForeign(&'static str),
    /// The Deployment controller has done what the Deployment asks for.
    Available(&'static str),
    /// Merge-patches a Deployment by hand.
    ChangeDeployment(&'static str, Value),
    /// Scales a Deployment by hand or by an autoscaler: the scale subresource.
    Scale(&'static str, i32),
    /// Deletes a Deployment by hand.
    DeleteDeployment(&'static str),
    /// Deletes a Deployment by hand, and before the controller hears of it there is somebody's of the same name.
    Replace(&'static str),
    /// Stops the controller in good order and starts it again.
    Restart,
}

impl Do {
    /// Whether what is there belongs to somebody else now: a cache that does not know it must do no harm at the next
    /// step either.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self, Self::CreateForeign(_) | Self::Replace(_))
    }

    /// Whether a Foo goes, and the garbage collector has work.
    pub(crate) fn ends_a_foo(&self) -> bool {
        matches!(self, Self::DeleteFoo(_))
    }
}

/// One thing that somebody does, until everything has come to rest.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    pub(crate) what: &'static str,
    pub(crate) act: Do,
}

/// A part of the scenario.
pub(crate) struct Chapter {
    pub(crate) name: &'static str,
    /// The first step whose writes and events are swept; those before it are swept in another chapter.
    pub(crate) swept_from: usize,
    pub(crate) steps: Vec<Step>,
}

fn step(what: &'static str, act: Do) -> Step {
    Step { what, act }
}

fn replicas(number: i32) -> Value {
    json!({"spec": {"replicas": number}})
}

/// A Foo that controls an available Deployment `web`.
fn served() -> Vec<Step> {
    vec![
        step("a Foo is created", Do::CreateFoo(foo("a", "web"))),
        step("its Deployment is available", Do::Available("web")),
    ]
}

fn chapter(
    name: &'static str,
    swept_from: usize,
    before: Vec<Step>,
    steps: impl IntoIterator<Item = Step>,
) -> Chapter {
    let steps = before.into_iter().chain(steps).collect();
    Chapter { name, swept_from, steps }
}

/// All chapters.
pub(crate) fn chapters() -> Vec<Chapter> {
    let deployment_name = |name: &str| json!({"spec": {"deploymentName": name}});
    let image =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "nginx", "image": "by:hand"}]}}}});
    vec![
        chapter(
            "create, edit, delete",
            0,
            served(),
            [
                step("replicas are edited", Do::ChangeFoo("a", replicas(2))),
                step("it is available again", Do::Available("web")),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "replicas",
            2,
            served(),
            [
                step("replicas are cleared", Do::ChangeFoo("a", json!({"spec": {"replicas": null}}))),
                step("the image is changed by hand", Do::ChangeDeployment("web", image.clone())),
                step("an autoscaler scales", Do::Scale("web", 4)),
                step("replicas are named again", Do::ChangeFoo("a", replicas(2))),
                step("scaled by hand", Do::Scale("web", 5)),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "by hand",
            2,
            served(),
            [
                step("the image is changed by hand", Do::ChangeDeployment("web", image)),
                step("the Deployment is deleted by hand", Do::DeleteDeployment("web")),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "rename",
            2,
            served(),
            [
                step("deploymentName is changed", Do::ChangeFoo("a", deployment_name("web-b"))),
                step("the new one is available", Do::Available("web-b")),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "rename to what is foreign",
            2,
            served(),
            [
                step("a foreign Deployment appears", Do::CreateForeign("theirs")),
                step("deploymentName is changed to it", Do::ChangeFoo("a", deployment_name("theirs"))),
                step("and back", Do::ChangeFoo("a", deployment_name("web"))),
                step("the foreign one goes", Do::DeleteForeign("theirs")),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "replaced",
            3,
            [served(), vec![step("replicas are edited", Do::ChangeFoo("a", replicas(2)))]].concat(),
            [
                step("its Deployment is replaced by a foreign one", Do::Replace("web")),
                step("replicas are edited again", Do::ChangeFoo("a", replicas(3))),
                step("the foreign one goes", Do::DeleteForeign("web")),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "rename, the old one replaced",
            3,
            [served(), vec![step("deploymentName is changed", Do::ChangeFoo("a", deployment_name("web-b")))]]
                .concat(),
            [
                step("the old one is replaced by a foreign one", Do::Replace("web")),
                step("the new one is available", Do::Available("web-b")),
                step("the foreign one goes", Do::DeleteForeign("web")),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "foreign in the way, names of 63",
            0,
            Vec::new(),
            [
                step("a foreign Deployment appears", Do::CreateForeign(WEB_63)),
                step("a Foo is created that names it", Do::CreateFoo(foo(FOO_63, WEB_63))),
                step("the name is freed", Do::DeleteForeign(WEB_63)),
                step("its Deployment is available", Do::Available(WEB_63)),
                step("the Foo is deleted", Do::DeleteFoo(FOO_63)),
            ],
        ),
        chapter(
            "refused specs",
            0,
            Vec::new(),
            [
                step("a Foo is created with an empty deploymentName", Do::CreateFoo(foo("a", ""))),
                step("replicas out of range are refused", Do::RefusedChange("a", replicas(11))),
                step("the name is mended", Do::ChangeFoo("a", deployment_name("web"))),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
        chapter(
            "restart",
            3,
            [served(), vec![step("the controller is restarted", Do::Restart)]].concat(),
            [
                step("replicas are edited", Do::ChangeFoo("a", replicas(2))),
                step("the Foo is deleted", Do::DeleteFoo("a")),
            ],
        ),
    ]
}
