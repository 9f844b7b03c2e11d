//! What the threads of processes do: where they are when a test hangs.
//!
//! gdb takes the stacks, if it is installed and the system lets it look at the process.

use std::process::{Command, Stdio};

/// The stacks of all threads of these processes, or why there are none.
pub(crate) fn of(processes: impl Iterator<Item = u32>) -> String {
    processes
        .map(|process| format!("--- stacks of process {process}\n{}", of_one(process)))
        .collect()
}

fn of_one(process: u32) -> String {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set width 0", "-ex", "thread apply all backtrace 24"]);
    gdb.args(["-p", &process.to_string()]).stdin(Stdio::null());
    match gdb.output() {
        Ok(output) => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let is_frame = |line: &&str| line.starts_with('#') || line.starts_with("Thread ");
            let frames: Vec<&str> = text.lines().filter(is_frame).collect();
            match frames.as_slice() {
                [] => {
                    format!("gdb found none: {}\n", String::from_utf8_lossy(&output.stderr).trim())
                }
                frames => frames.join("\n") + "\n",
            }
        }
        Err(error) => format!("none: gdb cannot be started: {error}\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that sleeps has a stack; where gdb may not look, that is said.
    #[test]
    fn a_process_has_stacks_or_a_reason() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep starts");
        let text = of(std::iter::once(child.id()));
        child.kill().and_then(|()| child.wait()).expect("it is ended");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], format!("--- stacks of process {}", child.id()));
        assert!(lines[1].starts_with("Thread ") || lines[1].contains("gdb"), "{text}");
    }
}
