//! `foo-host compile`: the child process that turns a guest into machine code, so that a slow or hostile one can
//! be ended and its memory given back.

use guest_engine::Compiler;

/// The host itself, as the compiler's command. Where the own binary cannot be found (deleted, no /proc) the
/// engine compiles in the process.
pub fn command() -> Compiler {
    match std::env::current_exe() {
        Ok(program) if program.exists() => Compiler::Command { program, args: vec!["compile".into()] },
        _ => Compiler::InProcess,
    }
}
