//! Headers, refusals and bodies.
