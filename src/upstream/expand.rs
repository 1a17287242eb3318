//! Variables in the servers file: `${NAME}`, `${env:NAME}` and `${NAME:-default}` stand for variables of the environment, so that the file
//! need hold no secrets.

/// The text with its variables replaced. An error names the variable that is not set.
pub(super) fn expand(text: &str, variable: &impl Fn(&str) -> Option<String>) -> Result<String, String> {
    let (mut expanded, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(at) = rest.find("${") {
        expanded.push_str(&rest[..at]);
        let inner = &rest[at + 2..];
        let end = inner.find('}').ok_or_else(|| "'${' is not closed with '}'".to_owned())?;
        let name = inner[..end].strip_prefix("env:").unwrap_or(&inner[..end]);
        let (name, default) = name.split_once(":-").map_or((name, None), |(name, default)| (name, Some(default)));
        let value = variable(name).or_else(|| default.map(str::to_owned));
        expanded.push_str(&value.ok_or_else(|| format!("the variable '{name}' is not set"))?);
        rest = &inner[end + 1..];
    }
    expanded.push_str(rest);
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_replaced_once_and_missing_ones_are_named() {
        let variable = |name: &str| (name == "A").then(|| "1${A}".to_owned());
        let check = |text: &str, expected: Result<&str, &str>| {
            assert_eq!(expand(text, &variable), expected.map(str::to_owned).map_err(str::to_owned), "{text}");
        };
        check("plain $A", Ok("plain $A"));
        check("x${A}y${env:A}", Ok("x1${A}y1${A}"));
        check("${B:-two}", Ok("two"));
        check("${B}", Err("the variable 'B' is not set"));
        check("${A", Err("'${' is not closed with '}'"));
    }
}
