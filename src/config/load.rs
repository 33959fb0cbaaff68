//! Reading resources from YAML or JSON files.

use std::collections::BTreeMap;
use std::fmt;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::resource;
use crate::api::{AutoscalerSpec, FieldError, KIND};

/// A file larger than this is not a configuration.
const MOST_BYTES: u64 = 16 << 20;

/// What is wrong with a configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or folder cannot be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// Which.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A file is no YAML.
    #[error("{path} is not YAML: {message}")]
    Syntax {
        /// Which.
        path: String,
        /// Where and why.
        message: String,
    },
    /// A resource has a mistake.
    #[error("{object} in {path}: {error}")]
    Field {
        /// The file.
        path: String,
        /// The resource.
        object: String,
        /// The mistake.
        error: FieldError,
    },
    /// Two resources have the same name.
    #[error("{object} is in {path} and in {other}; remove one of them")]
    Twice {
        /// The resource.
        object: String,
        /// One file.
        path: String,
        /// The other.
        other: String,
    },
    /// Nothing to do.
    #[error(
        "there is no {KIND} in {0}; of a folder its own .yaml, .yml and .json files are read, and each must hold one"
    )]
    Empty(String),
}

/// Everything that is wrong, one a line.
#[derive(Debug)]
pub struct ConfigErrors(pub Vec<ConfigError>);

impl fmt::Display for ConfigErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigErrors {}

/// A configuration without mistakes.
#[derive(Debug)]
pub struct Loaded {
    /// The autoscalers, by their keys.
    pub autoscalers: Vec<AutoscalerSpec>,
    /// Differs whenever a file's content or name does.
    pub fingerprint: u64,
}

/// Reads a file, or every `.yaml`, `.yml` and `.json` file of a folder.
///
/// # Errors
/// Everything that is wrong with any of them.
pub fn load(path: &Path) -> Result<Loaded, ConfigErrors> {
    let (mut errors, mut files, mut found) = (Vec::new(), Vec::new(), BTreeMap::new());
    for file in files_of(path).map_err(|error| ConfigErrors(vec![error]))? {
        // A pipe in a folder would be waited for without end.
        let is_file = !path.is_dir() || std::fs::metadata(&file).is_ok_and(|found| found.is_file());
        match if is_file { read(&file) } else { Err(not_a_file(&file)) } {
            Ok(text) => files.push((file.display().to_string(), text)),
            Err(source) => errors.push(ConfigError::Read { path: file.display().to_string(), source }),
        }
    }
    let fingerprint = fingerprint(&files);
    for (file, text) in &files {
        match documents(file, text) {
            // A file being written is empty for a moment: that must not stop what it is about.
            Ok(documents) if documents.is_empty() => errors.push(ConfigError::Empty(file.clone())),
            Ok(documents) => {
                for (index, document) in documents.into_iter().enumerate() {
                    match autoscaler(file, index, &document) {
                        Ok(spec) => add(&mut found, &mut errors, file, spec),
                        Err(mistakes) => errors.extend(mistakes),
                    }
                }
            }
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() && files.is_empty() {
        errors.push(ConfigError::Empty(path.display().to_string()));
    }
    if errors.is_empty() {
        Ok(Loaded { autoscalers: found.into_values().map(|(spec, _)| spec).collect(), fingerprint })
    } else {
        Err(ConfigErrors(errors))
    }
}

fn fingerprint(files: &[(String, String)]) -> u64 {
    let mut hasher = DefaultHasher::new();
    files.hash(&mut hasher);
    hasher.finish()
}

type Found = BTreeMap<crate::api::Key, (AutoscalerSpec, String)>;

fn add(found: &mut Found, errors: &mut Vec<ConfigError>, file: &str, spec: AutoscalerSpec) {
    if let Some((_, other)) = found.get(&spec.key) {
        errors.push(ConfigError::Twice { object: spec.key.to_string(), path: file.to_owned(), other: other.clone() });
    } else {
        found.insert(spec.key.clone(), (spec, file.to_owned()));
    }
}

/// The files to read, in the order of their names.
fn files_of(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    if !path.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let failed = |source| ConfigError::Read { path: path.display().to_string(), source };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let file = entry.map_err(failed)?.path();
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let wanted = file.extension().is_some_and(|own| ["yaml", "yml", "json"].iter().any(|known| own == *known));
        // A mounted ConfigMap keeps its versions in hidden folders behind links.
        if wanted && !name.starts_with('.') {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

/// Why an entry of a folder is not read.
fn not_a_file(entry: &Path) -> io::Error {
    match std::fs::metadata(entry) {
        Err(error) => error,
        Ok(_) => io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file; move it out of the folder"),
    }
}

fn read(file: &Path) -> io::Result<String> {
    let mut text = String::new();
    // A pipe or device does not tell its size, or never ends.
    File::open(file)?.take(MOST_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MOST_BYTES {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large to be a configuration"));
    }
    Ok(text)
}

/// The documents of a file that are not empty.
fn documents(file: &str, text: &str) -> Result<Vec<Value>, ConfigError> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text)
        .map_err(|error| ConfigError::Syntax { path: file.to_owned(), message: error.to_string() })?;
    Ok(documents.into_iter().filter(|document| !document.is_null()).collect())
}

fn autoscaler(file: &str, index: usize, document: &Value) -> Result<AutoscalerSpec, Vec<ConfigError>> {
    let object = name_of(document, index);
    let mistake = |error: FieldError| ConfigError::Field { path: file.to_owned(), object: object.clone(), error };
    if let Some(kind) = document.get("kind").and_then(Value::as_str)
        && kind != KIND
    {
        return Err(vec![mistake(FieldError::new("kind", format!("{kind:?} is not read here; only {KIND} is")))]);
    }
    resource::autoscaler(document).map_err(|errors| errors.into_iter().map(mistake).collect())
}

/// `namespace/name`, as far as they can be told.
fn name_of(document: &Value, index: usize) -> String {
    let text = |field: &str| document.get("metadata").and_then(|metadata| metadata.get(field)).and_then(Value::as_str);
    match text("name") {
        Some(name) => format!("{}/{name}", text("namespace").unwrap_or("default")).escape_debug().to_string(),
        None => format!("document {}", index + 1),
    }
}
