//! Reads a trace file.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use csv::StringRecord;
use flate2::bufread::MultiGzDecoder;

use super::{Trace, TraceRequest};
use crate::time::ModelTime;

/// The first bytes of every gzip file.
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// The latest arrival a trace may have, in seconds: a hundred years.
const LATEST_ARRIVAL: f64 = 3.2e9;

/// Why a trace cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TraceError {
    /// The file cannot be opened or read.
    #[error("cannot read the trace {}: {source}", file.display())]
    Read {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line is no CSV, or is cut off.
    #[error("cannot read the trace {}: {source}; write it again as gzip CSV with a header line", file.display())]
    Csv {
        /// The file.
        file: PathBuf,
        /// What is wrong.
        source: csv::Error,
    },
    /// A column is not there.
    #[error(
        "the trace {} has no column {column}; its header line must name arrival_s, input_tokens and output_tokens",
        file.display()
    )]
    MissingColumn {
        /// The file.
        file: PathBuf,
        /// The column.
        column: &'static str,
    },
    /// A field does not hold what it must.
    #[error("the trace {}, line {line}, column {column}: {value:?} is not {wanted}", file.display())]
    Field {
        /// The file.
        file: PathBuf,
        /// The line, the header being 1.
        line: u64,
        /// The column.
        column: &'static str,
        /// What it holds.
        value: String,
        /// What it must hold.
        wanted: &'static str,
    },
    /// Arrivals go back in time.
    #[error(
        "the trace {}, line {line}, column arrival_s: {arrival} s is before {previous} s of the line above; \
         sort the file by arrival_s",
        file.display()
    )]
    Unsorted {
        /// The file.
        file: PathBuf,
        /// The line, the header being 1.
        line: u64,
        /// Its arrival, in seconds.
        arrival: f64,
        /// The arrival above, in seconds.
        previous: f64,
    },
}

impl Trace {
    /// Reads a trace from a CSV file, gzip or plain.
    pub fn read(file: &Path) -> Result<Self, TraceError> {
        let failed = |source| TraceError::Read { file: file.to_owned(), source };
        let mut input = BufReader::new(File::open(file).map_err(failed)?);
        let is_gzip = input.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
        if is_gzip { parse(file, MultiGzDecoder::new(input)) } else { parse(file, input) }
    }
}

/// Where the columns stand.
struct Columns {
    arrival: usize,
    input_tokens: usize,
    output_tokens: usize,
    client_id: Option<usize>,
    reusable_prefix_tokens: Option<usize>,
}

impl Columns {
    fn of(file: &Path, header: &StringRecord) -> Result<Self, TraceError> {
        let find = |column: &str| header.iter().position(|name| name.trim() == column);
        let need = |column| find(column).ok_or_else(|| TraceError::MissingColumn { file: file.to_owned(), column });
        Ok(Self {
            arrival: need("arrival_s")?,
            input_tokens: need("input_tokens")?,
            output_tokens: need("output_tokens")?,
            client_id: find("client_id"),
            reusable_prefix_tokens: find("reusable_prefix_tokens"),
        })
    }
}

/// One line, with what an error about it needs.
struct Line<'file> {
    file: &'file Path,
    number: u64,
    record: &'file StringRecord,
}

impl Line<'_> {
    fn field(&self, place: usize) -> &str {
        self.record.get(place).unwrap_or_default().trim()
    }

    fn wrong(&self, place: usize, column: &'static str, wanted: &'static str) -> TraceError {
        let value = self.field(place).to_owned();
        TraceError::Field { file: self.file.to_owned(), line: self.number, column, value, wanted }
    }

    fn arrival(&self, place: usize) -> Result<ModelTime, TraceError> {
        let seconds = self.field(place).parse().ok().filter(|seconds| (0.0..LATEST_ARRIVAL).contains(seconds));
        let wanted = "a number of seconds, at least 0, from the start of the file";
        seconds.map(ModelTime::from_seconds).ok_or_else(|| self.wrong(place, "arrival_s", wanted))
    }

    fn integer(&self, place: usize, column: &'static str) -> Result<u32, TraceError> {
        self.field(place).parse().map_err(|_| self.wrong(place, column, "an integer of at least 0"))
    }

    fn tokens(&self, place: usize, column: &'static str) -> Result<u32, TraceError> {
        let tokens = self.field(place).parse().ok().filter(|tokens| *tokens >= 1);
        tokens.ok_or_else(|| self.wrong(place, column, "an integer of at least 1; drop requests without tokens"))
    }

    fn request(&self, columns: &Columns) -> Result<TraceRequest, TraceError> {
        let reusable = columns.reusable_prefix_tokens.map(|place| self.integer(place, "reusable_prefix_tokens"));
        Ok(TraceRequest {
            arrival: self.arrival(columns.arrival)?,
            input_tokens: self.tokens(columns.input_tokens, "input_tokens")?,
            output_tokens: self.tokens(columns.output_tokens, "output_tokens")?,
            client_id: columns.client_id.map(|place| self.integer(place, "client_id")).transpose()?,
            reusable_prefix_tokens: reusable.transpose()?.unwrap_or(0),
        })
    }
}

fn parse(file: &Path, input: impl Read) -> Result<Trace, TraceError> {
    let failed = |source: csv::Error| TraceError::Csv { file: file.to_owned(), source };
    let mut reader = csv::Reader::from_reader(input);
    let columns = Columns::of(file, reader.headers().map_err(failed)?)?;
    let mut requests: Vec<TraceRequest> = Vec::new();
    let mut record = StringRecord::new();
    while reader.read_record(&mut record).map_err(failed)? {
        let number = record.position().map_or(0, csv::Position::line);
        let request = Line { file, number, record: &record }.request(&columns)?;
        if let Some(previous) = requests.last().filter(|previous| previous.arrival > request.arrival) {
            let (arrival, previous) = (request.arrival.as_seconds(), previous.arrival.as_seconds());
            return Err(TraceError::Unsorted { file: file.to_owned(), line: number, arrival, previous });
        }
        requests.push(request);
    }
    Ok(Trace { requests })
}

#[cfg(test)]
mod tests {
    use super::parse;
    use crate::trace::Trace;
    use std::path::Path;

    fn read(text: &str) -> Result<Trace, String> {
        parse(Path::new("t.csv.gz"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn columns_are_found_by_name() {
        let trace = read("client_id,output_tokens,arrival_s,input_tokens,x\n7,20,0.5,100,?\n8,1,0.50,1,?\n").unwrap();
        let [first, second] = trace.requests() else { panic!("{trace:?}") };
        assert_eq!((first.arrival.as_nanos(), first.input_tokens, first.output_tokens), (500_000_000, 100, 20));
        assert_eq!((first.client_id, second.client_id), (Some(7), Some(8)));
        assert_eq!(first.reusable_prefix_tokens, 0);
        let mooncake = read("arrival_s,input_tokens,output_tokens,reusable_prefix_tokens\n0.000,7322,490,512\n");
        assert_eq!(mooncake.unwrap().requests()[0].reusable_prefix_tokens, 512);
    }

    #[test]
    fn errors_name_file_line_column_and_remedy() {
        let header = "arrival_s,input_tokens,output_tokens\n";
        let cases = [
            (
                "arrival_s,input_tokens\n".to_owned(),
                "the trace t.csv.gz has no column output_tokens; its header line must name arrival_s, input_tokens and \
                 output_tokens",
            ),
            (
                format!("{header}0,1,1\n1,0,1\n"),
                "the trace t.csv.gz, line 3, column input_tokens: \"0\" is not an integer of at least 1; drop requests \
                 without tokens",
            ),
            (
                format!("{header}nan,1,1\n"),
                "the trace t.csv.gz, line 2, column arrival_s: \"nan\" is not a number of seconds, at least 0, from \
                 the start of the file",
            ),
            (
                format!("{header}2.5,1,1\n2.4,1,1\n"),
                "the trace t.csv.gz, line 3, column arrival_s: 2.4 s is before 2.5 s of the line above; sort the file \
                 by arrival_s",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(read(&text).unwrap_err(), expected);
        }
        let cut = read(&format!("{header}1,2\n")).unwrap_err();
        assert!(cut.contains("t.csv.gz") && cut.contains("line: 2"), "{cut}");
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let error = Trace::read(Path::new("no-such-trace.csv.gz")).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the trace no-such-trace.csv.gz: "), "{error}");
    }
}
