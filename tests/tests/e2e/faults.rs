//! Field reports that need the fault proxy between the controller and its server, by number (`cases.md`).
