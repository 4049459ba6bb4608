//! The Foo types, its conditions and its CRD.
