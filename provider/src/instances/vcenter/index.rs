//! Lists with one value per vCenter, in the order of the vCenters, and positions in such lists.

use std::ops::{Index, IndexMut};

/// Position of a vCenter in the backend's list of vCenters. Outside of tests, only the methods of
/// [`PerVcenter`] return positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct VcenterIndex(usize);

#[cfg(test)]
impl VcenterIndex {
    /// Position of the first vCenter.
    pub(super) const FIRST: Self = Self(0);
    /// Position of the second vCenter.
    pub(super) const SECOND: Self = Self(1);
}

/// One value per vCenter.
#[derive(Clone, Debug)]
pub(crate) struct PerVcenter<T>(Vec<T>);

impl<T> PerVcenter<T> {
    /// Returns the number of vCenters.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns the positions of all vCenters.
    pub(super) fn indexes(&self) -> impl Iterator<Item = VcenterIndex> + use<T> {
        (0..self.0.len()).map(VcenterIndex)
    }

    pub(super) fn iter(&self) -> std::slice::Iter<'_, T> {
        self.0.iter()
    }

    /// Returns the first position whose value satisfies the predicate; `None` if no value does.
    pub(super) fn position(&self, predicate: impl FnMut(&T) -> bool) -> Option<VcenterIndex> {
        self.0.iter().position(predicate).map(VcenterIndex)
    }
}

impl<T> Default for PerVcenter<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> FromIterator<T> for PerVcenter<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T> Index<VcenterIndex> for PerVcenter<T> {
    type Output = T;

    fn index(&self, index: VcenterIndex) -> &T {
        &self.0[index.0]
    }
}

impl<T> IndexMut<VcenterIndex> for PerVcenter<T> {
    fn index_mut(&mut self, index: VcenterIndex) -> &mut T {
        &mut self.0[index.0]
    }
}

impl<'a, T> IntoIterator for &'a PerVcenter<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

impl<'a, T> IntoIterator for &'a mut PerVcenter<T> {
    type Item = &'a mut T;
    type IntoIter = std::slice::IterMut<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter_mut()
    }
}
