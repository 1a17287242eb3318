//! Classification of names: whether a name such as `password` or `api_key` marks its value as a secret.
//!
//! A name is split into words at everything that is neither letter nor digit, and where camel case begins a word: `X-Api-Key`,
//! `api_key` and `apiKey` are the same two words. Short words count only as whole words, so `passenger`, `author`, `keyboard` and
//! `monkey` do not name secrets; nor do `tokenizer` and `secretary`.

/// Words of a name that are considered; of a longer name, the last ones.
const WORDS_MAX: usize = 8;

/// How strongly a name marks its value as a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Degree {
    /// `password`, `api_key`, `Authorization`: any value is a secret.
    Strong,
    /// `key`, `pass`, `auth`: a string member of JSON with this name is a secret; a value in running text must also look like one.
    Short,
    /// `sig`, `signature`: only a value that looks random is a secret.
    Weak,
}

/// Endings of words that name secrets: `userpassword`, `clientsecret`, `accesstoken`.
const ENDINGS: [&str; 21] = [
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "passcode",
    "secret",
    "secrets",
    "token",
    "tokens",
    "authorization",
    "apikey",
    "apikeys",
    "accesskey",
    "privatekey",
    "secretkey",
    "accountkey",
    "cookie",
    "cookies",
    "credential",
    "credentials",
    "creds",
];
/// Whole words that name secrets.
const WORDS: [&str; 2] = ["pwd", "jwt"];
/// Words before `key` that make it a secret: `api_key`, `SECRET_ACCESS_KEY`. A primary, sort, cache or public key is not secret.
const KEY_OF: [&str; 22] = [
    "access",
    "account",
    "api",
    "app",
    "application",
    "auth",
    "client",
    "consumer",
    "deploy",
    "encryption",
    "hmac",
    "license",
    "master",
    "private",
    "rsa",
    "secret",
    "service",
    "shared",
    "signing",
    "ssh",
    "storage",
    "subscription",
];
/// Words before `pass` or `auth` that make it a secret: `db_pass`, `basic_auth`. A boarding pass is not secret.
const PASS_OF: [&str; 19] = [
    "admin", "basic", "bind", "db", "database", "ftp", "http", "login", "mail", "my", "mysql", "pg", "postgres", "proxy",
    "redis", "root", "smtp", "ssh", "user",
];
/// Last words of names that describe a secret without being one: `token_type`, `password_policy`, `cookie_name`.
const ABOUT: [&str; 40] = [
    "age",
    "algorithm",
    "at",
    "count",
    "enabled",
    "endpoint",
    "expires",
    "expiration",
    "expiry",
    "field",
    "file",
    "format",
    "generator",
    "hint",
    "in",
    "length",
    "limit",
    "manager",
    "max",
    "method",
    "min",
    "mode",
    "name",
    "names",
    "path",
    "policy",
    "provider",
    "required",
    "scope",
    "size",
    "source",
    "status",
    "strength",
    "ttl",
    "type",
    "uri",
    "url",
    "usage",
    "used",
    "version",
];
/// Words of names whose numbers are counts: `max_tokens`, `tokens_per_minute`.
const COUNTS: [&str; 20] = [
    "budget",
    "cached",
    "completion",
    "count",
    "input",
    "limit",
    "max",
    "min",
    "n",
    "num",
    "number",
    "output",
    "per",
    "prompt",
    "reasoning",
    "tokens",
    "total",
    "usage",
    "used",
    "window",
];

/// Returns how strongly `name` marks its value as a secret; `None` if it does not.
pub(super) fn degree(name: &str) -> Option<Degree> {
    let words = Words::split(name);
    let (&last, before) = words.as_slice().split_last()?;
    let is = |word: &str, list: &[&str]| list.iter().any(|entry| word.eq_ignore_ascii_case(entry));
    if is(last, &ABOUT) {
        return None;
    }
    if words.as_slice().iter().any(|word| is(word, &WORDS) || has_ending(word)) {
        return Some(Degree::Strong);
    }
    let owner = before.last().copied();
    if is(last, &["key", "keys"]) {
        let named = owner.is_some_and(|owner| is(owner, &KEY_OF));
        let alone = owner.is_none() && last.eq_ignore_ascii_case("key");
        return if named { Some(Degree::Strong) } else { alone.then_some(Degree::Short) };
    }
    if is(last, &["pass", "auth"]) {
        return owner.is_none_or(|owner| is(owner, &PASS_OF)).then_some(Degree::Short);
    }
    is(last, &["sig", "signature"]).then_some(Degree::Weak)
}

/// Whether a number with this name is a count.
pub(super) fn is_count(name: &str) -> bool {
    let words = Words::split(name);
    words.as_slice().iter().any(|word| COUNTS.iter().any(|count| word.eq_ignore_ascii_case(count)))
}

/// Whether the secret of a header with this name extends to the end of the line.
pub(super) fn is_whole_line(name: &str) -> bool {
    let words = Words::split(name);
    let last = words.as_slice().last().copied().unwrap_or_default();
    ["authorization", "cookie"].iter().any(|header| last.eq_ignore_ascii_case(header))
}

fn has_ending(word: &str) -> bool {
    // The number in `password1` and `token2` is not part of the word.
    let word = word.trim_end_matches(|c: char| c.is_ascii_digit());
    let ends = |ending: &&str| {
        let start = word.len().checked_sub(ending.len());
        start.and_then(|start| word.get(start..)).is_some_and(|end| end.eq_ignore_ascii_case(ending))
    };
    ENDINGS.iter().any(ends)
}

/// The last words of a name.
struct Words<'a> {
    words: [&'a str; WORDS_MAX],
    len: usize,
}

impl<'a> Words<'a> {
    fn split(name: &'a str) -> Self {
        let mut found = Self { words: [""; WORDS_MAX], len: 0 };
        let bytes = name.as_bytes();
        let mut start = 0;
        for at in 0..=bytes.len() {
            let ends = bytes.get(at).is_none_or(|byte| !byte.is_ascii_alphanumeric());
            if ends || begins_word(bytes, at) {
                if let Some(word) = name.get(start..at).filter(|word| !word.is_empty()) {
                    found.push(word);
                }
                start = if ends { at + 1 } else { at };
            }
        }
        found
    }

    fn push(&mut self, word: &'a str) {
        if self.len == WORDS_MAX {
            self.words.copy_within(1.., 0);
            self.len -= 1;
        }
        self.words[self.len] = word;
        self.len += 1;
    }

    fn as_slice(&self) -> &[&'a str] {
        &self.words[..self.len]
    }
}

/// Whether camel case begins a word at `at`: `accessToken`, `APIKey`.
fn begins_word(bytes: &[u8], at: usize) -> bool {
    let upper = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_uppercase);
    let lower = |at: usize| bytes.get(at).is_some_and(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit());
    let Some(before) = at.checked_sub(1) else { return false };
    upper(at) && (lower(before) || (upper(before) && bytes.get(at + 1).is_some_and(u8::is_ascii_lowercase)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_recognised_however_they_are_written() {
        for name in [
            "password",
            "Passwd",
            "passphrase",
            "pwd",
            "db_pwd",
            "userPassword",
            "password1",
            "PGPASSWORD",
            "secret",
            "client_secret",
            "clientSecret",
            "token",
            "accessToken",
            "refresh-token",
            "GITHUB_TOKEN",
            "authorization",
            "Proxy-Authorization",
            "x-api-key",
            "apikey",
            "APIKey",
            "api_keys",
            "AWS_SECRET_ACCESS_KEY",
            "accessKey",
            "private_key",
            "AccountKey",
            "cookie",
            "Set-Cookie",
            "credentials",
            "jwt",
            "id.token",
        ] {
            assert_eq!(degree(name), Some(Degree::Strong), "{name}");
        }
        for name in ["key", "pass", "auth", "db_pass", "smtpPass", "basic_auth", "KEY"] {
            assert_eq!(degree(name), Some(Degree::Short), "{name}");
        }
        for name in ["sig", "X-Amz-Signature"] {
            assert_eq!(degree(name), Some(Degree::Weak), "{name}");
        }
    }

    #[test]
    fn names_that_only_sound_like_secrets_are_left_alone() {
        for name in [
            "",
            "passenger",
            "passengers",
            "author",
            "authors",
            "keyboard",
            "monkey",
            "primary_key",
            "sortKey",
            "public_key",
            "keys",
            "keyword",
            "tokenizer",
            "secretary",
            "boarding_pass",
            "oauth",
            "token_type",
            "password_policy",
            "key_id",
            "cookie_name",
            "cookieless",
            "compass",
            "design",
            "path",
        ] {
            assert_eq!(degree(name), None, "{name}");
        }
        assert!(is_count("max_tokens") && is_count("tokensPerMinute") && !is_count("token"));
    }
}
