use super::*;
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::BufRead;

proptest! {
    #[test]
    fn any_text_survives_escaping_and_splitting(text in any::<String>(), len in 1usize..40) {
        let escaped = escape(&text);
        prop_assert!(escaped.bytes().all(|b| b.is_ascii_graphic() && b != b'=' && b != b':'));
        let pieces = chunks(&escaped, len);
        prop_assert!(pieces.iter().all(|p| p.len() <= len));
        prop_assert_eq!(unescape(&pieces.concat()), Some(text));
    }

    #[test]
    fn unescaping_anything_does_not_panic(text in any::<String>()) {
        let _ = unescape(&text);
    }
}

fn environment(pairs: &[(&str, &str)]) -> Result<Option<Client>, String> {
    let map: HashMap<_, _> = pairs.iter().copied().collect();
    from_env(|name| map.get(name).map(|v| (*v).to_owned()))
}

#[test]
fn no_launcher_is_no_error() {
    assert!(environment(&[]).unwrap().is_none());
    assert!(environment(&[("SLURM_STEP_NUM_TASKS", "1")]).unwrap().is_none());
    assert!(environment(&[("SLURM_PROCID", "0"), ("SLURM_NTASKS", "8")]).unwrap().is_none());
}

#[test]
fn a_launcher_that_speaks_something_else_is_named() {
    let e = environment(&[("SLURM_STEP_NUM_TASKS", "4"), ("SLURM_PROCID", "2")]).unwrap_err();
    assert!(e.contains("task 2 of 4") && e.contains("--mpi=pmi2"), "{e}");
    let e = environment(&[("PMIX_RANK", "0"), ("OMPI_COMM_WORLD_SIZE", "2")]).unwrap_err();
    assert!(e.contains("PMIx"), "{e}");
}

#[test]
fn half_an_environment_is_an_error() {
    let e = environment(&[("PMI_FD", "99"), ("PMI_RANK", "0")]).unwrap_err();
    assert!(e.contains("not PMI_SIZE"), "{e}");
    let e = environment(&[("PMI_FD", "99"), ("PMI_RANK", "zero"), ("PMI_SIZE", "1")]).unwrap_err();
    assert!(e.contains("\"zero\""), "{e}");
    let e = environment(&[("PMI_FD", "1"), ("PMI_RANK", "0"), ("PMI_SIZE", "1")]).unwrap_err();
    assert!(e.contains("above 2"), "{e}");
    let e = environment(&[("PMI_PORT", "127.0.0.1:1"), ("PMI_ID", "0")]).unwrap_err();
    assert!(e.contains("cannot be reached"), "{e}");
}

/// Plays the launcher's lines to a client: expects each left line, then writes the right ones.
fn script(lines: Vec<(&'static str, &'static str)>) -> (UnixStream, std::thread::JoinHandle<()>) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let launcher = std::thread::spawn(move || {
        let mut input = BufReader::new(theirs.try_clone().unwrap());
        for (expected, answer) in lines {
            let mut line = String::new();
            input.read_line(&mut line).unwrap();
            assert_eq!(line.trim_end(), expected);
            (&theirs).write_all(answer.as_bytes()).unwrap();
        }
    });
    (ours, launcher)
}

const INIT: (&str, &str) = (
    "cmd=init pmi_version=1 pmi_subversion=1",
    "cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0\n",
);
const NAME: (&str, &str) = ("cmd=get_my_kvsname", "cmd=my_kvsname kvsname=k\n");

#[test]
fn a_long_value_goes_in_pieces_and_comes_back_whole() {
    let (stream, launcher) = script(vec![
        INIT,
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=24\n"),
        NAME,
        ("cmd=put kvsname=k key=taffrail-0-1-0 value=2:ab:0123456789abcd", "cmd=put_result rc=0\n"),
        ("cmd=put kvsname=k key=taffrail-0-1-1 value=ef%20gh", "cmd=put_result rc=0 msg=ok\n"),
        ("cmd=barrier_in", "cmd=barrier_out\n"),
        (
            "cmd=get kvsname=k key=taffrail-0-0-0",
            "cmd=get_result rc=0 msg=success value=1:ab:z%3d\n",
        ),
        ("cmd=get kvsname=k key=taffrail-0-1-0", "cmd=get_result rc=0 value=2:ab:0123456789abcd\n"),
        ("cmd=get kvsname=k key=taffrail-0-1-1", "cmd=get_result rc=0 value=ef%20gh\n"),
        ("cmd=finalize", "cmd=finalize_ack\n"),
    ]);
    let mut client = Client::start(Box::new(stream), 1, 2).unwrap();
    assert_eq!(
        client.exchange("ab", "0123456789abcdef gh").unwrap(),
        ["z=", "0123456789abcdef gh"]
    );
    drop(client);
    launcher.join().unwrap();
}

#[test]
fn the_port_variant_is_told_who_it_is() {
    let (stream, launcher) = script(vec![
        (
            "cmd=initack pmiid=7",
            "cmd=initack rc=0\ncmd=set size=4\ncmd=set rank=3\ncmd=set debug=0\n",
        ),
        INIT,
        ("cmd=get_maxes", "cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024\n"),
        NAME,
        ("cmd=finalize", "cmd=finalize_ack\n"),
    ]);
    let client = Client::call(Box::new(stream), 7).unwrap();
    assert_eq!((client.rank(), client.size(), client.kvsname()), (3, 4, "k"));
    drop(client);
    launcher.join().unwrap();
}

#[test]
fn a_launcher_that_refuses_babbles_or_hangs_up_is_an_error() {
    for (answer, expected) in [
        ("cmd=response_to_init rc=-1 msg=no\n", "refused"),
        ("cmd=barrier_out\n", "should answer response_to_init"),
        ("\u{1}\u{2}\n", "ASCII"),
        ("", "hung up"),
    ] {
        let (stream, launcher) = script(vec![(INIT.0, answer)]);
        let e = Client::start(Box::new(stream), 0, 1).unwrap_err();
        assert!(e.contains(expected), "{e}");
        launcher.join().unwrap();
    }
    let (stream, _) = script(vec![]);
    assert!(Client::start(Box::new(stream), 2, 2).unwrap_err().contains("rank 2 of 2"));
}
