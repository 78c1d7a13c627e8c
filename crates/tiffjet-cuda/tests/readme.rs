//! The README tells what a GPU does.

use tiffjet::codec::{CODECS, writes};
use tiffjet_cuda::{By, routes};

const README: &str = include_str!("../../../README.md");

fn told(by: By) -> &'static str {
    match by {
        By::Kernels => "kernels",
        By::Library(library) => library,
        By::Host => "cores",
    }
}

#[test]
fn the_columns_of_gpus_are_true() {
    let table = README.split_once("| codec | tag 259 |").expect("the table of codecs").1;
    let rows: Vec<&str> = table.lines().skip(2).take_while(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), CODECS.len());
    for (row, codec) in rows.into_iter().zip(CODECS) {
        let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
        let (decodes, encodes) = routes(codec.name());
        let encodes = if writes(*codec) { told(encodes) } else { "no" };
        assert_eq!(cells[4..6], [told(decodes), encodes], "{}", codec.name());
    }
}
