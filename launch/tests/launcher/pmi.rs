//! The PMI-1 server against good and bad ranks, played by bash.

use super::*;

/// `ask LINE` says a line to the launcher and prints its answer.
const ASK: &str =
    r#"ask() { echo "$1" >&$PMI_FD; IFS= read -r answer <&$PMI_FD; echo "$answer"; };"#;

fn ranks(n: u32, what: &str) -> Ended {
    script(n, &format!("{ASK} {what}"))
}

#[test]
fn values_put_before_a_barrier_are_there_after_it() {
    let job = ranks(
        3,
        "ask 'cmd=init pmi_version=1 pmi_subversion=1' >/dev/null
         name=$(ask cmd=get_my_kvsname); name=${name##*=}
         ask \"cmd=put kvsname=$name key=k$PMI_RANK value=from=$PMI_RANK\" >/dev/null
         ask cmd=barrier_in >/dev/null
         ask \"cmd=get kvsname=$name key=k$(( (PMI_RANK + 1) % 3 ))\"
         ask cmd=finalize >/dev/null",
    );
    let got = |rank| format!("cmd=get_result rc=0 msg=success value=from={rank}");
    assert_eq!((job.status, sorted(&job.out)), (0, vec![&*got(0), &*got(1), &*got(2)]));
}

#[test]
fn every_job_has_a_name_of_its_own() {
    let names = [ranks(1, "ask cmd=get_my_kvsname").out, ranks(1, "ask cmd=get_my_kvsname").out];
    assert!(names[0].starts_with("cmd=my_kvsname kvsname=taffrail-") && names[0] != names[1]);
}

#[test]
fn abort_ends_the_job_with_its_code() {
    let job = ranks(2, "[ $PMI_RANK = 1 ] && echo cmd=abort exitcode=5 >&$PMI_FD; exec sleep 50");
    assert_eq!(job.status, 5);
    assert!(job.err.contains("rank 1 (pid ") && job.err.contains("aborted the job with code 5"));
}

#[test]
fn garbage_ends_the_job_with_a_reason() {
    for (garbage, reason) in [
        ("head -c 300 /dev/zero", "is ASCII text"),
        ("yes x | head -c 200000 | tr -d '\\n'", "at most 16384 bytes"),
        ("echo hello launcher", "begins with cmd=NAME"),
    ] {
        let say = format!("[ $PMI_RANK = 0 ] && {{ {garbage}; echo; }} >&$PMI_FD; exec sleep 50");
        let job = ranks(2, &say);
        assert_eq!(job.status, 1, "{garbage}");
        let said = job.err.contains("rank 0 (pid ") && job.err.contains("broke the start-up");
        assert!(said && job.err.contains(reason), "{garbage}: {}", job.err);
    }
}

#[test]
fn a_rank_that_asks_without_listening_does_not_disturb_others() {
    let job = ranks(
        2,
        "if [ $PMI_RANK = 0 ]; then timeout 2 yes cmd=get_maxes >&$PMI_FD; exit 0; fi
         for i in {1..50}; do ask cmd=get_appnum; done; sleep 1",
    );
    assert_eq!(job.status, 0, "{}", job.err);
    assert_eq!(job.out.lines().filter(|line| *line == "cmd=appnum appnum=0").count(), 50);
}

/// Who waits there sleeps, and cannot say so itself.
#[test]
fn who_does_not_come_to_a_barrier_for_long_is_named_once() {
    let job = ranks(
        3,
        "[ $PMI_RANK = 1 ] && sleep 16; ask cmd=barrier_in >/dev/null
         [ $PMI_RANK = 2 ] && sleep 1; ask cmd=barrier_in >/dev/null",
    );
    assert_eq!(job.status, 0, "{}", job.err);
    let said: Vec<_> = job.err.lines().filter(|line| line.contains("barrier")).collect();
    assert_eq!(said.len(), 1, "{}", job.err);
    let line = "taffrail: ranks 0, 2 wait in a barrier of the launcher (as in MPI_Init and MPI_Finalize) that \
                rank 1 (pid ";
    assert!(said[0].starts_with(line), "{}", said[0]);
    assert!(said[0].ends_with(") has not entered; nothing has happened for 10 s"), "{}", said[0]);
}

#[test]
fn a_barrier_that_a_rank_left_out_ends_the_job() {
    let job = ranks(2, "[ $PMI_RANK = 1 ] && exit 0; ask cmd=barrier_in; exec sleep 50");
    assert_eq!(job.status, 1);
    assert!(job.err.contains("rank 0 waits in a start-up barrier that rank 1"), "{}", job.err);
}
