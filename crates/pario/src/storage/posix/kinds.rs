//! Kinds of file systems, by the number that statfs(2) gives.

use std::path::Path;

use crate::storage::FileSystem;

/// The kinds whose semantics between nodes are known, and the common local ones.
///
/// Lustre, GPFS and the kernel's CephFS keep their clients coherent; an NFS client serves reads
/// from its own cache. Of the others nothing is known between nodes: FUSE depends on its daemon.
const KINDS: [(u32, FileSystem); 13] = [
    (0x0bd0_0bd0, FileSystem { name: "lustre", coherent: Some(true) }),
    (0x4750_4653, FileSystem { name: "gpfs", coherent: Some(true) }),
    (0x00c3_6400, FileSystem { name: "ceph", coherent: Some(true) }),
    (0x0000_6969, FileSystem { name: "nfs", coherent: Some(false) }),
    (0x6573_5546, FileSystem { name: "fuse", coherent: None }),
    (0x1983_0326, FileSystem { name: "beegfs", coherent: None }),
    (0xaad7_aaea, FileSystem { name: "panfs", coherent: None }),
    (0x0000_ef53, FileSystem { name: "ext4", coherent: None }),
    (0x5846_5342, FileSystem { name: "xfs", coherent: None }),
    (0x9123_683e, FileSystem { name: "btrfs", coherent: None }),
    (0x2fc1_2fc1, FileSystem { name: "zfs", coherent: None }),
    (0x794c_7630, FileSystem { name: "overlay", coherent: None }),
    (0x0102_1994, FileSystem { name: "tmpfs", coherent: None }),
];

/// The file system of a number, if it is a known one.
pub(super) fn known(number: impl TryInto<i64>) -> Option<FileSystem> {
    // Some systems give the number as a signed one of 32 bits.
    let number = number.try_into().ok()? & 0xffff_ffff;
    let row = KINDS.iter().find(|(kind, _)| i64::from(*kind) == number);
    row.map(|(_, file_system)| *file_system)
}

impl FileSystem {
    /// The file system of a file or a directory, if it is a known one.
    pub fn of_path(path: &Path) -> Option<FileSystem> {
        rustix::fs::statfs(path).ok().and_then(|system| known(system.f_type))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_has_the_file_system_of_its_files() {
        let directory = std::env::temp_dir();
        let file = directory.join(format!("pario-kinds-{}", std::process::id()));
        std::fs::write(&file, "a").unwrap();
        assert_eq!(FileSystem::of_path(&directory), FileSystem::of_path(&file));
        std::fs::remove_file(&file).unwrap();
        assert_eq!(FileSystem::of_path(&file), None);
    }

    #[test]
    fn numbers_are_known_also_where_they_are_signed() {
        assert_eq!(known(0x6969i64).map(|kind| kind.coherent), Some(Some(false)));
        let signed = i32::from_ne_bytes(0x9123_683eu32.to_ne_bytes());
        assert_eq!(known(signed).map(|kind| kind.name), Some("btrfs"));
        assert_eq!(known(0i64), None);
    }
}
