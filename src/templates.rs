//! Workflow templates are read from YAML, in either of two layouts: `templates` (edges by name) or `workflows` (steps or edges).

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Deserialize;

use crate::core::event::{Event, NewRecord, TemplateLoaded};
use crate::core::id::{RecordId, ToolId};
use crate::core::time::Timestamp;

const BUILTIN: &str = include_str!("../config/workflow-templates.yaml");

/// Why workflow templates cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TemplateError {
    #[error("cannot read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: std::io::Error,
    },
    #[error("workflow templates: {0}")]
    Shape(String),
    #[error("workflow template '{template}': {problem}")]
    Content { template: String, problem: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    templates: BTreeMap<String, Body>,
    #[serde(default)]
    workflows: Vec<Workflow>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Body {
    #[serde(default)]
    description: String,
    edges: Vec<(String, String)>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Workflow {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    steps: Vec<String>,
    #[serde(default)]
    edges: Vec<(String, String)>,
}

/// Loads the templates that the configuration key `templates.path` names.
pub fn load(path: &str) -> Result<Vec<TemplateLoaded>, TemplateError> {
    match path {
        "" => Ok(Vec::new()),
        "builtin" => parse(BUILTIN),
        path => {
            let read = |source| TemplateError::Read { path: PathBuf::from(path), source };
            parse(&std::fs::read_to_string(path).map_err(read)?)
        }
    }
}

fn parse(yaml: &str) -> Result<Vec<TemplateLoaded>, TemplateError> {
    let file: File = serde_saphyr::from_str(yaml).map_err(|error| TemplateError::Shape(error.to_string()))?;
    let bodies = file.templates.into_iter().map(|(name, body)| (name, body.description, body.edges));
    let workflows = file.workflows.into_iter().map(|workflow| {
        let neighbours = workflow.steps.windows(2).map(|pair| (pair[0].clone(), pair[1].clone()));
        let edges = neighbours.chain(workflow.edges).collect();
        (workflow.name, workflow.description, edges)
    });
    bodies.chain(workflows).map(|(name, description, edges)| template(name, description, edges)).collect()
}

fn template(name: String, description: String, edges: Vec<(String, String)>) -> Result<TemplateLoaded, TemplateError> {
    let content = |problem: String| TemplateError::Content { template: name.clone(), problem };
    if edges.is_empty() {
        return Err(content("has no edges".to_owned()));
    }
    let tool = |text: &str| text.parse::<ToolId>().map_err(|error| content(error.to_string()));
    let edges = edges.iter().map(|(from, to)| Ok((tool(from)?, tool(to)?))).collect::<Result<Vec<_>, TemplateError>>()?;
    let mut hasher = blake3::Hasher::new();
    for text in [name.as_str(), description.as_str()]
        .into_iter()
        .chain(edges.iter().flat_map(|(from, to)| [from.as_str(), to.as_str()]))
    {
        hasher.update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
    }
    let checksum = hasher.finalize().to_hex()[..32].to_owned();
    Ok(TemplateLoaded { name, description, edges, checksum })
}

/// The record that loads a template.
pub(crate) fn template_record(template: TemplateLoaded, now: Timestamp) -> NewRecord {
    NewRecord {
        // With the time: a template that goes back to an earlier content is a new fact.
        id: RecordId::derived(now, &["template.loaded", &template.name, &template.checksum]),
        time: now,
        source: "pml/templates".into(),
        causation: None,
        envelope: None,
        event: Event::TemplateLoaded(template),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_templates_are_the_four_of_the_source_document() {
        let names: Vec<_> =
            load("builtin").unwrap().into_iter().map(|template| (template.name, template.edges.len())).collect();
        let expected = [("browser_automation", 4), ("file_operations", 3), ("knowledge_management", 3), ("web_research", 3)];
        assert_eq!(names, expected.map(|(name, edges)| (name.to_owned(), edges)));
    }

    #[test]
    fn both_shapes_give_the_same_edges() {
        let one = parse("templates: {a: {edges: [[x:1, x:2], [x:2, x:3]]}}").unwrap();
        let two = parse("workflows: [{name: a, steps: [x.1, x.2, x.3]}]").unwrap();
        assert_eq!(one, two);
    }

    #[test]
    fn errors_name_the_template() {
        let error = parse("templates: {a: {edges: [[x, y:1]]}}").unwrap_err();
        assert_eq!(error.to_string(), "workflow template 'a': 'x' names no server; write server:name");
        assert!(parse("templates: {a: {edgs: []}}").is_err());
    }
}
