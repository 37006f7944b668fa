//! Managed object types of the simulated vCenter with their base types.

/// Managed object types, each with its direct base type; empty for `ManagedObject`.
const TYPES: &[(&str, &str)] = &[
    ("ManagedObject", ""),
    ("ExtensibleManagedObject", "ManagedObject"),
    ("ManagedEntity", "ExtensibleManagedObject"),
    ("Folder", "ManagedEntity"),
    ("StoragePod", "Folder"),
    ("Datacenter", "ManagedEntity"),
    ("ComputeResource", "ManagedEntity"),
    ("ClusterComputeResource", "ComputeResource"),
    ("ResourcePool", "ManagedEntity"),
    ("VirtualApp", "ResourcePool"),
    ("HostSystem", "ManagedEntity"),
    ("VirtualMachine", "ManagedEntity"),
    ("Datastore", "ManagedEntity"),
    ("Network", "ManagedEntity"),
    ("DistributedVirtualPortgroup", "Network"),
    ("OpaqueNetwork", "Network"),
    ("DistributedVirtualSwitch", "ManagedEntity"),
    ("VmwareDistributedVirtualSwitch", "DistributedVirtualSwitch"),
    ("Task", "ExtensibleManagedObject"),
    ("ServiceInstance", "ManagedObject"),
    ("SessionManager", "ManagedObject"),
    ("PropertyCollector", "ManagedObject"),
    ("PropertyFilter", "ManagedObject"),
    ("ViewManager", "ManagedObject"),
    ("View", "ManagedObject"),
    ("ManagedObjectView", "View"),
    ("ContainerView", "ManagedObjectView"),
    ("ListView", "ManagedObjectView"),
    ("InventoryView", "ManagedObjectView"),
    ("SearchIndex", "ManagedObject"),
    ("TaskManager", "ManagedObject"),
    ("EventManager", "ManagedObject"),
    ("AuthorizationManager", "ManagedObject"),
    ("OptionManager", "ManagedObject"),
    ("UserDirectory", "ManagedObject"),
    ("ServiceManager", "ManagedObject"),
    ("PerformanceManager", "ManagedObject"),
    ("ScheduledTaskManager", "ManagedObject"),
    ("AlarmManager", "ManagedObject"),
    ("ExtensionManager", "ManagedObject"),
    ("CustomizationSpecManager", "ManagedObject"),
    ("CustomFieldsManager", "ManagedObject"),
    ("DiagnosticManager", "ManagedObject"),
    ("LicenseManager", "ManagedObject"),
    ("LicenseAssignmentManager", "ManagedObject"),
    ("FileManager", "ManagedObject"),
    ("DatastoreNamespaceManager", "ManagedObject"),
    ("VirtualDiskManager", "ManagedObject"),
    ("HostSnmpSystem", "ManagedObject"),
    ("VirtualMachineProvisioningChecker", "ManagedObject"),
    ("VirtualMachineCompatibilityChecker", "ManagedObject"),
    ("OvfManager", "ManagedObject"),
    ("IpPoolManager", "ManagedObject"),
    ("DistributedVirtualSwitchManager", "ManagedObject"),
    ("HostProfileManager", "ManagedObject"),
    ("ClusterProfileManager", "ManagedObject"),
    ("ProfileComplianceManager", "ManagedObject"),
    ("LocalizationManager", "ManagedObject"),
    ("StorageResourceManager", "ManagedObject"),
    ("GuestOperationsManager", "ManagedObject"),
    ("OverheadMemoryManager", "ManagedObject"),
    ("CertificateManager", "ManagedObject"),
    ("IoFilterManager", "ManagedObject"),
    ("VcenterVStorageObjectManager", "ManagedObject"),
    ("HostSpecificationManager", "ManagedObject"),
    ("CryptoManager", "ManagedObject"),
    ("CryptoManagerKmip", "CryptoManager"),
    ("HealthUpdateManager", "ManagedObject"),
    ("FailoverClusterConfigurator", "ManagedObject"),
    ("FailoverClusterManager", "ManagedObject"),
    ("EnvironmentBrowser", "ManagedObject"),
    ("HostDatastoreBrowser", "ManagedObject"),
    ("VirtualMachineSnapshot", "ExtensibleManagedObject"),
    ("HistoryCollector", "ManagedObject"),
    ("EventHistoryCollector", "HistoryCollector"),
    ("TaskHistoryCollector", "HistoryCollector"),
    ("Alarm", "ExtensibleManagedObject"),
];

/// Returns the name of a type from the table; `ManagedObject` for an unknown type.
pub(crate) fn known(kind: &str) -> &'static str {
    TYPES.iter().find(|(name, _)| *name == kind).map_or("ManagedObject", |(name, _)| *name)
}

/// True if the table has the type.
pub(crate) fn exists(kind: &str) -> bool {
    TYPES.iter().any(|(name, _)| *name == kind)
}

/// True if `kind` is `base` or derives from it.
pub(crate) fn is_a(kind: &str, base: &str) -> bool {
    let mut at = kind;
    loop {
        if at == base {
            return true;
        }
        match TYPES.iter().find(|(name, _)| *name == at) {
            Some((_, up)) if !up.is_empty() => at = up,
            _ => return false,
        }
    }
}

/// Returns the type and its base types, the type itself first; empty for an unknown type.
pub(crate) fn chain(kind: &str) -> Vec<&'static str> {
    let mut chain = Vec::with_capacity(4);
    let mut at = kind;
    while let Some((name, base)) = TYPES.iter().find(|(name, _)| *name == at) {
        chain.push(*name);
        at = base;
    }
    chain
}
