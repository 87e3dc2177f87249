//! Suite files: those of the program are sound, and broken ones are refused.

use taillight_core::units::ByteSize;

use super::slc_paper::Side;
use super::*;

fn suite(name: &str) -> SuiteFile {
    SuiteFile::parse(&embedded(name).expect("a suite of the program")).expect("a suite file")
}

fn user_file(text: &str) -> Result<SuiteFile> {
    SuiteFile::parse(&JobSource::written("mine.toml", text))
}

#[test]
fn every_suite_of_the_program_is_a_suite_called_like_its_file() {
    assert!(names().count() >= 6);
    for name in names() {
        let own = match suite(name) {
            SuiteFile::Matrix(s) => s.name,
            SuiteFile::Ycsb(s) => s.name,
            SuiteFile::SlcPaper(s) => s.name,
            SuiteFile::Phases(s) => s.check().map(|()| s.name).expect("phases in order"),
        };
        assert_eq!(own, name);
    }
    assert!(embedded("nothing").is_none());
}

#[test]
fn the_order_is_ycsb_s() {
    let SuiteFile::Ycsb(suite) = suite("ycsb") else {
        panic!("another rule");
    };
    suite.check().expect("each workload once");
    let all: Vec<String> = ["e", "a", "d", "b", "a", "f", "c"].map(String::from).to_vec();
    let chosen = suite.choose(&all).expect("known names");
    let names: Vec<_> = chosen.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "f", "d", "e"]);
    assert!(suite.choose(&["g".to_owned()]).is_err());
}

#[test]
fn a_broken_suite_is_refused() {
    let text = "rule = 'ycsb'\nname = 'x'\nabout = ''\norder = ['a']\n\
                [[workload]]\nname = 'a'\nabout = ''\n";
    assert!(user_file(text).is_ok());
    assert!(user_file(&text.replace("about = ''\norder", "abot = ''\norder")).is_err());
    assert!(user_file(&text.replace("'ycsb'", "'yscb'")).is_err());
    let other = user_file(&text.replace("name = 'a'", "name = 'b'")).expect("well-formed");
    let SuiteFile::Ycsb(other) = other else {
        panic!("another rule");
    };
    assert!(other.check().is_err(), "the order names what is not there");
}

#[test]
fn the_slc_matrix_is_the_paper_s() {
    let SuiteFile::SlcPaper(suite) = suite("slc-paper") else {
        panic!("another rule");
    };
    assert_eq!(suite.sizes, [100, 1_000, 100_000].map(ByteSize));
    let mut printed = Vec::new();
    for system in &suite.systems {
        for side in Side::BOTH {
            for size in &suite.sizes {
                printed.push(suite.printed(&system.name, side, *size).expect("printed"));
            }
        }
    }
    let numbers: Vec<u32> = printed.iter().map(|f| f.figure).collect();
    assert_eq!(numbers, (1..=24).collect::<Vec<_>>());
    let at = |n: usize| (printed[n - 1].slc1, printed[n - 1].slc2);
    assert_eq!((at(1), at(3), at(10), at(21)), ((0, 3), (3, 107), (7, 8), (0, 1)));
    let doubted = printed.iter().filter(|f| f.doubt).map(|f| f.figure);
    assert_eq!(doubted.collect::<Vec<_>>(), [9, 15]);
    let (short, full) = (suite.scale["short"], suite.scale["full"]);
    assert!(short.time.0 < full.time.0 && short.bytes.0 < full.bytes.0);
    assert_eq!(suite.printed("file", Side::Read, ByteSize(7)), None);
}
