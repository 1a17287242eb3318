//! Workflow templates in the state: which are loaded, and that their dependencies stay acyclic taken together.

use std::sync::Arc;

use imbl::OrdMap;

use super::digest::{Digestible, Writer};
use super::event::TemplateLoaded;
use super::graph::cycle;
use super::id::ToolId;

#[derive(Clone, Debug, Default)]
pub struct Templates {
    loaded: OrdMap<String, Arc<TemplateLoaded>>,
}

impl Templates {
    /// Takes in a template and returns the version it replaces.
    pub fn load(&mut self, template: TemplateLoaded) -> Option<Arc<TemplateLoaded>> {
        self.loaded.insert(template.name.clone(), Arc::new(template))
    }

    pub fn is_current(&self, template: &TemplateLoaded) -> bool {
        self.loaded.get(&template.name).is_some_and(|known| known.checksum == template.checksum)
    }

    /// The cycle that loading `templates` over the present ones would close.
    pub fn cycle_with<'a>(&'a self, templates: &'a [TemplateLoaded]) -> Option<Vec<&'a ToolId>> {
        let kept = self.loaded.values().map(Arc::as_ref).filter(|known| templates.iter().all(|new| new.name != known.name));
        cycle::find(kept.chain(templates).flat_map(|template| template.edges.iter().map(|(from, to)| (from, to))))
    }

    /// By name.
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
    fn digest(&self, writer: &mut Writer) {
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
