//! `ServiceContent`: the description of a vCenter and references to its managers.

use sim_world::vcenter::{Release, VCenter};

use crate::call::vim25::{self, Field, Version};
use crate::vcenter::vim::data::{Object, Reference};

/// Members of `ServiceContent` that are managers, with the ids of production servers. The schema has
/// the types.
const MANAGERS: &[(&str, &str)] = &[
    ("propertyCollector", "propertyCollector"),
    ("viewManager", "ViewManager"),
    ("setting", "VpxSettings"),
    ("userDirectory", "UserDirectory"),
    ("sessionManager", "SessionManager"),
    ("authorizationManager", "AuthorizationManager"),
    ("serviceManager", "ServiceMgr"),
    ("perfManager", "PerfMgr"),
    ("scheduledTaskManager", "ScheduledTaskManager"),
    ("alarmManager", "AlarmManager"),
    ("eventManager", "EventManager"),
    ("taskManager", "TaskManager"),
    ("extensionManager", "ExtensionManager"),
    ("customizationSpecManager", "CustomizationSpecManager"),
    ("customFieldsManager", "CustomFieldsManager"),
    ("diagnosticManager", "DiagMgr"),
    ("licenseManager", "LicenseManager"),
    ("searchIndex", "SearchIndex"),
    ("fileManager", "FileManager"),
    ("datastoreNamespaceManager", "DatastoreNamespaceManager"),
    ("virtualDiskManager", "virtualDiskManager"),
    ("snmpSystem", "SnmpSystem"),
    ("vmProvisioningChecker", "ProvChecker"),
    ("vmCompatibilityChecker", "CompatChecker"),
    ("ovfManager", "OvfManager"),
    ("ipPoolManager", "IpPoolManager"),
    ("dvSwitchManager", "DVSManager"),
    ("hostProfileManager", "HostProfileManager"),
    ("clusterProfileManager", "ClusterProfileManager"),
    ("complianceManager", "MoComplianceManager"),
    ("localizationManager", "LocalizationManager"),
    ("storageResourceManager", "StorageResourceManager"),
    ("guestOperationsManager", "guestOperationsManager"),
    ("overheadMemoryManager", "OverheadMemoryManager"),
    ("certificateManager", "certificateManager"),
    ("ioFilterManager", "IoFilterManager"),
    ("vStorageObjectManager", "VStorageObjectManager"),
    ("hostSpecManager", "HostSpecificationManager"),
    ("cryptoManager", "CryptoManager"),
    ("healthUpdateManager", "HealthUpdateManager"),
    ("failoverClusterConfigurator", "FailoverClusterConfigurator"),
    ("failoverClusterManager", "FailoverClusterManager"),
];

/// Managers whose type is derived from the declared one.
const DERIVED: [(&str, &str); 2] = [
    ("vStorageObjectManager", "VcenterVStorageObjectManager"),
    ("cryptoManager", "CryptoManagerKmip"),
];

/// Prefix of the id of a datastore's browser, before the id of the datastore.
pub(crate) const BROWSER: &str = "datastoreBrowser-";

/// Returns the `ServiceContent` of a vCenter, with the managers of its release.
pub(crate) fn service_content(vc: &VCenter) -> Object {
    let release = Version::parse(&vc.release.api_version());
    let mut content = Object::new("ServiceContent");
    for field in members().filter(|it| it.since <= release) {
        content = match field.name {
            "rootFolder" => content.with("rootFolder", vc.root()),
            "about" => content.with("about", about(vc)),
            member => {
                let id = MANAGERS.iter().find(|(of, _)| *of == member).map(|(_, id)| *id);
                content.maybe(member, id.map(|id| Reference::new(manager_type(&field), id)))
            }
        };
    }
    content
}

fn members() -> impl Iterator<Item = Field> {
    vim25::find("ServiceContent").into_iter().flat_map(vim25::Type::own_fields)
}

/// Returns the type of the manager in this member of `ServiceContent`.
fn manager_type(member: &Field) -> &'static str {
    let derived = DERIVED.iter().find(|(of, _)| *of == member.name);
    derived.map_or(member.declared.name, |(_, kind)| kind)
}

fn about(vc: &VCenter) -> Object {
    let Release { version, build } = &vc.release;
    let mut parts = version.splitn(3, '.');
    let licensed = [parts.next(), parts.next()].map(Option::unwrap_or_default).join(".");
    Object::new("AboutInfo")
        .with("name", "VMware vCenter Server")
        .with("fullName", format!("VMware vCenter Server {version} build-{build}"))
        .with("vendor", "VMware, Inc.")
        .with("version", version.as_str())
        .with("build", build.as_str())
        .with("localeVersion", "INTL")
        .with("localeBuild", "000")
        .with("osType", "linux-x64")
        .with("productLineId", "vpx")
        .with("apiType", "VirtualCenter")
        .with("apiVersion", vc.release.api_version())
        .with("instanceUuid", vc.instance_uuid.to_string())
        .with("licenseProductName", "VMware VirtualCenter Server")
        .with("licenseProductVersion", licensed)
}

/// Returns the type of the manager with this id, or of the `ServiceInstance`; `None` for any other
/// id.
pub(crate) fn manager(id: &str) -> Option<&'static str> {
    if id == "ServiceInstance" {
        return Some("ServiceInstance");
    }
    let (member, _) = MANAGERS.iter().find(|(_, known)| *known == id)?;
    vim25::find("ServiceContent")?.own_field(member).map(|it| manager_type(&it))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_manager_is_a_member_of_the_schema_and_has_the_declared_type() {
        for (member, id) in MANAGERS {
            let field = members().find(|it| it.name == *member);
            let field = field.unwrap_or_else(|| panic!("ServiceContent has no {member}"));
            let kind = manager_type(&field);
            assert!(vim25::is_a(kind, field.declared.name), "{member} is a {kind}");
            assert_eq!(manager(id), Some(kind));
        }
    }
}
