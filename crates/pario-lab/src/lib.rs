//! The lab beside the library: what the program `pario` measures, predicts, simulates and shows.
//!
//! | module | what it does | command |
//! | --- | --- | --- |
//! | [`scenario`] | workloads, machines and contenders | |
//! | [`simulate`] | techniques in virtual time | |
//! | [`measure`] | contenders side by side on this machine, every byte verified | `pario bench` |
//! | [`calibrate`] | the costs of this machine | `pario calibrate` |
//! | [`predict`] | every way to serve a call, its predicted time, and advice | `pario explain` |
//! | [`papers`] | the experiments of papers 000 to 004 | `pario study` |
//! | [`show`] | charts, pages, CSV, traces | `pario report` |

pub mod calibrate;
pub mod date;
pub mod failure;
pub mod hint;
pub mod measure;
mod number;
pub mod output;
pub mod papers;
pub mod predict;
pub mod scenario;
pub mod show;
pub mod simulate;
pub mod size;
pub mod sweep;
