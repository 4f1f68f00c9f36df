use super::*;
use clap::Parser;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    args: Args,
}

fn plan(line: &str) -> Result<Plan, String> {
    let words = ["run", "-n", "4"].into_iter().chain(line.split(' ')).chain(["--", "true"]);
    let mut args = Cli::try_parse_from(words).map_err(|e| e.to_string())?.args;
    args.nodes.take_allocation().map_err(|failure| failure.why)?;
    args.nodes.check().map_err(|failure| failure.why)?;
    args.nodes.plan(&args).map_err(|failure| failure.why)
}

#[test]
fn hosts_and_how_they_are_reached() {
    let both = plan("--hosts a:2,b:2 --network 10.0.0.0/8 --lease 2s").unwrap();
    assert_eq!(both.hosts.to_string(), "a:2, b:2");
    assert_eq!((both.network.as_str(), both.reach), ("10.0.0.0/8", Reach::Ssh));
    assert_eq!(plan("--hosts a --launcher prterun").unwrap().reach, Reach::Prterun);
    assert_eq!((both.terms.lease, both.start_timeout), (Duration::from_secs(2), START));
    let line = "--logging pessimistic --hosts a:2,c:4,b:2 --reliable c";
    let reliable = plan(line).unwrap();
    assert_eq!(
        (reliable.hosts.to_string().as_str(), reliable.reliable),
        ("a:2, b:2, c:4", Some(2))
    );
    assert_eq!(reliable.hosts.of_ranks(reliable.reliable).to_string(), "a:2, b:2");
    let many: Vec<String> = (0..33).map(|host| format!("h{host}")).collect();
    assert_eq!(plan(&format!("--hosts {}", many.join(","))).unwrap().start_timeout, 2 * START);
}

fn options(words: &[OsString]) -> NodeOptions {
    let line = ["run", "-n", "4"].map(OsString::from).into_iter().chain(words.iter().cloned());
    let line = line.chain(["--", "true"].map(OsString::from));
    Cli::try_parse_from(line).map_err(|e| e.to_string()).unwrap().args.nodes
}

#[test]
fn the_options_as_words_are_the_options() {
    let line = "--hosts a:2,me@[fd00::1]:3 --network 10.0.0.0/8 --launch-agent /opt/taffrail --start-timeout 1500ms \
                --lease 2s --link-timeout 5s --oversubscribe --launcher ssh --reliable c:1 --rsh-agent";
    let mut words: Vec<OsString> = line.split_whitespace().map(OsString::from).collect();
    words.push("env X={host}".into());
    let all = options(&words);
    assert!(all.hosts.is_some() && all.oversubscribe && all.lease.is_some());
    assert_eq!(options(&all.words()), all);
    let file = options(&["--hostfile".into(), "some file".into()]);
    assert_eq!(options(&file.words()), file);
    assert!(NodeOptions::default().words().is_empty());
}

#[test]
fn ranks_of_a_pair_are_on_two_hosts() {
    let two = options(&["--hosts".into(), "a:2,b:2".into()]).one_rank_each(2).unwrap();
    assert_eq!(two.hosts().unwrap().to_string(), "a:1, b:1");
    let one = options(&["--hosts".into(), "a:2,a:2".into()]).one_rank_each(2);
    assert_eq!(one.unwrap_err(), "--hosts: expected 2 different hosts or more, got 1");
}

#[test]
fn what_cannot_be_is_refused() {
    for (line, why) in [
        ("--oversubscribe", "need --hosts"),
        ("--network eth0", "need --hosts"),
        ("--hosts a --reliable b", "expected --logging pessimistic"),
        ("--hosts a --reliable a --logging pessimistic", "expected other hosts"),
        ("--reliable a", "need --hosts"),
        ("--hosts a --launcher fork", "leave out --hosts"),
        ("--launcher srun", "expected an allocation of Slurm"),
        ("--launcher prterun", "--launcher prterun: expected --hosts, --hostfile or an allocation"),
        ("--launcher ssh", "--launcher ssh: expected --hosts, --hostfile or an allocation"),
        ("--hosts a --launcher rsh", "[possible values: ssh, srun, prterun, fork]"),
        ("--hosts a --network 10.0.0.0/99", "is no network"),
        ("--hosts a --lease 1ms", "--lease: expected 500ms to 1h"),
        ("--hosts a:0", "expected a number of slots"),
        ("--hosts a --hostfile f", "cannot be used with"),
        ("--hostfile /no/such/file", "--hostfile /no/such/file: No such file"),
    ] {
        let error = plan(line).err().expect(line);
        assert!(error.contains(why), "{line}: {error}");
    }
}
