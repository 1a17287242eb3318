//! The workflow templates that are loaded. The dependencies of all templates together must stay acyclic.

use std::sync::Arc;

use imbl::OrdMap;

use super::digest::{DigestWriter, Digestible};
use super::event::TemplateLoaded;
use super::graph::cycle;
use super::id::ToolId;

/// Loaded templates by name.
#[derive(Clone, Debug, Default)]
pub struct Templates {
    loaded: OrdMap<String, Arc<TemplateLoaded>>,
}

impl Templates {
    /// Loads a template and returns the version it replaces.
    pub fn load(&mut self, template: TemplateLoaded) -> Option<Arc<TemplateLoaded>> {
        self.loaded.insert(template.name.clone(), Arc::new(template))
    }

    /// Whether this version of the template is loaded.
    pub fn is_current(&self, template: &TemplateLoaded) -> bool {
        self.loaded.get(&template.name).is_some_and(|known| known.checksum == template.checksum)
    }

    /// The cycle of dependencies that would exist with `templates` loaded, if any.
    pub fn cycle_with<'a>(&'a self, templates: &'a [TemplateLoaded]) -> Option<Vec<&'a ToolId>> {
        let kept = self.loaded.values().map(Arc::as_ref).filter(|known| templates.iter().all(|new| new.name != known.name));
        cycle::find(kept.chain(templates).flat_map(|template| template.edges.iter().map(|(from, to)| (from, to))))
    }

    /// All templates in the order of their names.
    pub fn rows(&self) -> impl ExactSizeIterator<Item = &TemplateLoaded> {
        self.loaded.values().map(Arc::as_ref)
    }

    pub fn from_rows(rows: impl IntoIterator<Item = TemplateLoaded>) -> Self {
        Self { loaded: rows.into_iter().map(|template| (template.name.clone(), Arc::new(template))).collect() }
    }

    pub fn len(&self) -> usize {
        self.loaded.len()
    }

    pub fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }
}

impl Digestible for Templates {
    fn digest(&self, writer: &mut DigestWriter) {
        writer.len(self.loaded.len());
        for (name, template) in &self.loaded {
            writer.text(name).text(&template.description).text(&template.checksum);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(name: &str, from: &str, to: &str) -> TemplateLoaded {
        TemplateLoaded {
            name: name.to_owned(),
            description: String::new(),
            edges: vec![(from.parse().unwrap(), to.parse().unwrap())],
            checksum: format!("{from}{to}"),
        }
    }

    #[test]
    fn a_cycle_across_templates_is_found_and_a_replaced_version_does_not_count() {
        let mut templates = Templates::default();
        templates.load(template("one", "a:x", "b:x"));
        let back = [template("two", "b:x", "a:x")];
        assert_eq!(templates.cycle_with(&back).map(|path| path.len()), Some(3));
        let turned = [template("one", "b:x", "a:x")];
        assert_eq!(templates.cycle_with(&turned), None);
    }
}
