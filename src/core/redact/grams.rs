//! A filter that finds the places in a text where a secret may begin.
//!
//! Every pattern of a secret contains four characters (a gram) that are always present. All grams are in a bit map, each in two slots; a
//! text is searched for them in one pass, ignoring case. Nearly all texts contain none, so no further pattern is tried on them.

/// The grams; those of addresses also with slashes that JSON escapes. `*` matches a letter, a digit, `_` or `-`; `#` a hexadecimal digit;
/// `~` a character that may follow a name.
const GRAMS: &[&[u8; 4]] = &[
    // Names of secrets.
    b"pass", b"pwd*", b"pwd~", b"secr", b"toke", b"auth", b"cook", b"cred", b"jwt*", b"jwt~", b"key~", b"keys", b"sig~",
    b"ture", // Schemes, addresses, PEM blocks.
    b"bear", b"basi", b"*://", b"*:\\/", b"*:\\\\", b"-beg", b"eyj*", // Tokens of the providers, see `tokens`.
    b"akia", b"asia", b"aiza", b"ya29", b"ghp_", b"gho_", b"ghu_", b"ghs_", b"ghr_", b"gith", b"glpa", b"glrt", b"gldt",
    b"glcb", b"glpt", b"xoxa", b"xoxb", b"xoxe", b"xoxo", b"xoxp", b"xoxr", b"xoxs", b"xapp", b"sk-*", b"sk_l", b"sk_t",
    b"rk_l", b"rk_t", b"pk_l", b"whse", b"npm_", b"pypi", b"hf_*", b"sg.*", b"sk##", b"dop_", b"doo_", b"dor_", b"shpa",
    b"shps", b"shpc", b"pml_", b"gsk_", b"xai-", b"nvap", b"pplx", b"r8_*", b"tvly", b"lsv2", b"hvs.", b"hvb.", b"hvr.",
    b"dckr", b"glsa", b"sntr", b"pmak", b"dapi", b"figd", b"lin_", b"ntn_", b"atat", b"atct", b"nrak", b"sbp_", b"psca",
    b"ruby", b"xkey", b"sq0c", b"sq0a", b"eaaa", b"age-", b"key-", b"rzp_", b"dp.p", b"dp.s", b"fo1_", b"pat-", b"eaac",
    b"cfut", b"#:aa", b"vcp_", b"ocgr",
];
const ANY: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789_-";
const HEX: &[u8] = b"0123456789abcdef";
const AFTER_NAME: &[u8] = b"=: \"'\\`]\t\n";

const SLOT_BITS: u32 = 16;
/// With one slot, one place in a hundred would look like a gram, hence most sentences.
const FACTORS: [u32; 2] = [0x9E37_79B1, 0x85EB_CA77];
static FILTER: [u64; (1 << SLOT_BITS) / 64] = filter();

/// Returns the first index at or after `from` where one of the grams may be; false positives are possible.
pub(super) fn next(bytes: &[u8], from: usize) -> Option<usize> {
    let is_set = |slot: usize| FILTER[slot / 64] >> (slot % 64) & 1 == 1;
    let may_be = |gram: &[u8; 4]| is_set(slot(*gram, FACTORS[0])) && is_set(slot(*gram, FACTORS[1]));
    bytes.get(from..)?.array_windows().position(may_be).map(|at| from + at)
}

/// Returns a slot of a gram by multiplicative hashing (Knuth 6.4). Setting one bit makes letters lower-case and keeps digits and
/// most signs as they are.
const fn slot(gram: [u8; 4], factor: u32) -> usize {
    ((u32::from_le_bytes(gram) | 0x2020_2020).wrapping_mul(factor) >> (32 - SLOT_BITS)) as usize
}

const fn filter() -> [u64; (1 << SLOT_BITS) / 64] {
    let mut filter = [0; (1 << SLOT_BITS) / 64];
    let mut at = 0;
    while at < GRAMS.len() {
        add(&mut filter, *GRAMS[at], 0);
        at += 1;
    }
    filter
}

/// Sets the bits of all grams that `gram` matches; its characters before `at` are literal.
const fn add(filter: &mut [u64; (1 << SLOT_BITS) / 64], mut gram: [u8; 4], at: usize) {
    if at == gram.len() {
        let slots = [slot(gram, FACTORS[0]), slot(gram, FACTORS[1])];
        filter[slots[0] / 64] |= 1 << (slots[0] % 64);
        filter[slots[1] / 64] |= 1 << (slots[1] % 64);
        return;
    }
    let class = match gram[at] {
        b'*' => ANY,
        b'#' => HEX,
        b'~' => AFTER_NAME,
        _ => return add(filter, gram, at + 1),
    };
    let mut member = 0;
    while member < class.len() {
        gram[at] = class[member];
        add(filter, gram, at + 1);
        member += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grams_are_found_in_any_case_and_anywhere() {
        for (text, at) in [("PassWord", 0), ("a ghp_x", 2), ("http://a", 3), ("the key: x", 4), ("12345:AAx", 4)] {
            assert_eq!(next(text.as_bytes(), 0), Some(at), "{text}");
        }
    }

    #[test]
    fn ordinary_texts_hold_none() {
        let sentence = "My refrigerator is broken, can you help me find a door-to-door repair service in the department?";
        for text in
            ["", "abc", "read the invoices of january and pack them", "2 files", "urn:agent:claude-code/laptop-7", sentence]
        {
            assert_eq!(next(text.as_bytes(), 0), None, "{text}");
        }
    }
}
