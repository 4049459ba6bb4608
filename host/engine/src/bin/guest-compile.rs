//! The compiling child on its own, for the engine's tests. The product's child is `foo-host compile`.

fn main() -> std::io::Result<()> {
    guest_engine::compile::run_compiler(std::io::stdin().lock(), std::io::stdout().lock())
}
