//! Which top-level module of a crate uses which, as its source says.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Module → the modules that it uses, each with a file in which it does.
pub type Uses = BTreeMap<String, BTreeMap<String, PathBuf>>;

/// The graph of a crate's top-level modules, without its tests.
pub fn uses(source: &Path) -> Uses {
    let files = files(source);
    let top = |path: &Path| {
        let first = path.iter().next().unwrap_or_default().to_string_lossy().into_owned();
        first.strip_suffix(".rs").map_or(first.clone(), str::to_string)
    };
    let modules: BTreeSet<String> = files.keys().map(|path| top(path)).collect();
    let exported = files.get(Path::new("lib.rs")).map(|code| exported(code)).unwrap_or_default();
    let mut uses = Uses::new();
    for (path, code) in &files {
        let own = top(path);
        let found = uses.entry(own.clone()).or_default();
        for name in names_after(code, "crate::") {
            let name = exported.get(&name).unwrap_or(&name);
            if modules.contains(name) && *name != own {
                found.entry(name.clone()).or_insert_with(|| path.clone());
            }
        }
    }
    uses.remove("lib");
    uses
}

/// One cycle, as `a → b (in a/x.rs) → a (in b.rs)`, if there is any.
pub fn cycle(uses: &Uses) -> Option<String> {
    let mut done = BTreeSet::new();
    uses.keys().find_map(|start| walk(uses, start, &mut Vec::new(), &mut done))
}

fn walk<'a>(
    uses: &'a Uses,
    module: &'a str,
    way: &mut Vec<&'a str>,
    done: &mut BTreeSet<&'a str>,
) -> Option<String> {
    if let Some(at) = way.iter().position(|name| *name == module) {
        let mut text = way[at].to_string();
        for (from, to) in way[at..].iter().zip(way[at + 1..].iter().chain([&module])) {
            text.push_str(&format!(" → {to} (in {})", uses[*from][*to].display()));
        }
        return Some(text);
    }
    if done.contains(module) {
        return None;
    }
    way.push(module);
    let found = uses.get(module)?.keys().find_map(|next| walk(uses, next, way, done));
    way.pop();
    done.insert(module);
    found
}

/// Every file below `source` by its path there, without comments, the content of strings, and tests.
pub fn files(source: &Path) -> BTreeMap<PathBuf, String> {
    let (mut files, mut skipped) = (BTreeMap::new(), Vec::new());
    let mut folders = vec![source.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                let (code, tests) = without_tests(&plain(&fs::read_to_string(&path).expect("a text")));
                let inside = match path.file_stem().and_then(|stem| stem.to_str()) {
                    Some("lib" | "main" | "mod") => folder.clone(),
                    _ => path.with_extension(""),
                };
                skipped.extend(tests.iter().map(|name| inside.join(name)));
                files.insert(path, code);
            }
        }
    }
    files.retain(|path, _| !skipped.iter().any(|module| path.with_extension("").starts_with(module)));
    let relative = |path: PathBuf| path.strip_prefix(source).expect("below it").to_path_buf();
    files.into_iter().map(|(path, code)| (relative(path), code)).collect()
}

/// Without comments and the content of strings.
fn plain(text: &str) -> String {
    let (mut code, mut rest) = (String::new(), text);
    while let Some(first) = rest.chars().next() {
        let identifier = code.ends_with(|c: char| c.is_alphanumeric() || c == '_');
        let end = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |at| at + 2)
        } else if first == '"' {
            code.push_str("\"\"");
            string(&rest[1..]) + 1
        } else if first == 'r' && !identifier && raw(rest).is_some() {
            code.push_str("\"\"");
            raw(rest).unwrap_or(rest.len())
        } else if let Some(length) = character(rest) {
            code.push_str("' '");
            length
        } else {
            code.push(first);
            first.len_utf8()
        };
        rest = &rest[end..];
    }
    code
}

/// The length of a string's rest, with its closing quote.
fn string(rest: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    rest.len()
}

/// The length of a raw string.
fn raw(rest: &str) -> Option<usize> {
    let hashes = rest[1..].bytes().take_while(|byte| *byte == b'#').count();
    let body = rest[1 + hashes..].strip_prefix('"')?;
    let end = format!("\"{}", "#".repeat(hashes));
    Some(body.find(&end).map_or(rest.len(), |at| 2 + hashes + at + end.len()))
}

/// The length of a character in quotes; a lifetime is none.
fn character(rest: &str) -> Option<usize> {
    let body = rest.strip_prefix('\'')?;
    if body.starts_with('\\') {
        return Some(3 + body[2..].find('\'')?);
    }
    let first = body.chars().next()?;
    body[first.len_utf8()..].starts_with('\'').then_some(first.len_utf8() + 2)
}

/// Without what is compiled for tests only; and the names of modules in other files that are.
fn without_tests(code: &str) -> (String, Vec<String>) {
    const MARK: &str = "#[cfg(test)]";
    let (mut kept, mut modules, mut rest) = (String::new(), Vec::new(), code);
    while let Some((before, item)) = rest.split_once(MARK) {
        kept.push_str(before);
        let (mut depth, mut end) = (0, item.len());
        for (at, byte) in item.bytes().enumerate() {
            depth += i32::from(b"{[(".contains(&byte)) - i32::from(b"}])".contains(&byte));
            if depth == 0 && matches!(byte, b'}' | b';') {
                end = at + 1;
                break;
            }
        }
        let declared = item[..end].split_once("mod ").and_then(|(_, name)| name.strip_suffix(';'));
        modules.extend(declared.map(|name| name.trim().to_string()));
        rest = &item[end..];
    }
    kept.push_str(rest);
    (kept, modules)
}

/// The first names after every `prefix`: that of `prefix a::b`, and all of `prefix {a::b, c}`.
fn names_after(code: &str, prefix: &str) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for rest in code.split(prefix).skip(1) {
        match rest.strip_prefix('{') {
            None => names.extend(identifier(rest)),
            Some(group) => names.extend(group_of(group).into_iter().filter_map(identifier)),
        }
    }
    names
}

fn identifier(text: &str) -> Option<String> {
    let text = text.trim_start();
    let name: String = text.chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect();
    (!name.is_empty()).then_some(name)
}

/// The members of a group up to its closing brace.
fn group_of(text: &str) -> Vec<&str> {
    let (mut members, mut depth, mut start) = (Vec::new(), 0, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 0 => {
                members.push(&text[start..at]);
                break;
            }
            b'}' => depth -= 1,
            b',' if depth == 0 => {
                members.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    members
}

/// Names at the crate's root → the module that they come from.
fn exported(lib: &str) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for item in lib.split("use ").skip(1).filter_map(|rest| rest.split(';').next()) {
        let Some((module, what)) = item.split_once("::") else { continue };
        let what = what.trim_matches(|c: char| c == '{' || c == '}' || c.is_whitespace());
        names.extend(what.split(',').filter_map(identifier).map(|name| (name, module.trim().to_string())));
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_program_itself_uses_counts() {
        let folder = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put("lib.rs", "mod a; mod b; mod c; pub use c::{Thing, Other};");
        put(
            "a.rs",
            "use crate::{b::{x, y}, Thing};\n#[cfg(test)]\nmod fake;\n#[cfg(test)]\nmod tests { use crate::d; }",
        );
        put("a/fake.rs", "use crate::d;");
        put(
            "b/mod.rs",
            "// crate::a\nconst A: &str = \"crate::a \\\" crate::a\"; const B: &str = r#\"crate::a\"#;",
        );
        put("c.rs", "fn f<'a>(x: &'a str) -> char { '\"' }\n/* crate::a */ fn g() { crate::d::h('\\'') }");
        put("d.rs", "fn h(_: char) {}");
        let uses = uses(folder.path());
        let story: Vec<String> = uses
            .iter()
            .map(|(module, uses)| format!("{module}: {}", uses.keys().cloned().collect::<Vec<_>>().join(" ")))
            .collect();
        assert_eq!(story, ["a: b c", "b: ", "c: d", "d: "]);
        assert_eq!(cycle(&uses), None);
        put("d.rs", "use crate::a;");
        assert_eq!(
            cycle(&super::uses(folder.path())).unwrap(),
            "a → c (in a.rs) → d (in c.rs) → a (in d.rs)"
        );
    }
}
