//! What is measured, simulated and predicted: workloads, machines and contenders.
//!
//! | file | concept |
//! | --- | --- |
//! | `workload` | which bytes each rank has |
//! | `pattern` | the same, as experiments of papers take them |
//! | `pieces` | what is contiguous in the file and in memory |
//! | `contender` | strategies and levels of requests |
//! | `device` | devices that are emulated |
//! | `stage` | the machines of the papers |

pub(crate) mod contender;
pub(crate) mod device;
pub(crate) mod pattern;
pub(crate) mod pieces;
pub(crate) mod stage;
pub(crate) mod workload;
