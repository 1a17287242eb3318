//! What a scan has already looked for ahead of where it is. Many places of a text ask where the same word ends (`sk-sk-sk-...`), and each
//! would read on to that end again; what was found is remembered, so that a scan takes linear time.

/// Where the next byte of one kind is, as far as it was looked for.
#[derive(Default)]
pub(super) struct NextByte {
    from: usize,
    at: usize,
}

impl NextByte {
    /// Returns the index of the first byte at or after `from` that `is`, or the length of `bytes`. Always the same `is` and `bytes`.
    pub(super) fn find(&mut self, bytes: &[u8], from: usize, is: impl Fn(u8) -> bool) -> usize {
        if !(self.from..=self.at).contains(&from) || self.at == 0 {
            let rest = bytes.get(from..).unwrap_or_default();
            let at = from + rest.iter().position(|byte| is(*byte)).unwrap_or(rest.len());
            *self = Self { from, at };
        }
        self.at
    }
}

/// The searches of one scan.
#[derive(Default)]
pub(super) struct Ahead {
    /// The ends of the characters that may follow the prefix of a token, by kind.
    pub(super) bodies: [NextByte; 5],
    pub(super) digit: NextByte,
    /// The ends of the first and the second part of a JSON web token.
    pub(super) web_token_parts: [NextByte; 2],
    /// The ends of values, of those of environment variables and of others.
    pub(super) values: [NextByte; 2],
}
