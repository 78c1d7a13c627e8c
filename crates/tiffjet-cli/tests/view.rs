//! `tiffjet view`: what its server answers, and the page in a real browser.

mod browser;
mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use browser::Browser;
use common::Bench;
use serde_json::{Value, json};
use tiffjet_testkit::{Pixels, Tiff};

/// A server that ends with the test.
struct Server {
    child: Child,
    port: u16,
    secret: String,
}

impl Server {
    fn start(bench: &Bench, arguments: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tiffjet"));
        command.args(["view", "--json"]).args(arguments).current_dir(bench.path("x").parent().unwrap());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let url = told["url"].as_str().unwrap().strip_prefix("http://127.0.0.1:").unwrap();
        let (port, secret) = url.split_once('/').unwrap();
        Self { port: port.parse().unwrap(), secret: secret.trim_matches('/').to_owned(), child }
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/{}/", self.port, self.secret)
    }

    /// Sends bytes as they are; status and body of the answer.
    fn send(&self, request: &[u8]) -> (u16, Vec<u8>) {
        let mut connection = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        connection.write_all(request).unwrap();
        let mut answer = Vec::new();
        // A request that is refused before it is read whole ends with a reset.
        let _ = connection.read_to_end(&mut answer);
        let end = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n").expect("an answer");
        let head = String::from_utf8(answer[..end].to_vec()).unwrap();
        (head.split(' ').nth(1).unwrap().parse().unwrap(), answer[end + 4..].to_vec())
    }

    fn get(&self, path: &str) -> (u16, Vec<u8>) {
        let Self { port, secret, .. } = self;
        self.send(format!("GET /{secret}/{path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n").as_bytes())
    }

    fn json(&self, path: &str) -> Value {
        let (status, body) = self.get(path);
        assert_eq!(status, 200, "{path}");
        serde_json::from_slice(&body).unwrap()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Heights with a hole; the value of a pixel is known from its place.
fn height(y: u32, x: u32) -> f32 {
    if (200..260).contains(&y) && (300..420).contains(&x) {
        return -9999.0;
    }
    let (fy, fx) = (y as f32, x as f32);
    let hills = (fx / 90.0).sin() * (fy / 70.0).cos() * 300.0 + ((fx + fy) / 23.0).sin() * 25.0;
    ((900.0 + hills + 0.3 * fx) * 4.0).round() / 4.0
}

fn cog(bench: &Bench) {
    let image =
        Tiff::new(1500, 1000).float(32).tile(256, 256).geo((10.0, 10.0), (5e5, 5.25e6)).epsg(32633).nodata("-9999");
    let pixels = Pixels::from_numbers(image.shape(), image.format(), |_, y, x| f64::from(height(y, x)));
    bench.write("plain.tif", &image.build(&pixels));
    bench.text("convert plain.tif heights.tif --cog --tile 256");
}

#[test]
fn the_server_gives_facts_tiles_and_values() {
    let bench = Bench::new();
    cog(&bench);
    let server = Server::start(&bench, &["heights.tif", "--range", "0,1600"]);
    let info = server.json("info.json");
    assert_eq!((&info["width"], &info["height"], &info["last_zoom"]), (&json!(1500), &json!(1000), &json!(3)));
    assert_eq!((&info["epsg"], &info["nodata"]), (&json!(32633), &json!(-9999.0)));
    assert_eq!(info["legend"]["bands"], json!([{"band": 1, "low": 0.0, "high": 1600.0}]));
    for (x, y) in [(0, 0), (1499, 999), (640, 480)] {
        let value = server.json(&format!("value.json?x={x}&y={y}"));
        assert_eq!(value, json!({"x": x, "y": y, "values": [height(y, x).to_string()], "valid": true}));
    }
    assert_eq!(server.json("value.json?x=310&y=210")["valid"], false);
    // At zoom 0 a pixel of a tile is one of the image.
    let (status, png) = server.get("tile/0/1/0.png");
    assert_eq!(status, 200);
    let mut reader = png::Decoder::new(std::io::Cursor::new(png)).read_info().unwrap();
    let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
    let picture = reader.next_frame(&mut bytes).unwrap();
    assert_eq!((picture.width, picture.height, picture.color_type), (256, 256, png::ColorType::GrayscaleAlpha));
    let expected = (f64::from(height(7, 256 + 9)) / 1600.0 * 255.0).round() as u8;
    assert_eq!(bytes[2 * (7 * 256 + 9)..][..2], [expected, 255]);
    assert_eq!(bytes[2 * (210 * 256 + 60)..][..2], [0, 0], "no data is transparent");
    for zoom in 0..=3 {
        assert_eq!(server.get(&format!("tile/{zoom}/0/0.png")).0, 200, "{zoom}");
    }
}

#[test]
fn the_server_refuses_all_else() {
    let bench = Bench::new();
    cog(&bench);
    let server = Server::start(&bench, &["heights.tif"]);
    let Server { port, secret, .. } = &server;
    for path in [
        "tile/0/6/0.png",
        "tile/0/0/4.png",
        "tile/4/0/0.png",
        "tile/0/-1/0.png",
        "tile/99999999999/0/0.png",
        "tile/0/0/0",
        "value.json?x=1500&y=0",
        "../heights.tif",
        "heights.tif",
        "/etc/passwd",
        "..%2f..%2fetc/passwd",
        "page.js/x",
    ] {
        assert_eq!(server.get(path).0, 404, "{path}");
    }
    for path in ["value.json", "value.json?x=a&y=0", "value.json?x=-1&y=0"] {
        assert_eq!(server.get(path).0, 400, "{path}");
    }
    let request = |head: String| server.send(format!("{head}\r\n\r\n").as_bytes()).0;
    assert_eq!(request(format!("GET / HTTP/1.1\r\nHost: 127.0.0.1:{port}")), 404, "no secret");
    assert_eq!(request(format!("GET /{secret}/ HTTP/1.1\r\nHost: evil.example:{port}")), 403, "another name");
    let foreign = format!("GET /{secret}/ HTTP/1.1\r\nHost: localhost:{port}\r\nSec-Fetch-Site: cross-site");
    assert_eq!(request(foreign), 403, "another page");
    assert_eq!(request(format!("POST /{secret}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}")), 405);
    assert_eq!(request(format!("GET /{secret}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 5")), 413);
    assert_eq!(request(format!("GET /{secret}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nX: {}", "y".repeat(9000))), 431);
    assert_eq!(server.send(b"\x16\x03\x01\x02\x00\r\n\r\n").0, 400);
    // And goes on.
    assert_eq!(server.get("info.json").0, 200);
    // Nobody can reach it from elsewhere: it listens on the loopback alone.
    assert!(TcpStream::connect(("127.0.0.2", *port)).is_err());
}

/// Says why a test is not run.
#[allow(clippy::print_stderr)]
fn skipped(why: &str) {
    eprintln!("skipped: {why}");
}

/// Opens a COG, zooms, reads a value that equals the pixel. TIFFJET_SCREENSHOT names a PNG to write.
#[test]
fn a_browser_pans_zooms_and_reads_values() {
    let Some(mut browser) = Browser::start() else {
        assert!(std::env::var_os("TIFFJET_TEST_BROWSER").is_none(), "no chromium");
        skipped("no chromium is installed");
        return;
    };
    let bench = Bench::new();
    cog(&bench);
    let server = Server::start(&bench, &["heights.tif", "--colours", "terrain"]);
    browser.open(&server.url());
    browser.wait_for("document.body.dataset.state === 'ready'");
    let text = |browser: &mut Browser, id: &str| -> String {
        browser
            .evaluate(&format!("document.getElementById('{id}').textContent"))
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    assert!(text(&mut browser, "facts").starts_with("1500 × 1000, 1 × float32, zstd"));
    assert!(text(&mut browser, "legend").starts_with("band 1"));
    let before = text(&mut browser, "zoom");
    // Four clicks of the wheel, two times as large each second one.
    for _ in 0..4 {
        browser.wheel(500, 300, -100);
    }
    browser.wait_for(&format!(
        "document.getElementById('zoom').textContent !== '{before}' && document.body.dataset.state === 'ready'"
    ));
    browser.drag((500, 300), (420, 360));
    browser.wait_for("document.body.dataset.state === 'ready'");
    for (sx, sy) in [(300, 200), (611, 333), (450, 420)] {
        browser.move_to(sx, sy);
        let place = browser.evaluate(&format!("toImage({sx}, {sy}).map(Math.floor)"));
        let (x, y) = (place[0].as_u64().unwrap() as u32, place[1].as_u64().unwrap() as u32);
        browser.wait_for(&format!("document.getElementById('value').dataset.at === '{x},{y}'"));
        assert_eq!(text(&mut browser, "pixel"), format!("column {x}, row {y}"));
        let expected = height(y, x);
        let shown = text(&mut browser, "value");
        assert_eq!(shown.trim_end_matches(" (no data)"), expected.to_string());
        assert_eq!(shown.contains("no data"), expected == -9999.0);
        let coordinates = text(&mut browser, "place");
        let east: f64 = coordinates.split(',').next().unwrap().parse().unwrap();
        assert!((east - (5e5 + 10.0 * (f64::from(x) + 0.5))).abs() <= 10.0, "{coordinates}");
    }
    browser.press("0");
    browser.move_to(520, 260);
    browser.wait_for("document.body.dataset.state === 'ready' && document.getElementById('value').textContent !== ''");
    let picture = browser.screenshot();
    assert!(picture.starts_with(b"\x89PNG") && picture.len() > 10_000, "{} bytes", picture.len());
    if let Some(path) = std::env::var_os("TIFFJET_SCREENSHOT") {
        std::fs::write(path, picture).unwrap();
    }
    assert_eq!(browser.errors(), Vec::<String>::new());
}
