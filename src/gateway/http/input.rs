//! What handlers take from a request: the extractors of actix-web, but only objects are read, and errors name the field.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use actix_web::web;
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, Error, MapAccess, Visitor};

/// The body of a request, a JSON object.
pub(super) type Json<T> = web::Json<Object<T>>;

/// The query of a request.
pub(super) type Query<T> = web::Query<Object<T>>;

/// Reads a `T` from an object only. Derived structs also read lists, by position: an empty one would stand for all defaults.
pub(super) struct Object<T>(pub(super) T);

impl<T> Deref for Object<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<'de, T: serde::Deserialize<'de>> serde::Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(ObjectVisitor(PhantomData)).map(Self)
    }
}

struct ObjectVisitor<T>(PhantomData<T>);

impl<'de, T: serde::Deserialize<'de>> Visitor<'de> for ObjectVisitor<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<T, A::Error> {
        serde_path_to_error::deserialize(MapAccessDeserializer::new(members)).map_err(|error| {
            let path = error.path().to_string();
            // A dot stands for the whole, a question mark for a place without a name.
            let path = path.trim_end_matches(['?', '.']);
            let problem = error.into_inner();
            let text = problem.to_string();
            // Messages about unknown, missing and repeated members quote their names.
            if path.is_empty() || text.contains(&format!("`{path}`")) {
                problem
            } else {
                A::Error::custom(format!("{path}: {text}"))
            }
        })
    }
}
