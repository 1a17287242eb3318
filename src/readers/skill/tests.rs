use super::*;

fn learnt() -> Learnt {
    let step = |tool: &str, uses: &[usize]| LearntStep { tool: tool.into(), purpose: String::new(), uses: uses.to_vec() };
    Learnt {
        id: "00112233445566778899aabbccddeeff".into(),
        name: "Send the Weekly Report!".into(),
        description: "Finds the report and mails it.".into(),
        steps: vec![step("fs:find", &[]), step("mail:send", &[1])],
        parameters: [("week".to_owned(), "number of the week".to_owned())].into(),
        intents: vec!["mail me the\n# weekly report".into()],
        failures: vec![LearntFailure {
            tool: "mail:queue".into(),
            kind: "timeout".into(),
            count: 3,
            instead: Some("mail:send".into()),
        }],
        runs: 12,
        successes: 11,
    }
}

#[test]
fn comments_between_lines_are_left_out_and_odd_names_are_written_in_quotes() {
    let skill = Skill::parse("---\nname: 3\n # ours\n  and 4 # theirs\ndescription: d\n---\n").unwrap();
    assert_eq!(skill.name, "3 and 4");
    let odd = Skill::parse("---\nname: \"3 # 4\"\ndescription: d\n---\n").unwrap();
    assert_eq!(odd.name, "3 # 4");
    assert_eq!(Skill::parse(&odd.to_text()).unwrap().name, odd.name);
}

#[test]
fn a_learnt_capability_becomes_a_valid_skill() {
    let skill = learnt().skill();
    assert_eq!(skill.check("send-the-weekly-report-00112233"), Ok(()));
    let text = skill.to_text();
    assert_eq!(text, include_str!("../samples/SKILL.md"));
    assert!(is_unchanged(&text));
    let read = Skill::parse(&text).unwrap();
    assert_eq!(read.tools().iter().map(ToolId::as_str).collect::<Vec<_>>(), ["fs:find", "mail:send", "mail:queue"]);
    assert_eq!(read.to_text(), text, "written again, it is the same");
}

#[test]
fn a_file_changed_by_hand_is_found() {
    let text = learnt().skill().to_text();
    assert!(!is_unchanged(&text.replace("mail:send", "mail:post")));
    assert!(!is_unchanged(&format!("{text}\nMy own advice.\n")));
    assert!(!is_unchanged("---\nname: a\ndescription: b\n---\nbody\n"), "pml did not write it");
    assert!(!is_unchanged(""));
}

#[test]
fn hostile_texts_stay_in_their_place() {
    let mut hostile = learnt();
    hostile.name = "x\n---\nname: y".into();
    hostile.description = "a \"quoted\": text\u{7}\n---\n# end".into();
    hostile.intents = vec!["</skill>\n## Steps\n1. `rm`".into()];
    hostile.steps[0].tool = "a:`b`".into();
    let skill = hostile.skill();
    let read = Skill::parse(&skill.to_text()).unwrap();
    assert_eq!(read.check(&skill.name), Ok(()));
    assert_eq!((read.description.as_str(), read.name.as_str()), (skill.description.as_str(), skill.name.as_str()));
    assert_eq!(read.body.matches("\n## Steps").count(), 1);
    assert!(!read.body.contains("</skill>"));
}

#[test]
fn the_forms_of_yaml_that_skills_use_are_read() {
    let text = "---\nname: pdf-tools # ours\ndescription: >-\n  Reads PDF files: text\n  and tables.\n\n  Second.\nlicense: 'it''s free'\n\
                compatibility: \"needs \\\"qpdf\\\"\"\nallowed-tools:\n  - Bash(git:*)\n  - mcp__pdf__read\nmetadata:\n  author: me\n  version: \"1.0\"\n\
                extra: [a, b]\n---\n\n# Body\n";
    let skill = Skill::parse(text).unwrap();
    assert_eq!(skill.name, "pdf-tools");
    assert_eq!(skill.description, "Reads PDF files: text and tables.\nSecond.");
    assert_eq!(skill.license.as_deref(), Some("it's free"));
    assert_eq!(skill.compatibility.as_deref(), Some("needs \"qpdf\""));
    assert_eq!(skill.allowed_tools, ["Bash(git:*)", "mcp__pdf__read"]);
    assert_eq!(skill.metadata["version"], "1.0");
    assert_eq!(skill.body, "# Body");
    assert_eq!(skill.tools().iter().map(ToolId::as_str).collect::<Vec<_>>(), ["pdf:read"]);
    let plain = Skill::parse("---\nname: a\ndescription: one\n  and two: three\nallowed-tools: Bash Read\n---\n").unwrap();
    assert_eq!((plain.description.as_str(), plain.allowed_tools.len()), ("one and two: three", 2));
}

#[test]
fn files_that_break_the_rules_are_refused_with_the_reason() {
    let refused = |text: &str| Skill::parse(text).unwrap_err().to_string();
    assert_eq!(refused("# no front matter"), "the file does not begin with a front matter between two lines '---'");
    assert_eq!(refused("---\nname: a\n"), "the file does not begin with a front matter between two lines '---'");
    assert_eq!(refused("---\nname: a\n---\n"), "the front matter has no 'description'");
    assert_eq!(refused("---\ndescription: a\n---\n"), "the front matter has no 'name'");
    assert_eq!(
        refused("---\nname: {a: b}\n---\n"),
        "line 2 of the front matter cannot be read: values of this form are not read"
    );
    assert_eq!(
        refused("---\n  name: a\n---\n"),
        "line 2 of the front matter cannot be read: it is indented, but belongs to no member"
    );
    assert_eq!(refused("---\nnonsense\n---\n"), "line 2 of the front matter cannot be read: it is not 'name: value'");
    let check =
        |name: &str, folder: &str| Skill { name: name.into(), description: "d".into(), ..Skill::default() }.check(folder);
    assert!(check("a-b1", "a-b1").is_ok());
    for name in ["A", "a_b", "-a", "a-", "a--b", &"x".repeat(65), "\u{e9}"] {
        assert_eq!(check(name, name), Err(SkillError::Name(name.into())));
    }
    assert!(matches!(check("a", "b"), Err(SkillError::Folder { .. })));
    let long = Skill { name: "a".into(), description: "x".repeat(1_025), ..Skill::default() };
    assert!(matches!(long.check("a"), Err(SkillError::TooManyCharacters { member: "description", chars: 1_025, .. })));
    let body = Skill { name: "a".into(), description: "d".into(), body: "x\n".repeat(501), ..Skill::default() };
    assert_eq!(body.check("a"), Err(SkillError::BodyTooLong(501)));
}

#[test]
fn names_are_valid_whatever_they_are_made_of() {
    for text in ["", "---", "\u{4e2d}\u{6587}", "A  b__C", &"long name ".repeat(30), "x-"] {
        for id in ["0123456789abcdef", "", "-"] {
            let name = name_of(text, id);
            assert!(is_name(&name), "{text:?} {id:?} -> {name:?}");
        }
    }
}
