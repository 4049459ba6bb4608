//! The default guest: an nginx Deployment for each Foo.
