//! From successive samples to one number over a window: the mean of a gauge, the rate of a counter, the quantile
//! of a histogram. Bounded memory whatever the interval; time is an argument.

mod counter;
mod gauge;
mod histogram;

pub use counter::{CounterWindow, Rate};
pub use gauge::GaugeWindow;
pub use histogram::{Bounds, HistogramWindow, MINIMUM_OBSERVATIONS, Quantile, QuantileValue};
