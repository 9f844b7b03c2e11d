//! Programs as text: a line for the open, and one for each step.

use super::{Call, Piece, Pointer, Program, Step, Transfer, Views};
use std::fmt::{self, Display, Formatter};

impl Display for Program {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let mode = &self.mode;
        let flags = [
            ("read", mode.read),
            ("write", mode.write),
            ("create", mode.create),
            ("exclusive", mode.exclusive),
            ("append", mode.append),
            ("sequential", mode.sequential),
            ("delete_on_close", mode.delete_on_close),
            ("unique_open", mode.unique_open),
        ];
        write!(f, "open   {} ranks,", self.ranks)?;
        flags.iter().filter(|flag| flag.1).try_for_each(|flag| write!(f, " {}", flag.0))?;
        match self.initial_bytes {
            Some(len) => write!(f, ", {len} bytes in the file")?,
            None => write!(f, ", no file")?,
        }
        writeln!(f, ", on {:?}, hints {}", self.device, hints(&self.hints))?;
        for (number, step) in self.steps.iter().enumerate() {
            writeln!(f, "step {number} {step}")?;
        }
        Ok(())
    }
}

fn hints(hints: &[(String, String)]) -> String {
    let pairs: Vec<String> = hints.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("[{}]", pairs.join(" "))
}

impl Display for Step {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Step::View(views) => write!(f, "{views}"),
            Step::Transfers(transfers) => {
                let texts: Vec<String> = transfers.iter().map(Transfer::to_string).collect();
                f.write_str(&texts.join(" and "))
            }
            Step::Seek(targets) => write!(f, "seek {targets:?}"),
            Step::SeekShared(target) => write!(f, "seek_shared {target:?}"),
            Step::SetSize(bytes) => write!(f, "set_size {bytes}"),
            Step::Preallocate(bytes) => write!(f, "preallocate {bytes}"),
            Step::Sync => write!(f, "sync"),
            Step::Atomicity(on) => write!(f, "set_atomicity {on}"),
            Step::Hints(given) => write!(f, "set_hints {}", hints(given)),
        }
    }
}

impl Display for Views {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let representation = if self.external { "external32" } else { "native" };
        write!(f, "set_view {representation} etype {}:", self.etype)?;
        for (rank, (displacement, filetype)) in self.ranks.iter().enumerate() {
            write!(f, " [{rank}] from {displacement} {filetype}")?;
        }
        Ok(())
    }
}

impl Display for Transfer {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let turns = if self.in_turns { " in turns" } else { "" };
        write!(f, "{} at {}{turns}:", self.name(), self.pointer.name())?;
        for (rank, piece) in self.pieces.iter().enumerate() {
            match piece {
                None => write!(f, " [{rank}] -")?,
                Some(Piece { at, count, memory }) => {
                    write!(f, " [{rank}]")?;
                    if self.pointer == Pointer::Explicit {
                        write!(f, " @{at}")?;
                    }
                    match memory {
                        None => write!(f, " {count} bytes")?,
                        Some(memory) => write!(f, " {count} x {memory}")?,
                    }
                }
            }
        }
        Ok(())
    }
}

impl Transfer {
    /// The call, as pario names it.
    pub(super) fn name(&self) -> String {
        let direction = if self.write { "write" } else { "read" };
        let all = if self.collective { "_all" } else { "" };
        match self.call {
            Call::Blocking => format!("{direction}{all}"),
            Call::Nonblocking => format!("i{direction}{all}"),
            Call::Split => format!("{direction}{all}_begin/end"),
            Call::Planned(runs) => format!("{runs} planned {direction}{all}"),
        }
    }
}

impl Pointer {
    fn name(self) -> &'static str {
        match self {
            Pointer::Explicit => "positions",
            Pointer::Individual => "own pointers",
            Pointer::Shared => "the shared pointer",
        }
    }
}
