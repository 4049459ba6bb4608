//! Tells one failure from another.

use super::guest::hostcall_bytes;
use super::{GuestLog, State};
use crate::{CallError, Limits};
use contract::{MAX_ERROR_BYTES, one_line};
use wasmtime::{Trap, WasmBacktrace};
use wasmtime_wasi::I32Exit;

/// The text of wasmtime's error for an answer that does not fit; its type is private. A test holds it.
const HOSTCALL_FUEL_TEXT: &str = "fuel allocated for hostcalls has been exhausted";

/// Frames of a backtrace that are logged.
const BACKTRACE_FRAMES: usize = 32;

/// The cause of `error`, which ended the call.
pub(super) fn classify(error: &wasmtime::Error, state: &State, limits: &Limits) -> CallError {
    if state.deadline_passed {
        return CallError::Deadline { limit: limits.deadline };
    }
    let trap = error.downcast_ref::<Trap>();
    match trap {
        Some(Trap::OutOfFuel) => return CallError::Fuel { limit: limits.fuel },
        Some(Trap::StackOverflow) => return CallError::StackOverflow { limit: limits.stack_bytes },
        _ => {}
    }
    let backtrace = error.downcast_ref::<WasmBacktrace>();
    let too_much = error.chain().any(|cause| cause.to_string().contains(HOSTCALL_FUEL_TEXT));
    // An answer is read when the guest has returned, so that no frame of it is left.
    if too_much && backtrace.is_none() {
        return CallError::ResultTooLarge { limit: limits.result_bytes };
    }
    // Any other trap after a denied growth is its consequence.
    if let Some(wanted) = state.limiter.denied {
        return CallError::Memory { limit: limits.memory_pages_bytes(), wanted };
    }
    let mut log = state.log.lock();
    let reason = if let Some(I32Exit(code)) = error.downcast_ref::<I32Exit>() {
        format!("it called exit({code})")
    } else if too_much {
        format!("it passed more than {} bytes to the host at once", hostcall_bytes(limits))
    } else if let Some(trap) = trap {
        trap.to_string()
    } else if error.is::<wasmtime::PoolConcurrencyLimitError>() {
        return CallError::Host(one_line(&error.to_string(), MAX_ERROR_BYTES));
    } else {
        // The root, not the context: that is the backtrace as text.
        one_line(&error.root_cause().to_string(), MAX_ERROR_BYTES)
    };
    report(&mut log, &reason, backtrace)
}

fn report(log: &mut GuestLog, reason: &str, backtrace: Option<&WasmBacktrace>) -> CallError {
    let message = match log.last_words(MAX_ERROR_BYTES) {
        Some(words) => one_line(&format!("{words} ({reason})"), MAX_ERROR_BYTES),
        None => reason.to_owned(),
    };
    log.trap(&message, &backtrace.map(frames).unwrap_or_default());
    CallError::Trap { message }
}

/// The innermost frames on one line.
fn frames(backtrace: &WasmBacktrace) -> String {
    let frames = backtrace.frames().iter().take(BACKTRACE_FRAMES).map(|frame| match frame.func_name() {
        Some(name) => name.to_owned(),
        None => format!("<function {}>", frame.func_index()),
    });
    one_line(&frames.collect::<Vec<_>>().join(" < "), 4 << 10)
}
