//! Recognition of tokens by their form: tokens with the public prefix of a provider, JSON web tokens, bot tokens.

use std::ops::Range;

use super::ahead::Ahead;

/// The characters that may follow a prefix.
#[derive(Clone, Copy)]
enum Body {
    Alphanumeric,
    /// Letters, digits, `_` and `-`.
    Base64Url,
    /// The same and `.`.
    Dotted,
    Hex,
    Upper,
}

impl Body {
    fn holds(self, byte: u8) -> bool {
        match self {
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Base64Url => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.'),
            Self::Hex => byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
        }
    }
}

/// Prefix, the characters after it, and their least number, as the providers publish them for secret scanners.
const PREFIXES: &[(&str, Body, usize)] = &[
    ("AKIA", Body::Upper, 16), // Amazon
    ("ASIA", Body::Upper, 16),
    ("ghp_", Body::Alphanumeric, 20), // GitHub
    ("gho_", Body::Alphanumeric, 20),
    ("ghu_", Body::Alphanumeric, 20),
    ("ghs_", Body::Alphanumeric, 20),
    ("ghr_", Body::Alphanumeric, 20),
    ("github_pat_", Body::Base64Url, 20),
    ("glpat-", Body::Dotted, 16), // GitLab
    ("glrt-", Body::Base64Url, 16),
    ("gldt-", Body::Base64Url, 16),
    ("glcbt-", Body::Base64Url, 16),
    ("glptt-", Body::Base64Url, 16),
    ("xoxa-", Body::Base64Url, 10), // Slack
    ("xoxb-", Body::Base64Url, 10),
    ("xoxe-", Body::Base64Url, 10),
    ("xoxe.", Body::Dotted, 10),
    ("xoxo-", Body::Base64Url, 10),
    ("xoxp-", Body::Base64Url, 10),
    ("xoxr-", Body::Base64Url, 10),
    ("xoxs-", Body::Base64Url, 10),
    ("xapp-", Body::Base64Url, 10),
    ("sk-", Body::Base64Url, 20),  // OpenAI, Anthropic (sk-ant-), OpenRouter (sk-or-) and others
    ("AIza", Body::Base64Url, 30), // Google
    ("ya29.", Body::Dotted, 20),
    ("sk_live_", Body::Alphanumeric, 10), // Stripe
    ("sk_test_", Body::Alphanumeric, 10),
    ("rk_live_", Body::Alphanumeric, 10),
    ("rk_test_", Body::Alphanumeric, 10),
    ("pk_live_", Body::Alphanumeric, 10),
    ("whsec_", Body::Alphanumeric, 20),
    ("npm_", Body::Alphanumeric, 30), // npm
    ("pypi-", Body::Base64Url, 30),   // Python package index
    ("rubygems_", Body::Hex, 30),     // RubyGems
    ("hf_", Body::Alphanumeric, 20),  // Hugging Face
    ("SG.", Body::Dotted, 30),        // SendGrid
    ("SK", Body::Hex, 32),            // Twilio
    ("dop_v1_", Body::Hex, 32),       // DigitalOcean
    ("doo_v1_", Body::Hex, 32),
    ("dor_v1_", Body::Hex, 32),
    ("shpat_", Body::Alphanumeric, 20), // Shopify
    ("shpca_", Body::Alphanumeric, 20),
    ("shppa_", Body::Alphanumeric, 20),
    ("shpss_", Body::Alphanumeric, 20),
    ("pml_", Body::Base64Url, 32),     // pml itself
    ("gsk_", Body::Alphanumeric, 20),  // Groq
    ("xai-", Body::Alphanumeric, 20),  // xAI
    ("nvapi-", Body::Base64Url, 20),   // NVIDIA
    ("pplx-", Body::Alphanumeric, 20), // Perplexity
    ("r8_", Body::Alphanumeric, 30),   // Replicate
    ("tvly-", Body::Base64Url, 20),    // Tavily
    ("lsv2_", Body::Base64Url, 20),    // LangSmith
    ("hvs.", Body::Base64Url, 20),     // HashiCorp Vault
    ("hvb.", Body::Base64Url, 20),
    ("hvr.", Body::Base64Url, 20),
    ("dckr_pat_", Body::Base64Url, 20), // Docker
    ("dckr_oat_", Body::Base64Url, 20),
    ("glsa_", Body::Base64Url, 20),   // Grafana
    ("sntrys_", Body::Base64Url, 20), // Sentry
    ("sntryu_", Body::Hex, 32),
    ("PMAK-", Body::Base64Url, 20),       // Postman
    ("dapi", Body::Hex, 32),              // Databricks
    ("figd_", Body::Base64Url, 20),       // Figma
    ("lin_api_", Body::Alphanumeric, 20), // Linear
    ("ntn_", Body::Alphanumeric, 30),     // Notion
    ("secret_", Body::Alphanumeric, 40),
    ("ATATT3", Body::Base64Url, 30), // Atlassian
    ("ATCTT3", Body::Base64Url, 30),
    ("NRAK-", Body::Upper, 20),        // New Relic
    ("sbp_", Body::Hex, 32),           // Supabase
    ("pscale_", Body::Dotted, 30),     // PlanetScale
    ("xkeysib-", Body::Base64Url, 30), // Brevo
    ("sq0csp-", Body::Base64Url, 30),  // Square
    ("sq0atp-", Body::Base64Url, 20),
    ("EAAAE", Body::Base64Url, 50),
    ("EAAC", Body::Alphanumeric, 50),      // Meta
    ("AGE-SECRET-KEY-1", Body::Upper, 30), // age
    ("key-", Body::Hex, 32),               // Mailgun
    ("rzp_live_", Body::Alphanumeric, 14), // Razorpay
    ("dp.pt.", Body::Alphanumeric, 30),    // Doppler
    ("dp.st.", Body::Dotted, 30),
    ("fo1_", Body::Base64Url, 30),     // Fly
    ("pat-", Body::Base64Url, 30),     // HubSpot and others
    ("cfut_", Body::Alphanumeric, 30), // Cloudflare
    ("vcp_", Body::Alphanumeric, 20),  // Vercel
    ("OCGR", Body::Alphanumeric, 30),
];
/// Least length of the header and of the payload of a JSON web token.
const JWT_PART_MIN: usize = 8;
/// Length of the secret in a bot token of Telegram: the bot's number, a colon, 35 characters.
const BOT_SECRET_LEN: usize = 35;

/// Letters of a token of Hugging Face after its prefix.
const HUGGING_FACE_LEN: usize = 34;

/// Returns the token at `at`, which may begin before `at` but not before `floor`.
pub(super) fn token_at(text: &str, at: usize, floor: usize, ahead: &mut Ahead) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    if bytes.get(at + 1) == Some(&b':') {
        return bot_token(bytes, at, floor);
    }
    if !begins_word(&bytes[floor..at]) {
        return None;
    }
    let rest = &bytes[at..];
    if rest.starts_with(b"eyJ") {
        return web_token(bytes, at, ahead);
    }
    PREFIXES.iter().find_map(|(prefix, body, min)| {
        let start = at + rest.strip_prefix(prefix.as_bytes()).map(|_| prefix.len())?;
        let end = ahead.bodies[*body as usize].find(bytes, start, |byte| !body.holds(byte));
        // A word such as `sk-learn-compatible-estimators` has no digits; nor have tokens of Hugging Face, which are all of one length.
        let has_digit = ahead.digit.find(bytes, start, |byte| byte.is_ascii_digit()) < end;
        let looks_random = has_digit || (*prefix == "hf_" && end - start == HUGGING_FACE_LEN);
        (end - start >= *min && looks_random).then(|| at..start + trimmed(&bytes[start..end]))
    })
}

/// Whether a word may begin after `before`. The letter of an escape such as `\n` in unparsed JSON is not part of the word.
fn begins_word(before: &[u8]) -> bool {
    match before {
        [] | [.., b'\\', b'n' | b'r' | b't'] => true,
        [.., last] => !last.is_ascii_alphanumeric(),
    }
}

fn run(bytes: &[u8], body: Body) -> usize {
    bytes.iter().position(|byte| !body.holds(*byte)).unwrap_or(bytes.len())
}

/// Returns the length without full stops at the end.
fn trimmed(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != b'.').map_or(0, |last| last + 1)
}

/// Returns the JSON web token that begins at `at`.
fn web_token(bytes: &[u8], at: usize, ahead: &mut Ahead) -> Option<Range<usize>> {
    let [header, payload] = &mut ahead.web_token_parts;
    let header_end = header.find(bytes, at, |byte| !Body::Base64Url.holds(byte));
    let start = header_end + bytes.get(header_end..)?.strip_prefix(b".").map(|_| 1)?;
    let payload_end = payload.find(bytes, start, |byte| !Body::Base64Url.holds(byte));
    let long = header_end - at >= JWT_PART_MIN && payload_end - start >= JWT_PART_MIN;
    long.then(|| at..at + trimmed(&bytes[at..at + run(&bytes[at..], Body::Dotted)]))
}

/// Returns the bot token whose number ends at `at`.
fn bot_token(bytes: &[u8], at: usize, floor: usize) -> Option<Range<usize>> {
    let number = bytes[floor..=at].iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    let start = at + 1 - number;
    let secret = run(&bytes[at + 2..], Body::Base64Url);
    ((8..=12).contains(&number) && secret >= BOT_SECRET_LEN).then(|| start..at + 2 + secret)
}

/// Whether `word` looks random: long, with letters and digits mixed as in no name or number. A very long word is judged by its beginning.
pub(super) fn is_random(word: &str) -> bool {
    const LEN_MIN: usize = 16;
    const LEN_JUDGED: usize = 512;
    let bytes = &word.as_bytes()[..word.len().min(LEN_JUDGED)];
    let kinds = [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase];
    let [digits, lower, upper] = kinds.map(|kind| bytes.iter().filter(|byte| kind(byte)).count());
    let base64 = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'/' | b'=' | b'_' | b'-' | b'.' | b'~');
    if bytes.len() < LEN_MIN || digits == 0 || lower + upper == 0 || !bytes.iter().all(base64) {
        return false;
    }
    // A name with a number changes between letters and digits once or twice, a random word many times.
    let changes = bytes.array_windows().filter(|[one, next]| one.is_ascii_digit() != next.is_ascii_digit()).count();
    changes >= 4 && distinct(bytes) >= 8
}

fn distinct(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0_u128, |seen, byte| seen | 1 << (byte & 127)).count_ones()
}
