//! Whether the tests that need a real control plane are compiled in as such (`cfg(control_plane)`), or ignored:
//! without Go there is none to build. With CI=true nothing may be missing, so they fail there instead.

use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(control_plane)");
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-env-changed=PATH");
    let go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    if go || std::env::var("CI").as_deref() == Ok("true") {
        println!("cargo::rustc-cfg=control_plane");
    }
}
