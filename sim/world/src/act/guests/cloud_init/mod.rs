//! cloud-init at the first boot of a machine: it reads the user data from `guestinfo`, and makes a
//! kubelet join the workload cluster if the data says so.

#[cfg(test)]
mod tests;

use crate::act::Execution;
use crate::event::Event;
use crate::kubelet::{Join, decoded};
use crate::vcenter::{Machine, MoRef};

/// Keys of `extraConfig` with the user data and its encoding.
pub(in crate::act) const USER_DATA: &str = "guestinfo.userdata";
pub(in crate::act) const ENCODING: &str = "guestinfo.userdata.encoding";

impl Execution<'_> {
    /// Adds a kubelet to a machine without one whose user data joins the cluster with a valid token.
    /// cloud-init runs only at the first boot, so a machine whose token is refused never joins.
    pub(super) fn join_by_cloud_init(&mut self, vcenter: &str, id: MoRef) {
        if self.kubelet_of(vcenter, id).is_some() {
            return;
        }
        let Ok(machine) = self.machine(vcenter, id) else { return };
        if machine.boot != 1 {
            return;
        }
        let now = self.now.timestamp(self.state.epoch);
        let join = match user_data(machine).map(|data| data.map(|data| Join::read(&data))) {
            None | Some(Ok(None)) => return,
            Some(Ok(Some(join))) => join.admitted(&self.state.cluster, now).map(|()| join),
            Some(Err(why)) => Err(why),
        };
        match join {
            Ok(join) => {
                self.add_kubelet(vcenter, id);
                let Some((node, mut kubelet)) = self.kubelet_of(vcenter, id) else { return };
                let Join { labels, taints, provider_id, .. } = join;
                kubelet.config.labels = labels;
                kubelet.config.taints = taints;
                kubelet.config.provider_id = provider_id;
                self.emit(Event::KubeletSet { node, kubelet: Some(kubelet) });
            }
            Err(why) => {
                self.emit(Event::JoinRefused { vcenter: vcenter.to_owned(), machine: id, why });
            }
        }
    }
}

/// Returns the decoded user data; `None` if the machine has none.
fn user_data(machine: &Machine) -> Option<Result<String, String>> {
    let text = machine.config.extra.get(USER_DATA).filter(|it| !it.is_empty())?;
    Some(match machine.config.extra.get(ENCODING).map_or("", String::as_str) {
        "" => Ok(text.clone()),
        "base64" | "b64" => decoded(text).ok_or_else(|| format!("{USER_DATA} is not Base64")),
        other => Err(format!("{ENCODING} is {other}, which sim does not decode")),
    })
}
