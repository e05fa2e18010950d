//! Folders that the cluster's programs fill, on disks that may be the user's own.

use super::KEPT;

/// Where a node notes what was mounted before the cluster came.
fn noted() -> String {
    format!("{KEPT}/mounts")
}

/// Shell: makes that note, once.
pub fn note() -> String {
    let noted = noted();
    format!(
        "[ -e {noted} ] || {{ mkdir -p {KEPT}; cut -d' ' -f2 /proc/mounts > {noted}.new; mv {noted}.new {noted}; }}"
    )
}

/// Shell: removes folders with everything that was mounted in them since. A disk that was mounted there
/// before stays so; what lies on one of the folders themselves goes.
pub fn remove(folders: &str) -> String {
    let noted = noted();
    format!(
        "noted={noted}; [ -e $noted ] || noted=/dev/null\n\
         mounts() {{ awk -v f=\"$f/\" -v noted=$noted 'FILENAME == noted {{ before[$1]; next }} \
         index($2 \"/\", f) == 1 {{ print ($2 in before ? \"before\" : \"since\"), $2 }}' $noted /proc/mounts | sed -n \"s/^$1 //p\"; }}\n\
         for f in {folders}; do\n\
         mounts since | sort -r | while read -r m; do umount -l \"$m\" 2>/dev/null || :; done\n\
         if [ -z \"$(mounts before)\" ]; then rm -rf --one-file-system \"$f\"\n\
         else find \"$f\" -xdev -depth -mindepth 1 ! -name lost+found '(' ! -type d -o -empty ')' -delete 2>/dev/null || :; fi; done"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    /// In a mount namespace of its own, with the note where no real node has it.
    #[test]
    fn a_disk_of_the_users_stays_and_is_emptied() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        let (disk, plain) = (at("disk"), at("plain"));
        let script = format!(
            "set -e; mkdir -p {disk} {plain}/pods/p/volume; mount -t tmpfs users {disk}; mkdir {disk}/lost+found\n{}\n\
             mkdir -p {disk}/pods/q; echo x > {disk}/pods/x; mount -t tmpfs pod {disk}/pods/q; mount -t tmpfs pod {plain}/pods/p/volume\n{}\n\
             ls -A {disk}; ls -d {plain} 2>&1 || :; awk '$2 ~ \"{}\" {{ print $1, $2 }}' /proc/mounts",
            note(),
            remove(&format!("{disk} {plain} {}", at("nowhere"))),
            folder.path().display(),
        )
        .replace(KEPT, &at("kept"));
        let apart = "if [ $(id -u) = 0 ]; then u=; else u='--user --map-root-user'; fi; exec unshare $u --mount sh -c \"$0\"";
        let output = Command::new("sh").args(["-c", apart, &script]).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        if told.starts_with("unshare:") {
            eprintln!("skipped: no namespaces are allowed here");
            return;
        }
        let text = String::from_utf8_lossy(&output.stdout);
        let expected =
            format!("lost+found\nls: cannot access '{plain}': No such file or directory\nusers {disk}\n");
        assert_eq!(text, expected, "{told}");
    }
}
