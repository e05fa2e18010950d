//! Who we are to a registry: docker's `config.json`, podman's `auth.json`, credential helpers.
//!
//! Looked up only when a registry asks. Secrets are never printed: the types here show
//! themselves without them.

use super::reference::DOCKER_HUB;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::io::AsyncWriteExt;

/// What docker calls Docker Hub in its files.
const DOCKER_HUB_KEY: &str = "https://index.docker.io/v1/";
const MAX_CONFIG_FILE: u64 = 4 << 20;

#[derive(Clone, PartialEq, Eq)]
pub enum Credential {
    Password {
        username: String,
        password: String,
    },
    /// Exchanged for an access token at the registry's token server.
    IdentityToken(String),
}

impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Password { username, .. } => write!(f, "Password({username}, …)"),
            Self::IdentityToken(_) => f.write_str("IdentityToken(…)"),
        }
    }
}

/// The files to look in, in this order; the first that knows the registry wins.
#[derive(Debug, Clone, Default)]
pub struct Credentials {
    files: Vec<PathBuf>,
}

/// Why a file or helper could not be asked. Not fatal by itself: most images are public.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("`{}`: {reason}", .file.display())]
    File { file: PathBuf, reason: String },
    #[error("credential helper `{helper}`: {reason}")]
    Helper { helper: String, reason: String },
}

impl Credentials {
    /// Where docker and podman keep theirs: `$REGISTRY_AUTH_FILE` alone, or else
    /// `$DOCKER_CONFIG` or `~/.docker`, then podman's folders.
    pub fn of_user() -> Self {
        let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        if let Some(file) = named("REGISTRY_AUTH_FILE") {
            return Self { files: vec![file] };
        }
        let home = named("HOME");
        let below_home = |path: &str| home.as_ref().map(|home| home.join(path));
        let docker = named("DOCKER_CONFIG").or_else(|| below_home(".docker"));
        let config = named("XDG_CONFIG_HOME").or_else(|| below_home(".config"));
        let files = [
            docker.map(|folder| folder.join("config.json")),
            named("XDG_RUNTIME_DIR").map(|folder| folder.join("containers/auth.json")),
            config.map(|folder| folder.join("containers/auth.json")),
        ];
        Self { files: files.into_iter().flatten().collect() }
    }

    pub fn from_files(files: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { files: files.into_iter().collect() }
    }

    /// The credential for a repository on a registry, if anyone knows one, and what went
    /// wrong while asking.
    pub async fn find(&self, registry: &str, repository: &str) -> (Option<Credential>, Vec<Problem>) {
        let mut problems = Vec::new();
        for file in &self.files {
            match find_in(file, registry, repository).await {
                Ok(Some(credential)) => return (Some(credential), problems),
                Ok(None) => {}
                Err(problem) => problems.push(problem),
            }
        }
        (None, problems)
    }
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ConfigFile {
    auths: BTreeMap<String, Auth>,
    cred_helpers: BTreeMap<String, String>,
    creds_store: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Auth {
    auth: Option<String>,
    username: Option<String>,
    password: Option<String>,
    identitytoken: Option<String>,
}

async fn find_in(file: &Path, registry: &str, repository: &str) -> Result<Option<Credential>, Problem> {
    let Some(config) = read(file)? else { return Ok(None) };
    let keys = keys(registry, repository);
    // A helper named for this registry is the only one that speaks for it, as with docker.
    if let Some(helper) = keys.iter().find_map(|key| config.cred_helpers.get(key)) {
        return ask_helper(helper, registry).await;
    }
    if let Some(helper) = config.creds_store.as_deref().filter(|helper| !helper.is_empty())
        && let Some(credential) = ask_helper(helper, registry).await?
    {
        return Ok(Some(credential));
    }
    let Some(auth) = keys.iter().find_map(|key| config.auth(key)) else { return Ok(None) };
    auth.credential().map_err(|reason| Problem::File { file: file.into(), reason })
}

fn read(file: &Path) -> Result<Option<ConfigFile>, Problem> {
    let bad = |reason: String| Problem::File { file: file.into(), reason };
    match std::fs::metadata(file) {
        Ok(metadata) if metadata.len() > MAX_CONFIG_FILE => return Err(bad("it is too large".into())),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(bad(error.to_string())),
    }
    let bytes = std::fs::read(file).map_err(|error| bad(error.to_string()))?;
    // The message of a JSON error may quote the file, and with it a secret: say only where.
    let config = serde_json::from_slice(&bytes)
        .map_err(|error| bad(format!("not valid JSON at line {}", error.line())));
    config.map(Some)
}

/// The most particular key first: `host/a/b`, `host/a`, `host`.
fn keys(registry: &str, repository: &str) -> Vec<String> {
    let mut keys = Vec::new();
    let mut name = format!("{registry}/{repository}");
    loop {
        keys.push(name.clone());
        match name.rfind('/') {
            Some(slash) => name.truncate(slash),
            None => break,
        }
    }
    if registry == DOCKER_HUB {
        keys.extend([DOCKER_HUB_KEY, "index.docker.io", "registry-1.docker.io"].map(String::from));
    }
    keys
}

impl ConfigFile {
    /// Keys are written with and without scheme and path: `https://host/v1/` is `host`.
    fn auth(&self, key: &str) -> Option<&Auth> {
        let bare = |text: &str| {
            let text = text.trim_start_matches("https://").trim_start_matches("http://");
            let text = text.trim_end_matches('/');
            text.trim_end_matches("/v1").trim_end_matches("/v2").to_string()
        };
        self.auths.get(key).or_else(|| {
            self.auths.iter().find(|(written, _)| bare(written) == bare(key)).map(|(_, auth)| auth)
        })
    }
}

impl Auth {
    fn credential(&self) -> Result<Option<Credential>, String> {
        let filled = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        if let Some(token) = filled(&self.identitytoken) {
            return Ok(Some(Credential::IdentityToken(token)));
        }
        if let Some(auth) = filled(&self.auth) {
            let decoded = STANDARD.decode(auth.trim()).ok().and_then(|bytes| String::from_utf8(bytes).ok());
            let pair = decoded.as_deref().and_then(|text| text.split_once(':'));
            let (username, password) = pair.ok_or("an `auth` is not base64 of `user:password`")?;
            // docker pads with zero bytes.
            let password = password.trim_end_matches('\0').to_string();
            return Ok(Some(Credential::Password { username: username.to_string(), password }));
        }
        // An entry without anything in it only says that a helper has the secret.
        let pair = filled(&self.username).zip(filled(&self.password));
        Ok(pair.map(|(username, password)| Credential::Password { username, password }))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct HelperAnswer {
    username: String,
    secret: String,
}

/// `docker-credential-NAME get`: the registry on stdin, JSON on stdout.
async fn ask_helper(helper: &str, registry: &str) -> Result<Option<Credential>, Problem> {
    let program = format!("docker-credential-{helper}");
    let bad = |reason: String| Problem::Helper { helper: program.clone(), reason };
    let mut child = tokio::process::Command::new(&program)
        .arg("get")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .map_err(|error| bad(error.to_string()))?;
    let server = if registry == DOCKER_HUB { DOCKER_HUB_KEY } else { registry };
    if let Some(mut stdin) = child.stdin.take() {
        // A helper that does not read its input fails below, with a better reason.
        let _ = stdin.write_all(server.as_bytes()).await;
    }
    let output = child.wait_with_output().await.map_err(|error| bad(error.to_string()))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stdout);
        // What every helper says, word for word, when it has nothing.
        if said.contains("credentials not found") {
            return Ok(None);
        }
        return Err(bad(format!("it failed ({})", output.status)));
    }
    let answer: HelperAnswer =
        serde_json::from_slice(&output.stdout).map_err(|_| bad("its answer is not JSON".to_string()))?;
    Ok(match answer.username.as_str() {
        _ if answer.secret.is_empty() => None,
        "<token>" => Some(Credential::IdentityToken(answer.secret)),
        _ => Some(Credential::Password { username: answer.username, password: answer.secret }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn password(username: &str, password: &str) -> Credential {
        Credential::Password { username: username.into(), password: password.into() }
    }

    #[tokio::test]
    async fn finds_the_most_particular_entry_however_its_key_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        let auth = |text: &str| STANDARD.encode(text);
        let config = serde_json::json!({"auths": {
            "https://index.docker.io/v1/": {"auth": auth("hub:h:1")},
            "host:5000": {"username": "plain", "password": "p"},
            "https://scheme.io/v2/": {"auth": auth("scheme:s")},
            "quay.io": {"auth": auth("all:a")},
            "quay.io/team": {"auth": auth("team:t")},
            "token.io": {"auth": auth("x:y"), "identitytoken": "id"},
            "empty.io": {},
            "broken.io": {"auth": "%%%"},
        }});
        std::fs::write(&file, config.to_string()).unwrap();
        let credentials = Credentials::from_files([folder.path().join("absent.json"), file.clone()]);
        for (registry, repository, expected) in [
            ("docker.io", "library/nginx", Some(password("hub", "h:1"))),
            ("host:5000", "a", Some(password("plain", "p"))),
            ("scheme.io", "a", Some(password("scheme", "s"))),
            ("quay.io", "team/app", Some(password("team", "t"))),
            ("quay.io", "teams/app", Some(password("all", "a"))),
            ("token.io", "a", Some(Credential::IdentityToken("id".into()))),
            ("empty.io", "a", None),
            ("unknown.io", "a", None),
        ] {
            let found = credentials.find(registry, repository).await;
            assert_eq!(found, (expected, vec![]), "{registry}/{repository}");
        }
        let (none, problems) = credentials.find("broken.io", "a").await;
        assert_eq!(none, None);
        assert!(problems[0].to_string().ends_with("an `auth` is not base64 of `user:password`"));
    }

    #[tokio::test]
    async fn a_broken_file_is_a_problem_that_quotes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, "{\"auths\": {\"a\": \"secret\"}}").unwrap();
        let (_, problems) = Credentials::from_files([file]).find("a", "b").await;
        let text = problems[0].to_string();
        assert!(text.contains("not valid JSON at line 1") && !text.contains("secret"), "{text}");
        let missing = Credentials::from_files([folder.path().join("none")]).find("a", "b").await;
        assert_eq!(missing, (None, vec![]));
    }

    #[test]
    fn secrets_do_not_show() {
        let shown = format!("{:?} {:?}", password("u", "pw"), Credential::IdentityToken("tok".into()));
        assert_eq!(shown, "Password(u, …) IdentityToken(…)");
    }
}
