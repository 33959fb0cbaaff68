//! A response's body into a page, as its bytes arrive.

use std::io::Write;

use flate2::write::GzDecoder;
use http_body_util::BodyExt;
use hyper::body::Incoming;

use super::state::{ScrapeFailure, TargetState};
use crate::exposition::{NotAnExposition, Page, PageError, PageReader};

/// Compressed bytes are inflated so many at a time: they can grow a thousandfold.
const INFLATED_AT_ONCE: usize = 512;

/// Feeds a body to a reader that has begun a page. A body that breaks off is refused as a whole.
pub(super) async fn read_body(mut body: Incoming, gzip: bool, reader: &mut PageReader) -> Result<Page, ScrapeFailure> {
    let mut inflater = gzip.then(|| GzDecoder::new(Vec::new()));
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            let message = format!("the body broke off, so none of it counts: {error}");
            ScrapeFailure::new(TargetState::Malformed, message)
        })?;
        let Ok(chunk) = frame.into_data() else { continue };
        match &mut inflater {
            Some(inflater) => inflate(inflater, &chunk, reader)?,
            None => reader.feed(&chunk).map_err(|error| refused(&error))?,
        }
    }
    if let Some(mut inflater) = inflater {
        inflater.try_finish().map_err(|error| broken_gzip(&error))?;
        reader.feed(inflater.get_ref()).map_err(|error| refused(&error))?;
    }
    reader.finish().map_err(|error| refused(&error))
}

fn inflate(inflater: &mut GzDecoder<Vec<u8>>, chunk: &[u8], reader: &mut PageReader) -> Result<(), ScrapeFailure> {
    for part in chunk.chunks(INFLATED_AT_ONCE) {
        inflater.write_all(part).map_err(|error| broken_gzip(&error))?;
        reader.feed(inflater.get_ref()).map_err(|error| refused(&error))?;
        inflater.get_mut().clear();
    }
    Ok(())
}

fn broken_gzip(error: &std::io::Error) -> ScrapeFailure {
    ScrapeFailure::new(TargetState::Malformed, format!("the body cannot be inflated: {error}"))
}

fn refused(error: &PageError) -> ScrapeFailure {
    match error {
        PageError::NotAnExposition(other) => not_an_exposition(*other),
        PageError::TooLarge(_) | PageError::TooManySeries(_) => {
            ScrapeFailure::new(TargetState::TooLarge, error.to_string())
        }
    }
}

/// An HTML page comes from a proxy or a login in between; anything else is the server's own.
pub(super) fn not_an_exposition(other: NotAnExposition) -> ScrapeFailure {
    let state = match other {
        NotAnExposition::Html => TargetState::Blocked,
        _ => TargetState::Malformed,
    };
    ScrapeFailure::new(state, format!("the body is not an exposition but {other}"))
}
