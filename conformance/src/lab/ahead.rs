//! Plays independent work on several threads and hands out the results in the order of the work.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::{Mutex, MutexGuard, PoisonError, mpsc};
use std::thread;

/// Calls `work` for each item, on up to `threads` threads, and `consume` with an iterator over the
/// results, in the order of the items. One thread begins with the items that are `large`, which
/// wait for memory, and the others with the rest. The threads end when `consume` returns, each
/// after the item at which it works; the remaining items are left out.
///
/// # Panics
/// Panics if `work` panics.
pub(crate) fn in_order<T: Sync, R: Send, O>(
    threads: NonZeroUsize,
    items: &[T],
    large: impl Fn(&T) -> bool,
    work: impl Fn(&T) -> R + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = R>) -> O,
) -> O {
    let queue = Queue::new(items.iter().map(large));
    thread::scope(|scope| {
        let (queue, work) = (&queue, &work);
        let (sender, receiver) = mpsc::channel();
        for n in 0..threads.get().min(items.len()) {
            let sender = sender.clone();
            scope.spawn(move || {
                while let Some(index) = queue.next(n == 0) {
                    let work = || work(&items[index]);
                    // A thread of its own gives all memory back when it ends; the allocator keeps
                    // some of the memory that a long-lived thread has freed.
                    let result = thread::scope(|one| one.spawn(work).join());
                    // The receiver is dropped after `consume` returned.
                    if sender.send((index, result)).is_err() {
                        return;
                    }
                }
            });
        }
        // The end of all threads then ends the wait for a result.
        drop(sender);
        let _end = EndOnDrop(queue);
        let mut early = BTreeMap::new();
        let mut result = |index| {
            while !early.contains_key(&index) {
                let (index, result) = receiver.recv().expect("each item has a result");
                early.insert(index, result);
            }
            early.remove(&index)?.map_or_else(|panic| resume_unwind(panic), Some)
        };
        consume(&mut (0..items.len()).map_while(&mut result))
    })
}

/// Indices of the items that have not begun: the small ones, and the large ones.
struct Queue(Mutex<[VecDeque<usize>; 2]>);

impl Queue {
    fn new(are_large: impl Iterator<Item = bool>) -> Self {
        let mut queues = [VecDeque::new(), VecDeque::new()];
        for (index, is_large) in are_large.enumerate() {
            queues[usize::from(is_large)].push_back(index);
        }
        Self(Mutex::new(queues))
    }

    fn queues(&self) -> MutexGuard<'_, [VecDeque<usize>; 2]> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the next item of the preferred size, else one of the other size.
    fn next(&self, prefers_large: bool) -> Option<usize> {
        let [small, large] = &mut *self.queues();
        let (first, second) = if prefers_large { (large, small) } else { (small, large) };
        first.pop_front().or_else(|| second.pop_front())
    }
}

/// Empties a queue, also if the consumer panics.
struct EndOnDrop<'a>(&'a Queue);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.queues().iter_mut().for_each(VecDeque::clear);
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Mutex, mpsc};

    use super::{Queue, in_order};

    const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

    fn never<T>(_: &T) -> bool {
        false
    }

    #[test]
    fn results_of_several_threads_arrive_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        for large in [never, |it: &usize| it.is_multiple_of(7)] {
            let squares: Vec<_> = in_order(THREE, &items, large, |it| it * it, |all| all.collect());
            assert_eq!(squares, items.iter().map(|it| it * it).collect::<Vec<_>>());
        }
        assert_eq!(in_order(THREE, &items[..0], never, |it| *it, |all| all.count()), 0);
    }

    #[test]
    fn a_thread_that_prefers_large_items_gets_small_ones_after_them() {
        let queue = Queue::new([false, true, false, true].into_iter());
        let order = [true, false, true, true, false].map(|prefers| queue.next(prefers));
        assert_eq!(order, [Some(1), Some(0), Some(3), Some(2), None]);
    }

    #[test]
    fn a_consumer_that_returns_early_leaves_out_the_remaining_items() {
        let (sender, receiver) = mpsc::channel::<()>();
        let (receiver, done) = (Mutex::new(receiver), AtomicUsize::new(0));
        let items: Vec<usize> = (0..10_000).collect();
        // All items but the first wait until the consumer has taken the first result.
        let work = |it: &usize| {
            let is_let_through = *it == 0 || receiver.lock().unwrap().recv().is_err();
            done.fetch_add(1, Ordering::Relaxed);
            is_let_through
        };
        let first = in_order(THREE, &items, never, work, |all| {
            let first = all.next();
            drop(sender);
            first
        });
        assert_eq!(first, Some(true));
        assert!(done.load(Ordering::Relaxed) < items.len(), "{done:?}");
    }

    #[test]
    #[should_panic(expected = "item 2")]
    fn a_panic_of_the_work_reaches_the_caller() {
        let items: Vec<usize> = (0..10_000).collect();
        let work = |it: &usize| assert_ne!(*it, 2, "item 2");
        in_order(THREE, &items, never, work, |all| all.count());
    }

    #[test]
    fn a_long_item_does_not_keep_others_waiting() {
        let (sender, receiver) = mpsc::channel();
        let receiver = Mutex::new(receiver);
        let items: Vec<usize> = (0..100).collect();
        // The first item ends when all others have.
        let work = |it: &usize| match it {
            0 => assert_eq!(receiver.lock().unwrap().iter().take(99).count(), 99),
            _ => sender.send(()).unwrap(),
        };
        assert_eq!(in_order(THREE, &items, never, work, |all| all.count()), 100);
    }
}
