//! The life of a volume: format, open, close.

use super::count::InodeCount;
use super::{Limits, Looks, OBJECT_SYNCS, Tasks, Volume};
use crate::clock::{Clock, KernelClock, SystemClock};
use crate::error::{Error, Result};
use crate::node::{NodeTable, Place, State};
use crate::object::{FolderObjects, ObjectStore};
use crate::row::{Attributes, FORMAT_VERSION, Kind, ROOT, Superblock, Totals, decode_number, encode_number};
use crate::store::{Batch, EngineStore, MetaStore, Space};
use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::{Builder, Database};

/// The folder of a volume that has its database.
const DATABASE: &str = "db";
/// The folder of a volume that has its objects.
pub const OBJECTS: &str = "objects";

/// How to format a volume.
#[derive(Clone, Copy, Debug, Default)]
pub struct FormatOptions {
    /// The owner of the root directory.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// Its permission bits; 0 for 755.
    pub mode: u16,
    /// The number that tells volumes apart; zeros for a random one.
    pub uuid: [u8; 16],
}

/// How to open a volume.
#[derive(Default)]
pub struct OpenOptions {
    limits: Limits,
    clock: Option<Box<dyn Clock>>,
    configure: Option<Configure>,
}

/// Sets options of a volume's database.
type Configure = Box<dyn FnOnce(Builder) -> Builder>;

impl OpenOptions {
    /// The defaults.
    pub fn new() -> Self {
        OpenOptions::default()
    }

    /// Where rows end and objects begin.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// A clock other than [`KernelClock`], which a volume in a folder has, and [`SystemClock`], which others have.
    #[must_use]
    pub fn clock(mut self, clock: Box<dyn Clock>) -> Self {
        self.clock = Some(clock);
        self
    }

    /// Sets options of the volume's database, for [`OpenOptions::open`].
    #[must_use]
    pub fn database(mut self, configure: impl FnOnce(Builder) -> Builder + 'static) -> Self {
        self.configure = Some(Box::new(configure));
        self
    }

    /// Opens a volume on stores of the caller's.
    ///
    /// # Errors
    /// `EIO` with an explanation if the store has no volume, or a newer one.
    pub fn open_on(self, store: Box<dyn MetaStore>, objects: Box<dyn ObjectStore>) -> Result<Volume> {
        let superblock = read_superblock(&*store)?;
        let epoch = superblock.epoch.saturating_add(1);
        let high = read_number(&*store, Totals::HIGH_WATER)?.unwrap_or(ROOT + 1);
        let inodes = read_number(&*store, Totals::KEY)?.unwrap_or(1);
        let mut batch = Batch::new();
        batch.set_needs_no_room();
        // Put before any row that an older program would take for damage: every prefix of the log that has such a row
        // has this one.
        let begun = Superblock { version: FORMAT_VERSION, epoch, is_clean: false, ..superblock };
        batch.put(Space::Volume, Superblock::KEY, begun.encode());
        store.commit(&batch)?;
        let numbers = super::numbers::Numbers::new(&*store, high)?;
        let volume = Volume {
            store,
            objects,
            nodes: NodeTable::new(),
            numbers,
            renames: Mutex::new(()),
            clock: self.clock.unwrap_or_else(|| Box::new(SystemClock)),
            epoch,
            inodes: InodeCount::new(inodes),
            saved_inodes: AtomicU64::new(inodes),
            tasks: Mutex::new(Tasks::default()),
            syncing: Mutex::new(()),
            removing: Mutex::new(()),
            searching: Mutex::new(()),
            object_syncs: [const { Mutex::new(()) }; OBJECT_SYNCS],
            limits: self.limits,
        };
        let root = volume.directory_state(ROOT)?;
        volume.nodes.enter_new(root).keep();
        volume.inherit(superblock.is_clean);
        Ok(volume)
    }

    /// Opens the volume in the folder `path`.
    ///
    /// # Errors
    /// `ENOENT` if there is none, `EBUSY` while another process has it; see [`OpenOptions::open_on`].
    pub fn open(mut self, path: impl AsRef<Path>) -> Result<Volume> {
        let configure = self.configure.take().unwrap_or_else(|| Box::new(|builder| builder));
        let (store, objects) = Volume::stores_at(path.as_ref(), configure)?;
        // Programs write to its objects without the volume: the kernel stamps those.
        self.clock.get_or_insert_with(|| Box::new(KernelClock::new()));
        self.open_on(Box::new(store), Box::new(objects))
    }
}

impl Volume {
    /// Makes a volume in the folder `path`, which must be missing or empty.
    ///
    /// # Errors
    /// `ENOTEMPTY` if there is something; those of making a database.
    pub fn format(path: impl AsRef<Path>, options: FormatOptions) -> Result<()> {
        let path = path.as_ref();
        DirBuilder::new().recursive(true).mode(0o700).create(path)?;
        if std::fs::read_dir(path)?.next().is_some() {
            return Err(Error::explained(libc::ENOTEMPTY, format!("{} is not empty", path.display())));
        }
        FolderObjects::new(path.join(OBJECTS))?;
        let store = EngineStore::new(Database::builder(path.join(DATABASE)).open()?)?;
        Self::format_on(&store, options, &SystemClock)?;
        store.close()?;
        // The folder's own name must be durable, too, or a power cut takes the volume with it.
        let path = path.canonicalize()?;
        for folder in [Some(path.as_path()), path.parent()].into_iter().flatten() {
            std::fs::File::open(folder)?.sync_all()?;
        }
        Ok(())
    }

    /// Whether the folder `path` has the database of a volume.
    ///
    /// # Errors
    /// `EACCES`, and whatever else keeps it from being seen.
    pub fn is_in(path: impl AsRef<Path>) -> Result<bool> {
        Ok(path.as_ref().join(DATABASE).join("CURRENT").try_exists()?)
    }

    /// Opens the stores of the volume in the folder `path`.
    pub(crate) fn stores_at(
        path: &Path,
        configure: impl FnOnce(Builder) -> Builder,
    ) -> Result<(EngineStore, FolderObjects)> {
        let database = path.join(DATABASE);
        if !Self::is_in(path)? {
            let what = format!("{} has no volume; `thalweg fs format` makes one", path.display());
            return Err(Error::explained(libc::ENOENT, what));
        }
        let opened = configure(Database::builder(&database)).create_if_missing(false).open();
        let database = opened.map_err(|error| match error.kind() {
            thalweg::ErrorKind::Locked => Error::explained(libc::EBUSY, error.to_string()),
            _ => error.into(),
        })?;
        // Checked before the keyspaces of a volume are made in a foreign database.
        if !database.keyspaces().iter().any(|name| name == Space::Volume.name()) {
            return Err(no_volume());
        }
        let store = EngineStore::new(database)?;
        read_superblock(&store)?;
        Ok((store, FolderObjects::new(path.join(OBJECTS))?))
    }

    /// Makes a volume in an empty store, durably.
    ///
    /// # Errors
    /// Those of the store; `EEXIST` if it has a volume.
    pub fn format_on(store: &dyn MetaStore, options: FormatOptions, clock: &dyn Clock) -> Result<()> {
        if store.row(Space::Volume, Superblock::KEY)?.is_some() {
            return Err(Error::explained(libc::EEXIST, "there is a volume"));
        }
        let mut uuid = options.uuid;
        if uuid == [0; 16] {
            io::Read::read_exact(&mut std::fs::File::open("/dev/urandom")?, &mut uuid)?;
        }
        let superblock = Superblock { version: FORMAT_VERSION, features: 0, uuid, epoch: 0, is_clean: true };
        let mode = if options.mode == 0 { 0o755 } else { options.mode & 0o7777 };
        let attributes = Attributes::new(ROOT, Kind::Directory, mode, (options.uid, options.gid), clock.now());
        let root = State::new(attributes, Place::Directory { parent: ROOT, entries: 0 }, Box::default());
        let mut batch = Batch::new();
        root.put(&mut batch);
        batch.put(Space::Volume, Superblock::KEY, superblock.encode());
        batch.put(Space::Volume, Totals::HIGH_WATER, encode_number(Totals::HIGH_WATER, ROOT + 1));
        batch.put(Space::Volume, Totals::KEY, encode_number(Totals::KEY, 1));
        store.commit(&batch)?;
        store.promise()?.wait()
    }

    /// The number that tells the volume apart.
    ///
    /// # Errors
    /// `EIO`.
    pub fn uuid(&self) -> Result<[u8; 16]> {
        Ok(read_superblock(&*self.store)?.uuid)
    }

    /// Stores the number of inodes for the next open, if it has changed. A store that is written every second never has
    /// a quiet time, in which it gives space back.
    ///
    /// # Errors
    /// Those of the store.
    pub fn save_totals(&self) -> Result<()> {
        let inodes = self.inodes.get();
        if self.saved_inodes.load(Ordering::Relaxed) == inodes {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.set_needs_no_room();
        batch.put(Space::Volume, Totals::KEY, encode_number(Totals::KEY, inodes));
        self.commit(&batch)?;
        self.saved_inodes.store(inodes, Ordering::Relaxed);
        Ok(())
    }

    /// Closes the volume: everything is durable then. Later calls fail.
    ///
    /// # Errors
    /// `EIO`: something may not be durable. All that can be is; the error is the first of them.
    pub fn close(&self) -> Result<()> {
        let synced = self.sync_objects(Looks::All).map(drop).and(self.sync_removals());
        let stored = self.store_end(synced.is_ok());
        let durable = self.store.promise().and_then(|promise| promise.wait());
        let closed = self.store.close();
        synced.and(stored).and(durable).and(closed)
    }

    /// Stores the state of this mount that the next mount needs.
    fn store_end(&self, is_synced: bool) -> Result<()> {
        let superblock = read_superblock(&*self.store)?;
        // The search for objects that no row knows, and the recount, are left to a later mount if this one has not
        // ended them. So is the sync of objects that this mount could not sync.
        let is_clean = is_synced && !self.has_unknown_objects() && !self.tasks().inherited.has_unknown_totals;
        let mut batch = Batch::new();
        batch.set_needs_no_room();
        batch.put(Space::Volume, Totals::KEY, encode_number(Totals::KEY, self.inodes.get()));
        batch.put(Space::Volume, Superblock::KEY, Superblock { is_clean, ..superblock }.encode());
        self.commit(&batch)
    }
}

fn no_volume() -> Error {
    Error::explained(libc::EINVAL, "this database is no volume: it has no superblock")
}

/// # Errors
/// `EIO` with an explanation if there is no volume, or a newer one.
pub(crate) fn read_superblock(store: &dyn MetaStore) -> Result<Superblock> {
    let Some(row) = store.row(Space::Volume, Superblock::KEY)? else {
        return Err(no_volume());
    };
    let superblock = Superblock::decode(&row)?;
    if superblock.version > FORMAT_VERSION || superblock.features != 0 {
        let what = format!(
            "the volume has version {} and features {:#x}; this program reads up to version {FORMAT_VERSION}",
            superblock.version, superblock.features
        );
        return Err(Error::explained(libc::EINVAL, what));
    }
    Ok(superblock)
}

/// The number at a key of the space [`Space::Volume`].
pub(crate) fn read_number(store: &dyn MetaStore, key: &[u8]) -> Result<Option<u64>> {
    store.row(Space::Volume, key)?.map(|row| decode_number(key, &row)).transpose()
}
