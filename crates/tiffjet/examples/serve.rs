//! Serves parts of the files below a folder over HTTP, to measure against.
//!
//!     serve FOLDER PORT [DELAY_MS]

#![allow(clippy::print_stdout)] // says where it serves

#[path = "remote_bench/server.rs"]
mod server;

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |i: usize| arguments.get(i).and_then(|a| a.parse::<u16>().ok());
    let (Some(folder), Some(port)) = (arguments.first(), number(1)) else {
        println!("serve FOLDER PORT [DELAY_MS]");
        return ExitCode::FAILURE;
    };
    match server::Server::start(Path::new(folder), port, Duration::from_millis(number(2).unwrap_or(0).into())) {
        Ok(port) => println!("http://127.0.0.1:{port}/"),
        Err(error) => {
            println!("{error}");
            return ExitCode::FAILURE;
        }
    }
    loop {
        std::thread::park();
    }
}
