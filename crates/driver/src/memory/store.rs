//! The store: an ordered map of keys to values that are overwritten in place.

use std::ops::Bound;
use std::sync::{PoisonError, RwLock};

use crossbeam_skiplist::SkipMap;

/// Keys in byte order. A value keeps its memory when it is overwritten.
#[derive(Default)]
pub struct OrderedMap {
    map: SkipMap<Box<[u8]>, RwLock<Vec<u8>>>,
}

impl OrderedMap {
    /// Writes a whole value; takes memory for a new key or a longer value.
    pub fn put(&self, key: &[u8], value: &[u8]) {
        match self.map.get(key) {
            Some(entry) => {
                let mut held = entry.value().write().unwrap_or_else(PoisonError::into_inner);
                held.clear();
                held.extend_from_slice(value);
            }
            None => {
                self.map.insert(key.into(), RwLock::new(value.to_vec()));
            }
        }
    }

    /// Changes a value in place; `None` when the key is not there.
    pub fn change<T>(&self, key: &[u8], change: impl FnOnce(&mut Vec<u8>) -> T) -> Option<T> {
        let entry = self.map.get(key)?;
        let mut held = entry.value().write().unwrap_or_else(PoisonError::into_inner);
        Some(change(&mut held))
    }

    /// What `read` makes of a value; `None` when the key is not there.
    pub fn with_value<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Option<T> {
        let entry = self.map.get(key)?;
        let held = entry.value().read().unwrap_or_else(PoisonError::into_inner);
        Some(read(&held))
    }

    /// Removes a key; whether it was there.
    pub fn delete(&self, key: &[u8]) -> bool {
        self.map.remove(key).is_some()
    }

    /// Up to `count` values from `key` on, in key order or against it; each is shown.
    pub fn scan(&self, key: &[u8], count: u32, reverse: bool, mut show: impl FnMut(&[u8])) -> u32 {
        let mut seen = 0;
        let mut one = |value: &RwLock<Vec<u8>>| {
            show(&value.read().unwrap_or_else(PoisonError::into_inner));
            seen += 1;
        };
        if reverse {
            let range = (Bound::Unbounded, Bound::Included(key));
            for entry in self.map.range::<[u8], _>(range).rev().take(count as usize) {
                one(entry.value());
            }
        } else {
            let range = (Bound::Included(key), Bound::Unbounded);
            for entry in self.map.range::<[u8], _>(range).take(count as usize) {
                one(entry.value());
            }
        }
        seen
    }

    /// Shows every key with its value, in key order.
    pub fn each(&self, mut show: impl FnMut(&[u8], &[u8])) {
        for entry in self.map.iter() {
            let held = entry.value().read().unwrap_or_else(PoisonError::into_inner);
            show(entry.key(), &held);
        }
    }

    pub fn clear(&self) {
        self.map.clear();
    }

    pub fn len(&self) -> usize {
        self.map.len()
    }
}
