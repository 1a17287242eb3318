//! The program: everything is in the library.

/// Records are allocated by whoever decodes them and freed by whoever folds them; the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    pml::cli::main()
}
