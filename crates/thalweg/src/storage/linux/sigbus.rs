//! [`Guarded`]: ranges of memory, mapped from files, where a page that cannot be read is an error and not death.
//!
//! A load from a mapped page that is not in memory and cannot be read (the device fails, the file was cut short, the
//! memory is broken) makes the kernel send `SIGBUS` to the thread. The first range installs a handler for it, once for
//! the process. For an address in one of the ranges the handler sets the range's flag and puts a page of zeros where
//! the bad one was; the load is then repeated by the processor and reads zeros. Whoever copies out of a range looks at
//! the flag after the copy and throws the copy away. For every other address, and for a signal that somebody sent, the
//! handler that was there before is called; if there was none, the default is restored, and the process ends as it
//! would have.
//!
//! A handler that was there and answers by restoring the default, as that of Rust's own runtime does for a signal that
//! somebody sent, takes ours away with it.
//!
//! What it relies on: the signal of a load is delivered to the thread that made it, before the load has a value. The
//! handler calls only what is safe there (`mmap` and `sigaction` are bare system calls; `raise`), takes no lock,
//! allocates nothing, and leaves `errno` as it was. A thread that has the signal blocked, and a handler that somebody
//! installs later and that does not pass on what is not its own, take this protection away.
//!
//! Invariants: a place of [`RANGES`] has a start above [`TAKEN`] only between [`Guarded::new`] and the drop, and its
//! length changes only while it has not. A range is dropped before its memory is unmapped.
#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Once, OnceLock};

/// Ranges there may be at a time; each is a table that somebody reads.
const RANGES_MAX: usize = 4096;

/// Starts of a place that has no range, and of one that is being filled.
const FREE: usize = 0;
const TAKEN: usize = 1;

struct Place {
    start: AtomicUsize,
    bytes: AtomicUsize,
    failed: AtomicBool,
}

static RANGES: [Place; RANGES_MAX] = [const { Place::free() }; RANGES_MAX];

/// Where to look for a free place first.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What was done about the signal before; `None` inside: it could not be asked for, or ours could not be installed.
static BEFORE: OnceLock<Option<libc::sigaction>> = OnceLock::new();

/// A range of memory for which the handler is responsible.
pub(super) struct Guarded {
    place: &'static Place,
}

impl Place {
    const fn free() -> Self {
        Place { start: AtomicUsize::new(FREE), bytes: AtomicUsize::new(0), failed: AtomicBool::new(false) }
    }

    /// Whether the range, if there is one, has `address`.
    fn has(&self, address: usize) -> bool {
        let start = self.start.load(Ordering::Acquire);
        let bytes = self.bytes.load(Ordering::Acquire);
        // The length was of this start only if that is still the same.
        start > TAKEN && address.wrapping_sub(start) < bytes && self.start.load(Ordering::Acquire) == start
    }
}

impl Guarded {
    /// Takes responsibility for `bytes` from `start` on, mapped by the caller; `None` where that is impossible.
    pub(super) fn new(start: usize, bytes: usize) -> Option<Guarded> {
        if start <= TAKEN || !install() {
            return None;
        }
        let first = NEXT.load(Ordering::Relaxed);
        let places = RANGES.iter().enumerate().cycle().skip(first % RANGES_MAX).take(RANGES_MAX);
        for (at, place) in places {
            if place.start.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                // Nobody sees the new length with the start that was here before.
                fence(Ordering::Release);
                place.bytes.store(bytes, Ordering::Relaxed);
                place.failed.store(false, Ordering::Relaxed);
                place.start.store(start, Ordering::Release);
                NEXT.store(at + 1, Ordering::Relaxed);
                return Some(Guarded { place });
            }
        }
        None
    }

    /// Whether a page of the range could not be read. What was copied before this says no, in this thread, is what the
    /// file has.
    #[inline]
    pub(super) fn has_failed(&self) -> bool {
        // The loads of the copy come before that of the flag; the handler sets it before there are zeros to load.
        fence(Ordering::Acquire);
        self.place.failed.load(Ordering::Relaxed)
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        self.place.start.store(FREE, Ordering::Release);
    }
}

/// Installs the handler, once. Gives whether it is there.
fn install() -> bool {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut before = MaybeUninit::<libc::sigaction>::uninit();
        // SAFETY: asks only; the target is ours and of the right type, and read only if the call has filled it.
        let before = unsafe {
            (libc::sigaction(libc::SIGBUS, ptr::null(), before.as_mut_ptr()) == 0).then(|| before.assume_init())
        };
        PAGE_BYTES.store(rustix::param::page_size(), Ordering::Relaxed);
        // Known before the first signal can come.
        if BEFORE.set(before).is_err() || before.is_none() {
            return;
        }
        // SAFETY: all zeros are a valid `sigaction`; the handler has the form that SA_SIGINFO asks for, lives as long
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
    // SAFETY: the kernel hands over a valid `info`; its address is there to be read for a signal of the kernel's own,
    // whose code is positive; `errno` is this thread's.
    unsafe {
        let errno = *libc::__errno_location();
        // Broken memory that nobody has touched yet is told, too, to any thread: that is no load of this one's.
        let is_fault = matches!((*info).si_code, libc::BUS_ADRERR | BUS_MCEERR_AR);
        if !is_fault || !give_zeros((*info).si_addr() as usize) {
            pass_on(signal, info, context, is_fault);
        }
        *libc::__errno_location() = errno;
    }
}

/// Puts a page of zeros where `address` is, if that is in one of the ranges. Gives whether it was.
fn give_zeros(address: usize) -> bool {
    let mut is_ours = false;
    for place in RANGES.iter().filter(|place| place.has(address)) {
        place.failed.store(true, Ordering::SeqCst);
        is_ours = true;
    }
    let page = PAGE_BYTES.load(Ordering::Relaxed);
    let (protection, flags) = (libc::PROT_READ, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED);
    // SAFETY: the page is one of a mapping that its owner guards here, and that cannot go while this thread loads from
    // it; what is copied of it is thrown away, as the flag says.
    is_ours
        && unsafe { libc::mmap((address / page * page) as *mut c_void, page, protection, flags, -1, 0) }
            != libc::MAP_FAILED
}

/// Known before the first signal can come: to ask for it may allocate.
static PAGE_BYTES: AtomicUsize = AtomicUsize::new(4096);

/// An action is required: the page that a load wants is broken (asm-generic/siginfo.h).
const BUS_MCEERR_AR: c_int = 4;

/// Does about the signal what would have been done without us.
///
/// # Safety
/// The arguments are those of a handler.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void, is_fault: bool) {
    let before = BEFORE.get().and_then(Option::as_ref);
    let action = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
    match (action, before) {
        // A fault cannot be ignored: the kernel ends the process then too.
        (libc::SIG_IGN, _) if !is_fault => {}
        (libc::SIG_DFL | libc::SIG_IGN, _) | (_, None) => {
            // SAFETY: the default is restored; all zeros are a valid `sigaction`. The fault comes again when this
            // returns, and a signal that was sent is sent again, blocked until then.
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
            // SAFETY: an action without SA_SIGINFO that is neither the default nor none is a function of this form.
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

    /// Set in the process that is to end, to what it is to do.
    const ACT: &str = "THALWEG_SIGBUS_ACT";

    /// A handler of somebody else ends the process with these.
    const HANDLED: i32 = 41;
    const HANDLED_WITHOUT_INFO: i32 = 42;

    extern "C" fn others(_: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
        // SAFETY: the kernel's, or what ours passed on; nothing but the end of the process.
        unsafe { libc::_exit(if (*info).si_signo == libc::SIGBUS { HANDLED } else { 1 }) }
    }

    extern "C" fn others_without_info(signal: c_int) {
        // SAFETY: nothing but the end of the process.
        unsafe { libc::_exit(if signal == libc::SIGBUS { HANDLED_WITHOUT_INFO } else { 1 }) }
    }

    fn set_action(action: usize, flags: c_int) {
        // SAFETY: all zeros are a valid `sigaction`; the functions above have the form that the flags ask for.
        unsafe {
            let mut theirs: libc::sigaction = std::mem::zeroed();
            theirs.sa_sigaction = action;
            theirs.sa_flags = flags;
            assert_eq!(libc::sigaction(libc::SIGBUS, &raw const theirs, ptr::null_mut()), 0);
        }
    }

    /// A fault of a page of nobody here: beyond the end of an empty file.
    fn fault() {
        let path = std::env::temp_dir().join(format!("thalweg-{}-alien", std::process::id()));
        let file = std::fs::File::create_new(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let file = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: a new mapping; the load of it is what must not come back.
        unsafe {
            let start = libc::mmap(ptr::null_mut(), 4096, libc::PROT_READ, libc::MAP_SHARED, file, 0);
            assert!(start != libc::MAP_FAILED);
            ptr::read_volatile(start.cast::<u8>());
        }
    }

    /// What the child does; it must not come back from that, but for what is ignored.
    fn act(name: &str) {
        match name.split_once('-') {
            Some((_, "default")) => set_action(libc::SIG_DFL, 0),
            Some((_, "ignored")) => set_action(libc::SIG_IGN, 0),
            Some((_, "info")) => set_action(others as *const () as usize, libc::SA_SIGINFO),
            Some((_, "plain")) => set_action(others_without_info as *const () as usize, 0),
            // What the runtime of Rust has installed.
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

    /// How a process of its own ends that does this.
    fn end_of(name: &str) -> ExitStatus {
        let this = std::env::current_exe().unwrap();
        let test = "storage::linux::sigbus::tests::what_is_not_ours_goes_where_it_would_have_gone";
        Command::new(this).args([test, "--exact", "--nocapture"]).env(ACT, name).output().unwrap().status
    }

    #[test]
    fn what_is_not_ours_goes_where_it_would_have_gone() {
        if let Ok(name) = std::env::var(ACT) {
            return act(&name);
        }
        // One that was sent, Rust's own handler takes for nothing, the first time.
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
        let known = |address: usize| RANGES.iter().any(|place| place.has(address));
        let guarded = Guarded::new(start, memory.len()).unwrap();
        assert_eq!([start - 1, start, start + 63, start + 64].map(known), [false, true, true, false]);
        assert!(!guarded.has_failed());
        drop(guarded);
        assert!(!known(start));
    }
}
