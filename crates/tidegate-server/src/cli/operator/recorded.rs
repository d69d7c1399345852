//! Reads the requests that running servers recorded, as traces for `tidegate replay`.

use std::fs::File;
use std::io::{self, Seek, Write};
use std::path::PathBuf;

use http_body_util::BodyExt;
use tidegate_lab::trace::Source;
use tokio::time::timeout;

use super::http_client::PATIENCE;
use super::server_url::{self, ServerUrl};
use super::{AccessFlags, ListenerClient, wait};
use crate::failure::Failure;

/// The servers whose recorded requests are replayed, and how to reach them.
#[derive(Debug, clap::Args)]
#[group(skip)]
pub(in super::super) struct RecordedFlags {
    /// The admin listener of a server that records (may be repeated)
    ///
    /// Its recorded requests are a trace; those of several servers are merged by time
    #[arg(long = "recorded", value_name = "URL", value_parser = server_url::parse)]
    servers: Vec<ServerUrl>,

    #[command(flatten)]
    access: AccessFlags,
}

impl RecordedFlags {
    /// Fetches what the servers recorded.
    ///
    /// # Errors
    /// Returns why a server does not give it, or not all of it.
    pub(in super::super) fn sources(&self) -> Result<Vec<Source>, Failure> {
        self.servers.iter().map(|url| self.source(url)).collect()
    }

    fn source(&self, url: &ServerUrl) -> Result<Source, Failure> {
        let listener = self.access.listener(url, "--recorded URL")?;
        Ok(Source::from_reader(url.to_string(), wait(fetch(&listener))?))
    }

    /// The servers in the form of files, for a headline.
    pub(in super::super) fn names(&self) -> impl Iterator<Item = PathBuf> {
        self.servers.iter().map(|url| url.authority().into())
    }
}

/// Fetches the whole trace of a server into a file without a name.
async fn fetch(listener: &ListenerClient) -> Result<File, Failure> {
    let url = listener.connection.url();
    let mut body = listener.stream("/v1/recorded").await?;
    let mut file = tempfile::tempfile().map_err(|error| unwritable(url, &error))?;
    // The time is for each piece, because a whole trace may take long.
    while let Some(frame) = timeout(PATIENCE, body.frame()).await.map_err(|_| broken(url))? {
        // A body that is shorter than its announced length is an error as well.
        let bytes = frame.map_err(|_| broken(url))?.into_data().unwrap_or_default();
        file.write_all(&bytes).map_err(|error| unwritable(url, &error))?;
    }
    file.rewind().map_err(|error| unwritable(url, &error))?;
    Ok(file)
}

fn unwritable(url: &ServerUrl, error: &io::Error) -> Failure {
    Failure::new(format!("cannot keep what {url} recorded in a temporary file: {error}"))
}

fn broken(url: &ServerUrl) -> Failure {
    Failure::new(format!("{url} did not send all that it recorded: try again"))
}
