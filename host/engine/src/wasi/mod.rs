//! WASI 0.2 for guests whose toolchain imports it: empty and deterministic.
//!
//! No files, environment, arguments, network; standard input is at its end; what is written to
//! standard output and error goes to the log. Time is virtual (`clock`), random numbers are the same
//! for each call (`random`). Made when a guest first uses it: guests of the plain world pay nothing.

mod clock;
mod output;
mod random;

use crate::call::{SharedLog, Source, State};
use clock::{Clock, ClockView};
use output::Output;
use random::Random;
use wasmtime::component::{HasData, Linker, ResourceTable};
use wasmtime_wasi::cli::{WasiCli, WasiCliView as _};
use wasmtime_wasi::filesystem::{WasiFilesystem, WasiFilesystemView as _};
use wasmtime_wasi::p2::bindings::{cli, clocks, filesystem, random as rng, sockets};
use wasmtime_wasi::sockets::{WasiSockets, WasiSocketsView as _};
use wasmtime_wasi::{WasiCtx, WasiCtxBuilder, WasiCtxView, WasiView};
use wasmtime_wasi_io::bindings::wasi::io;

/// Newest patch of WASI 0.2 that the stand-ins are made for.
pub(crate) const NEWEST_PATCH: u64 = 12;

/// Packages of WASI 0.2 that have stand-ins.
pub(crate) const PACKAGES: [&str; 6] = ["cli", "clocks", "filesystem", "io", "random", "sockets"];

/// WASI's state of one call.
pub(crate) struct Wasi {
    observed_at: contract::UnixSeconds,
    seed: u64,
    log: SharedLog,
    parts: Option<Box<Parts>>,
}

struct Parts {
    ctx: WasiCtx,
    table: ResourceTable,
    clock: Clock,
    random: Random,
}

impl Wasi {
    pub(crate) fn new(observed_at: contract::UnixSeconds, seed: u64, log: SharedLog) -> Self {
        Self { observed_at, seed, log, parts: None }
    }

    fn parts(&mut self) -> &mut Parts {
        self.parts.get_or_insert_with(|| {
            let mut builder = WasiCtxBuilder::new();
            // Everything else is empty or forbidden by default.
            builder.stdout(Output::new(self.log.clone(), Source::Stdout));
            builder.stderr(Output::new(self.log.clone(), Source::Stderr));
            Box::new(Parts {
                ctx: builder.build(),
                table: ResourceTable::new(),
                clock: Clock::new(self.observed_at),
                random: Random::new(self.seed),
            })
        })
    }
}

impl WasiView for State {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        let Parts { ctx, table, .. } = self.wasi.parts();
        WasiCtxView { ctx, table }
    }
}

/// Access to the resource table, for `wasi:io`.
struct HasTable;

impl HasData for HasTable {
    type Data<'a> = &'a mut ResourceTable;
}

/// Access to the virtual time, for `wasi:clocks`.
struct HasClock;

impl HasData for HasClock {
    type Data<'a> = ClockView<'a>;
}

/// Access to the pseudo-random numbers, for `wasi:random`.
struct HasRandom;

impl HasData for HasRandom {
    type Data<'a> = &'a mut Random;
}

fn table(state: &mut State) -> &mut ResourceTable {
    &mut state.wasi.parts().table
}

fn clock(state: &mut State) -> ClockView<'_> {
    let Parts { clock, table, .. } = state.wasi.parts();
    ClockView { clock, table }
}

fn random(state: &mut State) -> &mut Random {
    &mut state.wasi.parts().random
}

/// Offers the stand-ins: wasmtime's asynchronous WASI with clocks and random numbers of our own.
pub(crate) fn add_to_linker(linker: &mut Linker<State>) -> wasmtime::Result<()> {
    io::error::add_to_linker::<_, HasTable>(linker, table)?;
    io::poll::add_to_linker::<_, HasTable>(linker, table)?;
    io::streams::add_to_linker::<_, HasTable>(linker, table)?;

    clocks::monotonic_clock::add_to_linker::<_, HasClock>(linker, clock)?;
    clocks::wall_clock::add_to_linker::<_, HasClock>(linker, clock)?;

    rng::random::add_to_linker::<_, HasRandom>(linker, random)?;
    rng::insecure::add_to_linker::<_, HasRandom>(linker, random)?;
    rng::insecure_seed::add_to_linker::<_, HasRandom>(linker, random)?;

    cli::environment::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::exit::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::stdin::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::stdout::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::stderr::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::terminal_input::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::terminal_output::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::terminal_stdin::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::terminal_stdout::add_to_linker::<_, WasiCli>(linker, State::cli)?;
    cli::terminal_stderr::add_to_linker::<_, WasiCli>(linker, State::cli)?;

    filesystem::preopens::add_to_linker::<_, WasiFilesystem>(linker, State::filesystem)?;
    filesystem::types::add_to_linker::<_, WasiFilesystem>(linker, State::filesystem)?;

    let options = sockets::network::LinkOptions::default();
    sockets::network::add_to_linker::<_, WasiSockets>(linker, &options, State::sockets)?;
    sockets::instance_network::add_to_linker::<_, WasiSockets>(linker, State::sockets)?;
    sockets::ip_name_lookup::add_to_linker::<_, WasiSockets>(linker, State::sockets)?;
    sockets::tcp::add_to_linker::<_, WasiSockets>(linker, State::sockets)?;
    sockets::tcp_create_socket::add_to_linker::<_, WasiSockets>(linker, State::sockets)?;
    sockets::udp::add_to_linker::<_, WasiSockets>(linker, State::sockets)?;
    sockets::udp_create_socket::add_to_linker::<_, WasiSockets>(linker, State::sockets)?;
    Ok(())
}
