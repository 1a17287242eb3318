//! `pml skills`: writes learnt capabilities as Agent Skills, and declares skills as capabilities.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;

use super::output::Output;
use super::source::Source;
use super::target::Target;
use super::{LogLocation, Outcome};
use crate::ask::skills::{SkillFilter, skills};
use crate::clock::Clock;
use crate::config::Config;
use crate::core::event::{CapabilityDeclared, DeclaredStructure, Event, NewRecord, StructureNode};
use crate::core::id::{Callee, RecordId, ToolId};
use crate::core::time::Timestamp;
use crate::history::Moment;
use crate::readers::skill::{FILE_LEN_MAX, Skill, is_unchanged};

/// The file of a skill in its folder.
const FILE: &str = "SKILL.md";
/// The source of the events of an import.
const SOURCE: &str = "pml/skills";
/// The member of the metadata of skills that pml wrote.
const OWN: &str = "pml-capability";

#[derive(Subcommand)]
pub(super) enum Command {
    /// Write learnt capabilities as skills, one folder each
    Export(ExportArguments),
    /// Declare the skills below a directory as capabilities
    Import(ImportArguments),
}

#[derive(Args)]
pub(super) struct ExportArguments {
    /// Directory of the skills, for example .claude/skills
    directory: PathBuf,
    /// Only capabilities with at least this many runs
    #[arg(long, default_value_t = SkillFilter::default().runs_min, value_name = "N")]
    min_runs: u64,
    /// Only capabilities with at least this share of successful runs, from 0 to 1
    #[arg(long, default_value_t = SkillFilter::default().success_min, value_name = "P")]
    min_success: f64,
    #[command(flatten)]
    location: LogLocation,
}

#[derive(Args)]
pub(super) struct ImportArguments {
    /// Directory whose folders hold a SKILL.md
    directory: PathBuf,
    #[command(flatten)]
    location: LogLocation,
}

pub(super) async fn run(command: Command, config: Config, output: &Output) -> Outcome {
    match command {
        Command::Export(arguments) => export(arguments, config, output).await,
        Command::Import(arguments) => import(arguments, config, output).await,
    }
}

async fn export(arguments: ExportArguments, config: Config, output: &Output) -> Outcome {
    let state = Source::open(&arguments.location, &config).await?.state(Moment::Now).await?;
    let filter = SkillFilter { runs_min: arguments.min_runs, success_min: arguments.min_success };
    let (mut written, mut unchanged, mut edited) = (Vec::new(), Vec::new(), Vec::new());
    for skill in skills(&state, filter) {
        skill.check(&skill.name)?;
        match write(&arguments.directory, &skill)? {
            Written::New => written.push(skill.name),
            Written::Same => unchanged.push(skill.name),
            Written::Edited => edited.push(skill.name),
        }
    }
    output.json(&json!({"written": written, "unchanged": unchanged, "edited_by_hand": edited}));
    for name in &edited {
        output.say(format!("{name}: was edited by hand and is left as it is"));
    }
    let directory = arguments.directory.display();
    output.say(format!(
        "{directory}: {} skills written, {} unchanged, {} edited by hand",
        written.len(),
        unchanged.len(),
        edited.len()
    ));
    Ok(0)
}

/// What became of a file.
enum Written {
    New,
    Same,
    Edited,
}

/// Writes a skill unless it is there already, or somebody has changed it.
fn write(directory: &Path, skill: &Skill) -> anyhow::Result<Written> {
    let folder = directory.join(&skill.name);
    let file = folder.join(FILE);
    let text = skill.to_text();
    match read(&file) {
        Ok(there) if there == text => return Ok(Written::Same),
        Ok(there) if !is_unchanged(&there) => return Ok(Written::Edited),
        Ok(_) => {}
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", file.display())),
    }
    // Whole or not at all: an agent may read it at this moment.
    let part = folder.join(format!("{FILE}.part"));
    fs::create_dir_all(&folder)
        .and_then(|()| fs::write(&part, text))
        .and_then(|()| fs::rename(&part, &file))
        .with_context(|| format!("cannot write {}", file.display()))?;
    Ok(Written::New)
}

fn read(file: &Path) -> std::io::Result<String> {
    use std::io::Read;
    let mut text = String::new();
    // One byte more than a skill may have, so that a longer file is seen to be one.
    fs::File::open(file)?.take(FILE_LEN_MAX as u64 + 1).read_to_string(&mut text)?;
    Ok(text)
}

async fn import(arguments: ImportArguments, config: Config, output: &Output) -> Outcome {
    let mut folders: Vec<PathBuf> = Vec::new();
    let entries =
        fs::read_dir(&arguments.directory).with_context(|| format!("cannot read {}", arguments.directory.display()))?;
    for entry in entries {
        folders.push(entry?.path());
    }
    // The directory may be a skill itself.
    folders.push(arguments.directory.clone());
    folders.retain(|folder| folder.join(FILE).is_file());
    folders.sort();
    let mut target = Target::open(&arguments.location, &config).await?;
    let (mut declared, mut skipped) = (Vec::new(), Vec::new());
    for folder in folders {
        match declaration(&folder, Clock::system().now()) {
            Ok((name, event)) => {
                target.send([event]).await?;
                declared.push(name);
            }
            Err(problem) => skipped.push(format!("{}: {problem}", folder.join(FILE).display())),
        }
    }
    let published = target.finish(output).await?;
    output.json(&json!({"declared": declared, "skipped": skipped, "published": published.json()}));
    for line in &skipped {
        output.say(format!("skipped {line}"));
    }
    published.explain(output);
    output.say(format!("{} skills declared as capabilities, {} skipped: {}", declared.len(), skipped.len(), published.text()));
    Ok(if published.refused > 0 { 3 } else { 0 })
}

/// Returns the event that declares the skill in a folder. It says what the skill is for and which tools it names, and nothing about runs.
fn declaration(folder: &Path, now: Timestamp) -> anyhow::Result<(String, NewRecord)> {
    let skill = Skill::parse(&read(&folder.join(FILE))?)?;
    let name = folder.canonicalize()?.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    skill.check(&name)?;
    anyhow::ensure!(!skill.metadata.contains_key(OWN), "pml wrote it");
    let tools = skill.tools();
    anyhow::ensure!(!tools.is_empty(), "names no tools as server:tool, in allowed-tools or in backquotes");
    let node = |(at, tool): (usize, &ToolId)| StructureNode {
        id: format!("n{}", at + 1).parse().expect("a short printable id"),
        callee: Callee::Tool(tool.clone()),
    };
    let structure = DeclaredStructure { nodes: tools.iter().enumerate().map(node).collect(), edges: Vec::new() };
    let names: Vec<&str> = tools.iter().map(ToolId::as_str).collect();
    let id = RecordId::derived(Timestamp::from_micros(0), &["skill", &skill.name, &skill.description, &names.join(" ")]);
    let event = Event::CapabilityDeclared(CapabilityDeclared {
        name: skill.name.clone(),
        description: skill.description,
        structure,
        code: None,
        parameters_schema: None,
    });
    Ok((skill.name, NewRecord { id, time: now, source: SOURCE.into(), causation: None, envelope: None, event }))
}
