//! The mistakes that a composite could make are found, and what the suite of all fabrics does not ask for.

mod mutants;
mod parts;
mod routes;
