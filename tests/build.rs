//! Whether the tests that need a real control plane are compiled in as such (`cfg(control_plane)`), or ignored and
//! counted as skipped: without Go there is none to build, unless `$KUBEBUILDER_ASSETS` has one. With CI=true nothing
//! may be missing, so they fail there instead.

use std::path::Path;
use std::process::Command;

/// What a control plane with pods consists of.
const PROGRAMS: [&str; 5] = ["etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kwok"];

fn main() {
    println!("cargo::rustc-check-cfg=cfg(control_plane)");
    println!("cargo::rerun-if-env-changed=CI");
    println!("cargo::rerun-if-env-changed=KUBEBUILDER_ASSETS");
    println!("cargo::rerun-if-env-changed=PATH");
    let go = Command::new("go").arg("version").output().is_ok_and(|output| output.status.success());
    let assets = std::env::var_os("KUBEBUILDER_ASSETS")
        .is_some_and(|assets| PROGRAMS.iter().all(|program| Path::new(&assets).join(program).is_file()));
    if go || assets || std::env::var("CI").as_deref() == Ok("true") {
        println!("cargo::rustc-cfg=control_plane");
    }
}
