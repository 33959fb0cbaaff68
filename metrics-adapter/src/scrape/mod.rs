//! Scraping model servers.

mod body;
mod client;
mod pace;
mod scraper;
mod state;
mod target;

pub use client::{CredentialsError, ScrapeClient};
pub use scraper::{RateLimit, ScrapeSink, Scraped, Scraper};
pub use state::{ScrapeFailure, TargetState};
pub use target::{ClientIdentity, Credentials, ScrapeSettings, Target, TargetId};
