//! What is measured, simulated and predicted: workloads, machines and contenders.
//!
//! | file | concept |
//! | --- | --- |
//! | `workload` | which bytes each rank has |
//! | `workloads` | which workloads, and of which sizes |
//! | `pattern` | the same, as experiments of papers take them |
//! | `pieces` | what is contiguous in the file and in memory |
//! | `contender` | strategies and levels of requests |
//! | `question` | a call that is described, and every way to serve it |
//! | `device` | devices that are emulated |
//! | `stage` | the machines of the papers |
//! | `papers` | their titles |

pub mod contender;
pub mod device;
pub(crate) mod papers;
pub(crate) mod pattern;
pub(crate) mod pieces;
pub(crate) mod question;
pub(crate) mod stage;
pub mod workload;
pub mod workloads;
