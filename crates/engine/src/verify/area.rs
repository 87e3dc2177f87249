//! Where verified blocks lie: from an operation to numbers of blocks.

use taillight_core::Op;
use taillight_core::plan::Plan;
use taillight_driver::Geometry;

/// The part of the data set that is verified, in blocks of one size; or a range of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerifiedArea {
    /// Bytes in a block; 0 for keys.
    pub unit: u64,
    /// Offset in the data set of the first block; first key.
    pub first: u64,
    pub blocks: u64,
    /// Bytes in each file, for global offsets; `u64::MAX` = one file.
    pub file_size: u64,
    /// Addresses are key numbers, and each value is one block.
    pub keyed: bool,
}

/// The blocks of one operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AreaBlocks {
    /// Number of the first one.
    pub first: u64,
    /// Address of the first one.
    pub address: u64,
    pub count: usize,
    pub length: usize,
}

impl VerifiedArea {
    /// The extents of all workloads of a plan, in the largest blocks that fit all of them.
    pub fn of(plan: &Plan, shape: Geometry) -> VerifiedArea {
        let unit = plan.verified_unit(if shape.files > 1 { shape.file_size } else { 0 });
        let (first, end) = plan.verified_extent(shape.size());
        VerifiedArea {
            unit,
            first,
            blocks: end.saturating_sub(first) / unit,
            file_size: if shape.files > 1 { shape.file_size } else { u64::MAX },
            keyed: false,
        }
    }

    /// A range of keys; each value is a block.
    pub fn keys(first: u64, count: u64) -> VerifiedArea {
        VerifiedArea { unit: 0, first, blocks: count, file_size: u64::MAX, keyed: true }
    }

    /// The blocks of an operation.
    #[inline]
    pub fn blocks(&self, op: &Op) -> AreaBlocks {
        if self.keyed {
            return AreaBlocks {
                first: op.key.wrapping_sub(self.first),
                address: op.key,
                count: 1,
                length: op.size as usize,
            };
        }
        let address = match op.target {
            0 => op.offset,
            file => u64::from(file) * self.file_size + op.offset,
        };
        AreaBlocks {
            first: address.wrapping_sub(self.first) / self.unit,
            address,
            count: (op.size / self.unit) as usize,
            length: self.unit as usize,
        }
    }

    /// Most blocks in one operation of this size.
    pub fn per_operation(&self, size: u64) -> usize {
        match self.keyed {
            true => 1,
            false => (size / self.unit.max(1)) as usize,
        }
    }

    /// Number of the block at an address; `None` outside of the area or between two blocks.
    pub fn number(&self, address: u64) -> Option<u64> {
        let unit = if self.keyed { 1 } else { self.unit.max(1) };
        let from = address.checked_sub(self.first)?;
        (from % unit == 0 && from / unit < self.blocks).then(|| from / unit)
    }

    /// Address of a block.
    pub fn address(&self, number: u64) -> u64 {
        let unit = if self.keyed { 1 } else { self.unit };
        self.first + number * unit
    }

    /// File and offset of an address.
    pub fn locate(&self, address: u64) -> (u16, u64) {
        ((address / self.file_size) as u16, address % self.file_size)
    }
}
