//! What examples that go through a list of files share.

use std::io::Read;

use tiffjet_cuda::Cuda;

/// The list that the first argument names, `-` or nothing for standard input, and the device of the second, 0 without one.
pub fn list_and_device() -> Result<(String, Cuda), String> {
    let path = std::env::args().nth(1).unwrap_or("-".to_owned());
    let mut list = String::new();
    let read = match path.as_str() {
        "-" => std::io::stdin().read_to_string(&mut list).map(drop),
        path => std::fs::read_to_string(path).map(|text| list = text),
    };
    read.map_err(|error| format!("{path}: {error}"))?;
    let ordinal = std::env::args().nth(2).and_then(|a| a.parse().ok()).unwrap_or(0);
    let cuda = Cuda::new(ordinal).map_err(|error| error.to_string())?;
    Ok((list, cuda))
}
