//! Files in the memory of this process.
//!
//! For tests, for programs that want to run without a disk, and as the lower bound in measurements:
//! a call here costs nothing on a device. A file is a sparse map of pages, so a few
//! bytes after a hole of a terabyte cost one page.
//!
//! Names are flat: there are no directories, and `a/b` needs no `a`.
//!
//! Cost: one copy per byte, and one lock per call and file, which serialises the writers of a file.
//!
//! Hazard: the files end with the process, and [`Storage::preallocate`] sets the size without
//! reserving memory, so that a later write can still fail with `NoMemory`.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::locks::{self, LockTable};
use super::{
    Capabilities, Driver, LockGuard, LockRange, OpenMode, Storage, check_pieces, check_run,
    file_len, memory_len,
};
use crate::error::{Error, ErrorClass, Result};

/// Large enough that copies run at memory speed, small enough that tests with a few bytes are
/// cheap.
const PAGE_BYTES: u64 = 64 * 1024;

/// A driver whose files live in memory; clones see the same files.
///
/// ```
/// use pario::storage::{Driver, Memory, OpenMode};
/// use std::path::Path;
///
/// let memory = Memory::new();
/// let mode = OpenMode { write: true, create: true, ..OpenMode::default() };
/// memory.open(Path::new("a"), mode)?.write_at(2, b"xyz")?;
/// assert_eq!(memory.contents("a").as_deref(), Some(&b"\0\0xyz"[..]));
/// # Ok::<(), pario::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Memory {
    names: Arc<RwLock<HashMap<PathBuf, Arc<Node>>>>,
}

impl Memory {
    /// A store of its own, without any file.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// The one store that all parts of this process share.
    pub fn global() -> Memory {
        static GLOBAL: LazyLock<Memory> = LazyLock::new(Memory::new);
        GLOBAL.clone()
    }

    /// All bytes of a file, holes as zeros; `None` if there is no such file. For files that fit
    /// in memory with their holes.
    pub fn contents(&self, path: impl AsRef<Path>) -> Option<Vec<u8>> {
        let names = self.names.read().unwrap_or_else(PoisonError::into_inner);
        let pages = names.get(path.as_ref())?.read();
        let mut contents = vec![0; memory_len(pages.size)];
        pages.read(0, &mut contents);
        Some(contents)
    }

    /// Makes a file with these bytes, or replaces the bytes of the one that exists.
    ///
    /// # Panics
    ///
    /// If memory is exhausted.
    pub fn put(&self, path: impl AsRef<Path>, contents: &[u8]) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        let node = names.entry(path.as_ref().to_owned()).or_default();
        let mut pages = node.write();
        pages.set_size(0);
        let written = pages.write(0, contents);
        assert!(written.is_ok(), "a file put into memory fits there");
    }

    fn node(&self, path: &Path, mode: OpenMode) -> Result<Arc<Node>> {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        match names.get(path) {
            Some(_) if mode.create && mode.exclusive => {
                Err(Error::new(ErrorClass::FileExists, "open: the file exists"))
            }
            Some(node) => Ok(Arc::clone(node)),
            None if path.as_os_str().is_empty() => {
                Err(Error::new(ErrorClass::BadFile, "open: the file name is empty"))
            }
            None if mode.create => Ok(Arc::clone(names.entry(path.to_owned()).or_default())),
            None => Err(Error::new(ErrorClass::NoSuchFile, "open: no such file in memory")),
        }
    }
}

impl Driver for Memory {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn Storage>> {
        let node = mode.check().and_then(|()| self.node(path, mode));
        let node = node.map_err(|error| error.in_file(path))?;
        Ok(Arc::new(MemoryFile { node, mode }))
    }

    fn delete(&self, path: &Path) -> Result<()> {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        match names.remove(path) {
            Some(_) => Ok(()),
            None => {
                let error = Error::new(ErrorClass::NoSuchFile, "delete: no such file in memory");
                Err(error.in_file(path))
            }
        }
    }
}

/// A file, whatever its name is and whether it still has one.
#[derive(Default)]
struct Node {
    pages: RwLock<Pages>,
    locks: Arc<Mutex<LockTable>>,
}

impl Node {
    // No call leaves pages half changed when it panics, so a poisoned lock is as good as new.
    fn read(&self) -> RwLockReadGuard<'_, Pages> {
        self.pages.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Pages> {
        self.pages.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One open of a file.
struct MemoryFile {
    node: Arc<Node>,
    mode: OpenMode,
}

impl Storage for MemoryFile {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            range_locks: true,
            block_bytes: PAGE_BYTES,
            in_memory: true,
            mapped_writes: false,
            file_system: None,
            described: None,
        }
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> Result<usize> {
        self.read_list(&mut [(offset, target)])
    }

    fn write_at(&self, offset: u64, source: &[u8]) -> Result<()> {
        self.write_list(&[(offset, source)])
    }

    fn read_list(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<usize> {
        self.mode.permits_reading()?;
        check_pieces("read", pieces)?;
        let pages = self.node.read();
        let mut moved = 0;
        for (offset, target) in pieces {
            let count = pages.read(*offset, target);
            moved += count;
            if count < target.len() {
                break;
            }
        }
        Ok(moved)
    }

    fn write_list(&self, pieces: &[(u64, &[u8])]) -> Result<()> {
        self.mode.permits_writing()?;
        check_pieces("write", pieces)?;
        let mut pages = self.node.write();
        let mut moved = 0;
        for (offset, source) in pieces {
            pages.write(*offset, source).map_err(|error| {
                let in_piece = error.moved();
                error.after_moving(moved + in_piece)
            })?;
            moved += file_len(source.len());
        }
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        Ok(self.node.read().size)
    }

    fn set_size(&self, bytes: u64) -> Result<()> {
        self.mode.permits_writing()?;
        check_run("set_size", bytes, 0)?;
        self.node.write().set_size(bytes);
        Ok(())
    }

    fn preallocate(&self, bytes: u64) -> Result<()> {
        self.mode.permits_writing()?;
        check_run("preallocate", bytes, 0)?;
        let mut pages = self.node.write();
        pages.size = pages.size.max(bytes);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn try_lock(&self, lock: LockRange) -> Result<Option<LockGuard>> {
        locks::try_lock(&self.node.locks, lock)
    }

    fn close(&self) -> Result<()> {
        Ok(())
    }
}

/// The bytes of a file: a page that is missing is zero, and so is every byte from `size` on, so
/// that a file that grows again shows zeros and not what was cut off.
#[derive(Default)]
struct Pages {
    size: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl Pages {
    fn read(&self, offset: u64, target: &mut [u8]) -> usize {
        let len = target.len().min(memory_len(self.size.saturating_sub(offset)));
        for part in parts(offset, len) {
            match self.pages.get(&part.page) {
                Some(page) => target[part.memory].copy_from_slice(&page[part.within]),
                None => target[part.memory].fill(0),
            }
        }
        len
    }

    fn write(&mut self, offset: u64, source: &[u8]) -> Result<()> {
        for part in parts(offset, source.len()) {
            let moved = file_len(part.memory.start);
            let page = self.page(part.page).map_err(|error| {
                error.at_offset(offset.saturating_add(moved)).after_moving(moved)
            })?;
            let end = offset + file_len(part.memory.end);
            page[part.within].copy_from_slice(&source[part.memory]);
            self.size = self.size.max(end);
        }
        Ok(())
    }

    /// The page of that index, made of zeros if it is missing.
    fn page(&mut self, index: u64) -> Result<&mut [u8]> {
        use std::collections::btree_map::Entry;
        match self.pages.entry(index) {
            Entry::Occupied(page) => Ok(page.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(new_page()?)),
        }
    }

    fn set_size(&mut self, bytes: u64) {
        if bytes < self.size {
            self.pages.split_off(&bytes.div_ceil(PAGE_BYTES));
            if let Some(page) = self.pages.get_mut(&(bytes / PAGE_BYTES)) {
                page[memory_len(bytes % PAGE_BYTES)..].fill(0);
            }
        }
        self.size = bytes;
    }
}

fn new_page() -> Result<Box<[u8]>> {
    let mut page = Vec::new();
    let len = memory_len(PAGE_BYTES);
    page.try_reserve_exact(len).map_err(|_| {
        Error::new(ErrorClass::NoMemory, "write: memory is exhausted by files in memory")
    })?;
    page.resize(len, 0);
    Ok(page.into_boxed_slice())
}

/// The share of one page in an access.
struct PageShare {
    page: u64,
    within: Range<usize>,
    memory: Range<usize>,
}

/// Divides an access at the borders of pages.
fn parts(offset: u64, len: usize) -> impl Iterator<Item = PageShare> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let here = offset + file_len(done);
        let start = memory_len(here % PAGE_BYTES);
        let count = (memory_len(PAGE_BYTES) - start).min(len - done);
        let memory = done..done + count;
        done += count;
        let part = PageShare { page: here / PAGE_BYTES, within: start..start + count, memory };
        (count > 0).then_some(part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREATE: OpenMode = OpenMode { read: true, write: true, create: true, exclusive: false };

    fn node(memory: &Memory, path: &str) -> Arc<Node> {
        memory.node(Path::new(path), CREATE).unwrap()
    }

    #[test]
    fn bytes_behind_a_terabyte_cost_two_pages() {
        let memory = Memory::new();
        let file = memory.open(Path::new("a"), CREATE).unwrap();
        let offset = (1 << 40) - 2;
        file.write_at(offset, &[7; 5]).unwrap();
        assert_eq!(node(&memory, "a").read().pages.len(), 2);
        let mut target = [9; 8];
        assert_eq!(file.read_at(offset - 3, &mut target).unwrap(), 8);
        assert_eq!(target, [0, 0, 0, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn cut_bytes_do_not_come_back() {
        let memory = Memory::new();
        memory.put("a", &[7; 100]);
        let file = memory.open(Path::new("a"), CREATE).unwrap();
        file.set_size(10).unwrap();
        file.preallocate(20).unwrap();
        assert_eq!(memory.contents("a").unwrap(), [&[7; 10][..], &[0; 10]].concat());
        file.set_size(0).unwrap();
        assert!(node(&memory, "a").read().pages.is_empty());
    }

    #[test]
    fn put_replaces_all_bytes_also_for_open_files() {
        let memory = Memory::new();
        memory.put("a", b"first contents");
        let file = memory.open(Path::new("a"), CREATE).unwrap();
        memory.put("a", b"second");
        assert_eq!(file.size().unwrap(), 6);
        assert_eq!(memory.contents("a").unwrap(), b"second");
        assert_eq!(memory.contents("b"), None);
    }

    #[test]
    fn clones_share_files_and_new_stores_do_not() {
        let memory = Memory::new();
        memory.clone().put("a", b"x");
        assert!(memory.contents("a").is_some());
        assert!(Memory::new().contents("a").is_none());
        Memory::global().put("storage::memory::tests", b"x");
        assert!(Memory::global().contents("storage::memory::tests").is_some());
    }

    #[test]
    fn parts_cover_an_access_once() {
        let border = PAGE_BYTES;
        let found: Vec<_> = parts(border - 1, 2).map(|part| (part.page, part.within)).collect();
        assert_eq!(found, [(0, memory_len(border - 1)..memory_len(border)), (1, 0..1)]);
        assert_eq!(parts(border, 0).count(), 0);
        assert_eq!(parts(border, memory_len(border)).count(), 1);
    }
}
