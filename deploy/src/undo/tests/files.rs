use super::*;
use std::fs;
use std::os::unix::fs::{lchown, symlink};
use std::path::PathBuf;

#[test]
fn a_file_goes_back_to_what_it_was_and_one_that_is_not_ours_stays() {
    let sandbox = Sandbox::new();
    let (file, kept) = (sandbox.at("etc/x"), |kind: &str| format!("kept/{kind}{}", sandbox.at("etc/x")));
    let restore = || sandbox.does(call(&sandbox, &["restore_file", &file]));
    sandbox.write("etc/x", "the user's, and like ours");
    restore();
    assert!(sandbox.has("etc/x"), "without a note it is not ours");
    sandbox.write(&kept("original"), "before");
    // Interrupted and repeated, too.
    for _ in 0..2 {
        restore();
        assert_eq!(sandbox.read("etc/x"), "before");
        assert!(!sandbox.has(&kept("original")));
    }
    fs::remove_file(&file).unwrap();
    symlink("/users/own", sandbox.path(&kept("original"))).unwrap();
    restore();
    assert_eq!(fs::read_link(&file).unwrap(), PathBuf::from("/users/own"), "a link, too");
    sandbox.write(&kept("absent"), "");
    restore();
    assert!(!sandbox.has("etc/x") && !sandbox.has(&kept("absent")));
    assert_eq!(fs::read_dir(sandbox.path("etc")).unwrap().count(), 0, "nothing is left beside it");
}

/// Below `original` are folders: none of them is a file that was kept.
#[test]
fn a_folder_never_takes_the_place_of_another() {
    let sandbox = Sandbox::new();
    sandbox.write("etc/users", "own");
    sandbox.write(&format!("kept/original{}", sandbox.at("etc/x")), "before");
    let said = sandbox.run(call(&sandbox, &["restore_file", &sandbox.at("etc")]));
    assert!(!said.done && said.err.contains("was a folder"), "{said:?}");
    assert_eq!(sandbox.read("etc/users"), "own");
}

#[test]
fn what_is_removed_is_below_a_folder_and_led_there_by_root() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.at(name);
    sandbox.write("victim/inside/secret", "own");
    let functions = ["remove_tree", "remove_empty", "restore_file"];
    let tries = |path: &str| functions.map(|function| sandbox.run(call(&sandbox, &[function, path])).done);
    fs::create_dir_all(sandbox.path("a")).unwrap();
    for path in ["", "/", "//", "/etc", "etc/x", "/etc/", "/etc/..", "/etc/../x", "/x//y", "/etc/./x"] {
        // restore_file has nothing to do where there is no note.
        assert_eq!(tries(path)[..2], [false; 2], "{path}");
    }
    let planted = at("planted/secret");
    for kind in ["original", "absent"] {
        sandbox.write(&format!("kept/{kind}{planted}"), "");
    }
    symlink(at("victim/inside"), at("planted")).unwrap();
    if lchown(at("planted"), Some(65534), None).is_ok() {
        assert_eq!(tries(&planted), [false; 3]);
        assert_eq!(sandbox.read("victim/inside/secret"), "own");
        lchown(at("planted"), Some(0), None).unwrap();
    }
    // Root's own links are followed: /var may be elsewhere.
    sandbox.does(call(&sandbox, &["remove_tree", &planted]));
    assert!(!sandbox.has("victim/inside/secret"));
    // A link itself goes, and not what it leads to.
    sandbox.does(call(&sandbox, &["remove_tree", &at("planted")]));
    assert!(sandbox.has("victim/inside") && !sandbox.has("planted"));
    sandbox.does(call(&sandbox, &["remove_tree", &at("nowhere/below/x")]));
}

#[test]
fn an_item_that_leads_out_of_the_whitelist_stays() {
    let sandbox = Sandbox::new();
    let at = |name: &str| sandbox.at(name);
    sandbox.write("victim/x", "own");
    for folder in ["allowed", "allowed/deep", "allowed-not"] {
        sandbox.write(&format!("{folder}/x"), "ours");
    }
    symlink(at("victim"), at("allowed/out")).unwrap();
    for (path, goes) in
        [("allowed/x", true), ("allowed/deep/x", true), ("allowed/out/x", false), ("allowed-not/x", false)]
    {
        sandbox.write(&format!("kept/absent{}", at(path)), "");
        let said = sandbox.run(call(&sandbox, &["restore_item", &at(path)]));
        assert_eq!((said.done, sandbox.has(path)), (goes, !goes), "{path}: {said:?}");
    }
}

#[test]
fn only_an_empty_folder_goes() {
    let sandbox = Sandbox::new();
    sandbox.write("full/x", "");
    fs::create_dir(sandbox.path("empty")).unwrap();
    symlink("empty", sandbox.path("link")).unwrap();
    for name in ["full", "link", "empty", "absent", "absent/below"] {
        sandbox.does(call(&sandbox, &["remove_empty", &sandbox.at(name)]));
    }
    assert!(sandbox.has("full/x") && sandbox.has("link") && !sandbox.has("empty"));
}
