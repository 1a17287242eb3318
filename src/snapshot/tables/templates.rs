//! The table `templates` holds the loaded workflow templates.

use arrow_array::cast::AsArray;
use arrow_array::{LargeStringArray, ListArray, RecordBatch};

use super::super::columns::{Columns, TableRows, text_lists, texts};
use super::super::error::Unreadable;
use crate::core::event::TemplateLoaded;
use crate::core::id::ToolId;
use crate::core::state::State;
use crate::core::template::Templates;

pub(in super::super) const TEMPLATES: &str = "templates";

pub(super) fn templates(state: &State) -> Vec<RecordBatch> {
    let rows = || state.templates.rows();
    let ends = |get: fn(&(ToolId, ToolId)) -> &ToolId| {
        text_lists(rows().map(move |row| row.edges.iter().map(move |edge| get(edge).as_str())))
    };
    let columns = Columns::default()
        .with("template", texts(rows().map(|row| &row.name)))
        .with("description", texts(rows().map(|row| &row.description)))
        .with("checksum", texts(rows().map(|row| &row.checksum)))
        .with("before", ends(|(before, _)| before))
        .with("after", ends(|(_, after)| after));
    vec![columns.batch()]
}

pub(in super::super) fn read_templates(rows: &TableRows) -> Result<Templates, Unreadable> {
    let text = |name| rows.column::<LargeStringArray>(name);
    let (names, descriptions, checksums) = (text("template")?, text("description")?, text("checksum")?);
    let (before, after) = (rows.column::<ListArray>("before")?, rows.column::<ListArray>("after")?);
    let tool = |text: Option<&str>| -> Result<ToolId, Unreadable> {
        text.unwrap_or_default().parse().map_err(|problem| rows.unreadable("before", problem))
    };
    let template = |row: usize| {
        let (before, after) = (before.value(row), after.value(row));
        let pairs = before.as_string::<i64>().iter().zip(after.as_string::<i64>());
        Ok(TemplateLoaded {
            name: names.value(row).to_owned(),
            description: descriptions.value(row).to_owned(),
            checksum: checksums.value(row).to_owned(),
            edges: pairs.map(|(before, after)| Ok((tool(before)?, tool(after)?))).collect::<Result<_, Unreadable>>()?,
        })
    };
    let templates: Vec<TemplateLoaded> = (0..rows.len()).map(template).collect::<Result<_, Unreadable>>()?;
    Ok(Templates::from_rows(templates))
}
