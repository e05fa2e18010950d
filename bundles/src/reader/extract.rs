//! Extracting to a folder: nothing is written outside of it, whatever is in it already.
//!
//! Folders are opened one component at a time and never through a link. A file gets its
//! name only after its content was checked, and replaces what had the name before.

use super::verify::{EntryContent, Unfit, for_each_entry};
use super::{Bundle, Contents, Opened, Readable};
use crate::entries;
use crate::error::Error;
use crate::progress::Progress;
use crate::temporary::Temporary;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Seek as _, Write as _};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is to be extracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Selection {
    All,
    /// Files, and folders with everything below.
    Paths(Vec<String>),
}

/// What was extracted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extracted {
    pub files: usize,
    pub bytes: u64,
}

/// The content of one entry, and all places that it goes to.
pub(super) struct Job {
    pub number: usize,
    targets: Vec<Target>,
}

impl Job {
    pub(super) fn places(&self) -> usize {
        self.targets.len()
    }
}

impl Extracted {
    pub(super) fn count(&mut self, files: usize, bytes: u64) {
        self.files += files;
        self.bytes += bytes;
    }
}

struct Target {
    path: String,
    mode: u32,
}

impl<T: Readable> Bundle<T> {
    /// Extracts into `folder`, which is made if it is not there. Of a delta without its base,
    /// what it carries itself.
    pub fn extract(
        &self,
        folder: &Path,
        selection: &Selection,
        progress: &dyn Progress,
    ) -> Result<Extracted, Error> {
        let opened = self.opened();
        let plan = Plan::new(opened, selection)?;
        let root = Root::open(folder)?;
        let task = progress.start("extracting", Some(plan.bytes));
        let mut outcome = Ok(());
        for (source, jobs) in &plan.jobs {
            let numbers: Vec<usize> = jobs.keys().copied().collect();
            outcome = outcome.and_then(|()| {
                for_each_entry(source, &numbers, |number, scratch| {
                    let advance = |bytes| progress.advance(task, bytes);
                    let mut content = EntryContent::new(source, number, scratch, &advance);
                    let check = |digest| source.contents.check_digest(number, digest);
                    let placed = root.place(&jobs[&number], &mut content, &check)?;
                    content.finish(placed)
                })
            });
        }
        progress.finish(task);
        outcome?;
        plan.links.iter().try_for_each(|(path, target)| root.link(path, target))?;
        Ok(Extracted { files: plan.files, bytes: plan.bytes })
    }
}

/// Which entries of which bundle of a chain of deltas go where.
pub(super) struct Plan {
    jobs: Vec<(Arc<Opened>, BTreeMap<usize, Job>)>,
    links: Vec<(String, String)>,
    files: usize,
    bytes: u64,
}

impl Plan {
    fn new(opened: &Arc<Opened>, selection: &Selection) -> Result<Self, Error> {
        let chosen = Chosen::new(&opened.contents, selection)?;
        let mut plan =
            Self { jobs: vec![(opened.clone(), chosen.jobs)], links: chosen.links, files: 0, bytes: 0 };
        for position in chosen.elsewhere {
            let item = &opened.contents.index.items[position];
            if opened.base.is_none() && *selection == Selection::All {
                continue;
            }
            let (source, number) = opened.find_content(item)?;
            let place = match plan.jobs.iter().position(|(known, _)| Arc::ptr_eq(known, &source)) {
                Some(place) => place,
                None => {
                    plan.jobs.push((source, BTreeMap::new()));
                    plan.jobs.len() - 1
                }
            };
            let target = Target { path: item.path.clone(), mode: entries::mode(item) };
            let job = plan.jobs[place].1.entry(number).or_insert_with(|| Job { number, targets: Vec::new() });
            job.targets.push(target);
        }
        for (source, jobs) in &plan.jobs {
            for job in jobs.values() {
                plan.files += job.targets.len();
                plan.bytes += source.contents.entries.list[job.number].size();
            }
        }
        plan.files += plan.links.len();
        Ok(plan)
    }
}

/// What of one bundle is selected.
pub(super) struct Chosen {
    pub jobs: BTreeMap<usize, Job>,
    pub links: Vec<(String, String)>,
    /// Items whose content only a delta's parent has.
    pub elsewhere: Vec<usize>,
}

impl Chosen {
    pub(super) fn new(contents: &Contents, selection: &Selection) -> Result<Self, Error> {
        let is_chosen = |path: &str| match selection {
            Selection::All => true,
            Selection::Paths(paths) => paths.iter().any(|chosen| covers(chosen, path)),
        };
        let mut chosen = Self { jobs: BTreeMap::new(), links: Vec::new(), elsewhere: Vec::new() };
        let list = &contents.entries.list;
        for (number, entry) in list.iter().enumerate().filter(|(_, entry)| entry.item.is_none()) {
            if is_chosen(&entry.path) {
                let targets = vec![Target { path: entry.path.clone(), mode: entry.mode }];
                chosen.jobs.insert(number, Job { number, targets });
            }
        }
        for (position, item) in contents.index.items.iter().enumerate() {
            if !is_chosen(&item.path) {
                continue;
            }
            if let Some(target) = &item.link {
                chosen.links.push((item.path.clone(), target.clone()));
            } else if let Some(number) = contents.entries.carrier(item) {
                let job = chosen.jobs.entry(number).or_insert_with(|| Job { number, targets: Vec::new() });
                job.targets.push(Target { path: item.path.clone(), mode: entries::mode(item) });
            } else {
                chosen.elsewhere.push(position);
            }
        }
        if let Selection::Paths(paths) = selection {
            let all = || {
                let roots = list.iter().filter(|entry| entry.item.is_none()).map(|entry| entry.path.as_str());
                roots.chain(contents.index.items.iter().map(|item| item.path.as_str()))
            };
            if let Some(unknown) = paths.iter().find(|chosen| !all().any(|path| covers(chosen, path))) {
                return Err(Error::NoSuchItem { entry: unknown.clone() });
            }
        }
        Ok(chosen)
    }
}

/// Whether `chosen` is `path` or a folder above it.
fn covers(chosen: &str, path: &str) -> bool {
    let chosen = chosen.trim_start_matches("./").trim_end_matches('/');
    path.strip_prefix(chosen).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The folder that everything goes to.
pub(super) struct Root {
    folder: PathBuf,
    opened: OwnedFd,
    temporary: AtomicU64,
}

impl Root {
    pub(super) fn open(folder: &Path) -> Result<Self, Error> {
        let failed = |source: io::Error| Error::Write { path: folder.to_path_buf(), source };
        std::fs::create_dir_all(folder).map_err(failed)?;
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let opened =
            rustix::fs::openat(CWD, folder, flags, Mode::empty()).map_err(|errno| failed(errno.into()))?;
        Ok(Self { folder: folder.to_path_buf(), opened, temporary: AtomicU64::new(0) })
    }

    /// Writes `content` to all places of `job`. It gets its names only after `check` accepted its digest.
    pub(super) fn place<C: super::verify::Hashed>(
        &self,
        job: &Job,
        content: &mut C,
        check: &dyn Fn(crate::Digest) -> Result<(), Unfit>,
    ) -> Result<Result<(), Unfit>, Error> {
        let Some((first, others)) = job.targets.split_first() else { return Ok(Ok(())) };
        let mut new = self.new_file(first)?;
        loop {
            let piece = match content.fill_buf() {
                Ok([]) => break,
                Ok(piece) => piece,
                Err(error) => return Ok(Err(Unfit::Io(error))),
            };
            new.file.write_all(piece).map_err(|source| self.failed(&first.path, source))?;
            let length = piece.len();
            content.consume(length);
        }
        if let Err(unfit) = check(content.digest()) {
            return Ok(Err(unfit));
        }
        for other in others {
            if other.mode != first.mode || !self.hard_link(&new, other)? {
                let mut copy = self.new_file(other)?;
                let copied = new.file.rewind().and_then(|()| io::copy(&mut new.file, &mut copy.file));
                copied.map_err(|source| self.failed(&other.path, source))?;
                copy.name(self)?;
            }
        }
        new.name(self)?;
        Ok(Ok(()))
    }

    pub(super) fn link(&self, path: &str, target: &str) -> Result<(), Error> {
        let (folder, name) = self.open_parent(path)?;
        let temporary = self.temporary_name();
        rustix::fs::symlinkat(target, &folder, &temporary)
            .map_err(|errno| self.failed(path, errno.into()))?;
        self.rename(&folder, &temporary, name, path)
    }

    fn failed(&self, path: &str, source: io::Error) -> Error {
        Error::Write { path: self.folder.join(path), source }
    }

    fn temporary_name(&self) -> String {
        format!(".eggo-{}-{}", std::process::id(), self.temporary.fetch_add(1, Ordering::Relaxed))
    }

    /// The folder that `path` is in, made where needed, and its last component.
    fn open_parent<'a>(&self, path: &'a str) -> Result<(OwnedFd, &'a str), Error> {
        let (parents, name) = path.rsplit_once('/').unwrap_or(("", path));
        let mut folder = self.opened.try_clone().map_err(|source| self.failed(path, source))?;
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        for part in parents.split('/').filter(|part| !part.is_empty()) {
            let open = || rustix::fs::openat(&folder, part, flags, Mode::empty());
            let next = match open() {
                Err(Errno::NOENT) => match rustix::fs::mkdirat(&folder, part, Mode::from(0o755)) {
                    Ok(()) | Err(Errno::EXIST) => open(),
                    Err(errno) => Err(errno),
                },
                other => other,
            };
            folder = next.map_err(|errno| match errno {
                Errno::LOOP | Errno::NOTDIR => {
                    let what = "something that is not a folder, or a link, is where a folder must be";
                    Error::InTheWay { path: self.folder.join(path), what }
                }
                errno => self.failed(path, errno.into()),
            })?;
        }
        Ok((folder, name))
    }

    fn new_file(&self, target: &Target) -> Result<NewFile, Error> {
        let failed = |errno: Errno| self.failed(&target.path, errno.into());
        let (folder, name) = self.open_parent(&target.path)?;
        let temporary = self.temporary_name();
        let beside = Path::new(&target.path).with_file_name(&temporary);
        let known = Temporary::new(self.folder.join(beside));
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&folder, &temporary, flags, Mode::from(0o600)).map_err(failed)?;
        let new = NewFile {
            file: File::from(file),
            folder,
            temporary: Some(temporary),
            name: name.to_string(),
            path: target.path.clone(),
            _known: known,
        };
        rustix::fs::fchmod(&new.file, Mode::from(target.mode)).map_err(failed)?;
        Ok(new)
    }

    /// False if the file system has no hard links.
    fn hard_link(&self, first: &NewFile, target: &Target) -> Result<bool, Error> {
        let (folder, name) = self.open_parent(&target.path)?;
        let (Some(from), to) = (&first.temporary, self.temporary_name()) else { return Ok(false) };
        match rustix::fs::linkat(&first.folder, from, &folder, &to, AtFlags::empty()) {
            Ok(()) => {}
            Err(Errno::PERM | Errno::MLINK | Errno::NOTSUP | Errno::NOSYS | Errno::XDEV) => return Ok(false),
            Err(errno) => return Err(self.failed(&target.path, errno.into())),
        }
        self.rename(&folder, &to, name, &target.path)?;
        // Renaming one name of a file over another of the same file leaves both.
        let _ = rustix::fs::unlinkat(&folder, &to, AtFlags::empty());
        Ok(true)
    }

    fn rename(&self, folder: &OwnedFd, temporary: &str, name: &str, path: &str) -> Result<(), Error> {
        rustix::fs::renameat(folder, temporary, folder, name).map_err(|errno| {
            let _ = rustix::fs::unlinkat(folder, temporary, AtFlags::empty());
            match errno {
                Errno::ISDIR => {
                    Error::InTheWay { path: self.folder.join(path), what: "a folder has this name" }
                }
                errno => self.failed(path, errno.into()),
            }
        })
    }
}

/// A file that has its content but not yet its name. Dropped before that, it goes away.
struct NewFile {
    file: File,
    folder: OwnedFd,
    temporary: Option<String>,
    name: String,
    path: String,
    _known: Temporary,
}

impl NewFile {
    fn name(mut self, root: &Root) -> Result<(), Error> {
        match self.temporary.take() {
            Some(temporary) => root.rename(&self.folder, &temporary, &self.name, &self.path),
            None => Ok(()),
        }
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            let _ = rustix::fs::unlinkat(&self.folder, temporary, AtFlags::empty());
        }
    }
}
