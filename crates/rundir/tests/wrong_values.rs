//! Parquet files that open and hold what cannot be: the reader's error names the file, the column, and the row of a
//! wrong value.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use crate::common;
use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::column::writer::{ColumnCloseResult, ColumnWriterImpl};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::{SerializedFileWriter, SerializedPageWriter, TrackedWrite};
use parquet::schema::parser::parse_message_type;
use parquet::schema::printer::print_schema;
use parquet::schema::types::{ColumnDescPtr, Type, TypePtr};
use taillight_core::{ErrorKind, OpKind, Result};
use taillight_rundir::host::{HostRow, host_writer, read_host};
use taillight_rundir::intervals::{IntervalRow, interval_writer, read_intervals};
use taillight_rundir::ios::{ColumnSet, IosWriter, RowKey, read_ios};
use taillight_rundir::layers::{LayerRow, LayerWriter, read_layers};
use taillight_rundir::ledger::{LedgerRow, read_ledger, write_ledger};
use taillight_rundir::store::{StoreRow, read_store, store_writer};
use taillight_rundir::{RunDir, fixture, names};

const ROWS: usize = 20;
/// The row that is made wrong.
const WRONG: usize = 13;

/// What is done to one column of a good file.
#[derive(Debug, Clone, Copy)]
enum Defect {
    /// The file lacks it.
    Absent,
    /// It has another type.
    Retyped,
    /// It ends before its rows do.
    Short,
    Null,
    Text(&'static str),
    Number(i64),
}

/// A good file with one defect.
fn spoil(good: &Path, bad: &Path, column: &str, defect: Defect) {
    let reader = SerializedFileReader::new(File::open(good).unwrap()).unwrap();
    let meta = reader.metadata().file_metadata();
    let schema = spoiled_schema(meta.schema(), column, defect);
    let properties = WriterProperties::builder()
        .set_key_value_metadata(meta.key_value_metadata().cloned())
        .build();
    let file = File::create(bad).unwrap();
    let mut writer = SerializedFileWriter::new(file, schema, Arc::new(properties)).unwrap();
    let from = reader.get_row_group(0).unwrap();
    let known = writer.schema_descr().clone();
    let mut out = writer.next_row_group().unwrap();
    for descr in known.columns() {
        let file = from.metadata().schema_descr();
        let index = (0..file.num_columns()).find(|i| file.column(*i).name() == descr.name());
        let cells = from.get_column_reader(index.unwrap()).unwrap();
        let defect = Some(defect).filter(|_| descr.name() == column);
        let (bytes, close) = copied_column(cells, descr, defect);
        out.append_column(&bytes, close).unwrap();
    }
    out.close().unwrap();
    writer.close().unwrap();
}

/// One column written anew, with its defect if it has one.
fn copied_column(
    cells: ColumnReader,
    descr: &ColumnDescPtr,
    defect: Option<Defect>,
) -> (bytes::Bytes, ColumnCloseResult) {
    let mut buffer = TrackedWrite::new(Vec::new());
    let pages = Box::new(SerializedPageWriter::new(&mut buffer));
    let properties = Arc::new(WriterProperties::builder().build());
    macro_rules! copy {
        ($type:ty, $cells:expr, $defect:expr) => {{
            let mut values = values::<$type>($cells);
            $defect(&mut values);
            let mut out = ColumnWriterImpl::<$type>::new(descr.clone(), properties, pages);
            let levels: Vec<i16> = values.iter().map(|v| i16::from(v.is_some())).collect();
            let present: Vec<_> = values.into_iter().flatten().collect();
            let levels = (descr.max_def_level() > 0).then_some(&levels[..]);
            out.write_batch(&present, levels, None).unwrap();
            out.close().unwrap()
        }};
    }
    let mut close = match (defect, cells) {
        (Some(Defect::Retyped), _) => {
            let mut out = ColumnWriterImpl::<Int32Type>::new(descr.clone(), properties, pages);
            out.write_batch(&[0; ROWS], None, None).unwrap();
            out.close().unwrap()
        }
        (_, cells @ ColumnReader::Int32ColumnReader(_)) => {
            copy!(Int32Type, cells, |v: &mut Vec<_>| apply(v, defect, |n| n as i32, |_| 0))
        }
        (_, cells @ ColumnReader::Int64ColumnReader(_)) => {
            copy!(Int64Type, cells, |v: &mut Vec<_>| apply(v, defect, |n| n, |_| 0))
        }
        (_, cells @ ColumnReader::DoubleColumnReader(_)) => {
            copy!(DoubleType, cells, |v: &mut Vec<_>| apply(v, defect, |n| n as f64, |_| 0.0))
        }
        (_, cells @ ColumnReader::ByteArrayColumnReader(_)) => {
            let number = |_| ByteArray::from("");
            copy!(ByteArrayType, cells, |v: &mut Vec<_>| apply(v, defect, number, ByteArray::from))
        }
        _ => unreachable!("no column has another type"),
    };
    close.rows_written = ROWS as u64;
    let bytes = bytes::Bytes::from(buffer.into_inner().unwrap());
    (bytes, close)
}

fn spoiled_schema(good: &Type, column: &str, defect: Defect) -> TypePtr {
    let mut text = Vec::new();
    print_schema(&mut text, good);
    let text = String::from_utf8(text).unwrap();
    let names = |line: &str| line.split([' ', ';']).any(|word| word == column);
    let lines = text.lines().filter_map(|line| match defect {
        _ if !names(line) => Some(line.to_owned()),
        Defect::Absent => None,
        Defect::Null => Some(line.replace("REQUIRED", "OPTIONAL")),
        Defect::Retyped => Some(format!("REQUIRED INT32 {column};")),
        _ => Some(line.to_owned()),
    });
    let text: Vec<String> = lines.collect();
    Arc::new(parse_message_type(&text.join("\n")).unwrap())
}

fn values<T: DataType>(cells: ColumnReader) -> Vec<Option<T::T>> {
    let mut reader = get_typed_column_reader::<T>(cells);
    let (mut values, mut levels) = (Vec::new(), Vec::new());
    reader.read_records(ROWS, Some(&mut levels), None, &mut values).unwrap();
    let mut values = values.into_iter();
    let row = |i: usize| match levels.get(i) {
        Some(0) => None,
        _ => values.next(),
    };
    (0..ROWS).map(row).collect()
}

fn apply<V>(
    values: &mut Vec<Option<V>>,
    defect: Option<Defect>,
    number: impl Fn(i64) -> V,
    text: impl Fn(&'static str) -> V,
) {
    match defect {
        Some(Defect::Short) => values.truncate(WRONG),
        Some(Defect::Null) => values[WRONG] = None,
        Some(Defect::Text(word)) => values[WRONG] = Some(text(word)),
        Some(Defect::Number(n)) => values[WRONG] = Some(number(n)),
        _ => {}
    }
}

/// Spoils one column after the other of `name`, and checks what the reader says.
fn check(dir: &RunDir, name: &str, cases: &[(&str, Defect)], read: impl Fn(&Path) -> Result<()>) {
    let good = dir.file(name);
    read(&good).unwrap();
    let bad = dir.path().join("spoiled.parquet");
    for (column, defect) in cases {
        spoil(&good, &bad, column, *defect);
        let e = read(&bad).unwrap_err();
        let case = format!("{name} {column} {defect:?}: {e}");
        assert_eq!(e.kind(), ErrorKind::Corrupt, "{case}");
        let text = e.to_string();
        assert!(text.contains("spoiled.parquet"), "{case}");
        match defect {
            // The reader's own check of lengths comes first, or the decoder's.
            Defect::Short => {}
            Defect::Absent | Defect::Retyped => {
                assert!(text.contains(&format!("column: {column}")), "{case}");
            }
            _ => {
                assert!(text.contains(&format!("column: {column}")), "{case}");
                assert!(text.contains(&format!("row: {WRONG}")), "{case}");
            }
        }
    }
}

fn run_dir() -> (tempfile::TempDir, RunDir) {
    let root = tempfile::tempdir().unwrap();
    let dir = RunDir::create(&root.path().join("run"), &fixture::manifest("r")).unwrap();
    (root, dir)
}

#[test]
fn ios() {
    let (_root, dir) = run_dir();
    let mut writer = IosWriter::create(&dir).unwrap();
    for (i, mut record) in common::varied(ROWS, 5).into_iter().enumerate() {
        // No column is the same in every row.
        record.op = [OpKind::Read, OpKind::Write][i % 2];
        record.target = i as u16 % 3;
        record.offset = Some(4096 * i as u64);
        record.sync_ns = Some(i as u64);
        let key =
            RowKey { phase: ["measure", "drain"][i % 2], workload: i as u16 % 2, worker: i as u16 };
        writer.begin(key);
        writer.push(&record).unwrap();
    }
    writer.finish().unwrap();
    let cases = [
        ("phase", Defect::Null),
        ("worker", Defect::Number(70_000)),
        ("worker", Defect::Null),
        ("workload", Defect::Number(-1)),
        ("op", Defect::Text("reed")),
        ("op", Defect::Null),
        ("offset", Defect::Number(-4096)),
        ("sync_ns", Defect::Number(-1)),
        ("submit_ns", Defect::Null),
        ("submit_ns", Defect::Absent),
        ("submit_ns", Defect::Retyped),
        ("complete_ns", Defect::Short),
        ("size", Defect::Null),
        ("status", Defect::Absent),
        ("op", Defect::Short),
    ];
    check(&dir, names::IOS, &cases, |path| read_ios(path, ColumnSet::ALL, &mut |_| Ok(())));
    // Optional columns may be absent.
    let bad = dir.path().join("without.parquet");
    spoil(&dir.file(names::IOS), &bad, "sync_ns", Defect::Absent);
    read_ios(&bad, ColumnSet::ALL, &mut |batch| {
        assert!((0..batch.rows).all(|i| batch.row(i).record.sync_ns.is_none()));
        Ok(())
    })
    .unwrap();
}

#[test]
fn intervals() {
    let (_root, dir) = run_dir();
    let row = |i: usize| IntervalRow {
        start_ns: i as i64,
        length_ns: 5,
        phase: "measure".into(),
        op: OpKind::Write,
        ops: i as u64,
        p50_ns: Some(7),
        ..IntervalRow::default()
    };
    interval_writer(&dir).write((0..ROWS).map(row)).unwrap();
    let cases = [
        ("length_ns", Defect::Number(-1)),
        ("p50_ns", Defect::Number(-7)),
        ("op", Defect::Text("")),
        ("workload", Defect::Number(1 << 20)),
        ("ops", Defect::Null),
        ("depth_mean", Defect::Null),
        ("phase", Defect::Short),
        ("bytes", Defect::Absent),
        ("start_ns", Defect::Retyped),
    ];
    check(&dir, names::INTERVALS, &cases, |path| read_intervals(path).map(drop));
}

#[test]
fn layers() {
    let (_root, dir) = run_dir();
    let row =
        |i: usize| LayerRow { blocked_ns: Some(3), ..fixture::traced_io(i as i64, i as i64 + 1) };
    let mut writer = LayerWriter::begin(&dir);
    writer.rows((0..ROWS).map(row)).unwrap();
    writer.commit().unwrap();
    let cases = [
        ("kind", Defect::Text("io?")),
        ("kind", Defect::Null),
        ("op", Defect::Text("reed")),
        // What an I/O always has; its counts of parts are both there or neither is.
        ("worker", Defect::Null),
        ("op", Defect::Null),
        ("offset", Defect::Null),
        ("size", Defect::Null),
        ("flags", Defect::Null),
        ("bios", Defect::Null),
        ("parts", Defect::Null),
        ("flags", Defect::Absent),
        ("blocked_ns", Defect::Number(-1)),
        ("start_ns", Defect::Short),
        ("end_ns", Defect::Absent),
        ("end_ns", Defect::Retyped),
    ];
    check(&dir, names::LAYERS, &cases, |path| read_layers(path, &mut |_| Ok(())));
}

#[test]
fn host_store_and_ledger() {
    let (_root, dir) = run_dir();
    let row = |i: usize| HostRow {
        start_ns: i as i64,
        source: "cpu".into(),
        metric: "%user".into(),
        value: 1.5,
        ..HostRow::default()
    };
    host_writer(&dir).write((0..ROWS).map(row)).unwrap();
    let cases = [
        ("metric", Defect::Null),
        ("value", Defect::Null),
        ("value", Defect::Short),
        ("source", Defect::Absent),
        ("end_ns", Defect::Retyped),
    ];
    check(&dir, names::HOST, &cases, |path| read_host(path, &mut |_| Ok(())));

    let row =
        |i: usize| StoreRow { at_ns: i as i64, series: "level0_files".into(), value: i as f64 };
    store_writer(&dir).write((0..ROWS).map(row)).unwrap();
    let cases = [
        ("value", Defect::Null),
        ("series", Defect::Short),
        ("at_ns", Defect::Absent),
        ("value", Defect::Retyped),
    ];
    check(&dir, names::STORE, &cases, |path| read_store(path).map(drop));

    let row = |i: usize| LedgerRow { address: i as u64, newest: 1, ..LedgerRow::default() };
    write_ledger(&dir, (0..ROWS).map(row)).unwrap();
    let cases = [
        ("state", Defect::Text("known")),
        ("address", Defect::Null),
        ("newest", Defect::Short),
        ("state", Defect::Absent),
    ];
    check(&dir, names::LEDGER, &cases, |path| read_ledger(path, &mut |_| ()));
}
