//! A journal in a ConfigMap.

use std::sync::{Mutex, MutexGuard};

use provider_vcenter::Chain;
use serde_json::{Value, json};

use super::{JournalError, JournalStore};
use crate::{
    InputError,
    cluster::{Cluster, ClusterError, encode},
};

/// Requests per second after a burst. Each change of a group is one request.
const QPS: f64 = 50.0;
const BURST: u32 = 100;
const KEY: &str = "journal.json";
/// Bytes of the largest ConfigMap that an API server accepts, less its metadata.
const LARGEST: usize = 1_000_000;

/// A journal in a ConfigMap. The resource version keeps two servers from writing it.
pub struct ConfigMapJournal {
    cluster: Cluster,
    namespace: String,
    name: String,
    known: Mutex<Known>,
}

/// State of the ConfigMap as far as the store knows it.
#[derive(Clone, Debug, Default)]
struct Known {
    /// `None` if the object does not exist.
    version: Option<String>,
    /// Text of the last write that took effect, or of the read.
    text: Option<String>,
    /// Texts of writes with this version whose results are not known. The API server may still
    /// carry one of them out.
    unanswered: Vec<String>,
}

impl ConfigMapJournal {
    /// Returns the store in the ConfigMap `namespace/name`, which the first write creates.
    pub fn new(client: kube::Client, namespace: &str, name: &str) -> Self {
        Self {
            cluster: Cluster::new(client, QPS, BURST).without_retries(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            known: Mutex::default(),
        }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().expect("no holder panics")
    }

    fn collection(&self) -> String {
        format!("/api/v1/namespaces/{}/configmaps", encode(&self.namespace))
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection(), encode(&self.name))
    }

    /// Reads the object; `None` if it does not exist.
    async fn object(&self) -> Result<Option<Value>, ClusterError> {
        match self.cluster.get(&self.path()).await {
            Ok(object) => Ok(Some(object)),
            Err(err) if err.says_gone(&self.name) => Ok(None),
            Err(err) => Err(err),
        }
    }

    /// Finds out whether the write whose answer was lost took effect.
    async fn settle(&self) -> Result<(), JournalError> {
        if self.known().unanswered.is_empty() { Ok(()) } else { self.recognize().await }
    }

    /// Takes over the resource version of an object whose text this server wrote. Others may change
    /// its labels.
    async fn recognize(&self) -> Result<(), JournalError> {
        let object = self.object().await.map_err(|err| failed(&err))?;
        let text = object.as_ref().and_then(|it| it["data"][KEY].as_str()).map(str::to_owned);
        let known = self.known().clone();
        let is_ours =
            text == known.text || text.as_ref().is_some_and(|it| known.unanswered.contains(it));
        if !is_ours {
            return Err(JournalError::Lost(format!("{} has changed", self.place())));
        }
        let version = object.as_ref().map(version);
        if version != known.version {
            // Writes with the old version fail from now on.
            *self.known() = Known { version, text, unanswered: Vec::new() };
        }
        Ok(())
    }

    /// Writes the object with the known resource version. Remembers the text before that, because the
    /// caller may drop the future.
    async fn send(&self, text: &str) -> Result<Value, ClusterError> {
        let known = {
            let mut known = self.known();
            if !known.unanswered.iter().any(|it| it == text) {
                known.unanswered.push(text.to_owned());
            }
            known.version.clone()
        };
        let mut object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": self.name, "namespace": self.namespace},
            "data": {KEY: text},
        });
        match known {
            Some(version) => {
                object["metadata"]["resourceVersion"] = version.into();
                self.cluster.put(&self.path(), &object).await
            }
            None => self.cluster.post(&self.collection(), &object).await,
        }
    }
}

#[tonic::async_trait]
impl JournalStore for ConfigMapJournal {
    fn place(&self) -> String {
        format!("--journal-config-map {}/{}", self.namespace, self.name)
    }

    async fn read(&self) -> Result<Option<String>, InputError> {
        let object = self.object().await.map_err(|err| {
            let err = InputError::new(format!("cannot be read: {}", Chain(&err)));
            err.remedy("check --journal-kubeconfig and the permissions of its account")
        })?;
        let text = object.as_ref().and_then(|it| it["data"][KEY].as_str());
        *self.known() = Known {
            version: object.as_ref().map(version),
            text: text.map(str::to_owned),
            unanswered: Vec::new(),
        };
        if object.is_some() && text.is_none() {
            let err = InputError::new(format!("exists without the key {KEY}"));
            return Err(err.remedy("name another ConfigMap, or remove this one"));
        }
        Ok(text.map(str::to_owned))
    }

    async fn write(&self, text: &str) -> Result<(), JournalError> {
        if text.len() > LARGEST {
            let problem = format!("it has {} bytes, and a ConfigMap at most {LARGEST}", text.len());
            return Err(JournalError::Failed(problem));
        }
        self.settle().await?;
        let mut answer = self.send(text).await;
        if answer.as_ref().is_err_and(ClusterError::is_conflict) {
            self.recognize().await?;
            answer = self.send(text).await;
        }
        match answer {
            Ok(object) => {
                let (version, text) = (Some(version(&object)), Some(text.to_owned()));
                *self.known() = Known { version, text, unanswered: Vec::new() };
                Ok(())
            }
            Err(err) if err.says_gone(&self.name) => {
                Err(JournalError::Lost(Chain(&err).to_string()))
            }
            // A conflict proves no other server, whose text would: the next write reads it.
            Err(err) => Err(failed(&err)),
        }
    }
}

fn version(object: &Value) -> String {
    object["metadata"]["resourceVersion"].as_str().unwrap_or_default().to_owned()
}

fn failed(err: &ClusterError) -> JournalError {
    JournalError::Failed(Chain(err).to_string())
}
