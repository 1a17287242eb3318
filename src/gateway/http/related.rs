//! `GET /v1/graph`: the edges. `GET /v1/related`: the neighbours of a tool or capability. Both by the newest measures, or at a moment of
//! the past.

use actix_web::HttpResponse;
use actix_web::web::Data;

use super::Gateway;
use super::ask::moment;
use super::error::ApiError;
use super::input::Query;
use crate::ask::catalogue::{self, GraphQuery};
use crate::ask::past::PastState;
use crate::ask::related::{self, RelatedQuery};
use crate::history::Moment;

pub(super) async fn graph(query: Query<GraphQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let query = query.into_inner().0;
    let found = match moment(query.at.as_deref())? {
        Moment::Now => gateway.asker.graph(&query)?,
        past => {
            let ask = move |past: &PastState| Ok::<_, ApiError>(catalogue::graph(&past.state, &past.measures(), &query)?);
            gateway.past.ask(past, ask).await?
        }
    };
    Ok(HttpResponse::Ok().json(found))
}

pub(super) async fn related(query: Query<RelatedQuery>, gateway: Data<Gateway>) -> Result<HttpResponse, ApiError> {
    let query = query.into_inner().0;
    let found = match moment(query.at.as_deref())? {
        Moment::Now => gateway.asker.related(&query)?,
        past => {
            let ask = move |past: &PastState| Ok::<_, ApiError>(related::related(&past.state, &past.measures(), &query)?);
            gateway.past.ask(past, ask).await?
        }
    };
    Ok(HttpResponse::Ok().json(found))
}
