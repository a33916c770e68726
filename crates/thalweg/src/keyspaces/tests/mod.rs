//! Tests of what all kinds of keyspaces share.
