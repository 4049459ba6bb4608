//! `metav1.Time`: RFC 3339 in whole seconds, UTC.
//!
//! Must not know what time it is.

/// Seconds since 1970 of a timestamp; none if it is none.
pub(crate) fn parse(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_second)
}

/// The timestamp of `seconds` since 1970, held within what years 1 to 9999 can say.
pub(crate) fn format(seconds: i64) -> String {
    let bounded = seconds.clamp(jiff::Timestamp::MIN.as_second() + 1, jiff::Timestamp::MAX.as_second());
    jiff::Timestamp::from_second(bounded).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_and_written_as_the_api_writes_them() {
        assert_eq!(parse("2026-01-02T03:04:05Z"), Some(1_767_323_045));
        assert_eq!(format(1_767_323_045), "2026-01-02T03:04:05Z");
        assert_eq!(parse("yesterday"), None);
    }

    #[test]
    fn any_number_of_seconds_is_some_time() {
        for seconds in [i64::MIN, i64::MAX, 0] {
            assert!(parse(&format(seconds)).is_some());
        }
    }
}
