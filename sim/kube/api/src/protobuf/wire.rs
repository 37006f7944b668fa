//! The wire format: tags, varints, lengths.
//!
//! Errors have the words of Go code that gogo/protobuf generates, because they reach clients.

/// Error in malformed bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum WireError {
    /// The bytes end too early.
    #[error("unexpected EOF")]
    Eof,
    /// A varint has more than ten bytes.
    #[error("proto: integer overflow")]
    Overflow,
    /// A length is negative.
    #[error("proto: negative length found during unmarshaling")]
    NegativeLength,
    /// The wire type is unknown.
    #[error("proto: illegal wireType {0}")]
    WireType(u64),
    /// A field has the number 0 or a negative number.
    #[error("proto: {message}: illegal tag {number} (wire type {wire_type})")]
    Tag { message: String, number: i32, wire_type: u64 },
    /// A message contains the end tag of a group.
    #[error("proto: {0}: wiretype end group for non-group")]
    EndGroup(String),
    /// A field has the wrong wire type.
    #[error("proto: wrong wireType = {wire_type} for field {field}")]
    Mismatch { field: String, wire_type: u64 },
    /// Messages are nested too deeply.
    #[error("exceeded max depth")]
    TooDeep,
    /// A part that must be JSON is not valid JSON.
    #[error("{0}")]
    Raw(String),
}

/// Value of a field, by its wire type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32(u32),
    /// A group. Kubernetes never uses groups, and the reader skips their content.
    Group,
}

impl Field<'_> {
    pub(super) fn wire_type(&self) -> u64 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32(_) => 5,
            Self::Group => 3,
        }
    }
}

/// Reads a message field by field.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// Reads the next field and its number; `None` at the end. Some errors contain `message`, the
    /// name of the message.
    pub(super) fn next(&mut self, message: &str) -> Result<Option<(i32, Field<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        // The field number is the tag without its lowest three bits, cut to 32 bits.
        #[expect(clippy::cast_possible_truncation, reason = "Go's generated code truncates, too")]
        let number = (tag >> 3) as i32;
        let wire_type = tag & 7;
        if wire_type == 4 {
            return Err(WireError::EndGroup(message.to_owned()));
        }
        if number <= 0 {
            let message = message.to_owned();
            return Err(WireError::Tag { message, number, wire_type });
        }
        if wire_type == 3 {
            self.skip_group()?;
            return Ok(Some((number, Field::Group)));
        }
        Ok(Some((number, self.field(wire_type)?)))
    }

    fn field(&mut self, wire_type: u64) -> Result<Field<'a>, WireError> {
        match wire_type {
            0 => self.varint().map(Field::Varint),
            1 => self.array().map(|bytes| Field::Fixed64(u64::from_le_bytes(bytes))),
            2 => {
                let length = self.varint()?;
                let length = i64::try_from(length).map_err(|_| WireError::NegativeLength)?;
                let length = usize::try_from(length).map_err(|_| WireError::Eof)?;
                self.take(length).map(Field::Bytes)
            }
            5 => self.array().map(|bytes| Field::Fixed32(u32::from_le_bytes(bytes))),
            other => Err(WireError::WireType(other)),
        }
    }

    /// Reads past a group and the groups in it.
    fn skip_group(&mut self) -> Result<(), WireError> {
        let mut depth = 1_usize;
        while depth > 0 {
            let tag = self.varint()?;
            match tag & 7 {
                3 => depth += 1,
                4 => depth -= 1,
                wire_type => {
                    self.field(wire_type)?;
                }
            }
        }
        Ok(())
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0_u64;
        for shift in (0..).step_by(7) {
            if shift >= 64 {
                return Err(WireError::Overflow);
            }
            let (&byte, rest) = self.rest.split_first().ok_or(WireError::Eof)?;
            self.rest = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        Ok(value)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(WireError::Eof)?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (taken, rest) = self.rest.split_first_chunk::<N>().ok_or(WireError::Eof)?;
        self.rest = rest;
        Ok(*taken)
    }
}
