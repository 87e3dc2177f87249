//! Tests of the ordered map that driver `memory` keeps its records in: order of scans, deletes, overwriting. The rules
//! of the contract are checked by the conformance suite.

use super::store::OrderedMap;

#[test]
fn keys_are_in_order_and_scans_go_both_ways() {
    let store = OrderedMap::default();
    for k in [b"b", b"d", b"a", b"c"] {
        store.put(k, k);
    }
    let mut seen = Vec::new();
    assert_eq!(store.scan(b"b", 2, false, |v| seen.push(v[0])), 2);
    assert_eq!(store.scan(b"c", 9, true, |v| seen.push(v[0])), 3);
    assert_eq!(seen, b"bccba");
    assert!(store.delete(b"b"));
    assert!(!store.delete(b"b"));
    assert_eq!(store.with_value(b"b", |_| ()), None);
    assert_eq!(store.scan(b"a", 2, false, |v| seen.push(v[0])), 2);
    assert_eq!(&seen[5..], b"ac");
}

#[test]
fn a_value_is_overwritten_in_place() {
    let store = OrderedMap::default();
    store.put(b"k", &[1; 64]);
    let at = store.change(b"k", |v| v.as_ptr() as usize);
    store.put(b"k", &[2; 64]);
    assert_eq!(store.change(b"k", |v| v.as_ptr() as usize), at);
    assert_eq!(store.with_value(b"k", |v| v.to_vec()), Some(vec![2; 64]));
    assert_eq!(store.len(), 1);
}
