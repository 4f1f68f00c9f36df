//! Through a real sshd, on this host: two names of it are two nodes.

use super::host::Host;
use super::sshd::Sshd;
use super::*;
use std::io::Read;
use std::net::TcpListener;

fn job_through(sshd: &Sshd) -> Job {
    Job::through(&sshd.command(), "127.0.0.1:2,localhost:2")
}

#[test]
fn jobs_run_end_and_are_lost_through_ssh() {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let Some(sshd) = Sshd::listening(port, &[Host::here()]) else { return };
    let script =
        "read line; echo $PMI_RANK:$line; [ $PMI_RANK = 3 ] && sleep 1 && exit 5; sleep 30";
    let job = job_through(&sshd).script(4, script);
    let mut child = job.command().stdin(Stdio::piped()).spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"ahoy\n").unwrap();
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 5, "{}", ended.err);
    assert_eq!(ended.sorted(), ["0:ahoy", "1:", "2:", "3:"], "{}", ended.err);

    // A connection is lost.
    let job = job_through(&sshd).script(4, "sleep 300 & setsid sleep 300 & wait");
    let child = job.command().spawn().unwrap();
    assert!(soon(|| job.running("sleep").len() == 8));
    let of_node = |process: &&Process| process.words().contains(" localhost ");
    job.running("ssh ").iter().find(of_node).unwrap().signal("KILL");
    let ended = job.end(child, Instant::now());
    assert_eq!(ended.status, 137, "{}", ended.err);
    let why = "taffrail: node localhost lost (the connection has ended): ranks 2-3\n";
    assert!(ended.err.contains(why), "{}", ended.err);

    // The launcher is lost.
    let job = job_through(&sshd).script(4, "echo up; sleep 300 & setsid sleep 300 & wait");
    let mut child = job.command().spawn().unwrap();
    let mut up = [0; 12];
    child.stdout.as_mut().unwrap().read_exact(&mut up).unwrap();
    assert_eq!(up, *b"up\nup\nup\nup\n");
    assert!(soon(|| job.running("sleep").len() == 8));
    child.kill().unwrap();
    child.wait().unwrap();
    job.assert_nothing_left("after the launcher was killed");
}
