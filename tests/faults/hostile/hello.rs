//! Every field of HELLO: whoever gets a wrong one cannot open its endpoint, and says why; the next
//! endpoint of the same job, opened by ranks that behave, is not the worse for it.

use super::raw::memfd;
use crate::LONG;
use crate::family::{Family, orders, say};
use rustix::event::EventfdFlags;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::IoSliceMut;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use taffrail::{Error, Job, Settings};

/// Length of the inbox of a job of three, by the layout.
const INBOX: u64 = {
    let words = 256 + 128 + 256 * 3;
    (words + 3 * 128 * 64u64).next_multiple_of(4096)
};
const OUTBOX: u64 = 1 << 20;

type Files = Vec<OwnedFd>;

/// What a case does to a good HELLO and its descriptors, and what the victim's error must say.
struct Case {
    name: &'static str,
    change: fn(&mut Vec<u8>, &mut Files),
    says: &'static str,
}

fn put(bytes: &mut [u8], at: usize, value: u64, len: usize) {
    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

fn cases() -> Vec<Case> {
    let case = |name, says, change| Case { name, change, says };
    vec![
        case("magic", "HELLO, magic", |b, _| put(b, 0, 1, 8)),
        case("version 1", "HELLO, version", |b, _| put(b, 8, 1, 4)),
        case("the next version", "HELLO, version", |b, _| {
            let next = u64::from(b[8]) + 1;
            put(b, 8, next, 4);
        }),
        case("another rank", "HELLO, rank", |b, _| put(b, 12, 2, 4)),
        case("no rank", "HELLO, rank", |b, _| put(b, 12, 3, 4)),
        case("more ranks", "HELLO, ranks", |b, _| put(b, 20, 4, 4)),
        case("no ranks", "HELLO, rank", |b, _| put(b, 20, 0, 4)),
        case("another job", "HELLO, job", |b, _| b[24] ^= 1),
        case("another job, second half", "HELLO, job", |b, _| b[39] ^= 1),
        case("fenced 2", "HELLO, fenced", |b, _| put(b, 72, 2, 4)),
        case("an open job", "HELLO, open", |b, _| {
            put(b, 80, 1, 4);
            put(b, 84, 1, 4);
        }),
        case("open 2", "HELLO, open", |b, _| put(b, 80, 2, 4)),
        case("a peer slot in a closed job", "HELLO, peer slot", |b, _| put(b, 84, 1, 4)),
        case("no address", "HELLO, last bytes", |b, _| put(b, 88, 0, 4)),
        case("a long address", "HELLO, length of the address", |b, _| put(b, 88, 1000, 4)),
        case("last bytes", "HELLO, last bytes", |b, _| b[207] = 1),
        case("empty", "", |b, f| (b.clear(), f.clear()).0),
        case("a byte short", "HELLO, length", |b, _| b.truncate(207)),
        case("a byte long", "HELLO, length", |b, _| b.push(0)),
        case("far too long", "packet, length", |b, _| b.resize(4000, 0)),
        case("no descriptors", "HELLO, descriptors", |_, f| f.clear()),
        case("two descriptors", "HELLO, descriptors", |_, f| f.truncate(2)),
        case("four descriptors", "HELLO, descriptors", |_, f| f.push(memfd(1, true))),
        case("six descriptors", "descriptors", |_, f| {
            f.extend((0..3).map(|_| memfd(1, true)));
        }),
        case("inbox may shrink", "sealed", |_, f| f[0] = memfd(INBOX, false)),
        case("inbox too short", "shared memory", |_, f| f[0] = memfd(INBOX - 4096, true)),
        case("inbox too long", "shared memory", |_, f| f[0] = memfd(INBOX + 4096, true)),
        case("inbox is a pipe", "memory", |_, f| f[0] = rustix::pipe::pipe().unwrap().0),
        case("outbox may shrink", "sealed", |_, f| f[1] = memfd(OUTBOX, false)),
        case("outbox longer than it says", "shared memory", |_, f| f[1] = memfd(2 * OUTBOX, true)),
        case("doorbell blocks", "HELLO, doorbell", |_, f| {
            f[2] = rustix::event::eventfd(0, EventfdFlags::empty()).unwrap();
        }),
        case("doorbell is read-only", "HELLO, doorbell", |_, f| {
            f[2] = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap().0;
        }),
    ]
}

/// The hostile rank is 0, so the victim, 1, connects to it; 2 is the bystander.
pub fn run() {
    let settings =
        [("FAULTS_TABLE", "hello".to_owned()), ("TAFFRAIL_CONNECT_TIMEOUT", "1".to_owned())];
    let mut family = Family::start(3, "hostile", &settings);
    for (number, case) in cases().iter().enumerate() {
        (0..3).for_each(|rank| family.tell(rank, &number.to_string()));
        let said = [1, 2].map(|rank| {
            let heard = family.hear(rank, LONG);
            heard.unwrap_or_else(|why| panic!("{}: {why}", case.name)).1
        });
        // The bystander may find that the victim is gone before it has an answer itself.
        assert!(said.iter().all(|said| said.starts_with("setup")), "{}: {said:?}", case.name);
        let [said, _] = said;
        assert!(said.contains("rank 0") && said.contains(case.says), "{}: {said}", case.name);
    }
    (0..3).for_each(|rank| family.tell(rank, "end"));
    for rank in 0..3 {
        assert_eq!(family.hear(rank, LONG).unwrap().1, "well");
        family.end(rank, LONG).unwrap();
    }
    family.look_for_remains().unwrap();
}

pub fn work() {
    let (cases, orders) = (cases(), orders());
    let mut job = Job::from_env().expect("a job");
    let settings = Settings::from_env().expect("settings");
    let files = || std::fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let before = files();
    while let Ok(order) = orders.recv() {
        let Ok(number) = order.parse::<usize>() else { break };
        if job.rank() == 0 {
            greet(&mut job, &cases[number]);
            continue;
        }
        match job.endpoint_with(settings.clone()) {
            Err(Error::Setup(why)) => say(format_args!("setup {}", why.replace('\n', " "))),
            other => panic!("{:?}", other.map(drop)),
        }
        assert_eq!(files(), before, "descriptors are left open");
    }
    let mut endpoint = job.endpoint_with(settings).expect("nobody is hostile any more");
    taffrail::collectives::barrier(&mut endpoint).expect("all are well");
    say(format_args!("well"));
}

/// Answers both others with a wrong HELLO.
fn greet(job: &mut Job, case: &Case) {
    let flags = SocketFlags::CLOEXEC;
    let listener =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let name = format!("taffrail-hostile-{}", fastrand::u64(..));
    let address = SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap();
    rustix::net::bind(&listener, &address).unwrap();
    rustix::net::listen(&listener, 8).unwrap();
    job.exchange("shm", &name).expect("the others are there");
    let mut open = Vec::new();
    for _ in 0..2 {
        let socket = rustix::net::accept(&listener).unwrap();
        // Theirs is as it should be: only the rank is another.
        let mut bytes = hear(&socket);
        put(&mut bytes, 12, 0, 4);
        put(&mut bytes, 64, OUTBOX, 8);
        let bell = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let mut files = vec![memfd(INBOX, true), memfd(OUTBOX, true), bell];
        (case.change)(&mut bytes, &mut files);
        let files: Vec<BorrowedFd<'_>> = files.iter().map(|file| file.as_fd()).collect();
        super::raw::send(socket.as_fd(), &bytes, &files);
        open.push(socket);
    }
    // Until they hang up, which they do when they have understood.
    for socket in &open {
        while !hear(socket).is_empty() {}
    }
}

fn hear(socket: &OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let mut into = [IoSliceMut::new(&mut bytes)];
    let flags = RecvFlags::CMSG_CLOEXEC;
    let got = rustix::net::recvmsg(socket, &mut into, &mut control, flags).map_or(0, |m| m.bytes);
    bytes.truncate(got);
    bytes
}
