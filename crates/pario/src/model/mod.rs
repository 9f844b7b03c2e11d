//! Models of time: what a way of doing I/O costs before anybody does it.
//!
//! | module | what |
//! | --- | --- |
//! | [`paper`] | the model of paper 001: equations 1 to 5 and its measured parameters |
//!
//! Nothing here opens a file or sends a message, and the same input gives the same time on every
//! machine and every rank.

pub mod paper;
