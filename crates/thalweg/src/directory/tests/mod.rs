//! The parts of the index, each against a model.

mod p_hash;
