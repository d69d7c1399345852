//! The document of a server, and whether a value fits one of its schemas. A field without a description is a mistake, so
//! that the document names all that the server sends.

use std::collections::BTreeMap;

use boon::{Compiler, Schemas};
use serde_json::{Map, Value};

/// The document of one listener.
pub(crate) struct Description(pub(crate) Value);

/// Numbers, and whether each is taken; nothing of a field without bounds.
pub(crate) type Bounds = Option<[(Value, bool); 4]>;

/// A request that the document shows.
pub(crate) struct Operation<'d> {
    pub(crate) path: &'d str,
    pub(crate) method: &'d str,
    /// Its object in the document.
    pub(crate) value: &'d Value,
}

impl Description {
    /// The requests that this listener answers.
    pub(crate) fn operations(&self) -> Vec<Operation<'_>> {
        let mut all = Vec::new();
        for (path, methods) in self.0["paths"].as_object().unwrap() {
            for (method, value) in methods.as_object().unwrap() {
                // Another listener answers a request that has a server of its own.
                if value.get("servers").is_none() {
                    all.push(Operation { path, method, value });
                }
            }
        }
        all
    }

    /// The first request of a path.
    pub(crate) fn operation(&self, path: &str) -> Operation<'_> {
        self.operations().into_iter().find(|operation| operation.path == path).unwrap()
    }

    /// The fields of an object that is the body of a request; none if the body is no JSON.
    pub(crate) fn fields_of_body<'d>(
        &'d self,
        operation: &Operation<'d>,
    ) -> BTreeMap<&'d str, &'d Value> {
        let content = &self.resolved(&operation.value["requestBody"])["content"];
        let schema = &content["application/json"]["schema"];
        let alternatives = schema["oneOf"].as_array().into_iter().flatten();
        let mut fields = BTreeMap::new();
        for schema in alternatives.chain([schema]) {
            self.gather(schema, &mut fields, &mut Vec::new());
        }
        fields
    }

    /// The parameters of a request in its query that are numbers, with their bounds.
    pub(crate) fn bounds_of_parameters<'d>(
        &'d self,
        operation: &Operation<'d>,
    ) -> Vec<(&'d str, Bounds)> {
        let is_stream = operation.value["responses"]["200"]["content"].get("text/event-stream");
        let all = operation.value["parameters"].as_array().filter(|_| is_stream.is_none());
        let all = all.into_iter().flatten().filter(|one| one["in"] == "query");
        all.map(|one| (one["name"].as_str().unwrap(), self.bounds(&one["schema"]))).collect()
    }

    /// The smallest and the largest number of a field, which are taken, and the numbers next to them, which are not.
    pub(crate) fn bounds(&self, field: &Value) -> Bounds {
        let field = self.resolved(field);
        let least = field["minimum"].as_i64()?;
        let most = field["maximum"].as_i64()?;
        Some(
            [(least - 1, false), (least, true), (most, true), (most + 1, false)]
                .map(|(number, is_well)| (number.into(), is_well)),
        )
    }

    /// The value itself, or the component to which it refers.
    pub(crate) fn resolved<'d>(&'d self, value: &'d Value) -> &'d Value {
        value["$ref"].as_str().map_or(value, |reference| self.0.pointer(&reference[1..]).unwrap())
    }

    /// The values of `examples`, by name.
    pub(crate) fn examples<'d>(&self, content: &'d Value) -> impl Iterator<Item = &'d Value> {
        content["examples"].as_object().into_iter().flat_map(Map::values).map(|one| &one["value"])
    }

    /// The mistake in a value, or nothing if it fits.
    pub(crate) fn mistake(&self, schema: &Value, value: &Value) -> Option<String> {
        let mut components = self.0["components"].clone();
        for component in components["schemas"].as_object_mut().unwrap().values_mut() {
            self.close_parts(component);
        }
        let mut whole = schema.clone();
        self.close(&mut whole);
        whole["components"] = components;
        let (mut compiler, mut schemas) = (Compiler::new(), Schemas::new());
        compiler.add_resource("schema.json", whole).unwrap();
        let index = compiler.compile("schema.json", &mut schemas).unwrap();
        if has_whole_fraction(value) {
            return Some(format!("a whole number is written with a point: {value}"));
        }
        schemas.validate(value, index).err().map(|error| format!("{error:#}: {value}"))
    }

    /// Lets a value have the fields that its schema describes, and no other. An object without fields, such as the document
    /// itself, may have any.
    fn close(&self, schema: &mut Value) {
        self.close_parts(schema);
        let mut fields = BTreeMap::new();
        self.gather(schema, &mut fields, &mut Vec::new());
        if !fields.is_empty() {
            schema["unevaluatedProperties"] = Value::Bool(false);
        }
    }

    /// Closes the parts of a schema that describe other values, or alternatives; an object that it extends stays open.
    fn close_parts(&self, schema: &mut Value) {
        let Some(schema) = schema.as_object_mut() else { return };
        for (name, part) in schema {
            match name.as_str() {
                "properties" => {
                    part.as_object_mut().unwrap().values_mut().for_each(|one| self.close(one));
                }
                "oneOf" | "anyOf" => {
                    part.as_array_mut().unwrap().iter_mut().for_each(|one| self.close(one));
                }
                "items" | "additionalProperties" if part.is_object() => self.close(part),
                "allOf" => {
                    part.as_array_mut().unwrap().iter_mut().for_each(|one| self.close_parts(one));
                }
                _ => {}
            }
        }
    }

    /// The fields of an object and of the objects that it extends.
    fn gather<'d>(
        &'d self,
        schema: &'d Value,
        fields: &mut BTreeMap<&'d str, &'d Value>,
        required: &mut Vec<&'d str>,
    ) {
        let schema = self.resolved(schema);
        let own = schema["properties"].as_object().into_iter().flatten();
        fields.extend(own.map(|(name, field)| (name.as_str(), field)));
        required
            .extend(schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str));
        let extended = schema["allOf"].as_array().into_iter().flatten();
        extended.for_each(|one| self.gather(one, fields, required));
    }
}

/// Returns whether a value has a number such as `1.0`, which JSON Schema takes as an integer.
fn has_whole_fraction(value: &Value) -> bool {
    match value {
        Value::Number(number) => {
            number.is_f64() && number.as_f64().is_some_and(|it| it.fract() == 0.0)
        }
        Value::Array(items) => items.iter().any(has_whole_fraction),
        Value::Object(fields) => fields.values().any(has_whole_fraction),
        _ => false,
    }
}
