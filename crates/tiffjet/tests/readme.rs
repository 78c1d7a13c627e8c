//! The README promises what the code does.

use tiffjet::codec::{CODECS, Cause, Chroma, Codec, Encoded, Plain, Settings, TileFormat};
use tiffjet::{ByteOrder, DType, SampleKind};

const README: &str = include_str!("../../../README.md");

/// A line of the table of codecs.
#[derive(Debug, PartialEq)]
struct Row {
    name: String,
    compression: Vec<u16>,
    read: bool,
    write: bool,
}

fn documented() -> Vec<Row> {
    let table = README.split_once("| codec | tag 259 |").expect("the table of codecs").1;
    table.lines().skip(2).take_while(|line| line.starts_with('|')).map(row).collect()
}

fn row(line: &str) -> Row {
    let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
    let yes = |cell: &str| match cell {
        "yes" => true,
        "no" => false,
        _ => panic!("yes or no in {line}"),
    };
    Row {
        name: cells[0].trim_matches('`').to_owned(),
        compression: cells[1].split(", ").map(|n| n.parse().expect(line)).collect(),
        read: yes(cells[2]),
        write: yes(cells[3]),
    }
}

fn built(codec: &dyn Codec) -> Row {
    let formats: Vec<TileFormat> = formats(codec).collect();
    Row {
        name: codec.name().to_owned(),
        compression: codec.compression().to_vec(),
        read: formats.iter().any(|format| reads(codec, format)),
        write: formats.iter().any(|format| writes(codec, format)),
    }
}

/// Pixels of every kind that some codec is made for.
fn formats(codec: &dyn Codec) -> impl Iterator<Item = TileFormat> {
    let compression = codec.compression()[0];
    let kinds = [
        (1, SampleKind::Unsigned, DType::UInt8),
        (2, SampleKind::Unsigned, DType::UInt8),
        (4, SampleKind::Unsigned, DType::UInt8),
        (8, SampleKind::Unsigned, DType::UInt8),
        (16, SampleKind::Signed, DType::Int16),
    ];
    let photometrics = [(1, 1), (3, 2), (1, 32844), (3, 32845)];
    kinds.into_iter().flat_map(move |(bits, kind, dtype)| {
        photometrics.map(|(samples, photometric)| TileFormat {
            compression,
            width: 16,
            height: 16,
            samples,
            bits,
            kind,
            dtype,
            order: ByteOrder::NATIVE,
            photometric,
            subsampling: (1, 1),
            chroma: Chroma::default(),
            fax_options: 0,
            jpeg_tables: None,
            lerc: [4, 0],
            old_jpeg: None,
        })
    })
}

/// Bytes of a tile as the codec takes them.
fn size(codec: &dyn Codec, format: &TileFormat) -> usize {
    let row = match codec.unit() {
        tiffjet::codec::Unit::Bytes => format.row_bytes(),
        tiffjet::codec::Unit::Samples => format.row_samples_bytes(),
    };
    row * format.height as usize
}

/// A codec that reads such pixels finds nonsense damaged; one that does not finds it unsupported.
fn reads(codec: &dyn Codec, format: &TileFormat) -> bool {
    let mut out = vec![0; size(codec, format)];
    let nonsense = Encoded { bytes: &[0x5a; 7], rows: format.height, index: 0, format };
    !matches!(codec.decode(&nonsense, &mut out), Err(Cause::Unsupported(_)))
}

fn writes(codec: &dyn Codec, format: &TileFormat) -> bool {
    let bytes = vec![0; size(codec, format)];
    let tile = Plain { bytes: &bytes, rows: format.height, format, settings: &Settings::default() };
    codec.encode(&tile, &mut Vec::new()).is_ok()
}

#[test]
fn the_table_of_codecs_is_true() {
    let documented = documented();
    assert_eq!(documented.len(), CODECS.len(), "a row for each codec, in the order of the table in the code");
    for (row, codec) in documented.into_iter().zip(CODECS) {
        assert_eq!(row, built(*codec));
        assert_eq!(row.write, tiffjet::codec::writes(*codec), "{}", codec.name());
    }
}
