//! Chooses the representation of an answer from the `Accept` header.
//!
//! Follows `apiserver: pkg/endpoints/handlers/negotiation`. The module sorts the clauses of the
//! header by weight, then by specificity, then by position. The first clause that accepts JSON in a
//! known conversion wins. Objects in answers are always JSON: the server accepts protobuf and YAML
//! only in requests.

use kube_sim_store::Status;

/// Negotiated representation of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Representation {
    /// Conversion of the objects.
    pub(crate) form: Form,
    /// True if the chosen clause of the header asks for indented JSON.
    pub(crate) pretty: bool,
}

/// Conversion of objects before the server writes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) enum Form {
    /// Whole objects.
    #[default]
    Whole,
    /// Rows and columns, as `kubectl get` prints them.
    Table(Meta),
    /// Metadata of one object.
    Partial(Meta),
    /// Metadata of every object of a list.
    PartialList(Meta),
}

/// A version of `meta.k8s.io`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Meta {
    V1,
    V1Beta1,
}

impl Meta {
    /// The `apiVersion` of objects in this version.
    pub(crate) fn api_version(self) -> &'static str {
        match self {
            Self::V1 => "meta.k8s.io/v1",
            Self::V1Beta1 => "meta.k8s.io/v1beta1",
        }
    }
}

/// One clause of the header: a media range with its parameters.
struct Clause<'a> {
    media_type: &'a str,
    parameters: Vec<(&'a str, &'a str)>,
    weight: f32,
}

impl<'a> Clause<'a> {
    fn parse(text: &'a str) -> Self {
        let mut parts = text.split(';').map(str::trim);
        let media_type = parts.next().unwrap_or_default();
        let parameters: Vec<(&str, &str)> = parts
            .filter_map(|part| part.split_once('='))
            .map(|(k, v)| (k.trim(), v.trim()))
            .collect();
        let weight = parameters.iter().find(|(name, _)| *name == "q");
        let weight = weight.and_then(|(_, value)| value.parse().ok()).unwrap_or(1.0);
        Self { media_type, parameters, weight }
    }

    fn get(&self, name: &str) -> &'a str {
        self.parameters.iter().find(|(given, _)| *given == name).map_or("", |(_, value)| value)
    }

    /// True if this clause accepts `media_type`.
    fn takes(&self, media_type: &str) -> bool {
        let (wide, _) = media_type.split_once('/').unwrap_or((media_type, ""));
        self.media_type == media_type
            || self.media_type == "*/*"
            || self.media_type.strip_suffix("/*") == Some(wide)
    }

    /// Number of wildcards in the media type; exact types come first.
    fn n_wildcards(&self) -> usize {
        self.media_type.matches('*').count()
    }

    /// Conversion that the clause asks for; `None` if the conversion, its group or its version is
    /// unknown.
    fn form(&self) -> Option<Form> {
        let meta = || match (self.get("g"), self.get("v")) {
            ("meta.k8s.io", "v1") => Some(Meta::V1),
            ("meta.k8s.io", "v1beta1") => Some(Meta::V1Beta1),
            _ => None,
        };
        match self.get("as") {
            "" => Some(Form::Whole),
            "Table" => meta().map(Form::Table),
            "PartialObjectMetadata" => meta().map(Form::Partial),
            "PartialObjectMetadataList" => meta().map(Form::PartialList),
            _ => None,
        }
    }
}

fn clauses(header: &str) -> Vec<Clause<'_>> {
    let mut clauses: Vec<Clause<'_>> =
        header.split(',').map(str::trim).filter(|it| !it.is_empty()).map(Clause::parse).collect();
    clauses
        .sort_by(|a, b| b.weight.total_cmp(&a.weight).then(a.n_wildcards().cmp(&b.n_wildcards())));
    clauses
}

/// Class of the requested resource. It determines the words of a 406 answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResourceClass {
    One,
    /// A collection, which may also be watched.
    List,
    /// Objects of a custom kind, and discovery documents. In the real server no router checks
    /// `Accept` of these: their handler gives every 406 answer. The answer lists protobuf, although
    /// custom kinds have no protobuf form.
    Custom,
}

/// Chooses a representation of objects.
///
/// # Errors
/// 406 if no clause accepts JSON in a known conversion. If the real server would then answer in
/// protobuf or YAML, the message says that this server does not write that media type. Otherwise
/// the message is that of the real server.
pub(crate) fn objects(header: &str, asked: ResourceClass) -> Result<Representation, Status> {
    const TYPES: &str = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    let others: &[&str] = match asked {
        ResourceClass::Custom => &["application/yaml"],
        _ => &["application/yaml", "application/vnd.kubernetes.protobuf"],
    };
    let clauses = clauses(header);
    if clauses.is_empty() {
        return Ok(Representation::default());
    }
    let mut unwritten = None;
    let mut is_known = false;
    for clause in &clauses {
        if clause.takes("application/json") {
            is_known = true;
            if let Some(form) = clause.form() {
                return Ok(Representation { form, pretty: is_true(clause.get("pretty")) });
            }
        }
        for other in others.iter().filter(|other| clause.takes(other)) {
            is_known = true;
            unwritten = unwritten.or(clause.form().map(|_| other));
        }
    }
    if let Some(unwritten) = unwritten {
        let message = format!(
            "this simulated API server does not implement answers in {unwritten}; only the following media types are accepted: application/json"
        );
        return Err(Status::new(406, "NotAcceptable", message));
    }
    if is_known || asked == ResourceClass::Custom {
        let message = format!("only the following media types are accepted: {TYPES}");
        return Err(Status::new(406, "NotAcceptable", message));
    }
    // If no clause names a known media type, the real server's router answers, with another
    // message.
    let streams = match asked {
        ResourceClass::List => {
            ", application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch"
        }
        ResourceClass::One | ResourceClass::Custom => "",
    };
    let message = format!("406: Not Acceptable\n\nAvailable representations: {TYPES}{streams}");
    let mut status = Status::new(406, "NotAcceptable", message);
    status.details = Some(Box::default());
    Err(status)
}

/// Version of aggregated discovery that the client prefers; `None` for the plain document. A client
/// that accepts JSON only in another known conversion, such as a table, gets the plain document,
/// too.
///
/// # Errors
/// 406 if the client accepts neither aggregated discovery nor JSON in a known conversion.
pub(crate) fn aggregated_discovery(header: &str) -> Result<Option<&'static str>, Status> {
    let clauses = clauses(header);
    for clause in clauses.iter().filter(|clause| clause.takes("application/json")) {
        match (clause.get("as"), clause.get("g"), clause.get("v")) {
            ("", ..) => return Ok(None),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => return Ok(Some("v2")),
            ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2beta1") => {
                return Ok(Some("v2beta1"));
            }
            _ => {}
        }
    }
    if clauses.is_empty() {
        return Ok(None);
    }
    // No router checks `Accept` of discovery requests, so their 406 is that of custom kinds.
    objects(header, ResourceClass::Custom).map(|_| None)
}

/// True if the client accepts a document as plain JSON.
pub(crate) fn takes_json(header: &str) -> bool {
    let clauses = clauses(header);
    let is_plain =
        |clause: &Clause<'_>| clause.takes("application/json") && clause.get("as").is_empty();
    clauses.is_empty() || clauses.iter().any(is_plain)
}

/// True if `strconv.ParseBool` reads the text as true.
pub(crate) fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_servable_clause_of_an_accept_header_decides_the_form() {
        let whole = Representation::default();
        let table = Representation { form: Form::Table(Meta::V1), ..whole };
        for (name, header, want) in [
            ("nothing", "", whole),
            ("anything", "*/*", whole),
            ("what client-go sends", "application/vnd.kubernetes.protobuf,application/json", whole),
            ("what the CCM sends", "application/vnd.kubernetes.protobuf, */*", whole),
            (
                "what kubectl get sends",
                "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
                table,
            ),
            (
                "an unknown version",
                "application/json;as=Table;v=v2;g=meta.k8s.io,application/json",
                whole,
            ),
            (
                "another group",
                "application/json;as=Table;v=v1;g=foo,application/json;as=Table;v=v1;g=meta.k8s.io",
                table,
            ),
            (
                "weights",
                "application/json;q=0.1,application/json;as=Table;v=v1;g=meta.k8s.io;q=0.5",
                table,
            ),
            ("pretty", "application/json;pretty=1", Representation { pretty: true, ..whole }),
            (
                "the metadata client",
                "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
                Representation { form: Form::PartialList(Meta::V1), ..whole },
            ),
        ] {
            assert_eq!(objects(header, ResourceClass::One), Ok(want), "{name}");
        }
    }

    #[test]
    fn a_406_answer_has_the_words_of_the_real_server() {
        let ask =
            |header, asked| objects(header, asked).map_err(|status| (status.code, status.message));
        let text = |header| ask(header, ResourceClass::One);
        let types = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
        for header in ["text/plain", "application/cbor", "garbage"] {
            let want = format!("406: Not Acceptable\n\nAvailable representations: {types}");
            assert_eq!(text(header), Err((406, want)), "{header}");
        }
        for header in [
            "application/json;as=Foo;v=v1;g=meta.k8s.io",
            "application/json;as=Table;v=v2;g=meta.k8s.io",
        ] {
            let want = format!("only the following media types are accepted: {types}");
            assert_eq!(text(header), Err((406, want)), "{header}");
        }
        for header in ["text/plain", "application/vnd.kubernetes.protobuf"] {
            let want = format!("only the following media types are accepted: {types}");
            assert_eq!(ask(header, ResourceClass::Custom), Err((406, want)), "{header}");
        }
        let (_, refused) = text("application/yaml").unwrap_err();
        assert!(refused.contains("does not implement answers in application/yaml"), "{refused}");
    }
}
