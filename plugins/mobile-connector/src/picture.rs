//! The pictures of the pairing page: the QR while it can be scanned, and words once it cannot.

use image::{GrayImage, ImageEncoder, Luma, codecs::png::PngEncoder};
use qrcode::{Color, EcLevel, QrCode};

/// The picture could not be drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the picture could not be drawn")]
pub struct DrawError;

/// Pixels a module: large enough for a phone's camera from a normal screen, where the page draws it pixel by pixel.
const MODULE: u32 = 5;
/// Modules of quiet around the code (ISO 18004 asks for four).
const QUIET: u32 = 4;
const WHITE: Luma<u8> = Luma([255]);
const BLACK: Luma<u8> = Luma([0]);

/// The QR of `text` as a PNG. A screen damages no modules, so the lowest level of correction serves best: its modules are
/// fewer and larger.
pub fn qr_png(text: &str) -> Result<Vec<u8>, DrawError> {
    let code = QrCode::with_error_correction_level(text.as_bytes(), EcLevel::L).map_err(|_| DrawError)?;
    let width = u32::try_from(code.width()).map_err(|_| DrawError)?;
    let side = (width + 2 * QUIET) * MODULE;
    let image = GrayImage::from_fn(side, side, |x, y| {
        let (column, row) = ((x / MODULE).wrapping_sub(QUIET), (y / MODULE).wrapping_sub(QUIET));
        let dark = column < width && row < width && code[(column as usize, row as usize)] == Color::Dark;
        if dark { BLACK } else { WHITE }
    });
    png(&image)
}

/// A square picture with words: a headline and lines below it.
pub fn words_png(headline: &str, lines: &[&str]) -> Result<Vec<u8>, DrawError> {
    const SIDE: u32 = 480;
    let mut image = GrayImage::from_pixel(SIDE, SIDE, WHITE);
    for (x, y, pixel) in image.enumerate_pixels_mut() {
        let border = x.min(y).min(SIDE - 1 - x).min(SIDE - 1 - y);
        if (8..12).contains(&border) {
            *pixel = Luma([170]);
        }
    }
    let height = 7 * 8 + 40 + u32::try_from(lines.len()).map_err(|_| DrawError)? * 36;
    let mut top = (SIDE.saturating_sub(height)) / 2;
    write_centred(&mut image, headline, top, 8);
    top += 7 * 8 + 40;
    for line in lines {
        write_centred(&mut image, line, top, 3);
        top += 36;
    }
    png(&image)
}

fn write_centred(image: &mut GrayImage, text: &str, top: u32, scale: u32) {
    let length = u32::try_from(text.chars().count()).unwrap_or(u32::MAX);
    let width = length.saturating_mul(6).saturating_sub(1).saturating_mul(scale);
    let left = image.width().saturating_sub(width) / 2;
    for (place, letter) in (0u32..).zip(text.chars()) {
        for (row, bits) in (0u32..).zip(glyph(letter)) {
            for column in (0..5u32).filter(|c| bits & (0b1_0000 >> c) != 0) {
                fill(image, left + (place * 6 + column) * scale, top + row * scale, scale);
            }
        }
    }
}

fn fill(image: &mut GrayImage, left: u32, top: u32, side: u32) {
    for y in top..(top + side).min(image.height()) {
        for x in left..(left + side).min(image.width()) {
            image.put_pixel(x, y, BLACK);
        }
    }
}

fn png(image: &GrayImage) -> Result<Vec<u8>, DrawError> {
    let mut out = Vec::new();
    PngEncoder::new(&mut out)
        .write_image(image.as_raw(), image.width(), image.height(), image::ExtendedColorType::L8)
        .map_err(|_| DrawError)?;
    Ok(out)
}

/// Five by seven dots a letter, a row a number, the leftmost dot the highest of five bits.
fn glyph(letter: char) -> [u8; 7] {
    match letter.to_ascii_uppercase() {
        'A' => [14, 17, 17, 31, 17, 17, 17],
        'B' => [30, 17, 17, 30, 17, 17, 30],
        'C' => [14, 17, 16, 16, 16, 17, 14],
        'D' => [30, 17, 17, 17, 17, 17, 30],
        'E' => [31, 16, 16, 30, 16, 16, 31],
        'F' => [31, 16, 16, 30, 16, 16, 16],
        'G' => [14, 17, 16, 23, 17, 17, 15],
        'H' => [17, 17, 17, 31, 17, 17, 17],
        'I' => [14, 4, 4, 4, 4, 4, 14],
        'J' => [7, 2, 2, 2, 2, 18, 12],
        'K' => [17, 18, 20, 24, 20, 18, 17],
        'L' => [16, 16, 16, 16, 16, 16, 31],
        'M' => [17, 27, 21, 21, 17, 17, 17],
        'N' => [17, 25, 21, 19, 17, 17, 17],
        'O' => [14, 17, 17, 17, 17, 17, 14],
        'P' => [30, 17, 17, 30, 16, 16, 16],
        'Q' => [14, 17, 17, 17, 21, 18, 13],
        'R' => [30, 17, 17, 30, 20, 18, 17],
        'S' => [15, 16, 16, 14, 1, 1, 30],
        'T' => [31, 4, 4, 4, 4, 4, 4],
        'U' => [17, 17, 17, 17, 17, 17, 14],
        'V' => [17, 17, 17, 17, 17, 10, 4],
        'W' => [17, 17, 17, 21, 21, 27, 17],
        'X' => [17, 17, 10, 4, 10, 17, 17],
        'Y' => [17, 17, 10, 4, 4, 4, 4],
        'Z' => [31, 1, 2, 4, 8, 16, 31],
        '.' => [0, 0, 0, 0, 0, 12, 12],
        ' ' => [0; 7],
        _ => [31, 17, 17, 17, 17, 17, 31],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(png: &[u8]) -> GrayImage {
        image::load_from_memory_with_format(png, image::ImageFormat::Png).unwrap().into_luma8()
    }

    fn codes(png: &[u8]) -> Vec<String> {
        let image = read(png);
        let (width, height) = (image.width() as usize, image.height() as usize);
        let mut scan = rqrr::PreparedImage::prepare_from_greyscale(width, height, |x, y| {
            image.get_pixel(x as u32, y as u32).0[0]
        });
        scan.detect_grids().iter().map(|grid| grid.decode().unwrap().1).collect()
    }

    #[test]
    fn the_qr_is_read_back_whole() {
        let text = format!(r#"{{"v":1,"relay_url":"wss://relay.example/v1/ws","k":"{}"}}"#, "0a".repeat(128));
        assert_eq!(codes(&qr_png(&text).unwrap()), [text]);
    }

    #[test]
    fn what_does_not_fit_a_qr_is_an_error() {
        assert_eq!(qr_png(&"x".repeat(5_000)), Err(DrawError));
    }

    #[test]
    fn words_differ_and_hold_no_code() {
        let used = words_png("USED", &["A DEVICE HAS PAIRED", "WITH THIS CODE."]).unwrap();
        let expired = words_png("EXPIRED", &["MAKE A NEW CODE."]).unwrap();
        assert_ne!(used, expired);
        for png in [used, expired] {
            let image = read(&png);
            assert!(codes(&png).is_empty());
            let dark = image.pixels().filter(|p| p.0[0] == 0).count();
            assert!(dark > 2_000, "the words are readable: {dark} dark pixels");
        }
    }
}
