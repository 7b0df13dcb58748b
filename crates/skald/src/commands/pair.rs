//! `skald pair`: the QR code, the verification code, then the decision.

use std::io::IsTerminal;
use std::time::Duration;

use http::Method;
use qrcode::{Color, EcLevel, QrCode};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::sleep;

use crate::cli::{PairArgs, Target};
use crate::client::{Client, segment};
use crate::commands::devices::{DEVICES, authorize, name, revoke};
use crate::failure::{Exit, Failure, LAPSED, REJECTED};
use crate::output::{self, items, text};
use crate::signals::Signals;

const PAIRING: &str = "/api/plugin/mobile-connector/pairing";
/// How often the host is asked whether a device came.
const LOOK: Duration = Duration::from_millis(700);

/// Pairs a device.
pub async fn pair(target: Target, args: PairArgs) -> Result<Exit, Failure> {
    let mut signals = Signals::new()?;
    let client = Client::new(target)?;
    let body = args.ttl.map_or_else(|| json!({}), |ttl| json!({"ttl": ttl.as_secs()}));
    let window = client.json(Method::POST, PAIRING, Some(&body)).await?;
    let code = text(&window, "code").to_owned();
    show(&client, text(&window, "qr_url")).await?;
    eprintln!("Scan this with the Skald app. Ctrl-C gives up.");

    let device = tokio::select! {
        device = wait(&client, &code) => device?,
        () = signals.recv() => return Ok(Exit::Code(LAPSED)),
    };
    let Some(key) = device else { return Ok(Exit::Code(LAPSED)) };
    let device = find(&client, &key).await?;
    let shown = output::clean_line(&name(&device));
    if text(&device, "state") == "authorized" {
        output::line(&format!("{shown} is paired and admitted."))?;
        return Ok(Exit::ok());
    }
    output::line(&format!("{shown} wants to be admitted."))?;
    output::line(&format!("Verification code: {}", output::clean_line(text(&device, "verification_code"))))?;
    eprint!("Does the device show the same code? Admit it? [y/N] ");
    let answer = tokio::select! {
        answer = read_line() => answer,
        () = signals.recv() => None,
    };
    match answer.as_deref().map(str::trim).map(str::to_lowercase).as_deref() {
        Some("y" | "yes") => {
            authorize(&client, &key).await?;
            output::line(&format!("{shown} is admitted."))?;
            Ok(Exit::ok())
        }
        Some(_) => {
            revoke(&client, &key).await?;
            output::line(&format!("{shown} is refused."))?;
            Ok(Exit::Code(REJECTED))
        }
        // Without an answer nothing is decided.
        None => {
            eprintln!();
            eprintln!(
                "skald: nothing was decided; use `skald devices authorize {0}` or `skald devices revoke {0}`.",
                key.get(..16).unwrap_or(&key)
            );
            Ok(Exit::Code(LAPSED))
        }
    }
}

async fn read_line() -> Option<String> {
    let mut line = String::new();
    match BufReader::new(tokio::io::stdin()).read_line(&mut line).await {
        Ok(n) if n > 0 => Some(line),
        _ => None,
    }
}

async fn wait(client: &Client, code: &str) -> Result<Option<String>, Failure> {
    let path = format!("{PAIRING}/{}", segment(code));
    loop {
        let window = client.get(&path).await?;
        match text(&window, "state") {
            "open" => sleep(LOOK).await,
            "paired" => return Ok(Some(key_of(&window)?)),
            "superseded" => {
                eprintln!("skald: another pairing was started, so this code is void.");
                return Ok(None);
            }
            _ => {
                eprintln!("skald: the code expired before a device came; start again with `skald pair`.");
                return Ok(None);
            }
        }
    }
}

fn key_of(window: &Value) -> Result<String, Failure> {
    // The device stands in the answer either whole or by its key alone.
    let device = window.get("device").unwrap_or(&Value::Null);
    let key = device.as_str().unwrap_or_else(|| text(device, "key"));
    if key.is_empty() {
        return Err(Failure::unreachable("The host did not say which device came: see `skald devices`."));
    }
    Ok(key.to_owned())
}

async fn find(client: &Client, key: &str) -> Result<Value, Failure> {
    let devices = client.get(DEVICES).await?;
    items(&devices)
        .iter()
        .find(|d| text(d, "key") == key)
        .cloned()
        .ok_or_else(|| Failure::failed("The device has gone again: start anew with `skald pair`."))
}

/// Draws the host's picture in the terminal. What it says stays in memory: the pairing token in it is a secret.
async fn show(client: &Client, url: &str) -> Result<(), Failure> {
    let path = path_of(url, client.authority());
    let reply = client.call(Method::GET, &path, None, Duration::ZERO).await.map_err(|e| client.failure(e))?;
    let strange = || {
        Failure::failed("The host's QR code cannot be read: open the pairing page in the browser instead.")
    };
    let content = read_picture(&reply.body).ok_or_else(strange)?;
    let drawn = draw(&content, std::io::stdout().is_terminal()).ok_or_else(strange)?;
    output::line(&drawn)
}

/// The path of an address, which may be whole or a path already.
fn path_of(url: &str, authority: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let rest = rest.strip_prefix(authority).unwrap_or(rest);
    match rest.find('/') {
        Some(slash) => rest[slash..].to_owned(),
        None => format!("/{rest}"),
    }
}

fn read_picture(png: &[u8]) -> Option<String> {
    let picture = image::load_from_memory_with_format(png, image::ImageFormat::Png).ok()?.into_luma8();
    let (width, height) = (picture.width() as usize, picture.height() as usize);
    let mut prepared = rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| {
        picture.as_raw().get(y * width + x).copied().unwrap_or(255)
    });
    prepared.detect_grids().first()?.decode().ok().map(|(_, content)| content)
}

/// Two modules to a character, with a quiet border. On a terminal in black on white, whatever its own colours are:
/// many cameras do not read the inverse.
fn draw(content: &str, coloured: bool) -> Option<String> {
    const BORDER: i64 = 2;
    let code = QrCode::with_error_correction_level(content, EcLevel::L).ok()?;
    let width = code.width() as i64;
    let modules = code.to_colors();
    let dark = |x: i64, y: i64| {
        let inside = (0..width).contains(&x) && (0..width).contains(&y);
        inside && modules.get((y * width + x) as usize) == Some(&Color::Dark)
    };
    let mut out = String::new();
    for y in (-BORDER..width + BORDER).step_by(2) {
        if coloured {
            out.push_str("\x1b[38;5;16;48;5;231m");
        }
        for x in -BORDER..width + BORDER {
            out.push(match (dark(x, y), dark(x, y + 1)) {
                (true, true) => '█',
                (true, false) => '▀',
                (false, true) => '▄',
                (false, false) => ' ',
            });
        }
        out.push_str(if coloured { "\x1b[0m\n" } else { "\n" });
    }
    Some(out.trim_end_matches('\n').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Draws the characters back into a picture, as a camera would see it.
    fn seen(drawn: &str) -> String {
        let rows: Vec<Vec<char>> = drawn.lines().map(|l| l.chars().collect()).collect();
        let (scale, width, height) = (4, rows[0].len(), rows.len() * 2);
        let mut picture =
            image::GrayImage::from_pixel((width * scale) as u32, (height * scale) as u32, image::Luma([255]));
        for (x, y, pixel) in picture.enumerate_pixels_mut() {
            let (column, row) = (x as usize / scale, y as usize / scale);
            let dark = match rows[row / 2][column] {
                '█' => true,
                '▀' => row % 2 == 0,
                '▄' => row % 2 == 1,
                _ => false,
            };
            if dark {
                *pixel = image::Luma([0]);
            }
        }
        let mut png = std::io::Cursor::new(Vec::new());
        picture.write_to(&mut png, image::ImageFormat::Png).unwrap();
        read_picture(png.get_ref()).unwrap()
    }

    #[test]
    fn what_is_drawn_reads_as_what_was_given() {
        let content = format!("{{\"v\":1,\"token\":\"{}\"}}", "5d".repeat(200));
        assert_eq!(seen(&draw(&content, false).unwrap()), content);
    }

    #[test]
    fn the_picture_is_fetched_from_the_host_itself() {
        for url in
            ["/api/x?code=1", "http://127.0.0.1:1/api/x?code=1", "http://elsewhere.example/api/x?code=1"]
        {
            assert_eq!(path_of(url, "127.0.0.1:1"), "/api/x?code=1");
        }
    }
}
