//! Jobs of several programs (MPMD).

use super::*;

/// What a rank asks the launcher: which of the programs it is.
const APPNUM: &str = "echo cmd=get_appnum >&$PMI_FD; read -r answer <&$PMI_FD; echo $0 $PMI_RANK of $PMI_SIZE $answer";

#[test]
fn ranks_of_several_programs_are_one_job() {
    let line = ["run", "-n", "2", "bash", "-c", APPNUM, "first", ":", "-n", "1", "bash", "-c"];
    let job = run(&[&line[..], &[APPNUM, "second", ":", "echo", "-n", "third"]].concat());
    let expected = [
        "first 0 of 4 cmd=appnum appnum=0",
        "first 1 of 4 cmd=appnum appnum=0",
        "second 2 of 4 cmd=appnum appnum=1",
    ];
    let out = job.out.replacen("third", "", 1);
    assert_eq!((job.status, sorted(&out)), (0, expected.to_vec()), "{}", job.err);
    assert!(job.out.contains("third") && !job.out.contains("-n"), "{}", job.out);
}

#[test]
fn a_colon_without_a_program_is_refused_and_behind_two_dashes_an_argument() {
    let job = run(&["run", "-n", "1", "echo", "a", ":"]);
    assert_eq!((job.status, job.out.as_str()), (2, ""));
    assert!(job.err.contains("behind `:` expected [-n N] PROGRAM"), "{}", job.err);
    let job = run(&["run", "-n", "1", "--", "echo", "a", ":", "-n"]);
    assert_eq!((job.status, job.out.as_str()), (0, "a : -n\n"), "{}", job.err);
}

#[test]
fn each_of_several_programs_is_restarted_as_itself() {
    let line = ["run", "-n", "1", "--logging", "pessimistic"];
    let kill =
        "[ $TAFFRAIL_INCARNATION = 0 ] && kill -9 $$; echo $0 $TAFFRAIL_INCARNATION; sleep 1";
    let job = run(
        &[&line[..], &["--sets", "rank", "sleep", "1", ":", "bash", "-c", kill, "me"]].concat()
    );
    assert_eq!((job.status, job.out.as_str()), (0, "me 1\n"), "{}", job.err);
}

#[test]
fn a_missing_program_and_an_unknown_option_are_said_before_anything_starts() {
    for (words, why) in [
        (&["run", "-n", "1"][..], "PROGRAM"),
        (&["run", "-n", "1", "--lable", "true"], "--label"),
        (&["run", "true"], "-n: expected a number of ranks"),
    ] {
        let job = run(words);
        assert_eq!(job.status, 2, "{words:?}");
        assert!(job.err.contains(why), "{words:?}: {}", job.err);
    }
}
