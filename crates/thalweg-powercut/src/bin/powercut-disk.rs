//! `powercut-disk`: a file as a disk with a volatile cache, over NBD, for one client. When the client is killed, the
//! disk loses a part of the unflushed writes, prints a line about them, and ends. For each path on its standard input
//! it makes an image of the disk as such a cut would leave it now, prints a line, and continues.

use clap::Parser;
use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use thalweg_powercut::disk::{End, Manner, Medium, locked, serve};
use thalweg_powercut::random::Random;

#[derive(Parser)]
#[command(name = "powercut-disk", about = "A disk that forgets what was not flushed when its client is killed")]
struct Arguments {
    /// The durable bytes; its length is the disk's.
    medium: PathBuf,
    /// The Unix socket to listen on; must not be there yet.
    #[arg(long)]
    socket: PathBuf,
    /// Decides what is forgotten.
    #[arg(long)]
    seed: u64,
    /// The bytes that a power cut does not tear: the sector of the disk.
    #[arg(long, default_value_t = 512, value_parser = clap::value_parser!(u32).range(512..))]
    piece_bytes: u32,
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(line) => {
            let _ = writeln!(io::stdout(), "{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            let _ = writeln!(io::stderr(), "powercut-disk: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> io::Result<String> {
    let file = OpenOptions::new().read(true).write(true).open(&arguments.medium)?;
    let medium = Arc::new(Mutex::new(Medium::new(file)?));
    let listener = UnixListener::bind(&arguments.socket)?;
    let piece_bytes = arguments.piece_bytes as usize;
    let (images, path, seed) = (Arc::clone(&medium), arguments.medium.clone(), arguments.seed);
    // The thread ends with the process.
    std::thread::spawn(move || make_images(&images, &path, seed, piece_bytes));
    let (mut stream, _) = listener.accept()?;
    if serve(&mut stream, &medium)? == End::Disconnected {
        locked(&medium).flush()?;
        return Ok("closed".to_owned());
    }
    let mut random = Random::of(arguments.seed, 2);
    let manner = Manner::choose(&mut random);
    let cut = locked(&medium).cut(manner, piece_bytes, &mut random)?;
    Ok(cut.words())
}

/// Makes an image of the disk after a cut, for each line of the standard input, which is a path.
fn make_images(medium: &Mutex<Medium>, path: &Path, seed: u64, piece_bytes: usize) {
    let mut random = Random::of(seed, 3);
    for image in io::stdin().lines().map_while(Result::ok) {
        let manner = Manner::choose(&mut random);
        let cut = locked(medium).image((path, Path::new(&image)), manner, piece_bytes, &mut random);
        let line = cut.map_or_else(|error| format!("failed: {error}"), |cut| cut.words());
        let _ = writeln!(io::stdout(), "{line}");
    }
}
