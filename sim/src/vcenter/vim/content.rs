//! `ServiceContent`: the description of a vCenter and references to its managers.

use sim_world::vcenter::{Release, VCenter};

use crate::vcenter::vim::data::{Object, Reference};

/// Members of `ServiceContent` after `rootFolder`, in schema order: name, type and id of every
/// manager. The ids are those of production servers. `about` is not a manager and has neither type
/// nor id.
pub(crate) const MANAGERS: &[(&str, &str, &str)] = &[
    ("propertyCollector", "PropertyCollector", "propertyCollector"),
    ("viewManager", "ViewManager", "ViewManager"),
    ("about", "", ""),
    ("setting", "OptionManager", "VpxSettings"),
    ("userDirectory", "UserDirectory", "UserDirectory"),
    ("sessionManager", "SessionManager", "SessionManager"),
    ("authorizationManager", "AuthorizationManager", "AuthorizationManager"),
    ("serviceManager", "ServiceManager", "ServiceMgr"),
    ("perfManager", "PerformanceManager", "PerfMgr"),
    ("scheduledTaskManager", "ScheduledTaskManager", "ScheduledTaskManager"),
    ("alarmManager", "AlarmManager", "AlarmManager"),
    ("eventManager", "EventManager", "EventManager"),
    ("taskManager", "TaskManager", "TaskManager"),
    ("extensionManager", "ExtensionManager", "ExtensionManager"),
    ("customizationSpecManager", "CustomizationSpecManager", "CustomizationSpecManager"),
    ("customFieldsManager", "CustomFieldsManager", "CustomFieldsManager"),
    ("diagnosticManager", "DiagnosticManager", "DiagMgr"),
    ("licenseManager", "LicenseManager", "LicenseManager"),
    ("searchIndex", "SearchIndex", "SearchIndex"),
    ("fileManager", "FileManager", "FileManager"),
    ("datastoreNamespaceManager", "DatastoreNamespaceManager", "DatastoreNamespaceManager"),
    ("virtualDiskManager", "VirtualDiskManager", "virtualDiskManager"),
    ("snmpSystem", "HostSnmpSystem", "SnmpSystem"),
    ("vmProvisioningChecker", "VirtualMachineProvisioningChecker", "ProvChecker"),
    ("vmCompatibilityChecker", "VirtualMachineCompatibilityChecker", "CompatChecker"),
    ("ovfManager", "OvfManager", "OvfManager"),
    ("ipPoolManager", "IpPoolManager", "IpPoolManager"),
    ("dvSwitchManager", "DistributedVirtualSwitchManager", "DVSManager"),
    ("hostProfileManager", "HostProfileManager", "HostProfileManager"),
    ("clusterProfileManager", "ClusterProfileManager", "ClusterProfileManager"),
    ("complianceManager", "ProfileComplianceManager", "MoComplianceManager"),
    ("localizationManager", "LocalizationManager", "LocalizationManager"),
    ("storageResourceManager", "StorageResourceManager", "StorageResourceManager"),
    ("guestOperationsManager", "GuestOperationsManager", "guestOperationsManager"),
    ("overheadMemoryManager", "OverheadMemoryManager", "OverheadMemoryManager"),
    ("certificateManager", "CertificateManager", "certificateManager"),
    ("ioFilterManager", "IoFilterManager", "IoFilterManager"),
    ("vStorageObjectManager", "VcenterVStorageObjectManager", "VStorageObjectManager"),
    ("hostSpecManager", "HostSpecificationManager", "HostSpecificationManager"),
    ("cryptoManager", "CryptoManagerKmip", "CryptoManager"),
    ("healthUpdateManager", "HealthUpdateManager", "HealthUpdateManager"),
    ("failoverClusterConfigurator", "FailoverClusterConfigurator", "FailoverClusterConfigurator"),
    ("failoverClusterManager", "FailoverClusterManager", "FailoverClusterManager"),
];

/// Prefix of the id of a datastore's browser, before the id of the datastore.
pub(crate) const BROWSER: &str = "datastoreBrowser-";

/// Returns the `ServiceContent` of a vCenter.
pub(crate) fn service_content(vc: &VCenter) -> Object {
    let mut content = Object::new("ServiceContent").with("rootFolder", vc.root());
    for (member, kind, id) in MANAGERS {
        content = match *member {
            "about" => content.with("about", about(vc)),
            member => content.with(member, Reference::new(kind, *id)),
        };
    }
    content
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
    MANAGERS
        .iter()
        .find(|(_, kind, known)| *known == id && !kind.is_empty())
        .map(|(_, kind, _)| *kind)
}
