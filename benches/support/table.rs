//! What was measured beside what is wanted.

/// A table of figures, with the goals of those that have one.
#[derive(Default)]
pub(crate) struct Table(Vec<[String; 4]>);

impl Table {
    /// A figure that should be no higher than its goal.
    pub(crate) fn at_most(&mut self, what: &str, measured: f64, goal: f64, unit: &str) {
        self.add(what, figure(measured, unit), format!("at most {}", figure(goal, unit)), verdict(measured <= goal));
    }

    /// A figure that should be no lower than its goal.
    pub(crate) fn at_least(&mut self, what: &str, measured: f64, goal: f64, unit: &str) {
        self.add(what, figure(measured, unit), format!("at least {}", figure(goal, unit)), verdict(measured >= goal));
    }

    /// A figure without a goal.
    pub(crate) fn plain(&mut self, what: &str, measured: f64, unit: &str) {
        self.add(what, figure(measured, unit), String::new(), "");
    }

    fn add(&mut self, what: &str, measured: String, goal: String, holds: &str) {
        self.0.push([what.to_owned(), measured, goal, holds.to_owned()]);
    }

    /// Prints it on standard output. A goal that is missed fails nothing: a busy machine misses it too.
    pub(crate) fn print(mut self, title: &str) {
        let head = [title, "measured", "goal", "holds"].map(str::to_owned);
        self.0.insert(0, head);
        let width = |column: usize| self.0.iter().map(|row| row[column].chars().count()).max().unwrap_or_default();
        let widths = [width(0), width(1), width(2), width(3)];
        println!();
        for row in &self.0 {
            let line = format!(
                "{:<a$}  {:>b$}  {:<c$}  {}",
                row[0],
                row[1],
                row[2],
                row[3],
                a = widths[0],
                b = widths[1],
                c = widths[2]
            );
            println!("{}", line.trim_end());
        }
    }
}

fn verdict(holds: bool) -> &'static str {
    if holds { "yes" } else { "NO" }
}

/// Three digits or so, and the unit.
fn figure(value: f64, unit: &str) -> String {
    let decimals = match value.abs() {
        size if size >= 100.0 || value.fract() == 0.0 => 0,
        size if size >= 10.0 => 1,
        size if size >= 1.0 => 2,
        _ => 3,
    };
    format!("{value:.decimals$} {unit}").trim_end().to_owned()
}
