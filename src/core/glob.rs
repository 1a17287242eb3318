//! Patterns of names: `*` stands for any text, `?` for one character.

/// Whether a text holds a wildcard.
pub fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?'])
}

/// Whether `name` matches `pattern`, without regard to the case of ASCII letters. O(len(pattern) * len(name)).
pub fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
    let (mut at, mut position) = (0, 0);
    // Where the last star stands, and up to where it has matched.
    let mut star: Option<(usize, usize)> = None;
    while position < name.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, position));
                at += 1;
            }
            Some(wanted) if *wanted == b'?' || wanted.eq_ignore_ascii_case(&name[position]) => {
                at += 1;
                position += 1;
            }
            _ => match star {
                Some((of_star, matched)) => {
                    star = Some((of_star, matched + 1));
                    at = of_star + 1;
                    position = matched + 1;
                }
                None => return false,
            },
        }
    }
    pattern[at..].iter().all(|rest| *rest == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stars_and_question_marks_match() {
        for (pattern, name) in [
            ("*", ""),
            ("fs:*", "fs:read_file"),
            ("*file", "fs:read_file"),
            ("*read*file*", "fs:read_file"),
            ("FS:read_?ile", "fs:read_file"),
            ("a*b*c", "aXbYbZc"),
            ("read", "read"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn others_do_not_match() {
        for (pattern, name) in
            [("", "a"), ("fs:*", "gs:read"), ("a?", "a"), ("a*b", "abc"), ("read", "read_file"), ("*x*", "abc")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn many_stars_take_no_exponential_time() {
        assert!(!matches(&"a*".repeat(100), &format!("{}b", "a".repeat(5_000)).replace('a', "c")));
        assert!(!matches(&format!("{}b", "*a".repeat(60)), &"a".repeat(5_000)));
    }
}
