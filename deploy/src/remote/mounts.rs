//! Folders that the cluster's programs fill, on disks that may be the user's own.

use super::{KEPT, settle, words};

/// Where a node notes what was mounted before the cluster came.
fn noted() -> String {
    format!("{KEPT}/mounts")
}

/// Shell: makes that note, once.
pub fn note() -> String {
    let noted = noted();
    let settle = settle(&format!("{noted}.new"));
    format!(
        "[ -e {noted} ] || {{ mkdir -p {KEPT}; cut -d' ' -f2 /proc/mounts > {noted}.new; {settle}; mv {noted}.new {noted}; }}"
    )
}

/// Shell: removes folders with everything that was mounted in them since. What was mounted there before
/// stays so: a disk on one of the folders themselves is emptied, of what is mounted below them nothing is
/// touched. `-xdev` alone would not do, for a bind mount may be of the same file system.
pub fn remove(folders: &[&str]) -> String {
    let (noted, folders) = (noted(), words(folders));
    // /proc/mounts writes blanks and the like as `\040`: for a pattern, as whatever has a meaning in one,
    // that is any character. So a pattern is one word, and keeps rather too much than too little.
    format!(
        "noted={noted}; [ -e $noted ] || noted=/dev/null\n\
         for f in {folders}; do\n\
         awk -v f=\"$f/\" -v noted=$noted 'FILENAME == noted {{ before[$1]; next }} \
         index($2 \"/\", f) == 1 && !($2 in before) {{ print $2 }}' $noted /proc/mounts | \
         sort -r | while read -r m; do umount -l \"$(printf %b \"$m\")\" 2>/dev/null || :; done\n\
         keep=$(awk -v f=\"$f/\" 'index($2 \"/\", f) == 1 {{ gsub(/\\\\[0-7][0-7][0-7]|[][*?]/, \"?\", $2); \
         print \"! -path \" $2; if ($2 \"/\" != f) print \"! -path \" $2 \"/*\" }}' /proc/mounts)\n\
         if [ -z \"$keep\" ]; then rm -rf --one-file-system \"$f\"\n\
         else set -f; find \"$f\" -xdev -depth -mindepth 1 ! -name lost+found $keep '(' ! -type d -o -empty ')' -delete 2>/dev/null || :\n\
         set +f; fi; done"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// Runs a script in a mount namespace of its own, with the note where no real node has it; what it said,
    /// with the folder's name taken out, or none where no namespaces are allowed.
    fn apart(folder: &Path, script: &str) -> Option<String> {
        let folder = folder.display().to_string();
        let script = script.replace(KEPT, &format!("{folder}/kept"));
        let apart = "if [ $(id -u) = 0 ]; then u=; else u='--user --map-root-user'; fi; exec unshare $u --mount sh -c \"$0\"";
        let output = Command::new("sh").args(["-c", apart, &script]).env("LC_ALL", "C").output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        if told.starts_with("unshare:") {
            eprintln!("skipped: no namespaces are allowed here");
            return None;
        }
        assert!(output.status.success(), "{told}");
        Some(String::from_utf8_lossy(&output.stdout).replace(&folder, ""))
    }

    #[test]
    fn a_disk_of_the_users_stays_and_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (disk, plain, nowhere) = (at("disk"), at("plain"), at("nowhere"));
        let script = format!(
            "set -e; mkdir -p {disk} {plain}/pods/p/volume; mount -t tmpfs users {disk}; mkdir {disk}/lost+found\n{}\n\
             mkdir -p {disk}/pods/q '{plain}/pods/a b'; echo x > {disk}/pods/x\n\
             for m in {disk}/pods/q {plain}/pods/p/volume '{plain}/pods/a b'; do mount -t tmpfs pod \"$m\"; done\n{}\n\
             ls -A {disk}; [ -e {plain} ] || echo removed; awk '$2 ~ \"{}\" {{ print $1, $2 }}' /proc/mounts",
            note(),
            remove(&[&disk, &plain, &nowhere]),
            folder.path().display(),
        );
        let Some(text) = apart(folder.path(), &script) else { return };
        assert_eq!(text, "lost+found\nremoved\nusers /disk\n");
    }

    /// A bind mount of the same file system looks like any other folder.
    #[test]
    fn what_was_mounted_below_before_is_not_touched() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (docker, data) = (at("docker"), at("data"));
        let script = format!(
            "set -e; cd {}; mkdir -p data docker/volumes/x 'docker/volumes/a [b]' docker/volumes/xy pod\n\
             echo users > data/file; mkdir data/empty; echo ours > pod/file\n\
             mount --bind data docker/volumes/x; mount --bind data 'docker/volumes/a [b]'\n{}\n\
             mkdir -p docker/pods/p; mount --bind pod docker/pods/p; echo x > docker/volumes/xy/z; echo x > docker/volumes/y\n{}\n\
             find docker {data} pod | LC_ALL=C sort; grep -c {docker} /proc/mounts",
            folder.path().display(),
            note(),
            remove(&[&docker]),
        );
        let Some(text) = apart(folder.path(), &script) else { return };
        let kept = "/data\n/data/empty\n/data/file\n\
             docker\ndocker/volumes\n\
             docker/volumes/a [b]\ndocker/volumes/a [b]/empty\ndocker/volumes/a [b]/file\n\
             docker/volumes/x\ndocker/volumes/x/empty\ndocker/volumes/x/file\n\
             pod\npod/file\n2\n";
        assert_eq!(text, kept);
    }
}
