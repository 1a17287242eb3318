//! Resources: the catalogue and the learnt capabilities, as `discover` finds them by name, and those that ran often and well as Agent
//! Skills.

use rmcp::model::{
    ErrorData, ListResourceTemplatesResult, ListResourcesResult, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use serde_json::{Value, json};

use super::Mcp;
use crate::ask::skills::{SkillFilter, skills};
use crate::ask::{DiscoverRequest, Filter, ItemType};
use crate::readers::skill::Skill;

const CATALOGUE: &str = "pml://catalogue";
const CAPABILITIES: &str = "pml://capabilities";
const SERVERS: &str = "pml://servers/";
const TOOLS: &str = "pml://tools/";
const CAPABILITY: &str = "pml://capabilities/";
const SKILL: &str = "skill://";
const JSON: &str = "application/json";
const MARKDOWN: &str = "text/markdown";
/// Skills that are listed, the most run first.
const SKILLS_MAX: usize = 50;
/// Servers that are listed, each as a resource of its own.
const SERVERS_MAX: usize = 200;
/// Entries of one resource; `meta.next_offset` says that there are more, which `pml_discover` pages through.
const ENTRIES_MAX: usize = 50;

impl Mcp {
    /// The catalogue, the capabilities, and each server.
    pub(crate) fn list_resources(&self) -> ListResourcesResult {
        let listing = self.listing();
        let resource =
            |uri: String, name: String, about: String| Resource::new(uri, name).with_description(about).with_mime_type(JSON);
        let mut resources = vec![
            resource(
                CATALOGUE.into(),
                "catalogue".into(),
                "The servers whose tools pml knows, with the number of tools".into(),
            ),
            resource(
                CAPABILITIES.into(),
                "capabilities".into(),
                "Procedures learnt from past runs, the most used first".into(),
            ),
        ];
        let servers = listing.summary.servers.iter().take(SERVERS_MAX);
        resources.extend(servers.map(|(server, tools)| {
            resource(
                format!("{SERVERS}{server}"),
                server.clone(),
                format!("The tools of {server}, the most used first ({tools})"),
            )
        }));
        let learnt = self.skills().into_iter().take(SKILLS_MAX).map(|skill| {
            let about = self.0.outgoing.cleaned(skill.description);
            Resource::new(skill_uri(&skill.name), skill.name).with_description(about).with_mime_type(MARKDOWN)
        });
        resources.extend(learnt);
        ListResourcesResult::with_all_items(resources)
    }

    pub(crate) fn list_resource_templates() -> ListResourceTemplatesResult {
        let template = |prefix: &str, variable: &str, about: &str| {
            let uri = format!("{prefix}{{{variable}}}");
            ResourceTemplate::new(uri, variable).with_description(about).with_mime_type(JSON)
        };
        ListResourceTemplatesResult::with_all_items(vec![
            template(SERVERS, "server", "The tools of a server"),
            template(TOOLS, "tool", "A tool by its id, server:name, with its schema and what was observed"),
            template(CAPABILITY, "capability", "A learnt procedure by its id or name"),
            ResourceTemplate::new("skill://{skill}/SKILL.md", "skill")
                .with_description("A learnt procedure as an Agent Skill")
                .with_mime_type(MARKDOWN),
        ])
    }

    fn skills(&self) -> Vec<Skill> {
        skills(&self.parts().views.current(), SkillFilter::default())
    }

    pub(crate) async fn read_resource(&self, uri: &str) -> Result<ReadResourceResult, ErrorData> {
        if uri.starts_with(SKILL) {
            let found = self.skills().into_iter().find(|skill| skill_uri(&skill.name) == uri);
            let Some(skill) = found else { return Err(self.missing(uri)) };
            let text = self.0.outgoing.cleaned(skill.to_text());
            return Ok(ReadResourceResult::new(vec![ResourceContents::text(text, uri).with_mime_type(MARKDOWN)]));
        }
        let mut content = if uri == CATALOGUE { self.catalogue() } else { self.found(uri).await? };
        self.0.outgoing.clean_json(&mut content);
        let text = ResourceContents::text(content.to_string(), uri).with_mime_type(JSON);
        Ok(ReadResourceResult::new(vec![text]))
    }

    fn missing(&self, uri: &str) -> ErrorData {
        ErrorData::resource_not_found(self.0.outgoing.cleaned(format!("no resource '{uri}'")), None)
    }

    fn catalogue(&self) -> Value {
        let listing = self.listing();
        let server =
            |(server, tools): (&String, &usize)| json!({"server": server, "tools": tools, "uri": format!("{SERVERS}{server}")});
        let servers: Vec<Value> = listing.summary.servers.iter().map(server).collect();
        json!({"servers": servers, "capabilities": listing.summary.capabilities})
    }

    /// What `discover` finds for the name in a URI.
    async fn found(&self, uri: &str) -> Result<Value, ErrorData> {
        let missing = || self.missing(uri);
        let (name, only) = name_of(uri).ok_or_else(missing)?;
        let filter = Filter { only, ..Filter::default() };
        let request = DiscoverRequest { name: Some(name), filter, limit: Some(ENTRIES_MAX), ..DiscoverRequest::default() };
        let asker = self.parts().asker.clone();
        let answer = tokio::task::spawn_blocking(move || asker.discover(request)).await;
        let answer = answer.map_err(|_| ErrorData::internal_error("the question was not answered", None))?;
        let answer = json!(answer.map_err(|error| ErrorData::invalid_params(error.to_string(), None))?);
        let is_list = uri == CAPABILITIES;
        if !is_list && answer["results"].as_array().is_none_or(Vec::is_empty) { Err(missing()) } else { Ok(answer) }
    }
}

fn skill_uri(name: &str) -> String {
    format!("{SKILL}{name}/SKILL.md")
}

/// The name that a URI stands for, and what kind of item it may find.
fn name_of(uri: &str) -> Option<(String, ItemType)> {
    if uri == CAPABILITIES {
        return Some(("*".to_owned(), ItemType::Capability));
    }
    let named = |prefix: &str| uri.strip_prefix(prefix).filter(|name| !name.is_empty());
    if let Some(server) = named(SERVERS) {
        return Some((format!("{server}:*"), ItemType::Tool));
    }
    if let Some(tool) = named(TOOLS) {
        return Some((tool.to_owned(), ItemType::Tool));
    }
    named(CAPABILITY).map(|capability| (capability.to_owned(), ItemType::Capability))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_stands_for_a_name() {
        let check = |uri: &str, expected: Option<(&str, ItemType)>| {
            assert_eq!(name_of(uri), expected.map(|(name, only)| (name.to_owned(), only)), "{uri}");
        };
        check("pml://capabilities", Some(("*", ItemType::Capability)));
        check("pml://servers/fs", Some(("fs:*", ItemType::Tool)));
        check("pml://tools/fs:read_file", Some(("fs:read_file", ItemType::Tool)));
        check("pml://capabilities/copy a file", Some(("copy a file", ItemType::Capability)));
        check("pml://servers/", None);
        check("file:///etc/passwd", None);
    }
}
