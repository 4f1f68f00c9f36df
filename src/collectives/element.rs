//! What collective operations work on, and how two of them make one.

/// A number that collective operations can send and combine: `u8` to `u64`, `i8` to `i64`, `f32`
/// and `f64`.
pub trait Element: sealed::Number {}

/// An [`Element`] that is made of bits: all but the floating-point ones.
pub trait Integer:
    Element + std::ops::BitAnd<Output = Self> + std::ops::BitOr<Output = Self>
{
}

/// The sum; of integers, without regard to overflow.
pub fn sum<T: Element>(a: T, b: T) -> T {
    a.plus(b)
}

/// The product; of integers, without regard to overflow.
pub fn product<T: Element>(a: T, b: T) -> T {
    a.times(b)
}

/// The lesser one; the number, if the other one is NaN.
pub fn min<T: Element>(a: T, b: T) -> T {
    a.lesser(b)
}

/// The greater one; the number, if the other one is NaN.
pub fn max<T: Element>(a: T, b: T) -> T {
    a.greater(b)
}

/// The bits that are set in both.
pub fn bit_and<T: Integer>(a: T, b: T) -> T {
    a & b
}

/// The bits that are set in either.
pub fn bit_or<T: Integer>(a: T, b: T) -> T {
    a | b
}

mod sealed {
    pub trait Number: bytemuck::Pod {
        fn plus(self, other: Self) -> Self;
        fn times(self, other: Self) -> Self;
        fn lesser(self, other: Self) -> Self;
        fn greater(self, other: Self) -> Self;
    }
}

macro_rules! number {
    ($type:ty, $plus:ident, $times:ident) => {
        impl Element for $type {}
        impl sealed::Number for $type {
            fn plus(self, other: Self) -> Self {
                <$type>::$plus(self, other)
            }
            fn times(self, other: Self) -> Self {
                <$type>::$times(self, other)
            }
            fn lesser(self, other: Self) -> Self {
                self.min(other)
            }
            fn greater(self, other: Self) -> Self {
                self.max(other)
            }
        }
    };
}

macro_rules! integers {
    ($($type:ty)*) => {$(
        number!($type, wrapping_add, wrapping_mul);
        impl Integer for $type {}
    )*};
}

use std::ops::{Add as _, Mul as _};
integers!(u8 u16 u32 u64 i8 i16 i32 i64);
number!(f32, add, mul);
number!(f64, add, mul);
