//! ordered keyspaces.
