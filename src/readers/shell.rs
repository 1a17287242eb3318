//! The program that a shell command is about: `git` in `cd repo && GIT_PAGER= sudo git log | head`.

/// How much of a command is looked at, in bytes.
const LOOKED_AT_MAX: usize = 4 << 10;
const NAME_LEN_MAX: usize = 40;

/// Commands that prepare for another one.
const PREPARING: [&str; 18] = [
    "cd", "pushd", "popd", "export", "set", "unset", "source", ".", "sleep", "true", "echo", "printf", "mkdir", "trap",
    "ulimit", "umask", "alias", "local",
];
/// Commands whose first argument is the command, and those of their options that take a value.
const WRAPPING: [&str; 12] =
    ["sudo", "env", "time", "timeout", "nohup", "nice", "exec", "command", "xargs", "stdbuf", "doas", "builtin"];
const KEYWORDS: [&str; 12] = ["if", "then", "else", "elif", "do", "while", "until", "!", "{", "}", "(", "fi"];

/// Returns the name of the first program that does more than prepare; `None` if no name can be read.
pub(crate) fn program(command: &str) -> Option<&str> {
    let command = &command[..command.floor_char_boundary(LOOKED_AT_MAX)];
    let mut first = None;
    for words in simple_commands(command) {
        let Some(name) = named(&words) else { continue };
        if !PREPARING.contains(&name) {
            return Some(name);
        }
        first = first.or(Some(name));
    }
    first
}

/// Returns the command in a list of arguments: of `["bash", "-lc", "git log"]` the last, else the first.
pub(crate) fn command_of<'a>(arguments: &[&'a str]) -> Option<&'a str> {
    match arguments {
        [shell, option, .., script] if is_shell(base_name(shell)) && option.starts_with('-') => Some(script),
        [first, ..] => Some(first),
        [] => None,
    }
}

fn is_shell(name: &str) -> bool {
    ["bash", "sh", "zsh", "fish", "dash", "ksh", "pwsh", "powershell"].contains(&name)
}

/// The name of a simple command: its first word that is not an assignment, a keyword, or a wrapper with its options.
fn named<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut is_wrapped = false;
    for word in words {
        let name = base_name(word);
        let is_assignment = word.split_once('=').is_some_and(|(name, _)| is_identifier(name));
        let is_option = is_wrapped && (word.starts_with('-') || word.starts_with(|c: char| c.is_ascii_digit()));
        if is_assignment || is_option || KEYWORDS.contains(word) {
            continue;
        }
        if WRAPPING.contains(&name) {
            is_wrapped = true;
            continue;
        }
        return Some(name).filter(|name| is_program_name(name));
    }
    None
}

fn base_name(word: &str) -> &str {
    word.rsplit(['/', '\\']).next().unwrap_or(word)
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

fn is_program_name(name: &str) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-' | b'+');
    (1..=NAME_LEN_MAX).contains(&name.len()) && name.bytes().all(is_allowed)
}

/// Splits at `;`, `&`, `|`, line breaks and parentheses outside quotes; each part as its words. Quotes around a whole word are removed.
fn simple_commands(command: &str) -> Vec<Vec<&str>> {
    let bytes = command.as_bytes();
    let mut commands = vec![Vec::new()];
    let mut begin = None;
    let mut quote = None;
    let mut at = 0;
    while at < bytes.len() {
        let byte = bytes[at];
        if let Some(open) = quote {
            if byte == open {
                quote = None;
            } else if byte == b'\\' && open == b'"' {
                at += 1;
            }
        } else if byte.is_ascii_whitespace() || matches!(byte, b';' | b'&' | b'|' | b'(' | b')') {
            end_word(command, begin.take(), at, &mut commands);
            if !matches!(byte, b' ' | b'\t') {
                commands.push(Vec::new());
            }
        } else if byte == b'#' && begin.is_none() {
            at += bytes[at..].iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len() - at);
            continue;
        } else {
            begin = begin.or(Some(at));
            match byte {
                b'"' | b'\'' => quote = Some(byte),
                b'\\' => at += 1,
                _ => {}
            }
        }
        at += 1;
    }
    end_word(command, begin, bytes.len(), &mut commands);
    commands
}

fn end_word<'a>(command: &'a str, begin: Option<usize>, end: usize, commands: &mut [Vec<&'a str>]) {
    let word = begin.and_then(|begin| command.get(begin..end));
    if let (Some(word), Some(last)) = (word, commands.last_mut()) {
        last.push(word.trim_matches(['"', '\'']));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_of_a_command_is_found() {
        for (command, expected) in [
            ("git status", "git"),
            ("cd /srv/app && cargo test -p core", "cargo"),
            ("RUST_LOG=debug CARGO_TERM=1 ./target/debug/pml serve", "pml"),
            ("sudo -n timeout 10 systemctl restart x", "systemctl"),
            ("# list\nls -la | grep x", "ls"),
            ("(cd a; make)", "make"),
            ("\"/opt/my tools/run.sh\" --now", "run.sh"),
            ("if [ -e x ]; then rm x; fi", "rm"),
            ("echo hello", "echo"),
            ("echo 'a; rm b' && python3 - <<'EOF'\nprint(1)\nEOF", "python3"),
            ("env -i A=b node x.js", "node"),
            ("cd /srv", "cd"),
            ("npx --yes tsc", "npx"),
        ] {
            assert_eq!(program(command), Some(expected), "{command}");
        }
    }

    #[test]
    fn what_is_no_name_is_left_out() {
        for command in ["", "   ", "\"$TOOL\" x", "'$un closed", "\\", "a\u{e9}b", &"x".repeat(9_000), "&&&&;;;"] {
            assert_eq!(program(command), None, "{command}");
        }
    }

    #[test]
    fn lists_of_arguments_hold_a_script_or_a_program() {
        assert_eq!(command_of(&["bash", "-lc", "git log"]), Some("git log"));
        assert_eq!(command_of(&["/bin/sh", "-e", "-c", "make"]), Some("make"));
        assert_eq!(command_of(&["rg", "-n", "x"]), Some("rg"));
        assert_eq!(command_of(&[]), None);
    }
}
