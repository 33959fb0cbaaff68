//! Targets, durations and ports as users write them.

use std::time::Duration;

use headroom_policies::signal::{SignalClass, Unit};
use headroom_policies::{Milli, Signal};

use super::FieldError;
use super::wire::IntOrString;

/// The most ports a range may name.
const MOST_PORTS: usize = 64;

/// A target: counts as `5`, `"5"` or `"2500m"`, ratios as `75%` or `"0.75"`, latencies as `800ms`.
pub(super) fn target(signal: Signal, written: &IntOrString, field: &str) -> Result<Milli, FieldError> {
    let error = |message: String| Err(FieldError::new(field, message));
    if let IntOrString::Float(number) = written {
        return error(format!("a fraction is written in quotes: \"{number}\""));
    }
    let text = match written {
        IntOrString::Int(number) => number.to_string(),
        IntOrString::Float(number) => number.to_string(),
        IntOrString::Text(text) => text.trim().to_owned(),
    };
    let target = match signal.class() {
        SignalClass::Latency => latency(&text, field)?,
        SignalClass::Ratio => ratio(&text, field)?,
        SignalClass::Additive => match text.parse::<Milli>() {
            Ok(target) if !text.ends_with('%') => target,
            _ => {
                let what = unit_words(signal.unit());
                return error(format!(
                    "{text:?} is not a number of {what} for each replica: write 5, \"5\" or \"2500m\""
                ));
            }
        },
    };
    if target > Milli::ZERO { Ok(target) } else { error(format!("{text:?} must be above 0")) }
}

fn unit_words(unit: Unit) -> &'static str {
    match unit {
        Unit::Requests => "requests",
        Unit::Fraction => "a fraction",
        Unit::Tokens => "tokens",
        Unit::TokensPerSecond => "tokens a second",
        Unit::RequestsPerSecond => "requests a second",
        Unit::PreemptionsPerSecond => "preemptions a second",
        Unit::Seconds => "seconds",
    }
}

fn ratio(text: &str, field: &str) -> Result<Milli, FieldError> {
    let one = Milli::from_units(1);
    if let Some(percent) = text.strip_suffix('%') {
        let parsed = percent.trim().parse::<headroom_policies::Quantity>().ok();
        let thousandths =
            parsed.map(|quantity| headroom_policies::Quantity::from_nano(quantity.nano() / 100).to_milli());
        return match thousandths {
            Some(target) if target <= one => Ok(target),
            _ => Err(FieldError::new(field, format!("{text:?} is not a percentage from 0% to 100%"))),
        };
    }
    match text.parse::<Milli>() {
        Ok(target) if target <= one && target > Milli::ZERO => Ok(target),
        Ok(target) if target > one => {
            let message =
                format!("{text:?} is above 1, the whole cache: write {text}% or \"{}\"", target.to_f64() / 100.0);
            Err(FieldError::new(field, message))
        }
        _ => Err(FieldError::new(field, format!("{text:?} is not a fraction: write 75% or \"0.75\""))),
    }
}

fn latency(text: &str, field: &str) -> Result<Milli, FieldError> {
    let parsed = duration(text, field).map_err(|_| {
        FieldError::new(field, format!("{text:?} is not a latency: write it with its unit, such as 800ms or 2s"))
    })?;
    let nanos = i128::try_from(parsed.as_nanos()).unwrap_or(i128::MAX);
    Ok(headroom_policies::Quantity::from_nano(nanos).to_milli())
}

/// A duration such as `10s`, `5m` or `1h30m`.
pub(super) fn duration(text: &str, field: &str) -> Result<Duration, FieldError> {
    humantime::parse_duration(text.trim()).map_err(|error| {
        let message = format!("{text:?} is not a duration: {error}; write it with its unit, such as 10s or 5m");
        FieldError::new(field, message)
    })
}

/// A duration within a range.
pub(super) fn duration_within(
    text: Option<&str>,
    field: &str,
    default: Duration,
    (least, most): (Duration, Duration),
) -> Result<Duration, FieldError> {
    let Some(text) = text else { return Ok(default) };
    let value = duration(text, field)?;
    if (least..=most).contains(&value) {
        return Ok(value);
    }
    let (least, most) = (humantime::format_duration(least), humantime::format_duration(most));
    Err(FieldError::new(field, format!("{text:?} is not from {least} to {most}")))
}

/// Ports: numbers and ranges such as `8000-8007`. Names need a pod to look them up in.
pub(super) fn ports(written: &[IntOrString], field: &str) -> Result<Vec<u16>, FieldError> {
    let mut ports = Vec::new();
    for (index, entry) in written.iter().enumerate() {
        let field = format!("{field}[{index}]");
        let text = match entry {
            IntOrString::Int(number) => number.to_string(),
            IntOrString::Float(number) => number.to_string(),
            IntOrString::Text(text) => text.trim().to_owned(),
        };
        let port = |text: &str| text.trim().parse::<u16>().ok().filter(|port| *port > 0);
        let range = text.split_once('-').and_then(|(first, last)| Some(port(first)?..=port(last)?));
        match (port(&text), range) {
            (Some(port), _) => ports.push(port),
            (None, Some(range)) if !range.is_empty() => ports.extend(range),
            (None, _) if is_port_name(&text) => {
                let message = format!("{text:?} is a port's name, which only a pod can tell: write its number");
                return Err(FieldError::new(field, message));
            }
            _ => {
                let message = format!("{text:?} is neither a port from 1 to 65535 nor a range such as 8000-8007");
                return Err(FieldError::new(field, message));
            }
        }
    }
    ports.sort_unstable();
    ports.dedup();
    if ports.len() > MOST_PORTS {
        return Err(FieldError::new(field, format!("{} ports are more than {MOST_PORTS}", ports.len())));
    }
    Ok(ports)
}

/// Whether this could name a port of a container: letters, digits and dashes, with a letter at least.
fn is_port_name(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        && text.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(signal: Signal, text: &str) -> Result<i64, String> {
        target(signal, &IntOrString::Text(text.into()), "f").map(Milli::get).map_err(|error| error.to_string())
    }

    #[test]
    fn targets_in_their_unit() {
        use Signal::{KVCacheUtilization, TimeToFirstToken, WaitingRequests};
        for (signal, text, expected) in [
            (WaitingRequests, "5", 5000),
            (WaitingRequests, "2500m", 2500),
            (KVCacheUtilization, "75%", 750),
            (KVCacheUtilization, "0.75", 750),
            (KVCacheUtilization, "12.5%", 125),
            (KVCacheUtilization, "1", 1000),
            (TimeToFirstToken, "800ms", 800),
            (TimeToFirstToken, "2s", 2000),
        ] {
            assert_eq!(read(signal, text), Ok(expected), "{text}");
        }
        assert_eq!(target(WaitingRequests, &IntOrString::Int(5), "f"), Ok(Milli::from_units(5)));
    }

    /// B-17: a percentage without its sign would ask for next to nothing while the cache is full.
    #[test]
    fn unit_mistakes_are_refused_with_the_remedy() {
        use Signal::{KVCacheUtilization, TimeToFirstToken, WaitingRequests};
        for (signal, text, says) in [
            (KVCacheUtilization, "75", "75% or \"0.75\""),
            (KVCacheUtilization, "150%", "from 0% to 100%"),
            (KVCacheUtilization, "full", "0.75"),
            (WaitingRequests, "5%", "requests"),
            (WaitingRequests, "0", "above 0"),
            (WaitingRequests, "-1", "above 0"),
            (TimeToFirstToken, "800", "800ms"),
            (TimeToFirstToken, "0s", "above 0"),
        ] {
            let message = read(signal, text).unwrap_err();
            assert!(message.contains(says), "{text}: {message}");
        }
        let float = target(KVCacheUtilization, &IntOrString::Float(0.75), "f").unwrap_err();
        assert!(float.message.contains("\"0.75\""), "{float}");
    }

    #[test]
    fn ports_and_ranges() {
        let read = |entries: &[IntOrString]| ports(entries, "f").map_err(|error| error.to_string());
        let text = |text: &str| IntOrString::Text(text.into());
        assert_eq!(read(&[IntOrString::Int(8000), text("8002-8004")]), Ok(vec![8000, 8002, 8003, 8004]));
        for (entry, says) in [
            (IntOrString::Int(0), "1 to 65535"),
            (IntOrString::Int(70_000), "1 to 65535"),
            (text("8004-8002"), "8000-8007"),
            (text("metrics"), "name"),
            (text("1-1000"), "more than"),
            (text("80_80"), "neither"),
        ] {
            let message = read(std::slice::from_ref(&entry)).unwrap_err();
            assert!(message.contains(says), "{entry:?}: {message}");
        }
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("1h 30m", "f"), Ok(Duration::from_secs(5400)));
        assert!(duration("90", "f").unwrap_err().message.contains("10s or 5m"));
    }
}
