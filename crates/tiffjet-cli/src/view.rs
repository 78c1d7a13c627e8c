//! `tiffjet view`: a local page to pan, zoom and read pixel values.

mod http;
mod map;

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::ExitCode;
use std::sync::Arc;

use serde_json::json;
use tiffjet::Error;

use crate::Outcome;
use crate::args::Input;
use crate::output::print;
use crate::preview::Looks;
use http::{Reply, Request, Status};
use map::Map;

/// Connections that are served at once.
const WORKERS: usize = 8;

const PAGE: &str = include_str!("view/page.html");
const SCRIPT: &str = include_str!("view/page.js");
const STYLE: &str = include_str!("view/page.css");

/// Show a file on a local page: pan, zoom, read pixel values
///
/// Prints the address of the page and serves it, on this machine alone, until it is stopped (Ctrl-C). Nobody who does not
/// know the address gets anything; nothing but this file is served.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  tiffjet view cog.tif
  tiffjet view dem.tif --colours terrain --port 8000")]
pub struct View {
    /// The file to read: a path, an address (http://, https://, s3://, gs://, az://), or - for standard input
    file: Input,
    #[command(flatten)]
    looks: Looks,
    /// Port of the page; any that is free where none is named
    #[arg(long, default_value_t = 0, value_name = "N")]
    port: u16,
    /// Print the address as one line of JSON
    #[arg(long)]
    json: bool,
}

impl View {
    pub fn run(&self) -> Outcome {
        let image = self.file.open()?;
        let map = Map::new(image, &self.looks.look(None))?;
        let failed = |error| Error::io(&"<loopback>".into(), error);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).map_err(failed)?;
        let port = listener.local_addr().map_err(failed)?.port();
        let server = Server { map, port, secret: http::secret().map_err(failed)? };
        let url = format!("http://127.0.0.1:{port}/{}/", server.secret);
        print(&if self.json { format!("{}\n", json!({"url": url})) } else { format!("{url}\nCtrl-C ends it\n") })?;
        server.serve(&listener);
        Ok(ExitCode::SUCCESS)
    }
}

/// One file on one port.
struct Server {
    map: Map,
    port: u16,
    /// First part of every path: who does not know it has no business here.
    secret: Arc<str>,
}

impl Server {
    /// A few threads, each with one connection at a time.
    fn serve(&self, listener: &TcpListener) {
        std::thread::scope(|scope| {
            for _ in 0..WORKERS {
                scope.spawn(|| {
                    for connection in listener.incoming().flatten() {
                        // A browser that has gone away needs no answer.
                        let _ = self.answer(connection);
                    }
                });
            }
        });
    }

    fn answer(&self, mut connection: TcpStream) -> std::io::Result<()> {
        let (head_only, reply) = match http::receive(&mut connection)? {
            Ok(request) => (request.head_only, self.reply(&request).unwrap_or_else(Reply::status)),
            Err(status) => (false, Reply::status(status)),
        };
        reply.send(&mut connection, head_only)
    }

    fn reply(&self, request: &Request) -> Result<Reply, Status> {
        request.comes_from_here(self.port)?;
        let path = request.path.strip_prefix('/').and_then(|path| path.strip_prefix(&*self.secret));
        let path = path.and_then(|path| path.strip_prefix('/')).ok_or(Status::NotFound)?;
        let parts: Vec<&str> = path.split('/').collect();
        match parts[..] {
            [""] => Ok(Reply::text("text/html", PAGE)),
            ["page.js"] => Ok(Reply::text("text/javascript", SCRIPT)),
            ["page.css"] => Ok(Reply::text("text/css", STYLE)),
            ["info.json"] => Ok(Reply::json(&self.map.info())),
            ["value.json"] => {
                let [x, y] = ["x", "y"].map(|name| request.number(name));
                self.map.value(x?, y?).map(|value| Reply::json(&value))
            }
            ["tile", zoom, x, y] => {
                let number = |text: &str| text.parse().map_err(|_| Status::NotFound);
                let y = y.strip_suffix(".png").ok_or(Status::NotFound)?;
                self.map.tile(number(zoom)?, number(x)?, number(y)?).map(Reply::png)
            }
            _ => Err(Status::NotFound),
        }
    }
}
