//! The program `pario`.
fn main() {}
