//! Operations on elements of memory of which each is done as one: what they are, and what they do.
//! Numbers are those of libfabric's `enum fi_op` and `enum fi_datatype`.

/// Does something with the type of the elements.
macro_rules! with_type {
    ($of:expr, $T:ident => $what:expr) => {
        with_type!($of, $T => $what,
            I8 = i8, U8 = u8, I16 = i16, U16 = u16, I32 = i32, U32 = u32, I64 = i64, U64 = u64,
            F32 = f32, F64 = f64, Complex32 = Complex<f32>, Complex64 = Complex<f64>,
            I128 = i128, U128 = u128)
    };
    ($of:expr, $T:ident => $what:expr, $($variant:ident = $type:ty),*) => {
        match $of {
            $(AtomicType::$variant => {
                type $T = $type;
                $what
            })*
        }
    };
}

/// What is done to each element: what it becomes, of what is there (`old`), an operand, and another
/// one to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicOp {
    /// The lesser of old and operand.
    Min,
    /// The greater of old and operand.
    Max,
    /// Old plus operand; integers wrap.
    Sum,
    /// Old times operand; integers wrap.
    Prod,
    /// 1 if one of the two is not 0, else 0.
    LogicalOr,
    /// 1 if both are not 0, else 0.
    LogicalAnd,
    /// The bits of either.
    BitOr,
    /// The bits of both.
    BitAnd,
    /// 1 if just one of the two is not 0, else 0.
    LogicalXor,
    /// The bits of just one.
    BitXor,
    /// Old: nothing changes.
    Read,
    /// The operand.
    Write,
    /// The operand if old is equal to the other, else old.
    SwapIfEqual,
    /// The operand if old is not equal to the other, else old.
    SwapIfNotEqual,
    /// The operand if the other is less than old or equal to it, else old.
    SwapIfLessOrEqual,
    /// The operand if the other is less than old, else old.
    SwapIfLess,
    /// The operand if the other is greater than old or equal to it, else old.
    SwapIfGreaterOrEqual,
    /// The operand if the other is greater than old, else old.
    SwapIfGreater,
    /// The bits of the operand where the other has ones, else those of old.
    SwapMasked,
}

/// What the elements are, as this machine's processor has them.
#[allow(missing_docs)] // the names say it
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum AtomicType {
    I8,
    U8,
    I16,
    U16,
    I32,
    U32,
    I64,
    U64,
    F32,
    F64,
    /// A real and an imaginary part.
    Complex32,
    /// A real and an imaginary part.
    Complex64,
    I128 = 14,
    U128,
}

impl AtomicOp {
    /// All of them, by their numbers.
    pub const ALL: [AtomicOp; 19] = {
        use AtomicOp::*;
        [
            Min,
            Max,
            Sum,
            Prod,
            LogicalOr,
            LogicalAnd,
            BitOr,
            BitAnd,
            LogicalXor,
            BitXor,
            Read,
            Write,
            SwapIfEqual,
            SwapIfNotEqual,
            SwapIfLessOrEqual,
            SwapIfLess,
            SwapIfGreaterOrEqual,
            SwapIfGreater,
            SwapMasked,
        ]
    };

    /// Whether it needs a second operand, to compare with.
    pub fn compares(self) -> bool {
        self as u8 >= AtomicOp::SwapIfEqual as u8
    }

    /// Operands of each element.
    pub fn operands(self) -> usize {
        match self {
            AtomicOp::Read => 0,
            op => 1 + usize::from(op.compares()),
        }
    }
}

impl AtomicType {
    /// All of them.
    pub const ALL: [AtomicType; 14] = {
        use AtomicType::*;
        [I8, U8, I16, U16, I32, U32, I64, U64, F32, F64, Complex32, Complex64, I128, U128]
    };

    /// Bytes of an element.
    pub fn size(self) -> usize {
        with_type!(self, T => T::SIZE)
    }

    /// Whether this operation exists for elements of this type.
    pub fn can(self, op: AtomicOp) -> bool {
        with_type!(self, T => T::apply(op, T::ZERO, T::ZERO, T::ZERO).is_some())
    }
}

/// An operation that exists for its type, and the number of its elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomic {
    op: AtomicOp,
    of: AtomicType,
    count: u32,
}

impl Atomic {
    /// The most bytes that the elements of one operation may have.
    pub const MAX_BYTES: usize = 4096;

    /// `None` when the operation does not exist for the type, or there are too many elements or none.
    pub fn new(op: AtomicOp, of: AtomicType, count: usize) -> Option<Atomic> {
        let fits = (1..=Atomic::MAX_BYTES / of.size()).contains(&count);
        (fits && of.can(op)).then_some(Atomic { op, of, count: count as u32 })
    }

    /// What is done.
    pub fn op(&self) -> AtomicOp {
        self.op
    }

    /// Bytes of the elements.
    #[allow(clippy::len_without_is_empty)] // there is always one
    pub fn len(&self) -> usize {
        self.count as usize * self.of.size()
    }

    /// Bytes of the operands, those to compare with included, which are behind the others.
    pub fn operand_bytes(&self) -> usize {
        self.op.operands() * self.len()
    }

    /// In one word, as it is on the wire; the rest of its bits are 0.
    pub fn word(&self) -> u64 {
        self.op as u64 | (self.of as u64) << 8 | u64::from(self.count) << 32
    }

    /// From its word; `None` if that is of no operation.
    pub fn from_word(word: u64) -> Option<Atomic> {
        let op = *AtomicOp::ALL.get((word & 0xff) as usize)?;
        let of = *AtomicType::ALL.iter().find(|&&of| of as u64 == word >> 8 & 0xff)?;
        Atomic::new(op, of, (word >> 32) as usize).filter(|atomic| atomic.word() == word)
    }

    /// What the elements `old` become.
    ///
    /// # Panics
    /// When there are fewer bytes than the operation says.
    #[expect(clippy::expect_used, reason = "`new` refuses operations that the type does not have")]
    pub fn apply(&self, old: &[u8], operands: &[u8]) -> Vec<u8> {
        with_type!(self.of, T => {
            let element = |bytes: &[u8], k: usize| {
                bytes.get(k * T::SIZE..(k + 1) * T::SIZE).map_or(T::ZERO, T::read)
            };
            let (first, second) = operands.split_at(operands.len().min(self.len()));
            let mut new = Vec::with_capacity(self.len());
            for k in 0..self.count as usize {
                let (old, operand, other) = (element(old, k), element(first, k), element(second, k));
                let became = T::apply(self.op, old, operand, other).expect("looked at in `new`");
                became.write(&mut new);
            }
            new
        })
    }
}

/// An element.
trait Element: Copy + PartialEq {
    const SIZE: usize;
    const ZERO: Self;
    const ONE: Self;
    fn read(bytes: &[u8]) -> Self;
    fn write(self, to: &mut Vec<u8>);

    /// What it becomes; `None` for what cannot be done to it.
    fn apply(op: AtomicOp, old: Self, operand: Self, other: Self) -> Option<Self>;

    /// What can be done to all that can be equal.
    fn apply_any(op: AtomicOp, old: Self, operand: Self, other: Self) -> Option<Self> {
        let truth = |so: bool| if so { Self::ONE } else { Self::ZERO };
        let (was, is) = (old != Self::ZERO, operand != Self::ZERO);
        Some(match op {
            AtomicOp::Read => old,
            AtomicOp::Write => operand,
            AtomicOp::LogicalOr => truth(was || is),
            AtomicOp::LogicalAnd => truth(was && is),
            AtomicOp::LogicalXor => truth(was != is),
            AtomicOp::SwapIfEqual => {
                if other == old {
                    operand
                } else {
                    old
                }
            }
            AtomicOp::SwapIfNotEqual => {
                if other != old {
                    operand
                } else {
                    old
                }
            }
            _ => return None,
        })
    }
}

/// What can be done to all that have an order.
fn apply_ordered<T: Element + PartialOrd>(op: AtomicOp, old: T, operand: T, other: T) -> Option<T> {
    let takes = match op {
        AtomicOp::Min => operand < old,
        AtomicOp::Max => operand > old,
        AtomicOp::SwapIfLessOrEqual => other <= old,
        AtomicOp::SwapIfLess => other < old,
        AtomicOp::SwapIfGreaterOrEqual => other >= old,
        AtomicOp::SwapIfGreater => other > old,
        _ => return T::apply_any(op, old, operand, other),
    };
    Some(if takes { operand } else { old })
}

macro_rules! number {
    ($zero:expr, $one:expr) => {
        const SIZE: usize = size_of::<Self>();
        const ZERO: Self = $zero;
        const ONE: Self = $one;

        fn read(bytes: &[u8]) -> Self {
            Self::from_ne_bytes(bytes.try_into().expect("as many as an element has"))
        }

        fn write(self, to: &mut Vec<u8>) {
            to.extend_from_slice(&self.to_ne_bytes());
        }
    };
}

macro_rules! integers {
    ($($T:ty),+) => {
        $(impl Element for $T {
            number!(0, 1);

            fn apply(op: AtomicOp, old: $T, operand: $T, other: $T) -> Option<$T> {
                Some(match op {
                    AtomicOp::Sum => old.wrapping_add(operand),
                    AtomicOp::Prod => old.wrapping_mul(operand),
                    AtomicOp::BitOr => old | operand,
                    AtomicOp::BitAnd => old & operand,
                    AtomicOp::BitXor => old ^ operand,
                    AtomicOp::SwapMasked => (operand & other) | (old & !other),
                    _ => return apply_ordered(op, old, operand, other),
                })
            }
        })+
    };
}
integers!(i8, u8, i16, u16, i32, u32, i64, u64, i128, u128);

/// A real and an imaginary part, as C has them.
#[derive(Clone, Copy, PartialEq)]
struct Complex<T>(T, T);

macro_rules! reals {
    ($($T:ty),+) => {
        $(impl Element for $T {
            number!(0.0, 1.0);

            fn apply(op: AtomicOp, old: $T, operand: $T, other: $T) -> Option<$T> {
                match op {
                    AtomicOp::Sum => Some(old + operand),
                    AtomicOp::Prod => Some(old * operand),
                    _ => apply_ordered(op, old, operand, other),
                }
            }
        }

        impl Element for Complex<$T> {
            const SIZE: usize = 2 * <$T>::SIZE;
            const ZERO: Self = Complex(0.0, 0.0);
            const ONE: Self = Complex(1.0, 0.0);

            fn read(bytes: &[u8]) -> Self {
                let (real, imaginary) = bytes.split_at(<$T>::SIZE);
                Complex(<$T>::read(real), <$T>::read(imaginary))
            }

            fn write(self, to: &mut Vec<u8>) {
                self.0.write(to);
                self.1.write(to);
            }

            fn apply(op: AtomicOp, old: Self, by: Self, other: Self) -> Option<Self> {
                match op {
                    AtomicOp::Sum => Some(Complex(old.0 + by.0, old.1 + by.1)),
                    AtomicOp::Prod => Some(Complex(
                        old.0 * by.0 - old.1 * by.1,
                        old.0 * by.1 + old.1 * by.0,
                    )),
                    _ => Self::apply_any(op, old, by, other),
                }
            }
        })+
    };
}
reals!(f32, f64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        for (number, op) in AtomicOp::ALL.into_iter().enumerate() {
            assert_eq!(op as usize, number);
            for of in AtomicType::ALL {
                let most = Atomic::MAX_BYTES / of.size();
                for count in [0, 1, most, most + 1, 1 << 32] {
                    let atomic = Atomic::new(op, of, count);
                    assert_eq!(atomic.is_some(), of.can(op) && (1..=most).contains(&count));
                    if let Some(atomic) = atomic {
                        assert_eq!(Atomic::from_word(atomic.word()), Some(atomic));
                    }
                }
            }
        }
        assert_eq!(Atomic::from_word(1 << 32 | 19), None);
        assert_eq!(Atomic::from_word(1 << 32 | 1 << 31), None);
        assert_eq!(Atomic::from_word(1 << 32 | 12 << 8), None);
    }

    #[test]
    fn elements_know_what_they_can() {
        use AtomicType::*;
        let can = |of: AtomicType| AtomicOp::ALL.into_iter().filter(|&op| of.can(op)).count();
        for of in [I8, U8, I16, U16, I32, U32, I64, U64, I128, U128] {
            assert_eq!(can(of), 19, "{of:?}");
        }
        assert_eq!([can(F32), can(F64)], [15, 15]);
        assert_eq!([can(Complex32), can(Complex64)], [9, 9]);
    }

    #[test]
    fn each_element_becomes_what_it_should() {
        let of_bytes = |op, old: [u8; 3], operand: [u8; 3], other: [u8; 3]| {
            let atomic = Atomic::new(op, AtomicType::U8, 3).unwrap();
            let operands = [operand, other].concat();
            let new = atomic.apply(&old, &operands[..atomic.operand_bytes()]);
            <[u8; 3]>::try_from(new).unwrap()
        };
        let none = [0; 3];
        assert_eq!(of_bytes(AtomicOp::Min, [1, 2, 3], [3, 2, 1], none), [1, 2, 1]);
        assert_eq!(of_bytes(AtomicOp::Sum, [1, 255, 3], [3, 2, 1], none), [4, 1, 4]);
        assert_eq!(of_bytes(AtomicOp::Read, [1, 2, 3], none, none), [1, 2, 3]);
        assert_eq!(of_bytes(AtomicOp::Write, [1, 2, 3], [9, 8, 7], none), [9, 8, 7]);
        assert_eq!(of_bytes(AtomicOp::SwapIfLess, [1, 2, 3], [9; 3], [2; 3]), [1, 2, 9]);
        assert_eq!(of_bytes(AtomicOp::SwapMasked, [0xff; 3], [0; 3], [1, 2, 4]), [254, 253, 251]);
    }
}
