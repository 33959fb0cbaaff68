//! The exposition formats: our own scanner of the Prometheus text format (0.0.4 and 1.0.0) and of `OpenMetrics`.
//!
//! Sources: "Exposition formats" in the Prometheus documentation, and the `OpenMetrics` 1.0 specification.
//!
//! A page is read in chunks as they arrive. Lines nobody wants are passed over without being kept; one bad line
//! costs that line. Bytes, lines and series are capped. Labels are unescaped only when a series is seen for the
//! first time: afterwards its line is recognised by its bytes ([`Layout`]).

mod content;
mod layout;
mod lines;
mod names;
mod number;
mod page;
mod sample;
mod scanner;

pub use content::{Format, NotAnExposition};
pub use layout::{Labels, Layout, Series, Slot};
pub use names::{NameId, NameSet};
pub use page::{Layouts, Page, PageReader, Scrutiny};
pub use scanner::{Limits, LineCounts, PageError};
