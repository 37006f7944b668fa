//! Events of a history, and their generator.

use proptest::prelude::*;

/// A group: `workers` from 0 to 5 machines, or `others` from 1 to 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Of {
    Workers,
    Others,
}

/// A change that an autoscaler asks for.
#[derive(Clone, Debug)]
pub(super) enum Change {
    Increase(i32),
    Decrease(i32),
    Delete {
        /// Numbers that choose instances, also deleted ones. The same may be chosen twice.
        picks: Vec<u8>,
        /// A node that is no instance of the group, at the end of the list.
        stranger: Option<Stranger>,
        /// True if the autoscaler says that the creation of the instances failed.
        says_failed: bool,
    },
}

/// A node that is no instance of the group.
#[derive(Clone, Copy, Debug)]
pub(super) enum Stranger {
    Unknown,
    OtherGroup,
}

/// Disturbance of a change.
#[derive(Clone, Copy, Debug)]
pub(super) enum Weather {
    Calm,
    /// A call of the server to the Supervisor fails: the n-th, counted from the change.
    Failure(Failure, u8),
    /// The server is killed after so many milliseconds, and started again.
    Killed(u16),
    /// The client gives the call up after so many milliseconds.
    Cancelled(u16),
}

/// Failure of a call to the Supervisor.
#[derive(Clone, Copy, Debug)]
pub(super) enum Failure {
    /// Answered with 500.
    Refused,
    /// Answered with 403, as for a quota.
    Forbidden,
    /// The connection breaks before the call takes effect.
    CutBefore,
    /// The connection breaks after the call took effect.
    CutAfter,
}

/// An event of a history.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Change(Of, Change, Weather),
    /// The same change twice, one after the other.
    Twice(Of, Change),
    /// Two changes of a group at the same time.
    Both(Of, Change, Change),
    /// Gives up an instance without machine, and then deletes it by name.
    GiveUpAndDelete(Of, u8),
    /// The server is killed and started again.
    Restart,
    /// VM Operator stops to make and destroy machines, or goes on.
    Hold(bool),
    /// The Secret that the machines need is missing, or is there again.
    Break(bool),
    /// Other hands delete the VirtualMachine of an instance.
    Destroy(Of, u8),
    /// The Supervisor does not answer for so many seconds.
    Outage(u16),
    /// Every read, `Refresh` and `Cleanup`.
    Reads,
    Wait(u16),
}

fn of() -> impl Strategy<Value = Of> {
    prop_oneof![3 => Just(Of::Workers), 1 => Just(Of::Others)]
}

fn change() -> impl Strategy<Value = Change> {
    let stranger = prop_oneof![
        8 => Just(None),
        1 => Just(Some(Stranger::Unknown)),
        1 => Just(Some(Stranger::OtherGroup)),
    ];
    let delete = (prop::collection::vec(any::<u8>(), 0..4), stranger, any::<bool>());
    prop_oneof![
        4 => (1..4_i32).prop_map(Change::Increase),
        1 => prop_oneof![Just(0), Just(-1), Just(6), Just(i32::MAX)].prop_map(Change::Increase),
        2 => (-3..2_i32).prop_map(Change::Decrease),
        4 => delete.prop_map(|(picks, stranger, says_failed)| Change::Delete {
            picks,
            stranger,
            says_failed
        }),
    ]
}

fn weather() -> impl Strategy<Value = Weather> {
    let failure = prop_oneof![
        Just(Failure::Refused),
        Just(Failure::Forbidden),
        Just(Failure::CutBefore),
        Just(Failure::CutAfter),
    ];
    prop_oneof![
        4 => Just(Weather::Calm),
        2 => (failure, 1..4_u8).prop_map(|(failure, nth)| Weather::Failure(failure, nth)),
        1 => (0..100_u16).prop_map(Weather::Killed),
        1 => (0..100_u16).prop_map(Weather::Cancelled),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        8 => (of(), change(), weather()).prop_map(|(of, it, weather)| Event::Change(of, it, weather)),
        2 => (of(), change()).prop_map(|(of, it)| Event::Twice(of, it)),
        2 => (of(), change(), change()).prop_map(|(of, a, b)| Event::Both(of, a, b)),
        1 => (of(), any::<u8>()).prop_map(|(of, pick)| Event::GiveUpAndDelete(of, pick)),
        1 => Just(Event::Restart),
        2 => any::<bool>().prop_map(Event::Hold),
        1 => any::<bool>().prop_map(Event::Break),
        1 => (of(), any::<u8>()).prop_map(|(of, pick)| Event::Destroy(of, pick)),
        1 => (1..500_u16).prop_map(Event::Outage),
        1 => Just(Event::Reads),
        3 => (0..200_u16).prop_map(Event::Wait),
    ]
}

/// Generates histories.
pub(super) fn events() -> impl Strategy<Value = Vec<Event>> {
    prop::collection::vec(event(), 1..25)
}
