//! Numbers and texts of payloads.
//!
//! `snapshot.rs` has the format. A reader trusts no length, because a file may have any bytes.

/// Appends a number.
pub(crate) fn put_number(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Appends a text.
pub(crate) fn put_text(to: &mut Vec<u8>, text: &str) {
    put_number(to, text.len() as u64);
    to.extend_from_slice(text.as_bytes());
}

/// Appends a list.
pub(crate) fn put_list<T>(
    to: &mut Vec<u8>,
    items: impl ExactSizeIterator<Item = T>,
    mut put: impl FnMut(&mut Vec<u8>, T),
) {
    put_number(to, items.len() as u64);
    items.for_each(|item| put(to, item));
}

/// Appends a byte that says whether there is a value, and the value.
#[cfg(feature = "redis")]
pub(crate) fn put_option<T>(to: &mut Vec<u8>, value: Option<T>, put: impl FnOnce(&mut Vec<u8>, T)) {
    to.push(value.is_some().into());
    if let Some(value) = value {
        put(to, value);
    }
}

/// A payload that is read from its front. Every method returns `None` if the bytes do not have the form that it reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a>(pub(crate) &'a [u8]);

impl<'a> Cursor<'a> {
    pub(crate) const fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn bytes(&mut self, length: usize) -> Option<&'a [u8]> {
        let (read, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(read)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        self.array().map(|[byte]| byte)
    }

    /// A byte that is 0 or 1.
    pub(crate) fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    #[cfg(feature = "redis")]
    pub(crate) fn option<T>(
        &mut self,
        value: impl FnOnce(&mut Self) -> Option<T>,
    ) -> Option<Option<T>> {
        if self.flag()? { value(self).map(Some) } else { Some(None) }
    }

    #[inline]
    pub(crate) fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        // Seven bits in a byte, low bits first; the high bit says that more follow.
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            // The tenth byte has room for one bit.
            if bits << shift >> shift != bits {
                return None;
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.number()?).ok()?;
        str::from_utf8(self.bytes(length)?).ok()
    }

    /// A list without empty items, so memory for it is taken only as far as there are bytes.
    pub(crate) fn list<T>(
        &mut self,
        mut item: impl FnMut(&mut Self) -> Option<T>,
    ) -> Option<Vec<T>> {
        let length =
            usize::try_from(self.number()?).ok().filter(|length| *length <= self.0.len())?;
        (0..length).map(|_| item(self)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_was_put_is_read(numbers: Vec<u64>, shifts: Vec<u8>, text: String) {
            let numbers: Vec<_> =
                numbers.iter().zip(shifts).map(|(number, by)| number >> (by % 64)).collect();
            let mut bytes = Vec::new();
            put_list(&mut bytes, numbers.iter(), |to, number| put_number(to, *number));
            put_text(&mut bytes, &text);
            let mut cursor = Cursor(&bytes);
            prop_assert_eq!(cursor.list(|cursor| cursor.number()), Some(numbers));
            prop_assert_eq!(cursor.text(), Some(&*text));
            prop_assert!(cursor.is_at_end());
        }

        #[test]
        fn no_bytes_make_a_cursor_panic(bytes: Vec<u8>) {
            let (mut numbers, mut texts) = (Cursor(&bytes), Cursor(&bytes));
            let _ = numbers.list(|cursor| cursor.number());
            let _ = texts.list(|cursor| cursor.text().map(str::len));
        }
    }

    #[test]
    fn a_number_beyond_64_bits_is_refused() {
        let largest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
        assert_eq!(Cursor(&largest).number(), Some(u64::MAX));
        let mut beyond = largest;
        beyond[9] = 2;
        assert_eq!(Cursor(&beyond).number(), None);
        assert_eq!(Cursor(&[0x80; 10]).number(), None);
    }
}
