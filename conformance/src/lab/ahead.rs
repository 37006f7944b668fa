//! Plays independent work on several threads and hands out the results in the order of the work.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::mpsc;

/// Number of results per thread that wait for their turn. A thread that is further ahead pauses.
const WAITING: usize = 64;

/// Calls `work` for each item, on up to `threads` threads, and `consume` with an iterator over the
/// results, in the order of the items. The threads end when `consume` returns, each after the item
/// at which it works; the remaining items are left out.
///
/// # Panics
/// Panics if `work` panics.
pub(crate) fn in_order<T: Sync, R: Send, O>(
    threads: NonZeroUsize,
    items: &[T],
    work: impl Fn(&T) -> R + Sync,
    consume: impl FnOnce(&mut dyn Iterator<Item = R>) -> O,
) -> O {
    let threads = threads.get().min(items.len()).max(1);
    std::thread::scope(|scope| {
        let work = &work;
        let receivers: Vec<_> = (0..threads)
            .map(|first| {
                let (sender, receiver) = mpsc::sync_channel(WAITING);
                scope.spawn(move || {
                    let mut mine = items.iter().skip(first).step_by(threads);
                    // A thread of its own gives all memory back when it ends; the allocator keeps
                    // some of the memory that a long-lived thread has freed.
                    let work = |item| std::thread::scope(|one| one.spawn(|| work(item)).join());
                    // The receiver is dropped after `consume` returned.
                    mine.try_for_each(|item| {
                        let result = work(item).unwrap_or_else(|panic| resume_unwind(panic));
                        sender.send(result)
                    })
                });
                receiver
            })
            .collect();
        let next = |n: usize| receivers[n % threads].recv().expect("`work` does not panic");
        consume(&mut (0..items.len()).map(next))
    })
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroUsize;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::in_order;

    const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

    #[test]
    fn results_of_several_threads_arrive_in_the_order_of_the_items() {
        let items: Vec<usize> = (0..100).collect();
        let squares = in_order(THREE, &items, |it| it * it, |all| all.collect::<Vec<_>>());
        assert_eq!(squares, items.iter().map(|it| it * it).collect::<Vec<_>>());
        assert_eq!(in_order(THREE, &items[..0], |it| *it, |all| all.count()), 0);
    }

    #[test]
    fn a_consumer_that_returns_early_leaves_out_the_remaining_items() {
        let (items, done) = (vec![(); 10_000], AtomicUsize::new(0));
        let work = |(): &()| done.fetch_add(1, Ordering::Relaxed);
        assert!(in_order(THREE, &items, work, |all| all.next()).is_some());
        // Per thread: the results that wait, one that could not be sent, and the consumed one.
        let most = 3 * (super::WAITING + 1) + 1;
        assert!(done.load(Ordering::Relaxed) <= most, "{done:?}");
    }

    #[test]
    #[should_panic(expected = "`work` does not panic")]
    fn a_panic_of_the_work_reaches_the_caller() {
        let work = |it: &u8| assert_ne!(*it, 2);
        in_order(THREE, &[1, 2, 3, 4], work, |all| all.count());
    }
}
