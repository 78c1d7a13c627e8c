//! The facts for people: a name and a value a line, aligned, nothing where there is nothing to say.

use serde_json::Value;

/// Width of the names.
const NAMES: usize = 14;
/// Longer texts are cut.
const LONG: usize = 200;

struct Page(String);

impl Page {
    fn line(&mut self, name: &str, value: impl AsRef<str>) {
        let value = value.as_ref();
        if !value.is_empty() {
            self.0.push_str(&format!("{name:<NAMES$}{}\n", shortened(value)));
        }
    }

    fn heading(&mut self, name: &str) {
        self.0.push_str(&format!("{name}\n"));
    }
}

/// One line of printable characters.
fn shortened(text: &str) -> String {
    let text = text.trim();
    let clean = |c: char| if c.is_control() { ' ' } else { c };
    match text.char_indices().nth(LONG) {
        Some((end, _)) => format!("{} …", text[..end].chars().map(clean).collect::<String>()),
        None => text.chars().map(clean).collect(),
    }
}

/// A value as people write it; nothing for `null`.
fn plain(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Number(number) if number.is_f64() => number.as_f64().unwrap_or(f64::NAN).to_string(),
        Value::Array(list) => list.iter().map(plain).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn is_set(value: &Value) -> bool {
    match value {
        Value::Null => false,
        Value::Array(list) => !list.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    }
}

pub fn text(facts: &Value) -> String {
    let mut page = Page(String::new());
    let get = |key: &str| plain(&facts[key]);
    page.line("file", get("file"));
    let format = if facts["bigtiff"] == true { "BigTIFF" } else { "TIFF" };
    page.line("format", format!("{format}, {}-endian, {}", get("byte_order"), bytes(&facts["file_size"])));
    page.line("size", format!("{} x {} pixels, {} of {}", get("width"), get("height"), bands(facts), get("dtype")));
    if facts["bits"].as_u64() != dtype_bits(facts) {
        page.line("bits", get("bits"));
    }
    page.line("pixels", pixels(facts));
    page.line("compression", compression(facts));
    page.line("layout", layout(facts));
    page.line("cog", cog(facts));
    for problem in facts["cog_errors"].as_array().into_iter().chain(facts["cog_warnings"].as_array()).flatten() {
        page.line("", format!("- {}", plain(problem)));
    }
    place(facts, &mut page);
    page.line("nodata", get("nodata"));
    page.line("mask", get("mask"));
    overviews(facts, &mut page);
    band_lines(facts, &mut page);
    metadata(facts, &mut page);
    for sidecar in facts["sidecars"].as_array().into_iter().flatten() {
        page.line("sidecar", plain(sidecar));
    }
    for warning in facts["warnings"].as_array().into_iter().flatten() {
        page.line("warning", plain(warning));
    }
    page.0
}

fn bands(facts: &Value) -> String {
    match &facts["bands"] {
        one if *one == 1 => "1 band".into(),
        many => format!("{many} bands"),
    }
}

fn dtype_bits(facts: &Value) -> Option<u64> {
    let dtype = tiffjet::DType::from_name(facts["dtype"].as_str()?)?;
    Some(8 * dtype.size() as u64)
}

fn pixels(facts: &Value) -> String {
    let mut out = plain(&facts["photometric"]);
    if let Some(entries) = facts["color_map"].as_u64() {
        out += &format!(", {entries} colours");
    }
    if is_set(&facts["extra_samples"]) {
        out += &format!(", extra samples: {}", plain(&facts["extra_samples"]));
    }
    if facts["orientation"] != 1 {
        out += &format!(", orientation {}", facts["orientation"]);
    }
    if facts["pages"] != 1 {
        out += &format!(", {} pages in the file", facts["pages"]);
    }
    out
}

fn compression(facts: &Value) -> String {
    let mut out = plain(&facts["compression"]);
    if facts["predictor"] != "none" {
        out += &format!(", {} predictor", plain(&facts["predictor"]));
    }
    match (facts["compressed_size"].as_u64(), facts["uncompressed_size"].as_u64()) {
        (Some(small), Some(large)) if small > 0 => {
            out += &format!(", {} of {}", bytes(&facts["compressed_size"]), bytes(&facts["uncompressed_size"]));
            out += &format!(" ({:.1} : 1)", large as f64 / small as f64);
        }
        _ => out += &format!(", {} of pixels", bytes(&facts["uncompressed_size"])),
    }
    out
}

fn layout(level: &Value) -> String {
    let (width, height) = (&level["tile"][0], &level["tile"][1]);
    let many = if level["tiles"] == 1 { "" } else { "s" };
    let shape = match level["tiled"] == true {
        true => format!("tile{many} of {width} x {height}"),
        false => format!("strip{many} of {height} row{}", if *height == 1 { "" } else { "s" }),
    };
    format!("{} {shape}, {} interleaved", level["tiles"], plain(&level["interleave"]))
}

fn cog(facts: &Value) -> &'static str {
    if facts["cog"] == true { "yes" } else { "no" }
}

fn place(facts: &Value, page: &mut Page) {
    for (name, key) in [("crs", "crs"), ("gcp crs", "gcp_crs")] {
        let crs = &facts[key];
        if crs.is_null() {
            continue;
        }
        let code = crs["epsg"].as_u64().map(|code| format!("EPSG:{code}, ")).unwrap_or_default();
        let kind = plain(&crs["kind"]);
        page.line(
            name,
            format!("{code}{}{}", plain(&crs["name"]), if kind.is_empty() { kind } else { format!(" ({kind})") }),
        );
        if code.is_empty() {
            page.line("", plain(&crs["wkt"]));
        }
    }
    page.line("transform", plain(&facts["transform"]));
    page.line("pixel size", plain(&facts["pixel_size"]));
    page.line("bounds", plain(&facts["bounds"]));
    page.line("pixel is", plain(&facts["area_or_point"]).to_lowercase());
    if facts["gcp_count"] != 0 {
        page.line("gcps", plain(&facts["gcp_count"]));
    }
    if is_set(&facts["rpc"]) {
        page.line("rpc", "yes");
    }
}

fn overviews(facts: &Value, page: &mut Page) {
    let levels: Vec<&Value> = facts["levels"].as_array().into_iter().flatten().skip(1).collect();
    for level in levels {
        let mut what = format!("{} x {}, {}", level["width"], level["height"], layout(level));
        if level["compression"] != facts["compression"] {
            what += &format!(", {}", plain(&level["compression"]));
        }
        if level["mask"] == true {
            what += ", mask";
        }
        if is_set(&level["file"]) {
            what += &format!(", in {}", plain(&level["file"]));
        }
        page.line(&format!("overview {}", level["level"]), what);
    }
}

/// Bands that say something of themselves.
fn band_lines(facts: &Value, page: &mut Page) {
    for band in facts["band_info"].as_array().into_iter().flatten() {
        let mut parts = Vec::new();
        for key in ["description", "color_interp", "unit", "scale", "offset"] {
            if is_set(&band[key]) {
                parts.push(format!("{} {}", key.replace('_', " "), plain(&band[key])));
            }
        }
        if band["nodata"] != facts["nodata"] {
            parts.push(format!("nodata {}", plain(&band["nodata"])));
        }
        let statistics = &band["statistics"];
        if is_set(statistics) {
            let get = |key: &str| plain(&statistics[key]);
            parts.push(format!("{} to {}, mean {}, sd {}", get("minimum"), get("maximum"), get("mean"), get("stddev")));
        }
        page.line(&format!("band {}", band["band"]), parts.join("; "));
    }
}

fn metadata(facts: &Value, page: &mut Page) {
    for key in ["xmp", "icc_profile"] {
        if is_set(&facts[key]) {
            page.line(&key.replace('_', " "), bytes(&facts[key]));
        }
    }
    for (name, value) in facts["tags"].as_object().into_iter().flatten() {
        page.line(&format!("{:<width$} ", name.to_lowercase(), width = NAMES - 1), plain(value));
    }
    for (domain, items) in facts["metadata"].as_object().into_iter().flatten() {
        let Some(items) = items.as_object().filter(|items| !items.is_empty()) else { continue };
        page.heading(&if domain.is_empty() { "metadata".into() } else { format!("metadata {}", shortened(domain)) });
        for (name, value) in items {
            page.line("", format!("{} = {}", shortened(name), plain(value)));
        }
    }
}

/// A size for people.
fn bytes(value: &Value) -> String {
    let Some(size) = value.as_u64() else { return String::new() };
    let mut scaled = size as f64;
    for unit in ["bytes", "KiB", "MiB", "GiB"] {
        if scaled < 1024.0 {
            return if unit == "bytes" { format!("{size} bytes") } else { format!("{scaled:.1} {unit}") };
        }
        scaled /= 1024.0;
    }
    format!("{scaled:.1} TiB")
}
