//! The identity of a record.

use std::fmt;
use std::str::FromStr;

use super::InvalidId;
use crate::time::Timestamp;

/// Set if the id is printed as a UUID. It is the top bit of the millisecond clock in both forms.
const UUID_FORM: u128 = 1 << 127;
/// Set if the id is a hash. It is the next bit of the clock, which is 0 until the year 4199.
const HASHED_FORM: u128 = 1 << 126;
const FORM: u128 = UUID_FORM | HASHED_FORM;
/// What the printed form of a hash begins with. No ULID and no UUID does.
const HASHED_PREFIX: char = '~';

/// The identity of a record: two records with the same id are one.
///
/// A ULID or UUIDv7 is its own identity and prints in the form it came in. Any other id is unique only within its source, as `CloudEvents`
/// says: the identity is a hash of both. Ids that are ordered by time cost least, since indexes of ids grow at their end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RecordId(u128);

impl RecordId {
    /// A ULID from a time and 80 bits of entropy (the rest of `entropy` is ignored).
    pub fn from_parts(time: Timestamp, entropy: u128) -> Self {
        Self(ulid::Ulid::from_parts(time.millis_unsigned(), entropy).0 & !FORM)
    }

    /// The id of a record derived from others. The same parts give the same id, so writing the record twice is harmless.
    pub fn derived(time: Timestamp, parts: &[&str]) -> Self {
        Self::from_parts(time, hash_of(parts))
    }

    /// The identity of an event with this `source` and `id`.
    pub fn of_event(source: &str, id: &str) -> Self {
        Self::from_own_identity(id).unwrap_or_else(|| Self(hash_of(&[source, id]) & !FORM | HASHED_FORM))
    }

    /// Whether it is the hash of a source and an id, which do not follow from it.
    pub const fn is_hashed(self) -> bool {
        self.0 & FORM == HASHED_FORM
    }

    /// Reads a ULID or a UUIDv7.
    fn from_own_identity(text: &str) -> Option<Self> {
        let (bits, form) = if text.len() == 26 {
            (ulid::Ulid::from_string(text).ok()?.0, 0)
        } else {
            let uuid = uuid::Uuid::try_parse(text).ok().filter(|uuid| uuid.get_version_num() == 7)?;
            (uuid.as_u128(), UUID_FORM)
        };
        (bits & FORM == 0).then_some(Self(bits | form))
    }

    pub const fn to_bits(self) -> u128 {
        self.0
    }

    pub const fn from_bits(bits: u128) -> Self {
        Self(bits)
    }
}

/// 128 bits of a hash over the parts and where they end.
fn hash_of(parts: &[&str]) -> u128 {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
    }
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&hasher.finalize().as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

impl FromStr for RecordId {
    type Err = InvalidId;

    /// Reads the printed form. The id of an event is read by [`of_event`](Self::of_event), which accepts any.
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let hashed = |digits: &str| {
            let plain = digits.len() == 32 && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            u128::from_str_radix(digits, 16).ok().map(Self).filter(|id| plain && id.is_hashed())
        };
        let id = match text.strip_prefix(HASHED_PREFIX) {
            Some(digits) => hashed(digits),
            None => Self::from_own_identity(text),
        };
        id.ok_or_else(|| InvalidId::NotARecordId(text.to_owned()))
    }
}

impl fmt::Display for RecordId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_hashed() {
            write!(f, "{HASHED_PREFIX}{:032x}", self.0)
        } else if self.0 & UUID_FORM == 0 {
            ulid::Ulid(self.0).fmt(f)
        } else {
            uuid::Uuid::from_u128(self.0 & !UUID_FORM).hyphenated().fmt(f)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn record_ids_print_as_they_were_given() {
        for text in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01890a5d-ac96-774b-bcce-b302099a8057"] {
            assert_eq!(text.parse::<RecordId>().unwrap().to_string(), text);
        }
        for text in ["", "7", "~7", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"] {
            assert_eq!(text.parse::<RecordId>(), Err(InvalidId::NotARecordId(text.into())), "{text}");
        }
        let not_a_hash = format!("~{UUID_FORM:032x}");
        assert!(not_a_hash.parse::<RecordId>().is_err());
    }

    #[test]
    fn an_id_that_is_not_unique_by_itself_is_identified_with_its_source() {
        for id in
            ["7", "A234-1234-1234", "f47ac10b-58cc-4372-a567-0e02b2c3d479", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", "caf\u{e9} 1", ""]
        {
            let one = RecordId::of_event("/agents/a", id);
            assert!(one.is_hashed(), "{id}");
            assert_eq!(one, RecordId::of_event("/agents/a", id), "{id}");
            assert_ne!(one, RecordId::of_event("/agents/b", id), "{id}");
            assert_ne!(one, RecordId::of_event("/agents", &format!("/a{id}")), "{id}");
            assert_eq!(one.to_string().parse(), Ok(one), "{id}");
            // The printed form given as an id is an id like any other.
            assert_ne!(RecordId::of_event("/agents/a", &one.to_string()), one, "{id}");
        }
        for id in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "01890a5d-ac96-774b-bcce-b302099a8057"] {
            assert_eq!(RecordId::of_event("/agents/a", id), RecordId::of_event("/agents/b", id));
            assert_eq!(RecordId::of_event("/agents/a", id), id.parse().unwrap());
        }
    }

    #[test]
    fn a_derived_id_depends_on_every_part_and_on_where_parts_end() {
        let at = Timestamp::from_micros(1_700_000_000_000_000);
        let id = RecordId::derived(at, &["trace", "e1"]);
        assert_eq!(id, RecordId::derived(at, &["trace", "e1"]));
        assert_ne!(id, RecordId::derived(at, &["tracee", "1"]));
        assert_ne!(id, RecordId::derived(at.plus_millis(1), &["trace", "e1"]));
        assert_eq!(id.to_string().parse(), Ok(id));
    }
}
