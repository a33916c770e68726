//! A disk with a volatile cache: a power cut loses a part of the unflushed writes.
//!
//! [`Medium`] is the disk: a file for the durable bytes, and the writes since the last flush in memory. A flush moves
//! all of them to the file. [`Medium::cut`] keeps a random part of the writes in memory, piece by piece: in any order
//! of completion, with a tear between any two pieces, and with any version of a piece that was written several times.
//! The contract of a block device with a write cache allows exactly this: flushed bytes are there, no piece is torn,
//! and nothing appears that was not written.
//!
//! [`serve`] speaks NBD (the fixed newstyle handshake and simple replies) with one client, which is qemu. A client that
//! ends without a disconnect was killed: this is the cut. The lock of the medium is held for one request or one image,
//! so an image is the disk between two requests.

use crate::random::Random;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of cache beyond which the disk makes the oldest writes durable on its own.
const CACHE_BYTES_MAX: usize = 64 << 20;
/// Bytes that are stored, or skipped, at once.
const STORE_BYTES: usize = 64 << 10;
/// The longest request; qemu's limit is the same.
const REQUEST_BYTES_MAX: u32 = 32 << 20;

/// The disk.
pub struct Medium {
    file: File,
    bytes: u64,
    /// Unflushed writes, oldest first.
    cache: VecDeque<(u64, Vec<u8>)>,
    cached_bytes: usize,
    /// Writes and flushes since the disk was switched on.
    served: (u64, u64),
}

/// The part of the cache that a cut kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// The manner of the cut, in words.
    pub manner: &'static str,
    /// Writes and flushes that the disk has served.
    pub served: (u64, u64),
    /// Writes in the cache.
    pub writes: u64,
    /// The pieces of these writes.
    pub pieces: u64,
    /// The pieces that reached the medium.
    pub kept: u64,
}

/// How a cut chooses the part of the cache that it keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Nothing of the cache is kept.
    LoseAll,
    /// All of the cache: only writes that had not reached the disk are lost.
    KeepAll,
    /// The first writes, in their order.
    KeepFirst,
    /// Each write with some probability.
    KeepWrites,
    /// Each piece with some probability.
    KeepPieces,
}

impl Manner {
    /// Chooses a manner at random.
    pub fn choose(random: &mut Random) -> Self {
        match random.below(8) {
            0 | 1 => Manner::LoseAll,
            2 => Manner::KeepAll,
            3 => Manner::KeepFirst,
            4 | 5 => Manner::KeepWrites,
            _ => Manner::KeepPieces,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Manner::LoseAll => "lose all",
            Manner::KeepAll => "keep all",
            Manner::KeepFirst => "keep first writes",
            Manner::KeepWrites => "keep some writes",
            Manner::KeepPieces => "keep some pieces",
        }
    }
}

impl Cut {
    /// Describes the cut as a sentence.
    pub fn words(&self) -> String {
        let (writes, flushes) = self.served;
        let (kept, pieces, unflushed) = (self.kept, self.pieces, self.writes);
        let kept = format!("{}: {kept} of {pieces} pieces of {unflushed} unflushed writes", self.manner);
        format!("cut after {writes} writes and {flushes} flushes: {kept}")
    }
}

impl Medium {
    /// The disk on this file, with an empty cache.
    ///
    /// # Errors
    /// The file's length cannot be read.
    pub fn new(file: File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        Ok(Medium { file, bytes, cache: VecDeque::new(), cached_bytes: 0, served: (0, 0) })
    }

    /// Reads the bytes written last, flushed or not.
    ///
    /// # Errors
    /// The file cannot be read.
    pub fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(buffer, offset)?;
        let end = offset + buffer.len() as u64;
        for (at, data) in &self.cache {
            let (from, to) = (offset.max(*at), end.min(at + data.len() as u64));
            if from < to {
                let source = data.get((from - at) as usize..(to - at) as usize);
                let target = buffer.get_mut((from - offset) as usize..(to - offset) as usize);
                if let (Some(source), Some(target)) = (source, target) {
                    target.copy_from_slice(source);
                }
            }
        }
        Ok(())
    }

    /// Takes a write into the cache.
    ///
    /// # Errors
    /// An old write cannot be made durable to make room.
    pub fn write(&mut self, offset: u64, data: Vec<u8>) -> io::Result<()> {
        self.served.0 += 1;
        self.cached_bytes += data.len();
        self.cache.push_back((offset, data));
        while self.cached_bytes > CACHE_BYTES_MAX {
            self.retire_oldest()?;
        }
        Ok(())
    }

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.served.1 += 1;
        while !self.cache.is_empty() {
            self.retire_oldest()?;
        }
        Ok(())
    }

    fn retire_oldest(&mut self) -> io::Result<()> {
        if let Some((offset, data)) = self.cache.pop_front() {
            self.cached_bytes -= data.len();
            store(&self.file, &data, offset)?;
        }
        Ok(())
    }

    /// Cuts the power: keeps a random part of the cache, by `manner`, in pieces of `piece_bytes`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn cut(&mut self, manner: Manner, piece_bytes: usize, random: &mut Random) -> io::Result<Cut> {
        let cut = self.forget(&self.file, manner, piece_bytes, random)?;
        self.cache.clear();
        self.cached_bytes = 0;
        Ok(cut)
    }

    /// Makes an image, in another file, of the disk as a cut would leave it now; the disk itself continues. The files
    /// share blocks if the file system supports this.
    ///
    /// # Errors
    /// The files cannot be read or written.
    pub fn image(&self, at: (&Path, &Path), manner: Manner, piece: usize, random: &mut Random) -> io::Result<Cut> {
        let (medium, image) = at;
        std::fs::copy(medium, image)?;
        self.forget(&File::options().read(true).write(true).open(image)?, manner, piece, random)
    }

    /// Writes to `file` the part of the cache that the cut keeps.
    fn forget(&self, file: &File, manner: Manner, piece_bytes: usize, random: &mut Random) -> io::Result<Cut> {
        let mut cut = Cut { manner: manner.words(), served: self.served, ..Cut::default() };
        cut.writes = self.cache.len() as u64;
        let percent = random.pick(&[5, 50, 50, 95]);
        let first = random.below(cut.writes + 1);
        for (number, (offset, data)) in self.cache.iter().enumerate() {
            let keeps_write = match manner {
                Manner::LoseAll => false,
                Manner::KeepAll | Manner::KeepPieces => true,
                Manner::KeepFirst => (number as u64) < first,
                Manner::KeepWrites => random.percent(percent),
            };
            for (piece, data) in data.chunks(piece_bytes).enumerate() {
                cut.pieces += 1;
                if keeps_write && (manner != Manner::KeepPieces || random.percent(percent)) {
                    cut.kept += 1;
                    store(file, data, offset + (piece * piece_bytes) as u64)?;
                }
            }
        }
        Ok(cut)
    }
}

/// Writes to the file, except zeros over zeros: a trim may be as long as the disk, and the file stays sparse.
fn store(file: &File, data: &[u8], offset: u64) -> io::Result<()> {
    let mut there = vec![0; STORE_BYTES.min(data.len())];
    for (number, data) in data.chunks(STORE_BYTES).enumerate() {
        let at = offset + (number * STORE_BYTES) as u64;
        if data.iter().all(|byte| *byte == 0) {
            let there = there.get_mut(..data.len()).unwrap_or_default();
            file.read_exact_at(there, at)?;
            if there.iter().all(|byte| *byte == 0) {
                continue;
            }
        }
        file.write_all_at(data, at)?;
    }
    Ok(())
}

const MAGIC: u64 = 0x4e42_444d_4147_4943;
const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
const REQUEST_MAGIC: u32 = 0x2560_9513;
const REPLY_MAGIC: u32 = 0x6744_6698;
/// Fixed newstyle, and no padding after the handshake.
const HANDSHAKE_FLAGS: u16 = 0b11;
/// Flags are valid; flushes and trims are supported. Without FUA a client uses write and flush. A trim is a write of
/// zeros, as loop devices and file systems that zero blocks by a trim expect.
const EXPORT_FLAGS: u16 = 0b10_0101;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;
const REPLY_UNSUPPORTED: u32 = (1 << 31) + 1;
const TRIM: u32 = 4;
const EIO: u32 = 5;
const EINVAL: u32 = 22;

/// How a client left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It disconnected. Nothing is cut.
    Disconnected,
    /// It was killed.
    Killed,
}

/// Serves one client until it goes.
///
/// # Errors
/// The client does not speak NBD.
pub fn serve<S: Read + Write>(stream: &mut S, medium: &Mutex<Medium>) -> io::Result<End> {
    let bytes = locked(medium).bytes;
    match handshake(stream, bytes) {
        Ok(true) => {}
        Ok(false) => return Ok(End::Disconnected),
        Err(error) if is_gone(&error) => return Ok(End::Killed),
        Err(error) => return Err(error),
    }
    loop {
        match request(stream, medium) {
            Ok(true) => {}
            Ok(false) => return Ok(End::Disconnected),
            Err(error) if is_gone(&error) => return Ok(End::Killed),
            Err(error) => return Err(error),
        }
    }
}

/// The disk, for one request or one cut.
pub fn locked(medium: &Mutex<Medium>) -> MutexGuard<'_, Medium> {
    medium.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_gone(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), UnexpectedEof | ConnectionReset | BrokenPipe)
}

/// Whether requests follow the handshake.
fn handshake<S: Read + Write>(stream: &mut S, bytes: u64) -> io::Result<bool> {
    let greeting = [&MAGIC.to_be_bytes()[..], &OPTION_MAGIC.to_be_bytes(), &HANDSHAKE_FLAGS.to_be_bytes()].concat();
    stream.write_all(&greeting)?;
    read_u32(stream)?;
    let export = [&bytes.to_be_bytes()[..], &EXPORT_FLAGS.to_be_bytes()].concat();
    loop {
        if read_u64(stream)? != OPTION_MAGIC {
            return Err(io::Error::other("this is no option of NBD"));
        }
        let option = read_u32(stream)?;
        let length = read_u32(stream)?;
        read_bytes(stream, length)?;
        match option {
            // EXPORT_NAME has no reply of its own.
            1 => {
                stream.write_all(&export)?;
                return Ok(true);
            }
            // ABORT.
            2 => {
                reply_option(stream, option, REPLY_ACK, &[])?;
                return Ok(false);
            }
            // INFO and GO: one information, of type 0, which is the export.
            6 | 7 => {
                reply_option(stream, option, REPLY_INFO, &[&[0, 0], &export[..]].concat())?;
                reply_option(stream, option, REPLY_ACK, &[])?;
                if option == 7 {
                    return Ok(true);
                }
            }
            _ => reply_option(stream, option, REPLY_UNSUPPORTED, &[])?,
        }
    }
}

fn reply_option<S: Write>(stream: &mut S, option: u32, kind: u32, data: &[u8]) -> io::Result<()> {
    let mut reply = OPTION_REPLY_MAGIC.to_be_bytes().to_vec();
    for word in [option, kind, data.len() as u32] {
        reply.extend(word.to_be_bytes());
    }
    reply.extend(data);
    stream.write_all(&reply)
}

/// Answers one request. Returns whether more requests follow.
fn request<S: Read + Write>(stream: &mut S, medium: &Mutex<Medium>) -> io::Result<bool> {
    if read_u32(stream)? != REQUEST_MAGIC {
        return Err(io::Error::other("this is no request of NBD"));
    }
    let command = read_u32(stream)? & 0xffff;
    let cookie = read_u64(stream)?;
    let offset = read_u64(stream)?;
    let length = read_u32(stream)?;
    let is_short = length <= REQUEST_BYTES_MAX || command == TRIM;
    let is_inside = is_short && offset.saturating_add(length.into()) <= locked(medium).bytes;
    let mut answer = Vec::new();
    let done = match command {
        0 if is_inside => {
            answer.resize(length as usize, 0);
            locked(medium).read(offset, &mut answer)
        }
        1 => {
            // A write that the kill cut short counts as never made.
            let data = read_bytes(stream, length)?;
            if is_inside { locked(medium).write(offset, data) } else { Err(io::ErrorKind::InvalidInput.into()) }
        }
        2 => return Ok(false),
        3 => locked(medium).flush(),
        TRIM if is_inside => locked(medium).write(offset, vec![0; length as usize]),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    };
    let code = match done {
        Ok(()) => 0,
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => EINVAL,
        Err(_) => EIO,
    };
    let mut reply = [&REPLY_MAGIC.to_be_bytes()[..], &code.to_be_bytes(), &cookie.to_be_bytes()].concat();
    if code == 0 {
        reply.extend(answer);
    }
    stream.write_all(&reply)?;
    Ok(true)
}

fn read_u32(stream: &mut impl Read) -> io::Result<u32> {
    let mut bytes = [0; 4];
    stream.read_exact(&mut bytes)?;
    Ok(u32::from_be_bytes(bytes))
}

fn read_u64(stream: &mut impl Read) -> io::Result<u64> {
    let mut bytes = [0; 8];
    stream.read_exact(&mut bytes)?;
    Ok(u64::from_be_bytes(bytes))
}

fn read_bytes(stream: &mut impl Read, length: u32) -> io::Result<Vec<u8>> {
    if length > REQUEST_BYTES_MAX {
        return Err(io::Error::other("this is too long for NBD"));
    }
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}
