//! Bytes out, and in again.

use proptest::prelude::*;

use super::*;

fn hello() -> Hello {
    Hello {
        rank: 3,
        incarnation: 2,
        ranks: 9,
        job: [11, 12],
        cookie_at: 13,
        cookie: 14,
        inbox_len: 15,
        outbox_max: 16,
        fenced: true,
        generation: 17,
        open: true,
        peer_slot: 4,
        address: Address::parse(b"here").unwrap(),
    }
}

#[test]
fn the_bytes_of_a_hello_lie_where_the_format_says() {
    let bytes = hello().encode();
    assert_eq!(&bytes[..8], b"TAFFHELO");
    let fields = [(8, 4), (12, 3), (16, 2), (20, 9), (24, 11), (32, 12), (40, 13)];
    let more = [(48, 14), (56, 15), (64, 16), (72, 1), (76, 17), (80, 1), (84, 4), (88, 4)];
    for (at, value) in fields.into_iter().chain(more) {
        assert_eq!(bytes[at], value, "byte {at}");
    }
    assert_eq!(&bytes[96..101], b"here\0");
    assert_eq!(bytes.len(), 208);
    assert_eq!(bytes.iter().filter(|&&byte| byte != 0).count(), 8 + 15 + 4);
}

#[test]
fn another_version_is_named_before_another_length() {
    let mut old = hello().encode()[..96].to_vec();
    old[8] = 1;
    let error = decode_hello(&old).unwrap_err();
    assert_eq!(error.to_string(), "HELLO, version: expected 4, got 1");
    old[8] = 4;
    assert_eq!(decode_hello(&old).unwrap_err().place, "HELLO, length");
}

#[test]
fn the_bytes_of_notices_lie_where_the_format_says() {
    let region = Notice::Region { region: 7, len: 9, used: 8 }.encode();
    assert_eq!(region.len(), 32);
    assert_eq!((&region[..8], region[8], region[16], region[24]), (&b"TAFFREGN"[..], 7, 9, 8));
    let forget = Notice::Forget { region: 7 }.encode();
    assert_eq!(forget, *b"TAFFFORG\x07\0\0\0\0\0\0\0");
}

#[test]
fn each_wrong_field_is_named() {
    let wrong = |at: usize, value: u8| {
        let mut bytes = hello().encode();
        bytes[at] = value;
        decode_hello(&bytes).unwrap_err()
    };
    assert_eq!(wrong(0, b'X').to_string(), "HELLO, magic: expected TAFFHELO, got XAFFHELO");
    assert_eq!(wrong(8, 1).to_string(), "HELLO, version: expected 4, got 1");
    assert_eq!(wrong(12, 9).place, "HELLO, rank");
    assert_eq!(wrong(20, 3).place, "HELLO, rank");
    assert_eq!(wrong(72, 2).place, "HELLO, fenced");
    assert_eq!(wrong(80, 2).place, "HELLO, open");
    assert_eq!(wrong(80, 0).place, "HELLO, peer slot", "a closed job has none");
    assert_eq!(wrong(84, 3).place, "HELLO, peer slot", "the sender's own");
    assert_eq!(wrong(84, 9).place, "HELLO, peer slot", "there are 9");
    assert_eq!(wrong(88, 108).place, "HELLO, length of the address");
    assert_eq!(wrong(88, 0).place, "HELLO, last bytes");
    assert_eq!(wrong(88, 5).place, "HELLO, address");
    assert_eq!(wrong(95, 1).place, "HELLO, bytes 92 to 96");
    assert_eq!(wrong(97, b' ').place, "HELLO, address");
    assert_eq!(wrong(207, 1).place, "HELLO, last bytes");
    let region = Notice::Region { region: 7, len: 9, used: 8 }.encode();
    let wrong = |at: usize, value: u8| {
        let mut bytes = region.clone();
        bytes[at] = value;
        decode_notice(&bytes).unwrap_err().place
    };
    assert_eq!(wrong(3, b'x'), "packet, magic");
    assert_eq!(wrong(8, 0), "packet, region");
    assert_eq!(wrong(13, 1), "REGION, bytes 12 to 16");
    assert_eq!(wrong(16, 0), "REGION, used");
    assert_eq!(wrong(24, 0), "REGION, used");
    assert_eq!(wrong(24, 10), "REGION, used");
}

proptest! {
    #[test]
    fn whatever_decodes_is_what_was_encoded(bytes in prop::collection::vec(any::<u8>(), 0..200),
                                            magic in 0..4usize) {
        let magics: [&[u8]; 4] = [b"", b"TAFFHELO\x03\0\0\0", b"TAFFREGN", b"TAFFFORG"];
        let packet = [magics[magic], &bytes].concat();
        if let Ok(hello) = decode_hello(&packet) {
            prop_assert_eq!(&hello.encode()[..], &packet[..]);
        }
        if let Ok(notice) = decode_notice(&packet) {
            prop_assert_eq!(notice.encode(), packet);
        }
    }

    #[test]
    fn every_hello_survives_the_journey(rank in any::<u32>(), above in 1..1000u32,
                                        words in any::<[u64; 6]>(), incarnation in any::<u32>(),
                                        fenced in any::<bool>(), generation in any::<u32>(),
                                        open in any::<bool>(), peer_slot in any::<u32>(),
                                        address in "[!-~]{1,107}") {
        prop_assume!(rank.checked_add(above).is_some());
        prop_assume!(!open || rank + above > 1);
        let peer_slot = if open { peer_slot % (rank + above) } else { 0 };
        prop_assume!(!open || peer_slot != rank);
        let address = Address::parse(address.as_bytes()).unwrap();
        let [a, b, cookie_at, cookie, inbox_len, outbox_max] = words;
        let hello = Hello { rank, incarnation, ranks: rank + above, job: [a, b], cookie_at,
                            cookie, inbox_len, outbox_max, fenced, generation, open, peer_slot,
                            address };
        prop_assert_eq!(decode_hello(&hello.encode()), Ok(hello));
    }
}
