//! A disk in this machine's memory, with the system's own page cache in front of it.
//!
//! A file in shared memory, a loop device on it, ext4 on that, and a bandwidth limit of the system
//! for writes. A shell script makes it, because the steps are programs of the system. The script
//! leaves nothing, whatever ends it: the file is unlinked before it has a byte, the loop device is
//! set to detach with its last user, and the mount is in a name space of its own, over the
//! directory of the measurement. Only the limit has to be taken back; so the script waits for the
//! measurement, and signals do not end it. The program may be below that directory, so that it is
//! opened before.
//!
//! A bandwidth limit is no seek time: for long contiguous writes that is what a disk is like.

use std::process::Command;

use super::Run;

/// Exit code of the script if there can be no such disk.
pub(super) const REFUSED: i32 = 77;

const SCRIPT: &str = r#"
trap '' INT TERM HUP
refuse() { echo "$1" >&2; exit 77; }
point=$1 bytes=$2 limit=$3
exec 5<"$4"
shift 4
image=/dev/shm/pario-disk-$$
exec 4<>"$image" || refuse "no file in /dev/shm"
rm "$image"
fallocate -l "$bytes" /proc/$$/fd/4 || refuse "no room in /dev/shm"
loop=$(losetup --find --show --direct-io=on /proc/$$/fd/4) || refuse "no loop device"
exec 3<"$loop" || refuse "no loop device"
losetup --detach "$loop" || refuse "no loop device that detaches"
mkfs.ext4 -q -F "$loop" || refuse "no ext4"
mount "$loop" "$point" || refuse "no mount"
rule=/sys/fs/cgroup/blkio/blkio.throttle.write_bps_device
device=$(cat "/sys/block/${loop##*/}/dev")
if [ "$limit" -gt 0 ]; then
    [ -w "$rule" ] || refuse "no limit on a device: needs control groups of version 1"
    echo "$device $limit" >"$rule" || refuse "no limit on a device"
fi
code=0
/proc/self/fd/5 "$@" || code=$?
if [ "$limit" -gt 0 ]; then echo "$device 0" >"$rule"; fi
umount "$point"
exit $code
"#;

/// What is to be made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Disk {
    pub(super) bytes: u64,
    /// Bytes that it can write in a second; `None` for all that memory allows.
    pub(super) bytes_per_s: Option<u64>,
}

impl Disk {
    /// Why there can be none, if that is known before.
    pub(super) fn hindrance() -> Option<&'static str> {
        (!rustix::process::geteuid().is_root()).then_some("loop devices and mounts need root")
    }

    /// A command that runs a program, its first word, with the disk in place of the directory of
    /// files.
    pub(super) fn command(self, run: &Run) -> Command {
        let directory = run.directory.clone().unwrap_or_else(std::env::temp_dir);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", SCRIPT, "pario-disk"]);
        command.arg(directory).arg(self.bytes.to_string());
        command.arg(self.bytes_per_s.unwrap_or(0).to_string());
        command
    }
}
