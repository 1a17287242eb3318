//! What handlers take from a request: like the extractors of actix-web, but only objects are read, and errors name the field.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use actix_web::{FromRequest, HttpRequest, dev, web};
use futures_util::TryFutureExt;
use futures_util::future::MapOk;
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, Deserializer, Error, MapAccess, Visitor};

/// The body of a request, a JSON object.
pub(super) struct Json<T>(T);

/// The query of a request.
pub(super) struct Query<T>(T);

/// Reads a `T` from an object only. Derived structs also read lists, by position: an empty one would stand for all defaults.
pub(super) struct Object<T>(T);

impl<T> Json<T> {
    pub(super) fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Query<T> {
    pub(super) fn into_inner(self) -> T {
        self.0
    }
}

impl<T> Deref for Json<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Deref for Query<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

type Mapped<Of, To> = MapOk<<Of as FromRequest>::Future, fn(Of) -> To>;

impl<T: DeserializeOwned + 'static> FromRequest for Json<T> {
    type Error = actix_web::Error;
    type Future = Mapped<web::Json<Object<T>>, Self>;

    fn from_request(request: &HttpRequest, payload: &mut dev::Payload) -> Self::Future {
        web::Json::<Object<T>>::from_request(request, payload).map_ok(|body| Self(body.into_inner().0))
    }
}

impl<T: DeserializeOwned + 'static> FromRequest for Query<T> {
    type Error = actix_web::Error;
    type Future = Mapped<web::Query<Object<T>>, Self>;

    fn from_request(request: &HttpRequest, payload: &mut dev::Payload) -> Self::Future {
        web::Query::<Object<T>>::from_request(request, payload).map_ok(|query| Self(query.into_inner().0))
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
