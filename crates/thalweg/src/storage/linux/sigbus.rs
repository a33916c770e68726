//! [`Guarded`]: ranges of mapped memory where a page that cannot be read is an error instead of the process's death.
//!
//! A load from a mapped page that is not in memory and cannot be read (the device fails, the file was cut short, the
//! memory is broken) makes the kernel send `SIGBUS` to the thread. The first range installs a handler, once for the
//! process. For an address in one of the ranges the handler sets the range's flag and maps a page of zeros in place of
//! the bad page. The processor repeats the load and reads zeros. A reader that copies out of a range checks the flag
//! after the copy, and discards the copy if it is set. For every other address, and for a signal that a process sent,
//! the handler calls the one that was installed before it. If there was none, it restores the default action, and the
//! process ends as it would have without this handler.
//!
//! A previous handler may answer by restoring the default action, as the handler of Rust's runtime does for a signal
//! that a process sent. That removes this handler too.
//!
//! It relies on this: the signal of a load is delivered to the thread that made the load, before the load has a value.
//! The handler calls only what is safe there (`mmap` and `sigaction` are plain system calls; `raise`), takes no lock,
//! allocates nothing, and leaves `errno` unchanged. Two things defeat the protection: a thread that blocks the signal,
//! and a handler that is installed later and does not pass on foreign signals.
//!
//! Invariants: an entry of [`RANGES`] has a start above [`TAKEN`] only between [`Guarded::new`] and the drop, and its
//! length changes only outside of that time. A range is dropped before its memory is unmapped.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Once, OnceLock};

/// Ranges at a time. Each is the mapping of a table that is read.
const RANGES_MAX: usize = 4096;

/// The start of an entry without a range.
const FREE: usize = 0;

/// The start of an entry that is being filled.
const TAKEN: usize = 1;

/// One entry of the list of ranges.
struct RangeEntry {
    start: AtomicUsize,
    bytes: AtomicUsize,
    failed: AtomicBool,
}

static RANGES: [RangeEntry; RANGES_MAX] = [const { RangeEntry::free() }; RANGES_MAX];

/// The index where the search for a free entry begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The action that was installed before ours; `None` inside when it could not be read.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// A range of memory that the handler guards, until dropped.
pub(super) struct Guarded {
    entry: &'static RangeEntry,
}

impl RangeEntry {
    const fn free() -> Self {
        RangeEntry { start: AtomicUsize::new(FREE), bytes: AtomicUsize::new(0), failed: AtomicBool::new(false) }
    }

    /// Whether the entry has a range with `address` in it.
    fn has(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        // The length belongs to this start only if the start has not changed.
        start > TAKEN && address.wrapping_sub(start) < bytes && self.start.load(Ordering::Acquire) == start
    }
}

impl Guarded {
    /// Guards the `bytes` from `start` on, which the caller has mapped; `None` where that is impossible.
    pub(super) fn new(start: usize, bytes: usize) -> Option<Guarded> {
        if start <= TAKEN || !install() {
            return None;
        }
        let first = NEXT.load(Ordering::Relaxed);
        let entries = RANGES.iter().enumerate().cycle().skip(first % RANGES_MAX).take(RANGES_MAX);
        for (at, entry) in entries {
            if entry.start.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                // No thread sees the new length with the previous start.
                fence(Ordering::Release);
                entry.bytes.store(bytes, Ordering::Relaxed);
                entry.failed.store(false, Ordering::Relaxed);
                entry.start.store(start, Ordering::Release);
                NEXT.store(at + 1, Ordering::Relaxed);
                return Some(Guarded { entry });
            }
        }
        None
    }

    /// Whether a page of the range could not be read. If this returns `false`, the bytes that this thread copied before
    /// the call are those of the file.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        // The loads of the copy come before the load of the flag. The handler sets the flag before it maps zeros.
        fence(Ordering::Acquire);
        self.entry.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.entry.start.store(FREE, Ordering::Release);
    }
}

/// Installs the handler, once. Returns whether it is installed.
fn install() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: only reads the action; the target is local and of the right type, and is read only if the call has
        // filled it.
        let before = unsafe {
            (libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) == 0).then(|| before.assume_init())
        };
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
        // Set before the first signal can come.
        if BEFORE.set(before).is_err() || before.is_none() {
            return;
        }
        // SAFETY: all zeros are a valid `sigaction`; the handler has the form that SA_SIGINFO requires, lives as long
        // as the process, and does only what a handler may.
        unsafe {
            let mut ours: libc::sigaction = std::mem::zeroed();
            ours.sa_sigaction = on_bus_error as *const () as usize;
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&raw mut ours.sa_mask);
            IS_INSTALLED.store(libc::sigaction(libc::SIGBUS, &raw const ours, ptr::null_mut()) == 0, Ordering::Release);
        }
    });
    IS_INSTALLED.load(Ordering::Acquire)
}

static IS_INSTALLED: AtomicBool = AtomicBool::new(false);

extern "C" fn on_bus_error(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a valid `info`; its address may be read for a signal of the kernel, whose code is
    // positive; `errno` is this thread's.
    unsafe {
        let errno = *libc::__errno_location();
        // The kernel also reports broken memory before it is used, to any thread; that is no load of this thread.
        let is_fault = matches!((*info).si_code, libc::BUS_ADRERR | BUS_MCEERR_AR);
        if !is_fault || !give_zeros((*info).si_addr() as usize) {
            pass_on(signal, info, context, is_fault);
        }
        *libc::__errno_location() = errno;
    }
}

/// Maps a page of zeros at `address`, if that is in one of the ranges. Returns whether it is.
fn give_zeros(address: usize) -> bool {
    let mut is_ours = false;
    for entry in RANGES.iter().filter(|entry| entry.has(address)) {
        entry.failed.store(true, Ordering::SeqCst);
        is_ours = true;
    }
    let page = PAGE_BYTES.load(Ordering::Relaxed);
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    // SAFETY: the page belongs to a guarded mapping, which stays while this thread loads from it; the reader discards
    // what it copied, because the flag is set.
    is_ours
        && unsafe { libc::mmap((address / page * page) as *mut c_void, page, protection, flags, -1, 0) }
            != libc::MAP_FAILED
}

/// The size of a page. Set before the first signal can come, because reading it may allocate.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// The signal's code for a load from broken memory (asm-generic/siginfo.h).
const BUS_MCEERR_AR: c_int = 4;

/// Handles the signal as if this handler were not installed.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_fault: bool) {
    let before = BEFORE.get().and_then(Option::as_ref);
    let action = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    match (action, before) {
        // A fault cannot be ignored: the kernel then ends the process.
        (libc::SIG_IGN, _) if !is_fault => {}
        (libc::SIG_DFL | libc::SIG_IGN, _) | (_, None) => {
            // SAFETY: restores the default; all zeros are a valid `sigaction`. A fault comes again when this returns. A
            // signal that was sent is raised again, and is blocked until this returns.
            unsafe {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &raw const default, ptr::null_mut());
                if !is_fault {
                    libc::raise(signal);
                }
            }
        }
        (_, Some(before)) if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: an action with SA_SIGINFO is a function of this form.
            unsafe {
                let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) = std::mem::transmute(action);
                handler(signal, info, context);
            }
        }
        (_, Some(_)) => {
            // SAFETY: an action without SA_SIGINFO that is neither SIG_DFL nor SIG_IGN is a function of this form.
            unsafe {
                let handler: extern "C" fn(c_int) = std::mem::transmute(action);
                handler(signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt;
    use std::process::{Command, ExitStatus};

    /// The environment variable that tells a child process what to do.
    const ACT: &str = "THALWEG_SIGBUS_ACT";

    /// Exit codes of the foreign handlers.
    const HANDLED: i32 = 41;
    const HANDLED_WITHOUT_INFO: i32 = 42;

    extern "C" fn others(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: `info` is the kernel's or the one that our handler passed on; only ends the process.
        unsafe { libc::_exit(if (*info).si_signo == libc::SIGBUS { HANDLED } else { 1 }) }
    }

    extern "C" fn others_without_info(signal: c_int) {
        // SAFETY: only ends the process.
        unsafe { libc::_exit(if signal == libc::SIGBUS { HANDLED_WITHOUT_INFO } else { 1 }) }
    }

    fn set_action(action: usize, flags: c_int) {
        // SAFETY: all zeros are a valid `sigaction`; the functions above have the form that the flags require.
        unsafe {
            let mut theirs: libc::sigaction = std::mem::zeroed();
            theirs.sa_sigaction = action;
            theirs.sa_flags = flags;
            assert_eq!(libc::sigaction(libc::SIGBUS, &raw const theirs, ptr::null_mut()), 0);
        }
    }

    /// Faults on a page that is not guarded: beyond the end of an empty file.
    fn fault() {
        let path = std::env::temp_dir().join(format!("thalweg-{}-alien", std::process::id()));
        let file = std::fs::File::create_new(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let file = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: a new mapping; the load from it must not return.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file, 0);
            assert!(start != libc::MAP_FAILED);
            ptr::read_volatile(start.cast::<u8>());
        }
    }

    /// The action of the child process. It returns only if the signal is ignored.
    fn act(name: &str) {
        match name.split_once('-') {
            Some((_, "default")) => set_action(libc::SIG_DFL, 0),
            Some((_, "ignored")) => set_action(libc::SIG_IGN, 0),
            Some((_, "info")) => set_action(others as *const () as usize, libc::SA_SIGINFO),
            Some((_, "plain")) => set_action(others_without_info as *const () as usize, 0),
            // The handler of Rust's runtime stays.
            _ => {}
        }
        let memory = [0u8; 100];
        let _guarded = Guarded::new(memory.as_ptr() as usize, memory.len()).unwrap();
        if name.starts_with("fault") {
            fault();
        } else {
            // SAFETY: sends a signal to this thread.
            assert_eq!(unsafe { libc::raise(libc::SIGBUS) }, 0);
        }
    }

    /// The exit status of a child process that does `name`.
    fn end_of(name: &str) -> ExitStatus {
        let this = std::env::current_exe().unwrap();
        let test = "storage::linux::sigbus::tests::foreign_signals_go_where_they_would_have_gone";
        Command::new(this).args([test, "--exact", "--nocapture"]).env(ACT, name).output().unwrap().status
    }

    #[test]
    fn foreign_signals_go_where_they_would_have_gone() {
        if let Ok(name) = std::env::var(ACT) {
            return act(&name);
        }
        // Rust's own handler ignores the first signal that was sent.
        for name in ["fault-default", "sent-default", "fault-ignored", "fault-rust"] {
            assert_eq!(end_of(name).signal(), Some(libc::SIGBUS), "{name}");
        }
        for cause in ["fault", "sent"] {
            assert_eq!(end_of(&format!("{cause}-info")).code(), Some(HANDLED));
            assert_eq!(end_of(&format!("{cause}-plain")).code(), Some(HANDLED_WITHOUT_INFO));
        }
        assert_eq!(end_of("sent-ignored").code(), Some(0), "ignored as before");
    }

    #[test]
    fn a_range_is_known_from_its_start_to_its_end_and_until_it_is_dropped() {
        let memory = [0u8; 64];
        let start = memory.as_ptr() as usize;
        let known = |address: usize| RANGES.iter().any(|entry| entry.has(address));
        let guarded = Guarded::new(start, memory.len()).unwrap();
        assert_eq!([start - 1, start, start + 63, start + 64].map(known), [false, true, true, false]);
        assert!(!guarded.has_failed());
        drop(guarded);
        assert!(!known(start));
    }
}
