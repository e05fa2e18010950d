//! The time that a bill of materials names as that of its making.

use std::fmt;
use std::str::FromStr;

/// Seconds since 1970, up to the year 9999. The default is 1970 itself: nobody said a time, and
/// that of building would make each build another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Created(u64);

/// The last second of the year 9999: RFC 3339 knows no later one.
const LAST: u64 = 253_402_300_799;
const DAY: u64 = 24 * 60 * 60;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected whole seconds since 1970, like 1704067200")]
pub struct BadTime;

impl FromStr for Created {
    type Err = BadTime;

    fn from_str(text: &str) -> Result<Self, BadTime> {
        text.parse().ok().filter(|seconds| *seconds <= LAST).map(Self).ok_or(BadTime)
    }
}

/// As RFC 3339 writes it: `2024-01-01T00:00:00Z`.
impl fmt::Display for Created {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date(self.0 / DAY);
        let second = self.0 % DAY;
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        write!(f, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }
}

/// Year, month and day of a number of days since 1970. Counted in years that begin with March,
/// so that the odd day comes last, and in eras of 400 of them, which are all of one length.
fn date(days: u64) -> (u64, u64, u64) {
    const ERA: u64 = 146_097;
    let days = days + 719_468;
    let day_of_era = days % ERA;
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (days / ERA * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_date_prints_them() {
        let shown = |text: &str| text.parse::<Created>().map(|created| created.to_string());
        assert_eq!(Created::default().to_string(), "1970-01-01T00:00:00Z");
        for (seconds, expected) in [
            ("951782399", "2000-02-28T23:59:59Z"),
            ("951782400", "2000-02-29T00:00:00Z"),
            ("951868800", "2000-03-01T00:00:00Z"),
            ("1735689599", "2024-12-31T23:59:59Z"),
            ("4107542400", "2100-03-01T00:00:00Z"),
            ("253402300799", "9999-12-31T23:59:59Z"),
        ] {
            assert_eq!(shown(seconds).as_deref(), Ok(expected));
        }
        for bad in ["", "now", "-1", "1.5", "253402300800"] {
            assert_eq!(shown(bad), Err(BadTime), "{bad}");
        }
    }
}
