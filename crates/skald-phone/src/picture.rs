//! Finds the host's QR code in a picture: a saved QR, a photograph or a screenshot with other things around it.

use std::io::{Cursor, Read};
use std::path::Path;

use image::imageops::{self, FilterType};
use image::{GrayImage, ImageFormat, ImageReader, Luma};

use crate::failure::{Failure, Outcome};

/// A screenshot of three 4K screens has about 30 MB as PNG; anything far beyond is not one.
const MAX_FILE: u64 = 64 * 1024 * 1024;
/// Bounds memory for pictures that claim to be huge.
const MAX_SIDE: u32 = 16_384;
/// Scales at which a picture is tried when it cannot be read as it is.
const SCALES: [f64; 12] = [2.0, 0.8, 1.25, 3.0, 0.9, 1.1, 1.75, 2.2, 2.7, 0.75, 3.5, 1.5];
/// Larger copies than this cost more time than they find codes.
const LARGEST_TRIED: u32 = 4_800;

/// Reads the text of the first QR code in `path` that `is_ours` takes.
pub fn read(path: &Path, is_ours: impl Fn(&str) -> bool) -> Outcome<String> {
    let shown = path.display();
    let file = std::fs::File::open(path)
        .map_err(|e| Failure::usage(format!("The picture {shown} cannot be opened ({}).", plain(&e))))?;
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| Failure::usage(format!("The picture {shown} cannot be read ({}).", plain(&e))))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(Failure::usage(format!(
            "The picture {shown} is larger than 64 MiB; cut out the QR code and try again."
        )));
    }
    let grey = decode(&bytes).ok_or_else(|| {
        Failure::usage(format!("The file {shown} is not a PNG or JPEG picture that can be read."))
    })?;
    match find(&grey, is_ours) {
        Found::Ours(text) => Ok(text),
        Found::Others => Err(Failure::usage(format!(
            "The QR code in {shown} is not Skald's; take the picture of the code on Skald's pairing page."
        ))),
        Found::Nothing => Err(Failure::usage(format!(
            "No QR code was found in {shown}; take a sharper or larger picture of the code on Skald's pairing page."
        ))),
    }
}

fn plain(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".into(),
        std::io::ErrorKind::PermissionDenied => "permission denied".into(),
        std::io::ErrorKind::IsADirectory => "it is a folder".into(),
        _ => error.to_string(),
    }
}

/// Decodes to grey over white: a QR with a transparent ground is drawn on white by every viewer.
fn decode(bytes: &[u8]) -> Option<GrayImage> {
    let mut reader = ImageReader::new(Cursor::new(bytes)).with_guessed_format().ok()?;
    if !matches!(reader.format(), Some(ImageFormat::Png | ImageFormat::Jpeg)) {
        return None;
    }
    let mut limits = image::Limits::default();
    limits.max_image_width = Some(MAX_SIDE);
    limits.max_image_height = Some(MAX_SIDE);
    reader.limits(limits);
    let picture = reader.decode().ok()?;
    if !picture.color().has_alpha() {
        return Some(picture.into_luma8());
    }
    let with_alpha = picture.into_luma_alpha8();
    Some(GrayImage::from_fn(with_alpha.width(), with_alpha.height(), |x, y| {
        let [grey, alpha] = with_alpha.get_pixel(x, y).0;
        let over = u32::from(grey) * u32::from(alpha) + 255 * (255 - u32::from(alpha));
        Luma([u8::try_from(over / 255).unwrap_or(u8::MAX)])
    }))
}

#[derive(Debug, PartialEq)]
enum Found {
    Ours(String),
    Others,
    Nothing,
}

/// Tries the picture as it is, with a border, smaller, larger and inverted: what one pass misses another finds.
fn find(picture: &GrayImage, is_ours: impl Fn(&str) -> bool) -> Found {
    let mut others = false;
    let mut attempt = |image: GrayImage| -> Option<String> {
        for inverted in [false, true] {
            let codes = texts(&image, inverted);
            others |= !codes.is_empty();
            if let Some(text) = codes.into_iter().find(|t| is_ours(t)) {
                return Some(text);
            }
        }
        None
    };
    let side = picture.width().max(picture.height()).max(1);
    let plain: [Box<dyn Fn() -> GrayImage + '_>; 3] = [
        Box::new(|| picture.clone()),
        Box::new(|| bordered(picture)),
        Box::new(|| bordered(&imageops::blur(picture, 1.2))),
    ];
    let targets = [1600_u32, 1000, 640, 400].into_iter().filter(|target| side > target + target / 4);
    let shrunk = targets.map(|target| f64::from(target) / f64::from(side));
    // A browser draws modules a fraction of a pixel wider or narrower, which throws the finder's measure off. Another
    // scale moves that error elsewhere, so that one of several will do.
    let nearby = SCALES.into_iter().filter(|factor| f64::from(side) * factor <= f64::from(LARGEST_TRIED));
    let scaled = shrunk.chain(nearby).flat_map(|factor| {
        [FilterType::Triangle, FilterType::CatmullRom].map(|filter| {
            Box::new(move || bordered(&resized_by(picture, factor, filter)))
                as Box<dyn Fn() -> GrayImage + '_>
        })
    });
    for plan in plain.into_iter().chain(scaled) {
        if let Some(text) = attempt(plan()) {
            return Found::Ours(text);
        }
    }
    // A small code in a large screenshot: look at overlapping parts, enlarged.
    if side > 700 {
        let part = (side / 3).max(500);
        for y in (0..picture.height()).step_by(part as usize / 2) {
            for x in (0..picture.width()).step_by(part as usize / 2) {
                let (w, h) = (part.min(picture.width() - x), part.min(picture.height() - y));
                if w < 40 || h < 40 {
                    continue;
                }
                let cut = imageops::crop_imm(picture, x, y, w, h).to_image();
                let cut = if part <= 900 { resized(&cut, 2.0) } else { cut };
                if let Some(text) = attempt(cut) {
                    return Found::Ours(text);
                }
            }
        }
    }
    if others { Found::Others } else { Found::Nothing }
}

fn texts(image: &GrayImage, inverted: bool) -> Vec<String> {
    let (w, h) = (image.width() as usize, image.height() as usize);
    if w < 21 || h < 21 {
        return Vec::new();
    }
    let raw = image.as_raw();
    let mut prepared = rqrr::PreparedImage::prepare_from_greyscale(w, h, |x, y| {
        let grey = raw[y * w + x];
        if inverted { 255 - grey } else { grey }
    });
    prepared.detect_grids().into_iter().filter_map(|grid| grid.decode().ok()).map(|(_, text)| text).collect()
}

fn resized(image: &GrayImage, factor: f64) -> GrayImage {
    resized_by(image, factor, FilterType::Triangle)
}

fn resized_by(image: &GrayImage, factor: f64, filter: FilterType) -> GrayImage {
    let scale = |n: u32| ((f64::from(n) * factor).round() as u32).clamp(1, MAX_SIDE);
    imageops::resize(image, scale(image.width()), scale(image.height()), filter)
}

/// A code cut off at its edge lacks the quiet zone that readers need. The border takes the corner's shade.
fn bordered(image: &GrayImage) -> GrayImage {
    let margin = (image.width().max(image.height()) / 10).clamp(8, 200);
    let corner = *image.get_pixel(0, 0);
    // A code without any margin has a dark corner (the finder pattern), so the border must be its opposite.
    let shade = if corner.0[0] > 127 { corner } else { Luma([255]) };
    let mut out = GrayImage::from_pixel(image.width() + 2 * margin, image.height() + 2 * margin, shade);
    imageops::replace(&mut out, image, i64::from(margin), i64::from(margin));
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use image::{DynamicImage, Rgba, RgbaImage};

    const TEXT: &str = r#"{"v":1,"relay_url":"wss://relay.example/v1/ws","namespace_id":"f7d340d3c3f0b0052fa904ba60ebd38a0f7e7d10672ac80648991a2c632c9e58","agent_ed25519_pub":"b3e202f4ac99fd9929da47df20adedd5b2598411a466a229f086eda3467ffa7b","agent_x25519_pub":"4fcb9922300372851653f0d8a0d48855674b6f6095e3770273d212bcaf51bc64","pairing_token":"c0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9dadbdcdddedf"}"#;

    fn ours(text: &str) -> bool {
        text == TEXT
    }

    fn code(text: &str, module: u32, quiet: u32) -> GrayImage {
        draw(&qrcode::QrCode::new(text).expect("fits"), module, quiet)
    }

    fn draw(qr: &qrcode::QrCode, module: u32, quiet: u32) -> GrayImage {
        let width = qr.width() as u32;
        let colors = qr.to_colors();
        let side = (width + 2 * quiet) * module;
        GrayImage::from_fn(side, side, |x, y| {
            let (mx, my) = (x / module, y / module);
            let inside = mx >= quiet && my >= quiet && mx < quiet + width && my < quiet + width;
            let dark = inside && colors[((my - quiet) * width + mx - quiet) as usize] == qrcode::Color::Dark;
            Luma([if dark { 0 } else { 255 }])
        })
    }

    /// A page with text-like noise, boxes and a gradient, on which codes are pasted.
    fn screenshot(width: u32, height: u32, dark: bool) -> GrayImage {
        GrayImage::from_fn(width, height, |x, y| {
            let ground = if dark { 24 + (x * 20 / width) as u8 } else { 225 + (x * 25 / width) as u8 };
            let line = y % 26 < 12 && (x * 7 + (y / 26) * 131) % 19 < 8 && y > 60 && x % 900 > 40;
            Luma([if line { 255 - ground } else { ground }])
        })
    }

    fn paste(on: &mut GrayImage, what: &GrayImage, x: i64, y: i64) {
        imageops::replace(on, what, x, y);
    }

    #[test]
    fn a_plain_code_is_read_with_and_without_its_quiet_zone() {
        for quiet in [0, 1, 2, 4, 10] {
            assert_eq!(find(&code(TEXT, 4, quiet), ours), Found::Ours(TEXT.into()), "quiet zone {quiet}");
        }
    }

    #[test]
    fn a_code_is_read_at_many_sizes() {
        for module in [2, 3, 5, 9, 16] {
            assert_eq!(find(&code(TEXT, module, 4), ours), Found::Ours(TEXT.into()), "module {module}");
        }
        let picture = code(TEXT, 8, 4);
        for factor in [0.37, 0.5, 0.77, 1.3] {
            assert_eq!(find(&resized(&picture, factor), ours), Found::Ours(TEXT.into()), "scaled {factor}");
        }
    }

    #[test]
    fn a_code_drawn_by_a_browser_is_read_whatever_its_width() {
        let page = screenshot(900, 700, false);
        for level in [qrcode::EcLevel::L, qrcode::EcLevel::M] {
            let qr = qrcode::QrCode::with_error_correction_level(TEXT, level).expect("fits");
            let sharp = draw(&qr, 8, 4);
            for side in (290..=430).step_by(28) {
                for filter in [FilterType::Triangle, FilterType::Nearest] {
                    let mut page = page.clone();
                    paste(&mut page, &imageops::resize(&sharp, side, side, filter), 380, 200);
                    assert_eq!(find(&page, ours), Found::Ours(TEXT.into()), "{level:?} {side} {filter:?}");
                }
            }
        }
    }

    #[test]
    fn an_inverted_code_is_read() {
        let mut picture = code(TEXT, 4, 4);
        imageops::invert(&mut picture);
        assert_eq!(find(&picture, ours), Found::Ours(TEXT.into()));
    }

    #[test]
    fn a_code_inside_a_screenshot_is_read() {
        for dark in [false, true] {
            for module in [2, 3, 4] {
                let mut page = screenshot(1920, 1080, dark);
                paste(&mut page, &code(TEXT, module, 4), 1100, 420);
                assert_eq!(find(&page, ours), Found::Ours(TEXT.into()), "dark {dark} module {module}");
            }
        }
    }

    #[test]
    fn among_several_codes_the_hosts_is_taken() {
        let mut page = screenshot(1600, 900, false);
        paste(&mut page, &code("https://example.org/not-this-one", 4, 4), 80, 120);
        paste(&mut page, &code(TEXT, 3, 4), 700, 200);
        paste(&mut page, &code("WIFI:S:guest;;", 4, 4), 1200, 500);
        assert_eq!(find(&page, ours), Found::Ours(TEXT.into()));
    }

    #[test]
    fn a_foreign_code_and_no_code_are_told_apart() {
        assert_eq!(find(&code("https://example.org", 4, 4), ours), Found::Others);
        assert_eq!(find(&screenshot(640, 480, false), ours), Found::Nothing);
        assert_eq!(find(&GrayImage::new(1, 1), ours), Found::Nothing);
    }

    #[test]
    fn transparent_png_and_jpeg_files_are_read() {
        let dir = tempfile::tempdir().expect("folder");
        let grey = code(TEXT, 4, 4);
        let see_through = RgbaImage::from_fn(grey.width(), grey.height(), |x, y| {
            if grey.get_pixel(x, y).0[0] == 0 { Rgba([0, 0, 0, 255]) } else { Rgba([0, 0, 0, 0]) }
        });
        let png = dir.path().join("a.png");
        see_through.save(&png).expect("save");
        assert_eq!(read(&png, ours).as_deref(), Ok(TEXT));
        let jpeg = dir.path().join("b.jpg");
        DynamicImage::ImageLuma8(grey).into_rgb8().save(&jpeg).expect("save");
        assert_eq!(read(&jpeg, ours).as_deref(), Ok(TEXT));
    }

    #[test]
    fn unusable_files_are_named_in_one_sentence() {
        let dir = tempfile::tempdir().expect("folder");
        let cut = dir.path().join("cut.png");
        let mut bytes = Vec::new();
        code(TEXT, 4, 4).write_to(&mut Cursor::new(&mut bytes), ImageFormat::Png).expect("encode");
        std::fs::write(&cut, &bytes[..bytes.len() / 2]).expect("write");
        let text = dir.path().join("notes.txt");
        std::fs::write(&text, "no picture").expect("write");
        for path in [dir.path().join("absent.png"), cut, text, dir.path().to_path_buf()] {
            let failure = read(&path, ours).expect_err("must fail");
            assert_eq!(failure.code.exit(), 2);
            assert!(failure.sentence.ends_with('.') && !failure.sentence.contains('\n'), "{failure}");
        }
    }
}
