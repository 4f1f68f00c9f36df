//! Ranks that listen under names known before: a rank that does not listen yet is waited for.

use super::*;

/// A name that nobody else uses.
fn name() -> String {
    let random = Listener::bind().unwrap();
    format!("{}-name", random.address())
}

fn named(name: &str) -> Callers {
    Callers::new(Listener::named(name, SOON).unwrap())
}

/// Two ranks of which one listens only after a while, the higher or the lower one.
#[test]
fn a_rank_that_does_not_listen_yet_is_tried_again() {
    for late in [0, 1] {
        let addresses = [name(), name()];
        let meet = |rank: u32| {
            if rank == late {
                std::thread::sleep(Duration::from_millis(30));
            }
            let mut callers = named(&addresses[rank as usize]);
            Owner::new(rank, 2).connect_named(&mut callers, &addresses, SOON).unwrap()
        };
        let met = std::thread::scope(|scope| {
            let ranks = [0, 1].map(|rank| scope.spawn(move || meet(rank)));
            ranks.map(|rank| rank.join().unwrap())
        });
        check(&met);
    }
}

#[test]
fn a_rank_that_never_listens_is_named_when_the_time_is_over() {
    let addresses = [name(), name()];
    let mut callers = named(&addresses[1]);
    let patience = Duration::from_millis(60);
    let start = Instant::now();
    let error = Owner::new(1, 2).connect_named(&mut callers, &addresses, patience).unwrap_err();
    assert!(start.elapsed() >= patience);
    assert!(matches!(&error, SetupError::Missing { ranks, .. } if *ranks == [0]), "{error}");
}

#[test]
fn the_name_of_the_process_before_is_waited_for() {
    let name = name();
    let before = Listener::named(&name, SOON).unwrap();
    let after = std::thread::scope(|scope| {
        let after = scope.spawn(|| Listener::named(&name, SOON));
        std::thread::sleep(Duration::from_millis(30));
        drop(before);
        after.join().unwrap()
    });
    assert_eq!(after.unwrap().address().as_str(), name);
}

#[test]
fn a_name_that_another_keeps_is_an_error_that_names_it() {
    let name = name();
    let _before = Listener::named(&name, SOON).unwrap();
    let patience = Duration::from_millis(20);
    let error = Listener::named(&name, patience).unwrap_err();
    assert_eq!(error, SetupError::NameTaken { name: name.clone(), waited: patience });
    assert!(error.to_string().contains(&name), "{error}");
    let error = Listener::named("no name", patience).unwrap_err();
    assert!(matches!(error, SetupError::Malformed(_)), "{error}");
}

/// A child that lives on when its parent was killed has none of its names.
#[test]
fn a_forked_child_keeps_no_name() {
    if !alone(module_path!(), "a_forked_child_keeps_no_name", "true") {
        return;
    }
    let name = name();
    let before = Listener::named(&name, SOON).unwrap();
    // SAFETY: the child only waits, and is killed.
    let child = unsafe { libc::fork() };
    if child == 0 {
        loop {
            // SAFETY: waits for a signal.
            unsafe { libc::pause() };
        }
    }
    // As if this process were killed.
    drop(before);
    let after = Listener::named(&name, SOON).unwrap();
    assert_eq!(after.address().as_str(), name);
    // SAFETY: our own child, which has not been reaped.
    assert_eq!(unsafe { libc::kill(child, libc::SIGKILL) }, 0, "it lives on");
}
