//! Frames of ranks.

use super::*;

pub fn frames() -> impl Strategy<Value = Frame> {
    let bytes = || vec(any::<u8>(), 0..100);
    let words = any::<[u64; 4]>().prop_map(|[wave, target, committed, schedule]| WaveWords {
        wave,
        target,
        committed,
        schedule,
    });
    let streams = prop::sample::select(vec![Stream::Output, Stream::Error]);
    prop_oneof![
        (life(), any::<u32>(), vec(any::<u32>(), 0..10))
            .prop_map(|(life, app, generations)| { Frame::Start { life, app, generations } }),
        (life(), any::<u64>()).prop_map(|(life, copy)| Frame::Recover { life, copy }),
        brings::frames(),
        (life(), left()).prop_map(|(life, left)| Frame::Recovered { life, left }),
        (life(), any::<u64>()).prop_map(|(life, known)| Frame::Left { life, known }),
        (life(), any::<u32>()).prop_map(|(life, pid)| Frame::Started { life, pid }),
        (life(), end()).prop_map(|(life, end)| Frame::Ended { life, end }),
        (life(), member()).prop_map(|(life, member)| Frame::Member { life, member }),
        (life(), streams, bytes()).prop_map(|(life, stream, bytes)| Frame::Output {
            life,
            stream,
            bytes
        }),
        (life(), bytes()).prop_map(|(life, bytes)| Frame::Input { life, bytes }),
        (life(), any::<u32>()).prop_map(|(life, bytes)| Frame::InputTaken { life, bytes }),
        life().prop_map(|life| Frame::Kill { life }),
        (life(), any::<u64>()).prop_map(|(life, known)| Frame::Finalizing { life, known }),
        (life(), ".{0,60}", ".{0,200}").prop_map(|(life, key, value)| Frame::Put {
            life,
            key,
            value
        }),
        (life(), any::<u64>()).prop_map(|(life, barrier)| Frame::Enter { life, barrier }),
        (life(), vec(any::<u8>(), 1..113))
            .prop_map(|(life, address)| Frame::Address { life, address }),
        (life(), words).prop_map(|(life, words)| Frame::Wave { life, words }),
        (life(), life(), proptest::option::of(".{0,60}"))
            .prop_map(|(life, peer, down)| Frame::Link { life, peer, down }),
    ]
}
