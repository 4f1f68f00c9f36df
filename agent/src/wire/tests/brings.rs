//! The log of a rank of a lost node that is brought to another one.

use super::*;

pub fn frames() -> impl Strategy<Value = Frame> {
    let order = (1..99_u64, 99_u64.., 0..1024_u16, ".{0,60}")
        .prop_map(|(copy, epoch, node, address)| BringOrder { copy, epoch, node, address });
    prop_oneof![
        (life(), order).prop_map(|(life, order)| Frame::Bring { life, order }),
        (life(), any::<u64>(), ".{0,60}").prop_map(|(life, epoch, why)| Frame::Brought {
            life,
            epoch,
            why
        }),
    ]
}

#[test]
fn they_are_what_the_diagrams_say() {
    let life = RankIncarnation::new(2, 1);
    let order = BringOrder { copy: 5, epoch: 6, node: 0x0304, address: "b".into() };
    let bring = Frame::Bring { life, order }.encode().unwrap();
    let words = [5, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 4, 3, 0, 0, 1, 0, b'b'];
    assert_eq!(bring[HEADER..], words);
    let brought = Frame::Brought { life, epoch: 6, why: String::new() }.encode().unwrap();
    assert_eq!(brought[HEADER..], [6, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for (at, byte, field) in [(16, 0, "copy"), (24, 5, "epoch"), (33, 4, "node")] {
        let mut wrong = bring.clone();
        wrong[at] = byte;
        assert_eq!(decode(&wrong, Direction::Down).unwrap_err().field, field);
    }
}
