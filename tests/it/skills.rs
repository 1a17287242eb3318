//! `pml skills`: what was learnt as Agent Skills that the published validator accepts, and skills of others as capabilities.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::cli::{run, text, write_dataset};
use crate::outside::installed;

/// A data directory that has learnt to copy a file.
fn learnt(home: &Path) -> std::path::PathBuf {
    let data = home.join("data");
    write_dataset(&home.join("dataset"), 20);
    run(0, &["import", text(&home.join("dataset")), "--data", text(&data)]);
    data
}

fn names(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap()).collect()
}

#[test]
fn skills_are_written_once_and_what_people_changed_is_left_alone() {
    let home = TempDir::new().unwrap();
    let data = learnt(home.path());
    let skills = home.path().join("skills");
    let export = || run(0, &["skills", "export", text(&skills), "--data", text(&data)]).json();
    let first = export();
    let name = names(&first["written"])[0].to_owned();
    assert_eq!(names(&first["written"]).len(), 1, "one call is no procedure, and one run no habit: {first}");
    let file = skills.join(&name).join("SKILL.md");
    let written = fs::read_to_string(&file).unwrap();
    assert!(
        written.contains("1. `fs:read`: does fs:read\n2. `fs:write`") && written.contains("(uses the result of step 1)"),
        "{written}"
    );
    assert!(written.contains("copy a file") && written.contains("pml-runs: \"20\""), "{written}");
    assert_eq!(export(), json!({"written": [], "unchanged": [name], "edited_by_hand": []}));
    // More runs change the record, and the file under the same name.
    write_dataset(&home.path().join("dataset"), 25);
    run(0, &["import", text(&home.path().join("dataset")), "--data", text(&data)]);
    assert_eq!(names(&export()["written"]), [&name]);
    assert!(fs::read_to_string(&file).unwrap().contains("pml-runs: \"25\""));
    let edited = fs::read_to_string(&file).unwrap().replace("## Steps", "## My steps");
    fs::write(&file, &edited).unwrap();
    assert_eq!(names(&export()["edited_by_hand"]), [&name]);
    assert_eq!(fs::read_to_string(&file).unwrap(), edited);
    let strict = run(0, &["skills", "export", text(&skills), "--min-runs", "26", "--data", text(&data)]).json();
    assert_eq!(strict, json!({"written": [], "unchanged": [], "edited_by_hand": []}));
}

#[test]
fn the_published_validator_accepts_what_is_written() {
    let Some(python) = installed("PML_TEST_PYTHON") else { return };
    let home = TempDir::new().unwrap();
    let data = home.path().join("data");
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/readers/samples");
    run(0, &["learn", text(&samples), "--data", text(&data)]);
    write_dataset(&home.path().join("dataset"), 3);
    run(0, &["import", text(&home.path().join("dataset")), "--data", text(&data)]);
    let skills = home.path().join("skills");
    let arguments = ["skills", "export", text(&skills), "--min-runs", "1", "--min-success", "0", "--data", text(&data)];
    let written = run(0, &arguments).json();
    assert!(names(&written["written"]).len() >= 2, "{written}");
    for name in names(&written["written"]) {
        let script =
            "import sys; from pathlib import Path; from skills_ref import validate; print(validate(Path(sys.argv[1])))";
        let checked = Command::new(&python).args(["-c", script]).arg(skills.join(name)).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&checked.stdout).trim(), "[]", "{name}: {checked:?}");
    }
}

#[test]
fn skills_of_others_are_declared_and_count_as_no_run() {
    let home = TempDir::new().unwrap();
    let data = learnt(home.path());
    let skill = |name: &str, body: &str| {
        let folder = home.path().join("theirs").join(name);
        fs::create_dir_all(&folder).unwrap();
        let text = format!("---\nname: {name}\ndescription: Publishes the weekly notes to the wiki.\n---\n\n{body}\n");
        fs::write(folder.join("SKILL.md"), text).unwrap();
    };
    skill("publish-notes", "Read them with `fs:read`, then call `mcp__wiki__publish`.");
    skill("no-tools", "Think hard.");
    fs::create_dir_all(home.path().join("theirs/broken")).unwrap();
    fs::write(home.path().join("theirs/broken/SKILL.md"), "no front matter").unwrap();
    // What pml wrote itself is known.
    run(0, &["skills", "export", text(&home.path().join("theirs")), "--data", text(&data)]);
    let import = || run(0, &["skills", "import", text(&home.path().join("theirs")), "--data", text(&data)]).json();
    let first = import();
    assert_eq!((names(&first["declared"]), names(&first["skipped"]).len()), (vec!["publish-notes"], 3), "{first}");
    assert_eq!((&first["published"]["accepted"], &import()["published"]["duplicate"]), (&json!(1), &json!(1)));
    let found = run(0, &["discover", "publish the weekly notes to the wiki", "--data", text(&data)]).json();
    let declared = found["results"].as_array().unwrap().iter().find(|item| item["name"] == "publish-notes");
    let declared = declared.unwrap_or_else(|| panic!("{found}"));
    assert_eq!(declared["type"], "capability");
    let again = run(0, &["skills", "export", text(&home.path().join("out")), "--min-runs", "0", "--data", text(&data)]).json();
    assert!(!names(&again["written"]).iter().any(|name| name.contains("publish-notes")), "it has not run: {again}");
}
