//! [`Recency`]: numbers in the order of their last use (LRU), as a list in an array.

/// No number.
pub(super) const NONE: u32 = u32::MAX;

/// Numbers in the order of their last use; see the module.
pub(super) struct Recency {
    links: Vec<Link>,
    newest: u32,
    oldest: u32,
}

#[derive(Clone, Copy)]
struct Link {
    newer: u32,
    older: u32,
    is_in: bool,
}

impl Default for Recency {
    fn default() -> Self {
        Recency { links: Vec::new(), newest: NONE, oldest: NONE }
    }
}

impl Recency {
    /// Adds a number, as the most recently used one. Does nothing if it is there.
    pub(super) fn add(&mut self, number: u32) {
        let at = number as usize;
        if self.links.len() <= at {
            self.links.resize(at + 1, Link { newer: NONE, older: NONE, is_in: false });
        }
        if self.links[at].is_in {
            return;
        }
        self.links[at] = Link { newer: NONE, older: self.newest, is_in: true };
        match self.links.get_mut(self.newest as usize) {
            Some(newest) => newest.newer = number,
            None => self.oldest = number,
        }
        self.newest = number;
    }

    /// Removes a number, if it is there.
    pub(super) fn remove(&mut self, number: u32) {
        let Some(link) = self.links.get_mut(number as usize).filter(|link| link.is_in) else { return };
        link.is_in = false;
        let Link { newer, older, .. } = *link;
        match self.links.get_mut(newer as usize) {
            Some(link) => link.older = older,
            None => self.newest = older,
        }
        match self.links.get_mut(older as usize) {
            Some(link) => link.newer = newer,
            None => self.oldest = newer,
        }
    }

    /// Makes a number the most recently used one, if it is there.
    pub(super) fn touch(&mut self, number: u32) {
        if number != self.newest && self.links.get(number as usize).is_some_and(|link| link.is_in) {
            self.remove(number);
            self.add(number);
        }
    }

    /// The least recently used numbers, at most `most`.
    pub(super) fn oldest(&self, most: usize) -> impl Iterator<Item = u32> {
        let next = |number: &u32| self.links.get(*number as usize).map(|link| link.newer);
        let first = (self.oldest != NONE).then_some(self.oldest);
        std::iter::successors(first, move |number| next(number).filter(|next| *next != NONE)).take(most)
    }

    /// The bytes of memory that it takes.
    pub(super) fn bytes(&self) -> usize {
        self.links.capacity() * size_of::<Link>()
    }
}
