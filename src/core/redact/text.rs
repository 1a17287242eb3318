//! Redaction of running text: tokens, PEM blocks, credentials in addresses and headers, and values assigned to the name of a secret.
//!
//! The text is scanned from left to right, again while something is found, a few times at most. Secrets are searched for only where `grams`
//! finds that one may begin, and a scan searches neither replaced text nor what is `ahead` of several such places again, so the time is
//! linear in the length of the text.

use std::ops::Range;

use super::ahead::Ahead;
use super::{REDACTED, assigned, grams, tokens};

/// Longest part of an address that is searched for credentials.
const AUTHORITY_LEN_MAX: usize = 8_192;
/// Longest label of a PEM block, such as `RSA PRIVATE KEY`.
const LABEL_LEN_MAX: usize = 64;

/// Scans of one text, at most. One changes what stands beside a secret, and with it what a word there means to the next.
const SCANS_MAX: usize = 8;

/// Returns `text` without its secrets; `None` if it holds none. What it returns holds none.
pub(super) fn redact(text: &str) -> Option<String> {
    let mut clean = scan(text)?;
    for _ in 1..SCANS_MAX {
        let Some(cleaner) = scan(&clean) else { break };
        clean = cleaner;
    }
    Some(clean)
}

fn scan(text: &str) -> Option<String> {
    let mut clean: Option<String> = None;
    let mut ahead = Ahead::default();
    let (mut kept, mut from) = (0, 0);
    while let Some(at) = grams::next(text.as_bytes(), from) {
        from = at + 1;
        if let Some(secret) = secret_at(text, at, kept, &mut ahead) {
            let clean = clean.get_or_insert_with(|| String::with_capacity(text.len()));
            clean.push_str(&text[kept..secret.start]);
            clean.push_str(REDACTED);
            (kept, from) = (secret.end, secret.end.max(from));
        }
    }
    let mut clean = clean?;
    clean.push_str(&text[kept..]);
    Some(clean)
}

/// Returns the secret that the gram at `at` belongs to. It begins at or after `floor`.
fn secret_at(text: &str, at: usize, floor: usize, ahead: &mut Ahead) -> Option<Range<usize>> {
    let found = tokens::token_at(text, at, floor, ahead)
        .or_else(|| pem_body(text, at))
        .or_else(|| address_password(text, at))
        .or_else(|| scheme_credentials(text, at, floor))
        .or_else(|| assigned::value_at(text, at, floor, ahead))?;
    let secret = text.get(found.clone())?;
    (!secret.is_empty() && !secret.starts_with(REDACTED)).then_some(found)
}

/// Returns the text between the first and the last line of a private key; without a last line, up to the end of `text`.
fn pem_body(text: &str, at: usize) -> Option<Range<usize>> {
    let rest = text.get(at..)?.strip_prefix("-BEGIN ")?;
    let label_end = rest.bytes().take(LABEL_LEN_MAX).position(|byte| byte == b'-')?;
    let label = &rest[..label_end];
    if !label.contains("PRIVATE KEY") {
        return None;
    }
    let dashes = rest[label_end..].bytes().take_while(|byte| *byte == b'-').count();
    let start = text.len() - rest.len() + label_end + dashes;
    let end = text[start..].find("-----END").map_or(text.len(), |end| start + end);
    Some(start..end)
}

/// Returns the password in `scheme://user:password@host`, or the whole user part if it looks like a token.
fn address_password(text: &str, at: usize) -> Option<Range<usize>> {
    let start = at + 4;
    let rest = text.get(at + 1..)?.strip_prefix("://")?;
    let ends = |byte: u8| byte.is_ascii_whitespace() || matches!(byte, b'/' | b'?' | b'#' | b'"' | b'\'' | b'<' | b'>' | b'\\');
    let end = rest.bytes().take(AUTHORITY_LEN_MAX).position(ends).unwrap_or(rest.len().min(AUTHORITY_LEN_MAX));
    let user_end = rest.as_bytes()[..end].iter().rposition(|byte| *byte == b'@')?;
    let user = rest.get(..user_end)?;
    match user.split_once(':') {
        // A placeholder is not a secret.
        Some((_, password)) if is_placeholder(password) => None,
        Some((name, _)) => Some(start + name.len() + 1..start + user_end),
        None => tokens::is_random(user).then(|| start..start + user_end),
    }
}

/// Returns the word after `Bearer` or `Basic`, unless it may be an ordinary word.
fn scheme_credentials(text: &str, at: usize, floor: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if at > floor && bytes[at - 1].is_ascii_alphanumeric() {
        return None;
    }
    let rest = text.get(at..)?;
    let is = |scheme: &str| rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    let (scheme, bearer) = if is("bearer ") { (7, true) } else { (6, false) };
    if !bearer && !is("basic ") {
        return None;
    }
    let rest = &rest[scheme..];
    let space = rest.len() - rest.trim_start_matches(' ').len();
    let token = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=:%".contains(&byte);
    let len = rest[space..].bytes().take_while(|byte| token(*byte)).count();
    let word = &rest[space..space + len];
    let start = at + scheme + space;
    let alone = at == 0 && start + len == text.len();
    let secret = if bearer {
        let odd = word.bytes().any(|byte| byte.is_ascii_digit()) || word.bytes().skip(1).any(|byte| byte.is_ascii_uppercase());
        (alone && !word.is_empty()) || (word.len() >= 6 && odd) || word.len() >= 24
    } else {
        is_user_and_password(word) || tokens::is_random(word)
    };
    let end = start + word.trim_end_matches('.').len();
    secret.then_some(start..end)
}

/// Whether `word` is `user:password` in base64, as in the scheme `Basic`.
fn is_user_and_password(word: &str) -> bool {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => Some(byte - b'A'),
        b'a'..=b'z' => Some(byte - b'a' + 26),
        b'0'..=b'9' => Some(byte - b'0' + 52),
        b'+' | b'-' => Some(62),
        b'/' | b'_' => Some(63),
        _ => None,
    };
    let (mut bits, mut held, mut colon) = (0_u32, 0, false);
    for byte in word.trim_end_matches('=').bytes() {
        let Some(digit) = digit(byte) else { return false };
        (bits, held) = (bits << 6 | u32::from(digit), held + 6);
        if held >= 8 {
            held -= 8;
            let [decoded, ..] = (bits >> held).to_le_bytes();
            bits &= (1 << held) - 1;
            if !(b' '..=b'~').contains(&decoded) {
                return false;
            }
            colon |= decoded == b':';
        }
    }
    colon
}

/// Whether `value` is a placeholder: `${TOKEN}`, `{{token}}`, `<token>`, `%s`, `***`.
pub(super) fn is_placeholder(value: &str) -> bool {
    let between = |open: &str, close: char| value.starts_with(open) && value.ends_with(close);
    let variable = |name: &str| !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
    between("${", '}')
        || between("{", '}')
        || between("<", '>')
        || between("$(", ')')
        || value.strip_prefix('$').is_some_and(variable)
        || value.starts_with("%(")
        || value == "%s"
        || value.bytes().all(|byte| matches!(byte, b'*' | b'.' | b'x' | b'X')) && value.len() > 1
}
