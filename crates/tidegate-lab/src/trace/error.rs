//! The errors of a trace as a whole; a bad line is not one of them.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::bad_lines::BadLines;

/// Why a trace cannot be read. A single bad line is not an error: see [`BadLines`].
#[non_exhaustive]
pub enum TraceError {
    /// The file cannot be opened.
    Open {
        /// The file, as given.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The source failed. Another attempt may return the rest, so the lines before it are not used
    /// as the trace.
    Read {
        /// The file, or the name of another source.
        name: String,
        /// The number of whole lines that had been read.
        lines_read: u64,
        /// The error of the system or of the decompressor.
        source: io::Error,
    },
    /// The trace is compressed in a format that is not supported.
    Compressed {
        /// The file, or the name of another source.
        name: String,
        /// The format it appears to have, such as `zstd`.
        kind: &'static str,
    },
    /// The trace is a text in UTF-16.
    Utf16 {
        /// The file, or the name of another source.
        name: String,
    },
    /// The trace has lines, but none that can be read.
    Unrecognised {
        /// The file, or the name of another source.
        name: String,
        /// The errors of the lines.
        bad_lines: BadLines,
    },
    /// Events did not fit in memory, and the temporary files that should hold them failed.
    Spill {
        /// The folder of the temporary files.
        dir: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => {
                write!(f, "cannot open the trace {}: {source}", path.display())
            }
            Self::Read { name, lines_read, source } => write!(
                f,
                "cannot read the trace {name} to its end: {source}; lines read before: {lines_read}"
            ),
            Self::Compressed { name, kind } => write!(
                f,
                "the trace {name} looks like {kind}; expected plain text, gzip or zstd: decompress it \
                 first and pipe it in (-)"
            ),
            Self::Utf16 { name } => write!(
                f,
                "the trace {name} is UTF-16; expected UTF-8, which `iconv -f UTF-16 -t UTF-8` makes of it"
            ),
            Self::Unrecognised { name, bad_lines } => unrecognised(f, name, bad_lines),
            Self::Spill { dir, source } => write!(
                f,
                "cannot keep sorted events in temporary files in {}: {source}; make room there, \
                 name another folder, or allow more memory",
                dir.display()
            ),
        }
    }
}

fn unrecognised(f: &mut fmt::Formatter<'_>, name: &str, bad: &BadLines) -> fmt::Result {
    write!(
        f,
        "nothing in {name} can be read as a request trace; expected NDJSON, one object such as \
         {{\"at_us\": 100000, \"descriptor\": {{\"key\": \"a\"}}, \"cost\": 1}} per line, or an \
         access log (common or combined format, JSON, HAProxy, Envoy, IIS, CloudFront, AWS load \
         balancer; for another its format can be given); lines read: {}",
        bad.count
    )?;
    bad.first.first().map_or(Ok(()), |first| write!(f, "; {first}"))
}

tidegate::debug_as_display!(TraceError);

impl std::error::Error for TraceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { source, .. } | Self::Read { source, .. } | Self::Spill { source, .. } => {
                Some(source)
            }
            Self::Compressed { .. } | Self::Utf16 { .. } | Self::Unrecognised { .. } => None,
        }
    }
}
