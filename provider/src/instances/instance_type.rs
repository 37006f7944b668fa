//! Value of the instance type labels: processors, memory, and a short name of the guest operating
//! system.
//!
//! Format and table follow `cloud-provider-vsphere: pkg/cloudprovider/vsphere/types.go`,
//! `GuestOSLookup`, exactly, because a change of either would change a label of every node.

/// Returns the instance type of a machine. As in upstream, the memory is rounded down to GiB, so
/// less than 1 GiB yields `mem-0gb`. A guest id that is not in [`GUESTS`] yields `os-unknown`.
pub(crate) fn instance_type(guest_id: &str, n_cpus: u32, memory_mib: u64) -> String {
    format!("vsphere-vm.cpu-{n_cpus}.mem-{}gb.os-{}", memory_mib / 1024, short_name(guest_id))
}

fn short_name(guest_id: &str) -> &'static str {
    GUESTS.iter().find(|(_, ids)| ids.contains(&guest_id)).map_or("unknown", |(short, _)| short)
}

/// Short names, each with the guest ids of vSphere that it covers. Many newer ids, such as
/// `debian11_64Guest`, are missing upstream and here.
#[rustfmt::skip]
const GUESTS: &[(&str, &[&str])] = &[
    ("asianux3", &["asianux3_64Guest", "asianux3Guest"]),
    ("asianux4", &["asianux4_64Guest", "asianux4Guest"]),
    ("asianux5", &["asianux5_64Guest"]),
    ("asianux7", &["asianux7_64Guest"]),
    ("centos64", &["centos64Guest"]),
    ("centos6", &["centos6_64Guest", "centos6Guest"]),
    ("centos7", &["centos7_64Guest", "centos7Guest"]),
    ("centos", &["centosGuest"]),
    ("coreos", &["coreos64Guest"]),
    ("darwin", &["darwin10_64Guest", "darwin10Guest", "darwin11_64Guest", "darwin11Guest", "darwin12_64Guest", "darwin13_64Guest", "darwin14_64Guest", "darwin15_64Guest", "darwin16_64Guest", "darwin64Guest", "darwinGuest"]),
    ("debian10", &["debian10_64Guest", "debian10Guest"]),
    ("debian4", &["debian4_64Guest", "debian4Guest"]),
    ("debian5", &["debian5_64Guest", "debian5Guest"]),
    ("debian6", &["debian6_64Guest", "debian6Guest"]),
    ("debian7", &["debian7_64Guest", "debian7Guest"]),
    ("debian8", &["debian8_64Guest", "debian8Guest"]),
    ("debian9", &["debian9_64Guest", "debian9Guest"]),
    ("dos", &["dosGuest"]),
    ("eComStation2", &["eComStation2Guest"]),
    ("eComStation", &["eComStationGuest"]),
    ("fedora", &["fedora64Guest", "fedoraGuest"]),
    ("freebsd", &["freebsd64Guest", "freebsdGuest"]),
    ("linux", &["genericLinuxGuest", "other24xLinux64Guest", "other24xLinuxGuest", "other26xLinux64Guest", "other26xLinuxGuest", "other3xLinux64Guest", "other3xLinuxGuest", "otherLinux64Guest", "otherLinuxGuest"]),
    ("mandrake", &["mandrakeGuest"]),
    ("mandriva", &["mandriva64Guest", "mandrivaGuest"]),
    ("netware4", &["netware4Guest"]),
    ("netware5", &["netware5Guest"]),
    ("netware6", &["netware6Guest"]),
    ("nld9", &["nld9Guest"]),
    ("oes", &["oesGuest"]),
    ("openServer5", &["openServer5Guest"]),
    ("openServer6", &["openServer6Guest"]),
    ("opensuse", &["opensuse64Guest", "opensuseGuest"]),
    ("oracleLinux6", &["oracleLinux6_64Guest", "oracleLinux6Guest"]),
    ("oracleLinux7", &["oracleLinux7_64Guest", "oracleLinux7Guest"]),
    ("oracleLinux", &["oracleLinux64Guest", "oracleLinuxGuest"]),
    ("os2", &["os2Guest"]),
    ("other", &["otherGuest", "otherGuest64"]),
    ("photon", &["vmwarePhoton64Guest"]),
    ("rhel10", &["rhel10_64Guest"]),
    ("rhel2", &["rhel2Guest"]),
    ("rhel3", &["rhel3_64Guest", "rhel3Guest"]),
    ("rhel4", &["rhel4_64Guest", "rhel4Guest"]),
    ("rhel5", &["rhel5_64Guest", "rhel5Guest"]),
    ("rhel6", &["rhel6_64Guest", "rhel6Guest"]),
    ("rhel7", &["rhel7_64Guest", "rhel7Guest"]),
    ("rhel8", &["rhel8_64Guest"]),
    ("rhel9", &["rhel9_64Guest"]),
    ("rhel", &["redhatGuest"]),
    ("sjds", &["sjdsGuest"]),
    ("sles10", &["sles10_64Guest", "sles10Guest"]),
    ("sles11", &["sles11_64Guest", "sles11Guest"]),
    ("sles12", &["sles12_64Guest", "sles12Guest"]),
    ("sles64", &["sles64Guest"]),
    ("sles", &["slesGuest"]),
    ("solaris10", &["solaris10_64Guest", "solaris10Guest"]),
    ("solaris11", &["solaris11_64Guest"]),
    ("solaris6", &["solaris6Guest"]),
    ("solaris7", &["solaris7Guest"]),
    ("solaris8", &["solaris8Guest"]),
    ("solaris9", &["solaris9Guest"]),
    ("suse", &["suse64Guest", "suseGuest"]),
    ("turbolinux", &["turboLinux64Guest", "turboLinuxGuest"]),
    ("ubuntu", &["ubuntu64Guest", "ubuntuGuest"]),
    ("unixware7", &["unixWare7Guest"]),
    ("vmkernel5", &["vmkernel5Guest"]),
    ("vmkernel65", &["vmkernel65Guest"]),
    ("vmkernel6", &["vmkernel6Guest"]),
    ("vmkernel", &["vmkernelGuest"]),
    ("win10", &["windows9_64Guest", "windows9Guest"]),
    ("win10server", &["windows9Server64Guest"]),
    ("win2000advserv", &["win2000AdvServGuest"]),
    ("win2000pro", &["win2000ProGuest"]),
    ("win2000serv", &["win2000ServGuest"]),
    ("win31", &["win31Guest"]),
    ("win7", &["windows7_64Guest", "windows7Guest"]),
    ("win7server", &["windows7Server64Guest"]),
    ("win8", &["windows8_64Guest", "windows8Guest"]),
    ("win8server", &["windows8Server64Guest"]),
    ("win95", &["win95Guest"]),
    ("win98", &["win98Guest"]),
    ("windowshyperv", &["windowsHyperVGuest"]),
    ("winlonghorn", &["winLonghorn64Guest", "winLonghornGuest"]),
    ("winme", &["winMeGuest"]),
    ("winnetbusiness", &["winNetBusinessGuest"]),
    ("winnetdatacenter", &["winNetDatacenter64Guest", "winNetDatacenterGuest"]),
    ("winnetenterprise", &["winNetEnterprise64Guest", "winNetEnterpriseGuest"]),
    ("winnetstandard", &["winNetStandard64Guest", "winNetStandardGuest"]),
    ("winnetweb", &["winNetWebGuest"]),
    ("winnt", &["winNTGuest"]),
    ("winvista", &["winVista64Guest", "winVistaGuest"]),
    ("winxphome", &["winXPHomeGuest"]),
    ("winxppro", &["winXPPro64Guest", "winXPProGuest"]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instance_types_are_named_as_by_upstream() {
        for (name, guest, n_cpus, mib, want) in [
            ("ubuntu", "ubuntu64Guest", 4, 8192, "vsphere-vm.cpu-4.mem-8gb.os-ubuntu"),
            ("photon", "vmwarePhoton64Guest", 2, 4096, "vsphere-vm.cpu-2.mem-4gb.os-photon"),
            ("integer division", "rhel8_64Guest", 1, 1535, "vsphere-vm.cpu-1.mem-1gb.os-rhel8"),
            ("below 1 GiB", "otherGuest64", 1, 512, "vsphere-vm.cpu-1.mem-0gb.os-other"),
            (
                "newer than the table",
                "debian11_64Guest",
                2,
                2048,
                "vsphere-vm.cpu-2.mem-2gb.os-unknown",
            ),
            ("nothing known", "", 0, 0, "vsphere-vm.cpu-0.mem-0gb.os-unknown"),
        ] {
            assert_eq!(instance_type(guest, n_cpus, mib), want, "{name}");
        }
    }

    #[test]
    fn no_guest_id_has_two_names() {
        let mut seen = std::collections::BTreeSet::new();
        for id in GUESTS.iter().flat_map(|(_, ids)| ids.iter()) {
            assert!(seen.insert(id), "{id}");
        }
    }
}
