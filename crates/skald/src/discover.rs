//! Finding the host: flags and environment first, then the host started last, then the default data folder.

use std::path::Path;

use http::Uri;

use crate::cli::Target;
use crate::failure::Failure;
use crate::files::{HostFile, LastHost, default_data, host_file, last_host_file, read_json, token_file};

/// Where the host is and how to speak to it. No `Debug`: it holds a token.
#[derive(Clone)]
pub struct Found {
    /// `HOST:PORT`.
    pub authority: String,
    /// The API token.
    pub token: String,
}

impl Target {
    /// Looks for the host. Called again when it cannot be reached: a host that starts anew may have another port.
    pub fn find(&self) -> Result<Found, Failure> {
        let (url, data) = self.place()?;
        let authority = authority(&url)?;
        let token = match &self.token {
            Some(token) if token.trim().is_empty() => {
                return Err(Failure::usage("The token is empty: give one with --token or SKALD_TOKEN."));
            }
            Some(token) => token.trim().to_owned(),
            None => match data {
                Some(data) => read_token(&token_file(&data))?,
                None => {
                    return Err(Failure::usage(
                        "There is no token for this address: make one on the host with `skald token create` and give it as SKALD_TOKEN.",
                    ));
                }
            },
        };
        Ok(Found { authority, token })
    }

    fn place(&self) -> Result<(String, Option<std::path::PathBuf>), Failure> {
        if let Some(url) = &self.url {
            // The token of the data folder named, or of the host started last if that is the one: another host's
            // address must not be sent this one's token.
            let data = match &self.data {
                Some(data) => Some(data.clone()),
                None => last_host()?.filter(|l| same(url, &current_url(l))).map(|l| l.data),
            };
            return Ok((url.clone(), data));
        }
        if let Some(data) = &self.data {
            return of_folder(data);
        }
        if let Some(last) = last_host()? {
            return Ok((current_url(&last), Some(last.data)));
        }
        match default_data() {
            Some(data) => of_folder(&data),
            None => {
                Err(Failure::usage("There is no home folder to look in: name the data folder with --data."))
            }
        }
    }
}

fn last_host() -> Result<Option<LastHost>, Failure> {
    let Some(path) = last_host_file() else { return Ok(None) };
    read_json(&path).map_err(|e| unreadable(&path, &e))
}

/// The folder's own record is newer than the user's: another user may have started the host since.
fn current_url(last: &LastHost) -> String {
    match read_json::<HostFile>(&host_file(&last.data)) {
        Ok(Some(host)) => host.url,
        _ => last.url.clone(),
    }
}

fn of_folder(data: &Path) -> Result<(String, Option<std::path::PathBuf>), Failure> {
    let path = host_file(data);
    match read_json::<HostFile>(&path) {
        Ok(Some(host)) => Ok((host.url, Some(data.to_owned()))),
        Ok(None) => Err(Failure::unreachable(format!(
            "No host has run with the data folder {} yet: start one with `skald serve`.",
            data.display()
        ))),
        Err(e) => Err(unreadable(&path, &e)),
    }
}

fn read_token(path: &Path) -> Result<String, Failure> {
    match std::fs::read_to_string(path) {
        Ok(token) if !token.trim().is_empty() => Ok(token.trim().to_owned()),
        Ok(_) => Err(Failure::usage(format!(
            "{} is empty: restart the host to have it written anew.",
            path.display()
        ))),
        Err(e) => Err(unreadable(path, &e)),
    }
}

fn unreadable(path: &Path, e: &std::io::Error) -> Failure {
    Failure::usage(format!(
        "{} cannot be read ({e}): run this as the host's user, or give --url and SKALD_TOKEN.",
        path.display()
    ))
}

fn same(a: &str, b: &str) -> bool {
    matches!((authority(a), authority(b)), (Ok(a), Ok(b)) if a == b)
}

/// `HOST:PORT` of an address of ours. The host itself speaks plain http; what stands in front of it is for browsers.
fn authority(url: &str) -> Result<String, Failure> {
    let wrong = || {
        Failure::usage("The host's address must look like http://127.0.0.1:8787: correct --url or SKALD_URL.")
    };
    let uri: Uri = url.parse().map_err(|_| wrong())?;
    let authority = uri.authority().ok_or_else(wrong)?;
    let plain = uri.scheme_str() == Some("http") && matches!(uri.path(), "" | "/") && uri.query().is_none();
    if !plain || authority.as_str().contains('@') || authority.host().is_empty() {
        return Err(wrong());
    }
    Ok(format!("{}:{}", authority.host(), authority.port_u16().unwrap_or(80)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_addresses_are_taken() {
        assert_eq!(authority("http://127.0.0.1:8787/").ok().as_deref(), Some("127.0.0.1:8787"));
        assert_eq!(authority("http://[::1]:8787").ok().as_deref(), Some("[::1]:8787"));
        assert_eq!(authority("http://localhost").ok().as_deref(), Some("localhost:80"));
        for url in [
            "https://127.0.0.1:1",
            "127.0.0.1:8787",
            "http://",
            "http://a@b:1",
            "http://a:1/path",
            "ws://a:1",
            "",
        ] {
            assert_eq!(authority(url).err().map(|f| f.code), Some(2), "{url}");
        }
    }
}
