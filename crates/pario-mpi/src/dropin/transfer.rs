//! Reads and writes of the drop-in: one function for all of them.

use std::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use pario::{Datatype, Error, ErrorClass, OwnedBuffer, Position, Result, Source, Status, Target};

use super::agreement::Agreement;
use super::files::{self, OpenFile, Split, Unfinished};
use super::representations::{Conversion, Converted};
use super::requests::{Ending, Request};
use super::{device, errors};
use crate::binding::Mpi;
use crate::{datatype, progress};

/// What kind of access.
#[derive(Clone, Copy)]
pub(super) struct Access {
    pub(super) write: bool,
    pub(super) collective: bool,
    pub(super) place: Place,
}

/// Which position.
#[derive(Clone, Copy)]
pub(super) enum Place {
    At(i64),
    Individual,
    Shared,
}

/// The user's buffer, as MPI functions take it.
#[derive(Clone, Copy)]
pub(super) struct UserBuffer {
    pub(super) address: *mut c_void,
    pub(super) count: i64,
    pub(super) datatype: usize,
}

// SAFETY: the address is only used by the call, on whatever thread carries it forward.
unsafe impl Send for UserBuffer {}

/// A buffer of the program, which keeps it alive and leaves it alone until the call has ended; or
/// what is wrong with it.
struct Raw(Result<Memory>);

pub(super) struct Memory {
    address: *mut u8,
    pub(super) count: u64,
    pub(super) datatype: Datatype,
}

// SAFETY: the address is only used by the call, on whatever thread carries it forward.
unsafe impl Send for Memory {}

/// What a buffer of the program is in the file's form, or what is wrong with it.
struct InFile(Result<Converted>);

impl OwnedBuffer for InFile {
    fn source(&self) -> Result<Source<'_>> {
        self.0.as_ref().map(|room| Source::from(&room.bytes)).map_err(Clone::clone)
    }

    fn target(&mut self) -> Result<Target<'_>> {
        self.0.as_mut().map(|room| Target::from(&mut room.bytes)).map_err(|error| error.clone())
    }
}

impl OwnedBuffer for Raw {
    fn source(&self) -> Result<Source<'_>> {
        let memory = self.0.as_ref().map_err(Clone::clone)?;
        // SAFETY: the program promises it, by the rules of MPI, until the call has ended.
        unsafe { Source::from_raw(memory.address, memory.count, &memory.datatype) }
    }

    fn target(&mut self) -> Result<Target<'_>> {
        let memory = self.0.as_ref().map_err(Clone::clone)?;
        // SAFETY: as above.
        unsafe { Target::from_raw(memory.address, memory.count, &memory.datatype) }
    }
}

impl UserBuffer {
    /// The buffer, checked as far as it can be.
    ///
    /// # Errors
    /// `Count`, `Type` and `Arg` for what is wrong; `UnsupportedOperation` for device memory.
    pub(super) fn memory(&self, mpi: &'static Mpi) -> Result<Memory> {
        let count = u64::try_from(self.count).map_err(|_| {
            Error::new(ErrorClass::Count, format!("a count of {} is negative", self.count))
        })?;
        let datatype = datatype::decode(mpi, self.datatype)?;
        if datatype.size().saturating_mul(count) > 0 {
            self.check_address(&datatype, count)?;
        }
        Ok(Memory { address: self.address.cast(), count, datatype })
    }

    /// An error if the data cannot be in memory of this process.
    ///
    /// `MPI_BOTTOM` is a null pointer in every library: it is right with a datatype that holds
    /// addresses, and no address is as small as the displacements of others.
    fn check_address(&self, datatype: &Datatype, count: u64) -> Result<()> {
        const ADDRESS_MIN: i64 = 4096;
        let first = datatype.true_lower_bound();
        let turns = i64::try_from(count - 1).unwrap_or(i64::MAX);
        let lowest = first.min(datatype.extent().saturating_mul(turns).saturating_add(first));
        if self.address.is_null() && lowest < ADDRESS_MIN {
            return Err(Error::new(ErrorClass::Arg, "the buffer is a null pointer"));
        }
        let first = isize::try_from(first).unwrap_or(0);
        device::refuse(self.address.wrapping_byte_offset(first))
    }
}

impl Place {
    fn position(self) -> Result<Position> {
        match self {
            Place::At(offset) => match u64::try_from(offset) {
                Ok(offset) => Ok(Position::At(offset)),
                Err(_) => {
                    let text = format!("an offset of {offset} is negative");
                    Err(Error::new(ErrorClass::Arg, text))
                }
            },
            Place::Individual => Ok(Position::Individual),
            Place::Shared => Ok(Position::Shared),
        }
    }
}

/// Fills a status, unless the program ignores it.
///
/// # Safety
/// `status` is a status of the library, or one of its ways to say that there is none.
pub(super) unsafe fn set_status(mpi: &Mpi, status: *mut c_void, bytes: u64) {
    if status.is_null() || status.addr() == mpi.abi.status_ignore {
        return;
    }
    let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
    // SAFETY: the caller answers for the status.
    unsafe {
        (mpi.call.Status_set_elements_x)(status, mpi.handle(mpi.abi.byte), bytes);
        (mpi.call.Status_set_cancelled)(status, 0);
    }
}

/// The position and buffer of a call. What is wrong with either becomes the buffer's error, so that
/// in a collective all ranks learn it and nobody waits.
fn arguments(mpi: &'static Mpi, access: Access, buffer: Result<UserBuffer>) -> (Position, Raw) {
    match access.place.position() {
        Ok(position) => (position, Raw(buffer.and_then(|buffer| buffer.memory(mpi)))),
        Err(error) => (Position::At(0), Raw(Err(error))),
    }
}

/// Carries an access out and waits for it.
fn blocking(open: &OpenFile, access: Access, buffer: Result<UserBuffer>) -> Result<Status> {
    let file = &open.file;
    if let Ok(buffer) = &buffer
        && let Some(result) = quick(open, access, *buffer, usize::MAX)
    {
        return told(result, *buffer);
    }
    if let Some(conversion) = open.conversion(access.write) {
        return converted(open, access, &buffer, &conversion);
    }
    let (position, mut raw) = arguments(open.mpi, access, buffer);
    match (access.write, access.collective) {
        (true, false) => file.write(position, raw.source()?),
        (true, true) => file.try_write_all(position, raw.source()),
        (false, false) => file.read(position, raw.target()?),
        (false, true) => file.try_read_all(position, raw.target()),
    }
}

/// One run of memory to or from one run of the file, with as little as possible in between.
#[inline]
fn quick(
    open: &OpenFile,
    access: Access,
    buffer: UserBuffer,
    len_max: usize,
) -> Option<Result<Status>> {
    let Ok(position) = access.place.position() else { return None };
    if open.converts.load(Ordering::Acquire) || buffer.address.is_null() {
        return None;
    }
    let count = usize::try_from(buffer.count).ok()?;
    let len = datatype::run_bytes(buffer.datatype)?.checked_mul(count)?;
    if len > len_max {
        return None;
    }
    let address = buffer.address.cast::<u8>();
    // SAFETY: the program has `len` bytes at this address, which nothing else changes meanwhile;
    // they end inside the address space.
    unsafe {
        let (file, bytes) = (&open.file, || std::slice::from_raw_parts(address, len));
        let room = || std::slice::from_raw_parts_mut(address, len);
        match (access.write, access.collective) {
            (true, false) => file.write_run(position, bytes()),
            (true, true) => file.write_all_run(position, bytes()),
            (false, false) => file.read_run(position, room()),
            (false, true) => file.read_all_run(position, room()),
        }
    }
}

/// The outcome of a quick call, which leaves it to the system to look at the address.
#[inline]
fn told(result: Result<Status>, buffer: UserBuffer) -> Result<Status> {
    result.or_else(|error| device::refuse(buffer.address).and(Err(error)))
}

/// As [`arguments`], for a file whose data the program converts itself. The kind of the position
/// decides which steps a collective takes, so that it stays.
fn converted_arguments(
    access: Access,
    buffer: &Result<UserBuffer>,
    conversion: &Conversion,
) -> (Position, InFile) {
    let position = access.place.position();
    let room = position.as_ref().map_err(Clone::clone).and_then(|_| {
        let buffer = buffer.as_ref().map_err(Clone::clone)?;
        match access.write {
            // SAFETY: the buffer is the program's, for this write.
            true => unsafe { conversion.encode(buffer) },
            false => conversion.room(buffer),
        }
    });
    (position.unwrap_or(Position::At(0)), InFile(room))
}

impl InFile {
    /// The status of a call in terms of the program's buffer.
    fn written(&self, mut status: Status) -> Result<Status> {
        status.bytes = self.0.as_ref().map_err(Clone::clone)?.memory_moved(status.bytes);
        Ok(status)
    }

    /// Converts what a read brought, into the program's buffer.
    fn read(
        &mut self,
        status: Status,
        buffer: &Result<UserBuffer>,
        conversion: &Conversion,
    ) -> Result<Status> {
        let done = self.written(status)?;
        let room = self.0.as_mut().map_err(|error| error.clone())?;
        let buffer = buffer.as_ref().map_err(Clone::clone)?;
        // SAFETY: the buffer is the program's, for this read.
        unsafe { conversion.decode(buffer, room, status.bytes)? };
        Ok(done)
    }
}

/// As [`blocking`], for a file whose data the program converts itself.
fn converted(
    open: &OpenFile,
    access: Access,
    buffer: &Result<UserBuffer>,
    conversion: &Conversion,
) -> Result<Status> {
    let file = &open.file;
    let (position, mut room) = converted_arguments(access, buffer, conversion);
    match (access.write, access.collective) {
        (true, false) => room.written(file.write(position, room.source()?)?),
        (true, true) => room.written(file.try_write_all(position, room.source())?),
        (false, false) => {
            let status = file.read(position, room.target()?)?;
            room.read(status, buffer, conversion)
        }
        (false, true) => {
            let read = file.try_read_all(position, room.target());
            let decoded = read.and_then(|status| room.read(status, buffer, conversion));
            // The bytes of this rank stay where they are, also if another cannot convert its own.
            let bytes = decoded.as_ref().map_or_else(Error::moved, |status| status.bytes);
            file.agree_on(decoded).map_err(|error| error.after_moving(bytes))
        }
    }
}

/// How a call ended, for statuses: its code, after the file's handler was called, and its bytes.
/// Takes the file, which the handler may close.
pub(super) fn ending(open: Arc<OpenFile>, result: &Result<Status>) -> Ending {
    match result {
        Ok(status) => Ending { code: 0, bytes: status.bytes },
        Err(error) => {
            Ending { code: errors::raise(open.mpi, Some(open), error), bytes: error.moved() }
        }
    }
}

/// A call of this size is short enough to keep an open or a close of another thread waiting.
const BRIEF_BYTES: usize = 64 << 10;

/// A blocking read or write.
///
/// # Safety
/// The arguments are those of an MPI call.
pub(super) unsafe fn transfer(
    mpi: &'static Mpi,
    handle: usize,
    access: Access,
    buffer: UserBuffer,
    status: *mut c_void,
) -> c_int {
    let brief = files::briefly(handle, |open| quick(open, access, buffer, BRIEF_BYTES));
    let brief = brief.map(|result| told(result, buffer));
    if let Some(Ok(done)) = brief {
        // SAFETY: passed on from the caller.
        unsafe { set_status(mpi, status, done.bytes) };
        return 0;
    }
    let open = match files::get(handle) {
        Ok(open) => open,
        Err(error) => return errors::raise(mpi, None, &error),
    };
    let result = brief.unwrap_or_else(|| blocking(&open, access, Ok(buffer)));
    let ending = ending(open, &result);
    // SAFETY: passed on from the caller.
    unsafe { set_status(mpi, status, ending.bytes) };
    ending.code
}

/// A non-blocking read or write.
///
/// Independent ones are done at once. Collective ones go on in the background where tasks of all
/// ranks go on by themselves. Elsewhere they are done at once too, each rank for itself, since a
/// rank must not wait for others in a call that does not block; the request ends when all ranks
/// have agreed on the outcome. Where no function of a request is called while a thread waits for
/// it, nothing is agreed on: an error stays on its rank.
///
/// The request is `MPI_REQUEST_NULL` after an error: a program that waits for it all the same must
/// not wait for an old one.
///
/// # Safety
/// The arguments are those of an MPI call.
pub(super) unsafe fn start(
    mpi: &'static Mpi,
    handle: usize,
    access: Access,
    buffer: UserBuffer,
    request: *mut c_void,
) -> c_int {
    // SAFETY: the program passes room for a request.
    unsafe { super::put_handle(mpi, request, mpi.handle(mpi.abi.request_null)) };
    let open = match files::get(handle) {
        Ok(open) => open,
        Err(error) => return errors::raise(mpi, None, &error),
    };
    let buffer = match request.is_null() {
        true => Err(Error::new(ErrorClass::Arg, "no place for the request")),
        false => Ok(buffer),
    };
    let together = access.collective && open.file.communicator().size() > 1;
    let background = together && open.in_background;
    // SAFETY: as above.
    let give = |started: &Request| unsafe { super::put_handle(mpi, request, started.handle()) };
    if together && !background && Request::is_polled(mpi) {
        return at_once(open, access, buffer, give);
    }
    if !background {
        let alone = Access { collective: false, ..access };
        let ended = blocking(&open, alone, buffer).and_then(|status| {
            let started = Request::start(mpi)?;
            give(&started);
            started.complete(Ending { code: 0, bytes: status.bytes });
            Ok(())
        });
        return ended.map_or_else(|error| errors::raise(mpi, Some(open), &error), |()| 0);
    }
    match buffer.and_then(|buffer| Ok((buffer, Request::start(mpi)?))) {
        Ok((buffer, started)) => {
            give(&started);
            in_background(open, access, Ok(buffer), Some(started));
            0
        }
        Err(error) => {
            // The others wait for this rank, also where its program gets no request to wait for.
            in_background(open.clone(), access, Err(error.clone()), None);
            errors::raise(mpi, Some(open), &error)
        }
    }
}

/// Does this rank's part of a collective at once. Its request ends with the outcome of all ranks.
fn at_once(
    open: Arc<OpenFile>,
    access: Access,
    buffer: Result<UserBuffer>,
    give: impl Fn(&Request),
) -> c_int {
    let mpi = open.mpi;
    let alone = Access { collective: false, ..access };
    let started = buffer.and_then(|buffer| Ok((buffer, Request::start(mpi)?)));
    let own = match &started {
        Ok((buffer, _)) => blocking(&open, alone, Ok(*buffer)),
        Err(error) => Err(error.clone()),
    };
    let class = own.as_ref().err().map(Error::class);
    let agreement = Agreement::begin(mpi, open.file.communicator(), class);
    match (started, agreement) {
        (Ok((_, started)), Ok(agreement)) => {
            give(&started);
            started.complete_together(open, own, agreement);
            0
        }
        (Ok((_, started)), Err(error)) => {
            give(&started);
            started.complete(ending(open, &own.and(Err(error))));
            0
        }
        (Err(error), agreement) => {
            // The others wait for this rank, also where its program gets no request to wait for.
            agreement.into_iter().for_each(|one| open.keep(Unfinished::Agreement(one)));
            errors::raise(mpi, Some(open), &error)
        }
    }
}

/// Hands a collective over; its end completes the request, if there is one.
fn in_background(
    open: Arc<OpenFile>,
    access: Access,
    buffer: Result<UserBuffer>,
    request: Option<Request>,
) {
    if let Some(conversion) = open.conversion(access.write) {
        return converted_in_background(open, access, buffer, conversion, request);
    }
    let (position, raw) = arguments(open.mpi, access, buffer);
    let pending = match access.write {
        true => open.file.iwrite_all(position, raw),
        false => open.file.iread_all(position, raw),
    };
    complete_after(open, async move { pending.await.0 }, request);
}

/// As [`in_background`], for a file whose data the program converts itself. Data that is written is
/// converted at once, data that is read by the thread that carries the call to its end.
fn converted_in_background(
    open: Arc<OpenFile>,
    access: Access,
    buffer: Result<UserBuffer>,
    conversion: Conversion,
    request: Option<Request>,
) {
    let (position, room) = converted_arguments(access, &buffer, &conversion);
    if access.write {
        let pending = open.file.iwrite_all(position, room);
        let written = async move {
            let (result, room) = pending.await;
            result.and_then(|status| room.written(status))
        };
        return complete_after(open, written, request);
    }
    let convert = move |room: &mut InFile, status| room.read(status, &buffer, &conversion);
    let pending = open.file.iread_all_converted(position, room, convert);
    complete_after(open, async move { pending.await.0 }, request);
}

/// Completes a request, if there is one, with the outcome of a call.
fn complete_after(
    open: Arc<OpenFile>,
    call: impl Future<Output = Result<Status>> + Send + 'static,
    request: Option<Request>,
) {
    progress::spawn(
        open.mpi,
        Box::pin(async move {
            let result = call.await;
            // From the end of the request on, another thread may close the file: it is let go.
            if let Some(request) = request {
                request.complete(ending(open, &result));
            }
        }),
    );
}

/// The begin of a split collective. The standard lets it do all of the work.
///
/// # Safety
/// The arguments are those of an MPI call.
pub(super) unsafe fn begin(
    mpi: &'static Mpi,
    handle: usize,
    name: &'static str,
    access: Access,
    buffer: UserBuffer,
) -> c_int {
    let open = match files::get(handle) {
        Ok(open) => open,
        Err(error) => return errors::raise(mpi, None, &error),
    };
    let active = open.state().split.is_some_and(|split| split.code == 0);
    let buffer = match active {
        true => {
            let text = "a split collective is active on this file; end it before the next begins";
            Err(Error::new(ErrorClass::UnsupportedOperation, text))
        }
        false => Ok(buffer),
    };
    let result = blocking(&open, access, buffer);
    if !active {
        let (code, bytes) = match &result {
            Ok(status) => (0, status.bytes),
            Err(error) => (errors::code(mpi, error), error.moved()),
        };
        open.state().split = Some(Split { name, code, bytes });
    }
    ending(open, &result).code
}

/// The end of a split collective.
///
/// # Safety
/// The arguments are those of an MPI call.
pub(super) unsafe fn end(
    mpi: &'static Mpi,
    handle: usize,
    name: &'static str,
    status: *mut c_void,
) -> c_int {
    let mut code = 0;
    let outcome = files::with(mpi, handle, |open| {
        let split = open.state().split.take_if(|split| split.name == name);
        let Some(split) = split else {
            let text = format!("{name}_end: no {name}_begin is active on this file");
            return Err(Error::new(ErrorClass::UnsupportedOperation, text));
        };
        // SAFETY: passed on from the caller.
        unsafe { set_status(mpi, status, split.bytes) };
        code = split.code;
        Ok(())
    });
    if outcome == 0 { code } else { outcome }
}
