//! client-go's rate-limiting work queue, with priorities.
