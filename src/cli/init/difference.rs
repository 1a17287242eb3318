//! The difference between two texts, line by line.

/// Lines of the part that differs up to which the smallest difference is searched; above it, the whole part is shown.
const LINES_MAX: usize = 2_000;
/// Unchanged lines that are shown around changed ones.
const AROUND: usize = 2;

/// Returns the difference: removed lines after `-`, added ones after `+`, and a few unchanged ones around them.
pub(super) fn lines(before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let marked = marked(&old, &new);
    let is_changed = |at: usize| marked.get(at).is_some_and(|(mark, _)| *mark != ' ');
    let is_shown = |at: usize| (at.saturating_sub(AROUND)..=at + AROUND).any(is_changed);
    let mut out = Vec::new();
    let mut is_gap = false;
    for (at, (mark, line)) in marked.iter().enumerate() {
        if is_shown(at) {
            out.push(format!("{mark} {line}"));
            is_gap = false;
        } else if !is_gap {
            out.push("  ...".to_owned());
            is_gap = true;
        }
    }
    out.join("\n")
}

/// Every line with its mark.
fn marked<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let same = |one: &[&str], other: &[&str]| one.iter().zip(other).take_while(|(one, other)| one == other).count();
    let head = same(old, new);
    let reversed = |lines: &[&'a str]| lines[head..].iter().rev().copied().collect::<Vec<_>>();
    let tail = same(&reversed(old), &reversed(new));
    let (old_part, new_part) = (&old[head..old.len() - tail], &new[head..new.len() - tail]);
    let mut out: Vec<(char, &str)> = old[..head].iter().map(|line| (' ', *line)).collect();
    if old_part.len().max(new_part.len()) > LINES_MAX {
        out.extend(old_part.iter().map(|line| ('-', *line)).chain(new_part.iter().map(|line| ('+', *line))));
    } else {
        out.extend(smallest(old_part, new_part));
    }
    out.extend(old[old.len() - tail..].iter().map(|line| (' ', *line)));
    out
}

/// The smallest difference, by the longest common subsequence. O(old x new).
fn smallest<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<(char, &'a str)> {
    let width = new.len() + 1;
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for at in (0..old.len()).rev() {
        for to in (0..new.len()).rev() {
            common[at * width + to] = if old[at] == new[to] {
                common[(at + 1) * width + to + 1] + 1
            } else {
                common[(at + 1) * width + to].max(common[at * width + to + 1])
            };
        }
    }
    let (mut at, mut to, mut out) = (0, 0, Vec::new());
    while at < old.len() || to < new.len() {
        if at < old.len() && to < new.len() && old[at] == new[to] {
            out.push((' ', old[at]));
            (at, to) = (at + 1, to + 1);
        } else if to == new.len() || (at < old.len() && common[(at + 1) * width + to] >= common[at * width + to + 1]) {
            out.push(('-', old[at]));
            at += 1;
        } else {
            out.push(('+', new[to]));
            to += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn added_and_removed_lines_are_marked_with_a_few_around_them() {
        assert_eq!(lines("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nx\ne\nf\n"), "  ...\n  b\n  c\n- d\n+ x\n  e\n  f");
        assert_eq!(lines("", "a\nb\n"), "+ a\n+ b");
        assert_eq!(lines("a\nb\nc\n", "a\nc\nd\n"), "  a\n- b\n  c\n+ d");
        assert_eq!(lines("same\n", "same\n"), "  ...");
    }
}
