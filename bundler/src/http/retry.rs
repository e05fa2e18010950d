//! When to try again, and when to stop.

use reqwest::header::{HeaderMap, RETRY_AFTER};
use std::time::Duration;

/// A server that wants us to wait longer than this has to wait for the user's next run.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(120);

/// Statuses that may pass by themselves.
pub fn is_passing(status: u16) -> bool {
    matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504)
}

/// How long to wait before attempt `attempt` (counted from 1), or `None` to give up.
pub(super) fn pause(
    attempt: u32,
    attempts: u32,
    first: Duration,
    headers: Option<&HeaderMap>,
) -> Option<Duration> {
    if attempt >= attempts {
        return None;
    }
    let doubled = first.saturating_mul(1 << (attempt - 1).min(10)).min(LONGEST_WAIT);
    match headers.and_then(retry_after) {
        Some(asked) if asked > LONGEST_WAIT => None,
        Some(asked) => Some(asked.max(doubled)),
        None => Some(doubled),
    }
}

/// `Retry-After` in seconds or as a date.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = jiff::fmt::rfc2822::parse(text).ok()?;
    let wait = date.timestamp().as_second() - jiff::Timestamp::now().as_second();
    Some(Duration::from_secs(wait.max(0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use reqwest::header::HeaderValue;

    fn with(text: &str) -> HeaderMap {
        HeaderMap::from_iter([(RETRY_AFTER, HeaderValue::from_str(text).unwrap())])
    }

    #[test]
    fn waits_longer_each_time_and_as_long_as_asked() {
        let first = Duration::from_millis(500);
        assert_eq!(pause(1, 4, first, None), Some(first));
        assert_eq!(pause(3, 4, first, None), Some(first * 4));
        assert_eq!(pause(4, 4, first, None), None);
        assert_eq!(pause(1, 4, first, Some(&with("7"))), Some(Duration::from_secs(7)));
        assert_eq!(pause(1, 4, first, Some(&with("86400"))), None);
        assert_eq!(pause(1, 4, first, Some(&with("Sun, 06 Nov 1994 08:49:37 GMT"))), Some(first));
        assert_eq!(pause(1, 4, first, Some(&with("soon"))), Some(first));
    }
}
