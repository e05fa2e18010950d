//! Downloads and small answers, from servers that fail in every way we know.

use crate::server::{Answer, Server};
use eggo_bundle::cache::Cache;
use eggo_bundle::http::{
    self, Download, Error, Freshness, HeaderValue, Http, Network, Options, Request, Route, Way, header,
};
use eggo_bundles::Digest;
use eggo_bundles::progress::Silent;
use std::time::Duration;

fn client() -> Http {
    client_with(Network::Online)
}

fn client_with(network: Network) -> Http {
    let first_pause = Duration::from_millis(5);
    Http::new(Options { network, first_pause, attempts: 3, ..Options::default() }).unwrap()
}

fn cache() -> (tempfile::TempDir, Cache) {
    let folder = tempfile::tempdir().unwrap();
    let cache = Cache::open(folder.path()).unwrap();
    (folder, cache)
}

fn content() -> Vec<u8> {
    (0..200_000_u32).flat_map(u32::to_le_bytes).collect()
}

fn download(urls: &[String], content: &[u8]) -> Download {
    let urls = urls.iter().map(|url| http::url(url).unwrap()).collect();
    Download::new("x", urls).expect(Some(Digest::of(content)), Some(content.len() as u64))
}

#[tokio::test]
async fn a_cut_download_goes_on_at_the_byte() {
    let body = content();
    let served = body.clone();
    let server = Server::start(move |asked| {
        let answer = Answer::file(asked, &served, "\"1\"");
        if asked.before == 0 { answer.cut(300_000) } else { answer }
    });
    let (_folder, cache) = cache();
    let got = client().download(&download(&[server.url("/f")], &body), &cache, &Silent).await.unwrap();
    assert_eq!(std::fs::read(got.path).unwrap(), body);
    let asked = server.asked();
    assert_eq!(asked.len(), 2);
    let range = asked[1].header("range").unwrap().strip_prefix("bytes=").unwrap();
    assert!(range.strip_suffix('-').unwrap().parse::<usize>().unwrap() > 0);
    // The second time nobody is asked.
    client().download(&download(&[server.url("/f")], &body), &cache, &Silent).await.unwrap();
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn a_second_run_goes_on_from_what_the_first_left() {
    let body = content();
    let served = body.clone();
    let server = Server::start(move |asked| match asked.before {
        0..3 => Answer::file(asked, &served, "\"1\"").cut(10_000),
        _ => Answer::file(asked, &served, "\"1\""),
    });
    let (_folder, cache) = cache();
    let dead = Server::start(|_| Answer::new(503, "busy"));
    // The first server is cut once; then only the dead one is left.
    let http = Http::new(Options { attempts: 1, ..Options::default() }).unwrap();
    for _ in 0..3 {
        http.download(&download(&[server.url("/f")], &body), &cache, &Silent).await.unwrap_err();
    }
    http.download(&download(&[dead.url("/f")], &body), &cache, &Silent).await.unwrap_err();
    let got = http.download(&download(&[server.url("/f")], &body), &cache, &Silent).await.unwrap();
    assert_eq!(got.sha256, Digest::of(&body));
    let last = server.asked().pop().unwrap();
    assert_eq!(last.header("range"), Some("bytes=30000-"));
}

#[tokio::test]
async fn without_a_digest_only_the_same_version_is_continued() {
    let old = content();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
    let (first, second) = (old, new.clone());
    let server = Server::start(move |asked| match asked.before {
        0 => Answer::file(asked, &first, "\"old\"").cut(5000),
        _ => Answer::file(asked, &second, "\"new\""),
    });
    let (_folder, cache) = cache();
    let wanted = Download::new("x", vec![http::url(&server.url("/f")).unwrap()]);
    let got = client().download(&wanted, &cache, &Silent).await.unwrap();
    assert_eq!(std::fs::read(got.path).unwrap(), new);
    assert_eq!(server.asked()[1].header("if-range"), Some("\"old\""));
}

#[tokio::test]
async fn without_a_digest_the_rest_of_another_version_is_not_appended() {
    let old = content();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
    let date = |day: u32| format!("Mon, {day} Nov 2026 10:00:00 GMT");
    for (header, before, after) in
        [("etag", "\"old\"".to_string(), "\"new\"".to_string()), ("last-modified", date(16), date(23))]
    {
        let (first, second) = (old.clone(), new.clone());
        // It does not care for `If-Range`.
        let server = Server::start(move |asked| match asked.before {
            0 => Answer::new(200, &first[..]).header(header, &before).cut(5000),
            1 => Answer::new(206, &second[5000..])
                .header("content-range", "bytes 5000-799999/800000")
                .header(header, &after),
            _ => Answer::new(200, &second[..]).header(header, &after),
        });
        let (_folder, cache) = cache();
        let wanted = Download::new("x", vec![http::url(&server.url("/f")).unwrap()]);
        let got = client().download(&wanted, &cache, &Silent).await.unwrap();
        assert!(std::fs::read(got.path).unwrap() == new, "{header}: two versions in one file");
        assert_eq!(server.asked()[2].header("range"), None);
    }
}

#[tokio::test]
async fn without_a_digest_one_mirror_does_not_continue_another() {
    let old = content();
    let new: Vec<u8> = old.iter().map(|byte| byte ^ 1).collect();
    let second = new.clone();
    let first = Server::start(move |asked| match asked.before {
        0 => Answer::file(asked, &old, "\"same\"").cut(5000),
        _ => Answer::new(404, "gone"),
    });
    let other = Server::start(move |asked| match asked.before {
        0 => Answer::file(asked, &second, "\"same\"").cut(7000),
        _ => Answer::file(asked, &second, "\"same\""),
    });
    let (_folder, cache) = cache();
    let urls = [first.url("/f"), other.url("/f")].map(|url| http::url(&url).unwrap());
    let got = client().download(&Download::new("x", urls.to_vec()), &cache, &Silent).await.unwrap();
    assert!(std::fs::read(got.path).unwrap() == new, "two files in one");
    assert!(other.asked().iter().all(|asked| asked.header("range").is_none()));
}

#[tokio::test]
async fn mirrors_are_tried_in_order_and_the_wrong_file_is_not_taken() {
    let body = content();
    let served = body.clone();
    let missing = Server::start(|_| Answer::new(404, "no"));
    let wrong = Server::start(|asked| Answer::file(asked, &vec![7; 800_000], "\"w\""));
    let good = Server::start(move |asked| Answer::file(asked, &served, "\"g\""));
    let (_folder, cache) = cache();
    let urls = [missing.url("/f"), wrong.url("/f"), good.url("/f")];
    let got = client().download(&download(&urls, &body), &cache, &Silent).await.unwrap();
    assert_eq!(got.url.unwrap().as_str(), good.url("/f"));
    assert_eq!((missing.asked().len(), wrong.asked().len()), (1, 1));

    let (_folder, cache) = self::cache();
    let error = client().download(&download(&urls[..2], &body), &cache, &Silent).await.unwrap_err();
    let Error::Mirrors { errors, .. } = error else { panic!("{error}") };
    assert_eq!(errors[0].status(), Some(404));
    assert!(matches!(errors[1], Error::WrongDigest { .. }));
}

#[tokio::test]
async fn wrong_bytes_of_an_earlier_run_are_begun_anew() {
    let body = content();
    let served = body.clone();
    let server = Server::start(move |asked| Answer::file(asked, &served, "\"1\""));
    let (folder, cache) = cache();
    let partial = folder.path().join(format!("partial/sha256-{}", Digest::of(&body)));
    std::fs::write(partial, b"not the beginning of it").unwrap();
    let got = client().download(&download(&[server.url("/f")], &body), &cache, &Silent).await.unwrap();
    assert_eq!(got.sha256, Digest::of(&body));
}

#[tokio::test]
async fn a_corrupted_cache_file_is_fetched_again() {
    let body = content();
    let served = body.clone();
    let server = Server::start(move |asked| Answer::file(asked, &served, "\"1\""));
    let (_folder, cache) = cache();
    let wanted = download(&[server.url("/f")], &body);
    let got = client().download(&wanted, &cache, &Silent).await.unwrap();
    let mut broken = body.clone();
    broken[5] ^= 1;
    std::fs::write(&got.path, &broken).unwrap();
    client().download(&wanted, &cache, &Silent).await.unwrap();
    assert_eq!(std::fs::read(&got.path).unwrap(), body);
    assert_eq!(server.asked().len(), 2);
}

#[tokio::test]
async fn busy_servers_are_asked_again_and_refusals_are_not() {
    let server = Server::start(|asked| match (asked.path.as_str(), asked.before) {
        ("/busy", 0) => Answer::new(503, "").header("retry-after", "0"),
        ("/busy", 1) => Answer::new(429, ""),
        ("/busy", _) => Answer::new(200, "done"),
        ("/later", _) => Answer::new(503, "").header("retry-after", "86400"),
        _ => Answer::new(403, "go away"),
    });
    let get = |path: &str| {
        let url = http::url(&server.url(path)).unwrap();
        async move { client().get(url, 100).await }
    };
    assert_eq!(get("/busy").await.unwrap().body, "done");
    assert_eq!(server.asked().len(), 3);
    assert_eq!(get("/later").await.unwrap_err().status(), Some(503));
    assert_eq!(server.asked().len(), 4, "nobody waits a day");
    let error = get("/no").await.unwrap_err();
    assert!(error.to_string().ends_with("answered 403: go away"), "{error}");
    assert_eq!(server.asked().len(), 5);
}

#[tokio::test]
async fn answers_are_bounded() {
    let server = Server::start(|_| Answer::new(200, vec![b'x'; 5000]));
    let url = http::url(&server.url("/")).unwrap();
    assert!(matches!(client().get(url.clone(), 4999).await, Err(Error::TooLarge { limit: 4999, .. })));
    assert_eq!(client().get(url, 5000).await.unwrap().body.len(), 5000);
    let (_folder, cache) = cache();
    let small = Download::new("x", vec![http::url(&server.url("/")).unwrap()]).at_most(100);
    assert!(matches!(client().download(&small, &cache, &Silent).await, Err(Error::TooLarge { .. })));
}

#[tokio::test]
async fn credentials_stay_with_their_host() {
    let other = Server::start(|_| Answer::new(200, "there"));
    let target = other.url("/there");
    let first = Server::start(move |asked| match asked.path.as_str() {
        "/far" => Answer::new(307, "").header("location", target.clone()),
        "/near" => Answer::new(302, "").header("location", "/here"),
        "/loop" => Answer::new(302, "").header("location", "/loop"),
        "/file" => Answer::new(302, "").header("location", "file:///etc/passwd"),
        _ => Answer::new(200, "here"),
    });
    let get = |path: &str| {
        let secret = HeaderValue::from_static("Bearer secret");
        let request =
            Request::get(http::url(&first.url(path)).unwrap(), 100).header(header::AUTHORIZATION, secret);
        async move { client().send(&request).await }
    };
    assert_eq!(get("/far").await.unwrap().body, "there");
    assert_eq!(other.asked()[0].header("authorization"), None);
    assert_eq!(get("/near").await.unwrap().body, "here");
    assert_eq!(first.asked().last().unwrap().header("authorization"), Some("Bearer secret"));
    assert!(matches!(get("/loop").await, Err(Error::Redirect { .. })));
    assert!(matches!(get("/file").await, Err(Error::Redirect { .. })));
    // A mirror on another host does not get them either.
    let (_folder, cache) = cache();
    let urls = [first.url("/404"), other.url("/x")].map(|url| http::url(&url).unwrap());
    let mut wanted = Download::new("x", urls.to_vec()).expect(Some(Digest::of(b"there")), None);
    wanted.headers.insert(header::AUTHORIZATION, HeaderValue::from_static("Basic secret"));
    client().download(&wanted, &cache, &Silent).await.unwrap();
    assert_eq!(other.asked().last().unwrap().header("authorization"), None);
}

#[tokio::test]
async fn metadata_is_revalidated_and_offline_runs_use_what_is_there() {
    let server = Server::start(|asked| match asked.header("if-none-match") {
        Some("\"1\"") => Answer::new(304, ""),
        _ => Answer::new(200, "list").header("etag", "\"1\""),
    });
    let (_folder, cache) = cache();
    let request = Request::get(http::url(&server.url("/list")).unwrap(), 100);
    let offline = client_with(Network::Offline);
    assert!(matches!(offline.metadata(&request, &cache).await, Err(Error::Offline { .. })));
    let first = client().metadata(&request, &cache).await.unwrap();
    assert_eq!((first.bytes.as_ref(), first.freshness), (&b"list"[..], Freshness::New));
    assert_eq!(client().metadata(&request, &cache).await.unwrap().freshness, Freshness::Revalidated);
    assert_eq!(offline.metadata(&request, &cache).await.unwrap().freshness, Freshness::Cached);
    // A corrupted copy is neither offered to the server nor used.
    std::fs::write(cache.path(&first.sha256), "lies").unwrap();
    assert_eq!(client().metadata(&request, &cache).await.unwrap().freshness, Freshness::New);
}

#[tokio::test]
async fn two_downloads_of_one_file_make_one_request() {
    let body = content();
    let served = body.clone();
    let server = Server::start(move |asked| Answer::file(asked, &served, "\"1\""));
    let (_folder, cache) = cache();
    let wanted = download(&[server.url("/f")], &body);
    let http = client();
    let (one, two) =
        tokio::join!(http.download(&wanted, &cache, &Silent), http.download(&wanted, &cache, &Silent));
    assert_eq!((one.unwrap().size, two.unwrap().size), (800_000, 800_000));
    assert_eq!(server.asked().len(), 1);
}

#[tokio::test]
async fn hosts_are_reached_by_their_routes() {
    let proxy = Server::start(|_| Answer::new(200, "by proxy"));
    let server = Server::start(|_| Answer::new(200, "direct"));
    let route = |host: &str, way: Way| Route { scheme: "http".into(), host: host.into(), way };
    let by_proxy = Way::Proxy(http::url(&proxy.url("/")).unwrap());
    let routes = vec![route("127.0.0.1", Way::Direct), route("deb.test", by_proxy)];
    let http = Http::new(Options { routes, ..Options::default() }).unwrap();
    let get = |url: &str| http.get(http::url(url).unwrap(), 100);
    assert_eq!(get("http://deb.test/dists/x").await.unwrap().body, "by proxy");
    assert_eq!(proxy.asked()[0].path, "http://deb.test/dists/x");
    assert_eq!(get(&server.url("/x")).await.unwrap().body, "direct");
    let no_proxy = route("deb.test", Way::Proxy(http::url("file:///x").unwrap()));
    let refused = Http::new(Options { routes: vec![no_proxy], ..Options::default() });
    assert!(matches!(refused, Err(Error::Proxy { .. })));
}

#[tokio::test]
async fn file_urls_are_read_and_missing_ones_said() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("f"), "here").unwrap();
    let url = |name: &str| http::url(&format!("file://{}/{name}", folder.path().display())).unwrap();
    let offline = client_with(Network::Offline);
    assert_eq!(offline.get(url("f"), 100).await.unwrap().body, "here");
    assert_eq!(offline.get(url("g"), 100).await.unwrap_err().status(), Some(404));
    let (_folder, cache) = cache();
    let got = offline.download(&Download::new("x", vec![url("f")]), &cache, &Silent).await.unwrap();
    assert_eq!(got.sha256, Digest::of(b"here"));
}

#[test]
fn a_bad_url_is_reported_without_its_password() {
    for text in ["http://alice:secret@[bad/x", "ftp://alice:secret@host/x", "http://alice:secret@host:port/"]
    {
        let error = http::url(text).unwrap_err().to_string();
        assert!(error.contains("://") && !error.contains("alice") && !error.contains("secret"), "{error}");
    }
}

/// A server that accepts and says nothing is named, asked once more, and given up.
#[tokio::test]
async fn a_silent_server_is_given_up() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = http::url(&format!("http://{}/f", listener.local_addr().unwrap())).unwrap();
    let held = std::thread::spawn(move || {
        let accept = || listener.accept().unwrap();
        [accept(), accept()]
    });
    let idle_timeout = Duration::from_millis(200);
    let options = Options { idle_timeout, first_pause: Duration::from_millis(5), ..Options::default() };
    let error = Http::new(options).unwrap().get(url.clone(), 10).await.unwrap_err();
    assert!(matches!(error, Error::Silent { .. }), "{error}");
    drop(held.join().unwrap());
}

#[tokio::test]
async fn a_proxy_that_is_down_is_named() {
    let proxy = http::url("http://user:secret@127.0.0.1:1").unwrap();
    let route = Route { scheme: "http".into(), host: "example.org".into(), way: Way::Proxy(proxy) };
    let options = Options { routes: vec![route], attempts: 1, ..Options::default() };
    let url = http::url("http://example.org/f").unwrap();
    let error = Http::new(options).unwrap().get(url, 10).await.unwrap_err();
    let told = error.to_string();
    assert!(told.contains("the proxy `http://127.0.0.1:1/` does not answer"), "{told}");
}
