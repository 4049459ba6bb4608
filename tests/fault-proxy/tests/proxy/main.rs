//! The proxy between a small server and clients that speak HTTP/1.1 and HTTP/2, plain and with TLS.

mod connections;
mod faults;
mod holds;
mod support;
mod watches;
