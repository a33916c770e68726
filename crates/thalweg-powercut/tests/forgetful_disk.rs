//! The disk that forgets: what was flushed stays whatever the cut, what was not stays as the manner says, and a client
//! sees its own writes. Through the NBD protocol and without it.

#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use thalweg_powercut::disk::{End, Manner, Medium, locked, serve};
use thalweg_powercut::random::Random;

const PIECE: usize = 512;

/// A disk of 64 pieces, each flushed as 1, and then one write of 64 pieces of 2 and one of 64 pieces of 3.
fn disk() -> (File, Medium) {
    let path =
        std::env::temp_dir().join(format!("thalweg-disk-{}-{:?}", std::process::id(), std::thread::current().id()));
    let file = File::options().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    file.set_len(64 * PIECE as u64).unwrap();
    let mut medium = Medium::new(file.try_clone().unwrap()).unwrap();
    medium.write(0, vec![1; 64 * PIECE]).unwrap();
    medium.flush().unwrap();
    medium.write(0, vec![2; 64 * PIECE]).unwrap();
    medium.write(0, vec![3; 64 * PIECE]).unwrap();
    (file, medium)
}

/// What a cut left: of each piece its one value.
fn left_by(manner: Manner, seed: u64) -> Vec<u8> {
    let (_file, mut medium) = disk();
    let cut = medium.cut(manner, PIECE, &mut Random::of(seed, 0)).unwrap();
    assert_eq!((cut.writes, cut.pieces), (2, 128));
    let mut bytes = vec![0; 64 * PIECE];
    medium.read(0, &mut bytes).unwrap();
    bytes
        .chunks(PIECE)
        .map(|piece| {
            assert!(piece.iter().all(|byte| *byte == piece[0]), "a piece is torn");
            piece[0]
        })
        .collect()
}

#[test]
fn a_cut_keeps_what_was_flushed_and_of_the_rest_what_its_manner_says() {
    for seed in 0..50 {
        assert_eq!(left_by(Manner::LoseAll, seed), [1; 64]);
        assert_eq!(left_by(Manner::KeepAll, seed), [3; 64]);
        for manner in [Manner::KeepFirst, Manner::KeepWrites] {
            let left = left_by(manner, seed);
            assert!((1..=3).contains(&left[0]) && left.iter().all(|value| *value == left[0]), "{left:?}");
        }
    }
    let mixed = (0..50).map(|seed| left_by(Manner::KeepPieces, seed));
    assert!(mixed.flatten().all(|value| (1..=3).contains(&value)));
    let all: Vec<u8> = (0..50).flat_map(|seed| left_by(Manner::KeepPieces, seed)).collect();
    assert!([1, 2, 3].iter().all(|value| all.contains(value)), "some version never stays");
    assert!((0..50).any(|seed| left_by(Manner::KeepWrites, seed) == [3; 64]), "the later write alone never stays");
    assert!((0..50).any(|seed| left_by(Manner::KeepFirst, seed) == [2; 64]), "the first write alone never stays");
}

#[test]
fn a_read_gives_what_was_written_last() {
    let (_file, mut medium) = disk();
    medium.write(700, vec![4; 10]).unwrap();
    let mut bytes = [0; 30];
    medium.read(690, &mut bytes).unwrap();
    assert_eq!(bytes, [[3; 10], [4; 10], [3; 10]].concat()[..]);
}

#[test]
fn a_client_that_is_killed_is_told_from_one_that_leaves() {
    for (killed, end) in [(true, End::Killed), (false, End::Disconnected)] {
        let (file, medium) = disk();
        let medium = Mutex::new(medium);
        let (mut server, mut client) = UnixStream::pair().unwrap();
        let served = std::thread::spawn(move || {
            let end = serve(&mut server, &medium).unwrap();
            locked(&medium).cut(Manner::LoseAll, PIECE, &mut Random::of(0, 0)).unwrap();
            end
        });
        enter(&mut client, 64 * PIECE as u64);
        assert_eq!(ask(&mut client, 1, 512, &[7; 512], 0), 0, "write");
        assert_eq!(ask(&mut client, 4, 2048, &[], 512), 0, "trim");
        assert_eq!(ask(&mut client, 3, 0, &[], 0), 0, "flush");
        assert_eq!(ask(&mut client, 1, 1024, &[8; 512], 0), 0, "write");
        assert_eq!(ask(&mut client, 1, 64 * 512, &[8; 512], 0), 22, "a write beyond the end is refused");
        assert_eq!(ask(&mut client, 6, 0, &[], 0), 22, "what was not offered is refused");
        let mut read = vec![0; 1024];
        assert_eq!(ask(&mut client, 0, 512, &[], 1024), 0, "read");
        client.read_exact(&mut read).unwrap();
        assert_eq!(read, [[7; 512], [8; 512]].concat());
        if killed {
            // In the middle of a write, which then was never made.
            client.write_all(&request(1, 0, 4096)).unwrap();
            client.write_all(&[9; 1000]).unwrap();
        } else {
            client.write_all(&request(2, 0, 0)).unwrap();
        }
        drop(client);
        assert_eq!(served.join().unwrap(), end);
        let mut bytes = Vec::new();
        (&file).read_to_end(&mut bytes).unwrap();
        // The flush took with it what `disk` had written before.
        assert_eq!(bytes[..2560], [[3; 512], [7; 512], [3; 512], [3; 512], [0; 512]].concat());
    }
}

#[test]
fn an_image_is_what_a_cut_would_leave_and_the_disk_goes_on() {
    let folder = std::env::temp_dir().join(format!("thalweg-image-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (path, image) = (folder.join("medium"), folder.join("image"));
    std::fs::write(&path, [1; 1024]).unwrap();
    let mut medium = Medium::new(File::options().read(true).write(true).open(&path).unwrap()).unwrap();
    medium.write(512, vec![2; 512]).unwrap();
    for (manner, left) in [(Manner::LoseAll, 1), (Manner::KeepAll, 2)] {
        let cut = medium.image((&path, &image), manner, PIECE, &mut Random::of(1, 1)).unwrap();
        assert_eq!((cut.writes, cut.pieces), (1, 1));
        assert_eq!(std::fs::read(&image).unwrap(), [[1; 512], [left; 512]].concat());
        assert_eq!(std::fs::read(&path).unwrap(), [1; 1024], "the medium is as it was");
    }
    medium.write(0, vec![0; 512]).unwrap();
    medium.image((&path, &image), Manner::KeepAll, PIECE, &mut Random::of(1, 1)).unwrap();
    assert_eq!(std::fs::read(&image).unwrap(), [[0; 512], [2; 512]].concat(), "zeros are writes, too");
    medium.flush().unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), [[0; 512], [2; 512]].concat(), "the cache is as it was");
    std::fs::remove_dir_all(&folder).unwrap();
}

/// The handshake: an option that the disk does not know, then GO.
fn enter(client: &mut UnixStream, bytes: u64) {
    let mut greeting = [0; 18];
    client.read_exact(&mut greeting).unwrap();
    assert_eq!(&greeting[..16], b"NBDMAGICIHAVEOPT");
    client.write_all(&3_u32.to_be_bytes()).unwrap();
    for (option, data) in [(8_u32, &[][..]), (7, &[0; 6][..])] {
        client.write_all(b"IHAVEOPT").unwrap();
        client.write_all(&option.to_be_bytes()).unwrap();
        client.write_all(&(data.len() as u32).to_be_bytes()).unwrap();
        client.write_all(data).unwrap();
    }
    let mut replies = [0; 20 + 20 + 12 + 20];
    client.read_exact(&mut replies).unwrap();
    assert_eq!(replies[12..16], (0x8000_0001_u32).to_be_bytes(), "the option is refused");
    assert_eq!(replies[42..50], bytes.to_be_bytes(), "the length of the disk");
    assert_eq!(replies[50..52], [0, 0x25], "it takes flushes");
}

fn request(command: u16, offset: u64, length: u32) -> Vec<u8> {
    let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
    request.extend(u32::from(command).to_be_bytes());
    request.extend(77_u64.to_be_bytes());
    request.extend(offset.to_be_bytes());
    request.extend(length.to_be_bytes());
    request
}

/// The error of the reply.
fn ask(client: &mut UnixStream, command: u16, offset: u64, data: &[u8], length: u32) -> u32 {
    client.write_all(&request(command, offset, length.max(data.len() as u32))).unwrap();
    client.write_all(data).unwrap();
    let mut reply = [0; 16];
    client.read_exact(&mut reply).unwrap();
    assert_eq!(reply[..4], 0x6744_6698_u32.to_be_bytes());
    assert_eq!(reply[8..], 77_u64.to_be_bytes());
    u32::from_be_bytes(reply[4..8].try_into().unwrap())
}
