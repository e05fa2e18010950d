//! What a registry asks for when it answers 401: the `WWW-Authenticate` header.

use crate::http::{HeaderMap, header};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Challenge {
    Basic,
    Bearer {
        /// The token server.
        realm: String,
        service: Option<String>,
        /// What the registry wants the token to be for; ours may be wider.
        scope: Option<String>,
    },
}

/// The best challenge we can meet: a token rather than a password.
pub(super) fn parse(headers: &HeaderMap) -> Option<Challenge> {
    let values = headers.get_all(header::WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let mut found = None;
    for (scheme, parameters) in values.flat_map(challenges) {
        let get = |name: &str| {
            let named = parameters.iter().find(|(key, _)| key.eq_ignore_ascii_case(name));
            named.map(|(_, value)| value.clone())
        };
        if scheme.eq_ignore_ascii_case("bearer")
            && let Some(realm) = get("realm")
        {
            return Some(Challenge::Bearer { realm, service: get("service"), scope: get("scope") });
        }
        if scheme.eq_ignore_ascii_case("basic") {
            found = Some(Challenge::Basic);
        }
    }
    found
}

type Parameters = Vec<(String, String)>;

/// `Scheme k="v", k=v, Scheme2 …`: several challenges may share one header.
fn challenges(text: &str) -> Vec<(String, Parameters)> {
    let mut found: Vec<(String, Parameters)> = Vec::new();
    let mut rest = text.trim_start_matches([' ', ',']);
    while !rest.is_empty() {
        let word_end = rest.find([' ', '=', ',']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(word_end);
        let after = after.trim_start_matches(' ');
        if let Some(value) = after.strip_prefix('=') {
            let (value, after) = quoted_or_plain(value.trim_start_matches(' '));
            if let Some((_, parameters)) = found.last_mut() {
                parameters.push((word.to_string(), value));
            }
            rest = after;
        } else {
            found.push((word.to_string(), Vec::new()));
            rest = after;
        }
        rest = rest.trim_start_matches([' ', ',']);
    }
    found
}

fn quoted_or_plain(text: &str) -> (String, &str) {
    let Some(inner) = text.strip_prefix('"') else {
        let end = text.find([',', ' ']).unwrap_or(text.len());
        return (text[..end].to_string(), &text[end..]);
    };
    let mut value = String::new();
    let mut characters = inner.char_indices();
    while let Some((i, c)) = characters.next() {
        match c {
            '"' => return (value, &inner[i + 1..]),
            '\\' => value.extend(characters.next().map(|(_, escaped)| escaped)),
            c => value.push(c),
        }
    }
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::HeaderValue;

    fn parsed(values: &[&str]) -> Option<Challenge> {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(header::WWW_AUTHENTICATE, HeaderValue::from_str(value).unwrap());
        }
        parse(&headers)
    }

    #[test]
    fn reads_what_registries_send() {
        let bearer = |realm: &str, service: Option<&str>, scope: Option<&str>| {
            let text = |text: Option<&str>| text.map(String::from);
            Some(Challenge::Bearer { realm: realm.into(), service: text(service), scope: text(scope) })
        };
        let hub = r#"Bearer realm="https://auth.docker.io/token",service="registry.docker.io",scope="repository:library/nginx:pull,push""#;
        let scope = Some("repository:library/nginx:pull,push");
        let expected = bearer("https://auth.docker.io/token", Some("registry.docker.io"), scope);
        assert_eq!(parsed(&[hub]), expected);
        assert_eq!(parsed(&["Basic realm=\"x\""]), Some(Challenge::Basic));
        assert_eq!(
            parsed(&["bearer REALM=https://a/t , service = b"]),
            bearer("https://a/t", Some("b"), None)
        );
        assert_eq!(parsed(&["Basic realm=\"a, Bearer\", Bearer realm=\"r\""]), bearer("r", None, None));
        assert_eq!(parsed(&["Basic realm=x", "Bearer realm=\"r\\\"q\""]), bearer("r\"q", None, None));
        assert_eq!(parsed(&["Negotiate"]), None);
        assert_eq!(parsed(&["Bearer service=\"no realm\""]), None);
        assert_eq!(parsed(&["", "=,=,\"", "Bearer realm=\"unclosed"]), bearer("unclosed", None, None));
        assert_eq!(parsed(&[]), None);
    }
}
