use super::*;

fn server(ranks: usize) -> Server {
    Server::new(ranks, "job".to_owned(), false)
}

/// The one answer to a line, as text.
fn ask(server: &mut Server, rank: usize, line: &str) -> String {
    match server.hear(rank, line.as_bytes()).unwrap().as_slice() {
        [ServerAction::Say { to, message }] if *to == rank => message.to_line().unwrap(),
        other => panic!("{line} gave {other:?}"),
    }
}

#[test]
fn the_exchange_of_a_starting_mpich_program() {
    let mut s = server(2);
    assert_eq!(
        ask(&mut s, 0, "cmd=init pmi_version=1 pmi_subversion=1\n"),
        "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n"
    );
    assert_eq!(ask(&mut s, 0, "cmd=get_appnum"), "cmd=appnum appnum=0\n");
    assert_eq!(ask(&mut s, 0, "cmd=get_my_kvsname"), "cmd=my_kvsname kvsname=job\n");
    assert_eq!(
        ask(&mut s, 0, "cmd=get kvsname=job key=PMI_process_mapping"),
        "cmd=get_result rc=0 msg=success value=(vector,(0,1,2))\n"
    );
    ask(&mut s, 1, "cmd=put kvsname=job key=P1 value=a=b$c#");
    assert!(s.hear(1, b"cmd=barrier_in").unwrap().is_empty());
    let out = s.hear(0, b"cmd=barrier_in").unwrap();
    assert_eq!(out.len(), 2);
    assert!(
        matches!(&out[1], ServerAction::Say { to: 1, message } if message.cmd == "barrier_out")
    );
    assert_eq!(
        ask(&mut s, 0, "cmd=get kvsname=job key=P1"),
        "cmd=get_result rc=0 msg=success value=a=b$c#\n"
    );
    assert_eq!(ask(&mut s, 0, "cmd=finalize"), "cmd=finalize_ack\n");
    assert_eq!(s.gone(0), vec![]);
}

#[test]
fn what_cannot_be_done_is_refused_and_said_why() {
    let mut s = server(1);
    assert!(ask(&mut s, 0, "cmd=init pmi_version=2").contains("rc=-1"));
    assert!(ask(&mut s, 0, "cmd=get kvsname=job key=x").contains("rc=-1 msg=key_not_found"));
    assert!(ask(&mut s, 0, "cmd=get kvsname=other key=x").contains("unknown_kvsname"));
    assert!(ask(&mut s, 0, "cmd=put kvsname=job key=x").contains("missing"));
    assert!(ask(&mut s, 0, "cmd=put kvsname=job key=x value=").contains("rc=0"));
    assert!(ask(&mut s, 0, "cmd=put kvsname=job key=x value=").contains("rc=0"), "the same again");
    assert!(ask(&mut s, 0, "cmd=put kvsname=job key=x value=2").contains("duplicate_key"));
    // It could not be said to whoever asks for it.
    for value in [" a", r"\", r"a b\"] {
        let put = format!("cmd=put kvsname=job key=z value={value}");
        assert!(ask(&mut s, 0, &put).contains("value_cannot_be_written"), "{value:?}");
    }
    for cmd in [r"da\nce".to_owned(), "d".repeat(pmi::MAX_LINE - 10)] {
        let answer = ask(&mut s, 0, &format!("cmd={cmd}"));
        assert!(answer.contains("unknown_command"), "{answer}");
    }
    let long = format!("cmd=put kvsname=job key=y value={}", "v".repeat(VALLEN_MAX));
    assert!(ask(&mut s, 0, &long).contains("too_long"));
    assert!(ask(&mut s, 0, "cmd=dance").contains("dance_result rc=-1 msg=unknown_command"));
    for line in ["mcmd=spawn", "nprocs=2", "execname=x"] {
        assert!(s.hear(0, line.as_bytes()).unwrap().is_empty());
    }
    let actions = s.hear(0, b"endcmd\n").unwrap();
    let [ServerAction::SpawnRefused, ServerAction::Say { to: 0, message }] = &actions[..] else {
        panic!("{actions:?}");
    };
    assert!(message.to_line().unwrap().contains("spawn_result rc=-1"), "{message:?}");
    assert!(s.hear(0, b"\x00\xff").is_err());
}

#[test]
fn who_is_in_a_barrier_and_who_is_not_is_known() {
    let mut s = server(3);
    assert_eq!(s.open_barrier(), None);
    let open = |number, waiting: &[u32], missing: &[u32]| {
        Some(OpenBarrier { number, waiting: waiting.to_vec(), missing: missing.to_vec() })
    };
    assert!(s.hear(1, b"cmd=barrier_in").unwrap().is_empty());
    assert_eq!(s.open_barrier(), open(0, &[1], &[0, 2]));
    assert!(s.hear(2, b"cmd=barrier_in").unwrap().is_empty());
    assert_eq!(s.open_barrier(), open(0, &[1, 2], &[0]));
    assert_eq!(s.hear(0, b"cmd=barrier_in").unwrap().len(), 3);
    assert_eq!(s.open_barrier(), None);
    assert!(s.hear(0, b"cmd=barrier_in").unwrap().is_empty());
    assert_eq!(s.open_barrier(), open(1, &[0], &[1, 2]));
}

#[test]
fn a_barrier_that_cannot_be_complete_is_noticed_whoever_comes_first() {
    let mut s = server(3);
    assert_eq!(s.gone(2), vec![]);
    assert_eq!(s.hear(1, b"cmd=barrier_in"), Ok(vec![ServerAction::Stuck { waiting: 1, gone: 2 }]));
    let mut s = server(3);
    assert_eq!(s.hear(1, b"cmd=barrier_in"), Ok(vec![]));
    assert_eq!(s.gone(0), vec![ServerAction::Stuck { waiting: 1, gone: 0 }]);
}

#[test]
fn abort_carries_its_code() {
    let heard = server(1).hear(0, b"cmd=abort exitcode=7 error_msg=too bad");
    let message = Some("too bad".to_owned());
    assert_eq!(heard, Ok(vec![ServerAction::Abort { code: 7, message }]));
}

/// A line that gives no answer yet.
fn tell(server: &mut Server, rank: usize, line: &str) {
    assert_eq!(server.hear(rank, line.as_bytes()), Ok(vec![]), "{line}");
}

/// ServerAction as `rank: line`.
fn said(actions: Vec<ServerAction>) -> Vec<String> {
    let text = |action| match action {
        ServerAction::Say { to, message } => format!("{to}: {}", message.to_line().unwrap().trim()),
        other => panic!("{other:?}"),
    };
    actions.into_iter().map(text).collect()
}

fn put(rank: usize, value: &str) -> String {
    format!("cmd=put kvsname=job key=taffrail-{rank} value={value}")
}

const GET: [&str; 3] = [
    "cmd=get kvsname=job key=taffrail-0",
    "cmd=get kvsname=job key=taffrail-1",
    "cmd=get kvsname=job key=taffrail-2",
];

/// Three ranks that have exchanged addresses, as at the start of every program.
fn started() -> Server {
    let mut s = server(3);
    for rank in 0..3 {
        assert!(ask(&mut s, rank, &put(rank, "first")).contains("rc=0"));
    }
    tell(&mut s, 0, "cmd=barrier_in");
    tell(&mut s, 1, "cmd=barrier_in");
    assert_eq!(s.hear(2, b"cmd=barrier_in").unwrap().len(), 3);
    s
}

#[test]
fn a_rank_that_starts_again_is_served_out_of_history() {
    let mut s = started();
    tell(&mut s, 0, "cmd=barrier_in");
    s.restarted(1);
    assert!(ask(&mut s, 1, &put(1, "second")).contains("rc=0"));
    assert!(ask(&mut s, 1, &put(1, "third")).contains("duplicate_key"));
    // The first barrier is complete, the second is not.
    assert_eq!(ask(&mut s, 1, "cmd=barrier_in"), "cmd=barrier_out rc=0\n");
    assert!(ask(&mut s, 1, GET[0]).contains("value=first"));
    tell(&mut s, 1, "cmd=barrier_in");
    assert!(ask(&mut s, 2, GET[1]).contains("value=second"));
    assert_eq!(s.hear(2, b"cmd=barrier_in").unwrap().len(), 3);
    // Everybody goes on with the third.
    tell(&mut s, 1, "cmd=barrier_in");
    tell(&mut s, 0, "cmd=barrier_in");
    assert_eq!(s.hear(2, b"cmd=barrier_in").unwrap().len(), 3);
}

/// The roster has it as finalizing in between, and as living once more.
#[test]
fn a_rank_that_is_announced_again_keeps_what_it_has_put() {
    let mut s = Server::of_node(2, "job".to_owned());
    let value = || ("taffrail-0-1".to_owned(), "here".to_owned());
    let get = "cmd=get kvsname=job key=taffrail-0-1";
    for (incarnation, is_new) in [(0, false), (1, true), (1, false), (3, true), (3, false)] {
        let (key, text) = value();
        s.put_elsewhere(1, key, text);
        s.announced(1, incarnation);
        let answers = s.hear(0, get.as_bytes()).unwrap();
        assert_eq!(answers.is_empty(), is_new, "of incarnation {incarnation}");
        let (key, text) = value();
        s.put_elsewhere(1, key, text);
    }
}

#[test]
fn who_dies_in_a_barrier_enters_it_again() {
    let mut s = started();
    tell(&mut s, 0, "cmd=barrier_in");
    tell(&mut s, 1, "cmd=barrier_in");
    s.restarted(1);
    assert_eq!(s.hear(2, b"cmd=barrier_in"), Ok(vec![]), "one is missing, and not for ever");
    assert_eq!(said(s.hear(1, b"cmd=barrier_in").unwrap()), ["1: cmd=barrier_out rc=0"]);
    assert_eq!(s.hear(1, b"cmd=barrier_in").unwrap().len(), 3);
}

#[test]
fn a_barrier_said_twice_is_entered_once() {
    let mut s = server(2);
    tell(&mut s, 0, "cmd=barrier_in");
    tell(&mut s, 0, "cmd=barrier_in");
    assert_eq!(s.hear(1, b"cmd=barrier_in").unwrap().len(), 2);
    tell(&mut s, 0, "cmd=barrier_in");
    assert_eq!(s.hear(1, b"cmd=barrier_in").unwrap().len(), 2);
}

#[test]
fn two_that_start_again_do_not_get_each_others_old_values() {
    let mut s = started();
    s.restarted(0);
    s.restarted(1);
    ask(&mut s, 0, &put(0, "second"));
    assert_eq!(ask(&mut s, 0, "cmd=barrier_in"), "cmd=barrier_out rc=0\n");
    tell(&mut s, 0, GET[1]);
    tell(&mut s, 2, GET[1]);
    // Nobody else can put it.
    assert!(ask(&mut s, 2, &put(1, "forged")).contains("duplicate_key"));
    let answer = "cmd=get_result rc=0 msg=success value=second";
    let done = "1: cmd=put_result rc=0 msg=success".to_owned();
    let heard = said(s.hear(1, put(1, "second").as_bytes()).unwrap());
    assert_eq!(heard, [done, format!("0: {answer}"), format!("2: {answer}")]);
    assert!(ask(&mut s, 1, GET[0]).contains("value=second"));
}

#[test]
fn one_get_waits_at_a_time() {
    let mut s = started();
    s.restarted(1);
    s.restarted(2);
    tell(&mut s, 0, GET[1]);
    assert!(ask(&mut s, 0, GET[2]).contains("another_get_is_not_answered_yet"));
    // Whoever dies waits no longer, also as the next process of its rank.
    s.restarted(0);
    ask(&mut s, 1, &put(1, "second"));
    assert_eq!(said(s.hear(2, put(2, "second").as_bytes()).unwrap()).len(), 1);
}

#[test]
fn a_value_that_will_not_be_put_again_is_not_found() {
    let mut s = started();
    s.restarted(1);
    tell(&mut s, 0, GET[1]);
    let heard = said(s.gone(1));
    assert_eq!(heard, ["0: cmd=get_result rc=-1 msg=key_not_found value=unknown"]);
    assert!(ask(&mut s, 2, GET[1]).contains("key_not_found"));
    assert!(ask(&mut s, 2, "cmd=get kvsname=job key=PMI_process_mapping").contains("vector"));
}

#[test]
fn an_mpi_may_be_told_that_every_rank_is_on_a_node_of_its_own() {
    let mut s = Server::new(3, "job".to_owned(), true);
    let answer = ask(&mut s, 1, "cmd=get kvsname=job key=PMI_process_mapping");
    assert!(answer.contains("value=(vector,(0,3,1))"), "{answer}");
}

/// What a rank of an MPICH program says in MPI_Init, in order.
fn init_of_mpich(rank: usize, address: &str) -> Vec<String> {
    let put = format!("cmd=put kvsname=job key=-allgather-1-{rank} value={address}");
    let gets = (0..2).map(|of| format!("cmd=get kvsname=job key=-allgather-1-{of}"));
    let before = [
        "cmd=init pmi_version=1 pmi_subversion=1",
        "cmd=get_maxes",
        "cmd=get_my_kvsname",
        "cmd=get kvsname=job key=PMI_hwloc_xmlfile",
        &put,
        "cmd=barrier_in",
    ];
    before.map(str::to_owned).into_iter().chain(gets).collect()
}

#[test]
fn an_mpich_rank_is_told_the_same_in_every_life() {
    let mut s = server(2);
    let lines = [init_of_mpich(0, "a"), init_of_mpich(1, "b")];
    // All but the barrier is answered at once.
    let barrier = 5;
    let mut told = Vec::new();
    for line in &lines[0][..barrier] {
        told.push(ask(&mut s, 0, line));
        assert_eq!(s.hear(1, lines[1][told.len() - 1].as_bytes()).unwrap().len(), 1);
    }
    tell(&mut s, 0, &lines[0][barrier]);
    let out = said(s.hear(1, lines[1][barrier].as_bytes()).unwrap());
    told.push(out[0].strip_prefix("0: ").unwrap().to_owned() + "\n");
    told.extend(lines[0][barrier + 1..].iter().map(|line| ask(&mut s, 0, line)));
    assert!(told[6].contains("value=a") && told[7].contains("value=b"), "{told:?}");

    for dies_after in (0..=lines[0].len()).rev() {
        // What nobody had put when it was asked for is there now, and is still not told.
        if dies_after == lines[0].len() {
            ask(&mut s, 1, "cmd=put kvsname=job key=PMI_hwloc_xmlfile value=late");
        }
        s.restarted(0);
        for (line, answer) in lines[0].iter().zip(&told).take(dies_after) {
            assert_eq!(ask(&mut s, 0, line), *answer, "{line}");
            // Meanwhile the other one can have its address.
            assert!(ask(&mut s, 1, &lines[1][6]).contains("value=a"));
        }
    }
    s.restarted(0);
    assert_eq!(s.hear(1, b"cmd=barrier_in"), Ok(vec![]), "the next barrier waits for the dead");
    for (line, answer) in lines[0].iter().zip(&told) {
        assert_eq!(ask(&mut s, 0, line), *answer, "{line}");
    }
    assert!(ask(&mut s, 0, &lines[0][3]).contains("value=late"), "what it never asked is answered");
    assert_eq!(s.hear(0, b"cmd=barrier_in").unwrap().len(), 2);
}

#[test]
fn both_may_start_again_and_neither_waits_for_the_other() {
    let mut s = server(2);
    let lines = [init_of_mpich(0, "a"), init_of_mpich(1, "b")];
    for (first, second) in lines[0].iter().zip(&lines[1]) {
        s.hear(0, first.as_bytes()).unwrap();
        s.hear(1, second.as_bytes()).unwrap();
    }
    s.restarted(0);
    s.restarted(1);
    for (rank, lines) in lines.iter().enumerate() {
        for line in lines {
            ask(&mut s, rank, line);
        }
    }
}

#[test]
fn another_address_than_before_is_refused() {
    let mut s = server(2);
    for line in init_of_mpich(0, "a") {
        s.hear(0, line.as_bytes()).unwrap();
    }
    s.restarted(0);
    let put = |value: &str| format!("cmd=put kvsname=job key=-allgather-1-0 value={value}");
    assert!(ask(&mut s, 0, &put("c")).contains("duplicate_key_with_another_value"));
    assert!(ask(&mut s, 0, &put("a")).contains("rc=0"));
    assert!(ask(&mut s, 1, &put("a")).contains("duplicate_key"), "it is not of this rank");
}
