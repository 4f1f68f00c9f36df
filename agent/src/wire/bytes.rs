//! Numbers, text and lists in bytes.

use super::Malformed;

/// Reads what is left of a body.
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize, field: &'static str) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or_else(|| {
            Malformed::new(field, format!("{len} bytes"), format!("{} at the end", self.0.len()))
        })?;
        self.0 = rest;
        Ok(taken)
    }

    pub fn array<const N: usize>(&mut self, field: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N, field)?);
        Ok(array)
    }

    pub fn u8(&mut self, field: &'static str) -> Result<u8, Malformed> {
        self.array(field).map(u8::from_le_bytes)
    }

    pub fn u16(&mut self, field: &'static str) -> Result<u16, Malformed> {
        self.array(field).map(u16::from_le_bytes)
    }

    pub fn u32(&mut self, field: &'static str) -> Result<u32, Malformed> {
        self.array(field).map(u32::from_le_bytes)
    }

    pub fn u64(&mut self, field: &'static str) -> Result<u64, Malformed> {
        self.array(field).map(u64::from_le_bytes)
    }

    pub fn i32(&mut self, field: &'static str) -> Result<i32, Malformed> {
        self.array(field).map(i32::from_le_bytes)
    }

    pub fn i64(&mut self, field: &'static str) -> Result<i64, Malformed> {
        self.array(field).map(i64::from_le_bytes)
    }

    pub fn text(&mut self, field: &'static str) -> Result<String, Malformed> {
        let len = self.u16(field)?;
        let bytes = self.take(usize::from(len), field)?;
        let text = std::str::from_utf8(bytes).map_err(|e| Malformed::new(field, "UTF-8", e))?;
        Ok(text.to_owned())
    }

    pub fn bytes(&mut self, field: &'static str) -> Result<Vec<u8>, Malformed> {
        let len = self.u32(field)?;
        Ok(self.take(len as usize, field)?.to_vec())
    }

    /// All that is left.
    pub fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    /// A list, whose elements have `smallest` bytes at least.
    pub fn list<T>(
        &mut self,
        field: &'static str,
        smallest: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let count = self.u32(field)? as usize;
        let room = self.0.len() / smallest;
        if count > room {
            return Err(Malformed::new(field, format!("at most {room} elements"), count));
        }
        (0..count).map(|_| element(self)).collect()
    }

    pub fn end(&self) -> Result<(), Malformed> {
        match self.0.len() {
            0 => Ok(()),
            left => Err(Malformed::new("length", "no byte behind the last field", left)),
        }
    }
}

/// A body that is written. What is too long for its field is noticed by the length of the whole.
#[derive(Default)]
pub(super) struct Writer(pub Vec<u8>);

impl Writer {
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub fn u32(&mut self, value: u32) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn i32(&mut self, value: i32) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn i64(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    pub fn text(&mut self, text: &str) {
        self.0.extend((text.len() as u16).to_le_bytes());
        self.0.extend(text.as_bytes());
    }

    /// Words for people: cut off where they would not fit into `room` bytes.
    pub fn words(&mut self, text: &str, room: usize) {
        self.text(&text[..text.floor_char_boundary(room)]);
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.u32(bytes.len() as u32);
        self.0.extend(bytes);
    }

    pub fn list<T>(&mut self, list: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.u32(list.len() as u32);
        list.iter().for_each(|one| element(self, one));
    }
}
