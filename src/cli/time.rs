//! Times as people type them.

use anyhow::{Context, bail};
use jiff::civil::Time;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp, Zoned};

/// A time: RFC 3339 (`2026-03-08T03:12:00Z`), a time of day in the local zone (the last one; `03:12` is its whole
/// minute, and so the end of that), or a while ago (`-10m`, `10m ago`).
pub(super) fn parse(text: &str, now: &Zoned) -> anyhow::Result<Timestamp> {
    let text = text.trim();
    if let Ok(timestamp) = text.parse::<Timestamp>() {
        return Ok(timestamp);
    }
    let ago = text.strip_prefix('-').or_else(|| text.strip_suffix("ago"));
    if let Some(while_ago) = ago {
        let duration = humantime::parse_duration(while_ago.trim())
            .with_context(|| format!("{text:?} is not a while ago such as -10m"))?;
        let then = SignedDuration::try_from(duration).and_then(|duration| now.timestamp().checked_sub(duration));
        return then.with_context(|| format!("{text:?} is before all time"));
    }
    if let Ok(time) = text.parse::<Time>() {
        let today = now.with().time(time).build()?;
        let last = if today > *now { today.yesterday()?.with().time(time).build()? } else { today };
        let whole_minute = text.matches(':').count() == 1;
        let end = if whole_minute { last.timestamp() + SignedDuration::from_millis(59_999) } else { last.timestamp() };
        return Ok(end.min(now.timestamp()));
    }
    bail!("{text:?} is not a time: write 2026-03-08T03:12:00Z, 03:12 or -10m")
}

/// The present time in the local zone.
pub(super) fn local_now() -> Zoned {
    Zoned::now()
}

/// An instant in the local zone, to the second.
pub(super) fn show(at: headroom_policies::Timestamp) -> String {
    match Timestamp::from_millisecond(at.as_millis()) {
        Ok(timestamp) => timestamp.to_zoned(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S %Z").to_string(),
        Err(_) => at.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_as_people_type_them() {
        let now: Zoned = "2026-03-09T02:00:00+01:00[Europe/Berlin]".parse().unwrap();
        for (text, expected) in [
            ("2026-03-08T03:12:00Z", "2026-03-08T03:12:00Z"),
            ("03:12", "2026-03-08T02:12:59.999Z"),
            ("03:12:00", "2026-03-08T02:12:00Z"),
            ("01:30", "2026-03-09T00:30:59.999Z"),
            ("02:00", "2026-03-09T01:00:00Z"),
            ("-10m", "2026-03-09T00:50:00Z"),
            ("2h ago", "2026-03-08T23:00:00Z"),
        ] {
            assert_eq!(parse(text, &now).unwrap().to_string(), expected, "{text}");
        }
        assert!(parse("noon", &now).unwrap_err().to_string().contains("03:12"));
        assert!(parse("-x", &now).is_err());
        assert!(parse("-99999999999h", &now).unwrap_err().to_string().contains("before all time"));
    }
}
