//! Flags of Supervisor mode, with their check one by one and in combination, and the values of
//! `--instances-mode`.

use std::{fmt, str::FromStr};

use super::ClusterFamily;
use crate::{InputError, model::Family};

/// `--vm-operator-api-version`: the API version in which the provider reads VirtualMachines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum VmOperatorVersion {
    /// `v1alpha2`.
    #[default]
    V1Alpha2,
    /// `v1alpha5`.
    V1Alpha5,
    /// `v1alpha6`.
    V1Alpha6,
}

impl VmOperatorVersion {
    const ALL: [Self; 3] = [Self::V1Alpha2, Self::V1Alpha5, Self::V1Alpha6];

    /// Name of the version in the API.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::V1Alpha2 => "v1alpha2",
            Self::V1Alpha5 => "v1alpha5",
            Self::V1Alpha6 => "v1alpha6",
        }
    }

    /// True if the VirtualMachineServices of this version have fields for two IP families.
    pub fn has_dual_stack(self) -> bool {
        self == Self::V1Alpha6
    }
}

impl fmt::Display for VmOperatorVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for VmOperatorVersion {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let unknown = || {
            let err = InputError::unknown("unsupported version", text);
            err.condition("expected v1alpha2, v1alpha5 or v1alpha6")
        };
        Self::ALL.into_iter().find(|version| version.as_str() == text).ok_or_else(unknown)
    }
}

/// `--pod-ip-pool-type`: the pool from which VPC mode takes addresses of pods. This provider only
/// checks the flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodIpPool {
    /// Routable from outside.
    Public,
    /// Routable inside the VPC.
    Private,
}

/// `--instances-mode`: the way in which the provider looks up machines, in vCenter and in
/// Supervisor mode.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum InstancesMode {
    /// Watches the machines. In Supervisor mode the provider polls them instead if the watch is
    /// forbidden, or has failed for 30 s although lists succeed. If lists are forbidden too, the
    /// provider reads each machine by name.
    #[default]
    Auto,
    /// Like [`InstancesMode::Auto`], but in Supervisor mode a forbidden watch counts as a failing
    /// one, and a forbidden list as a failed one.
    Watch,
    /// Only polls.
    Poll,
    /// Makes the calls that upstream makes, for comparison and rollback.
    V1,
}

impl InstancesMode {
    /// Value of the flag.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Watch => "watch",
            Self::Poll => "poll",
            Self::V1 => "v1",
        }
    }
}

impl FromStr for InstancesMode {
    type Err = InputError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "auto" => Ok(Self::Auto),
            "watch" => Ok(Self::Watch),
            "poll" => Ok(Self::Poll),
            "v1" => Ok(Self::V1),
            other => {
                let err = InputError::unknown("invalid mode", other);
                Err(err.condition("expected auto, watch, poll or v1"))
            }
        }
    }
}

/// The flags of Supervisor mode, before [`SupervisorFlags::check`].
#[derive(Clone, Debug)]
pub struct SupervisorFlags {
    /// `--vm-operator-api-version`.
    pub version: String,
    /// `--cluster-ip-family`.
    pub family: String,
    /// `--enable-vpc-mode`.
    pub vpc: bool,
    /// `--pod-ip-pool-type`.
    pub pod_ip_pool: String,
    /// True if a route controller runs. This provider has none, so its command line sets false.
    pub routes: bool,
}

impl Default for SupervisorFlags {
    fn default() -> Self {
        Self {
            version: "v1alpha2".to_owned(),
            family: "ipv4".to_owned(),
            vpc: false,
            pod_ip_pool: String::new(),
            routes: false,
        }
    }
}

/// The settings of Supervisor mode, from checked flags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SupervisorSettings {
    /// API version in which the provider reads VirtualMachines.
    pub version: VmOperatorVersion,
    /// The cluster's IP families.
    pub family: ClusterFamily,
    /// Pool of the pods' addresses; `None` outside VPC mode.
    pub pod_ip_pool: Option<PodIpPool>,
}

impl SupervisorFlags {
    /// Checks the flags in upstream's order.
    ///
    /// Upstream: `cloud-provider-vsphere: pkg/cloudprovider/vsphereparavirtual/cloud.go`,
    /// `Initialize`.
    ///
    /// # Errors
    ///
    /// The first problem; the error names the flag and the remedy.
    pub fn check(&self) -> Result<SupervisorSettings, InputError> {
        let pod_ip_pool = match (self.vpc, self.pod_ip_pool.as_str()) {
            (true, "Public") => Some(PodIpPool::Public),
            (true, "Private") => Some(PodIpPool::Private),
            (true, other) => {
                let err = InputError::invalid(other, "is neither Public nor Private");
                let err = err.remedy("with --enable-vpc-mode set one of them");
                return Err(err.in_flag("pod-ip-pool-type"));
            }
            (false, "") => None,
            (false, other) => {
                let err = InputError::invalid(other, "needs --enable-vpc-mode=true");
                let err = err.remedy("set that, or omit --pod-ip-pool-type");
                return Err(err.in_flag("pod-ip-pool-type"));
            }
        };
        let in_family = |err: InputError| err.in_flag("cluster-ip-family");
        let in_version = |err: InputError| err.in_flag("vm-operator-api-version");
        let family: ClusterFamily = self.family.parse().map_err(in_family)?;
        let version: VmOperatorVersion = self.version.parse().map_err(in_version)?;
        if family.has(Family::V6) {
            if !version.has_dual_stack() {
                let needs = format!("{family} needs --vm-operator-api-version=v1alpha6");
                let remedy = format!("{version} has no IPv6 services");
                return Err(in_family(InputError::new(needs).remedy(remedy)));
            }
            if self.routes && !self.vpc {
                // The routes of NSX-T outside VPC mode are IPv4 only.
                let needs = format!("{family} with routes needs --enable-vpc-mode=true");
                return Err(in_family(InputError::new(needs)));
            }
        }
        Ok(SupervisorSettings { version, family, pod_ip_pool })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags() -> SupervisorFlags {
        SupervisorFlags::default()
    }

    #[test]
    fn defaults_are_those_of_upstream() {
        assert_eq!(flags().check(), Ok(SupervisorSettings::default()));
        assert_eq!(VmOperatorVersion::default().as_str(), "v1alpha2");
        assert_eq!(ClusterFamily::default().as_str(), "ipv4");
    }

    #[test]
    fn three_vm_operator_versions_are_accepted_and_others_refused() {
        for version in VmOperatorVersion::ALL {
            let flags = SupervisorFlags { version: version.to_string(), ..flags() };
            assert_eq!(flags.check().map(|it| it.version), Ok(version));
        }
        for text in ["v1alpha7", "v1alpha1", "v1alpha3", "", "V1ALPHA2", " v1alpha2", "garbage"] {
            let flags = SupervisorFlags { version: text.to_owned(), ..flags() };
            let said = flags.check().unwrap_err().to_string();
            let want =
                format!("--vm-operator-api-version: unsupported version {text:?}: expected ");
            assert!(said.starts_with(&want), "{said}");
        }
    }

    #[test]
    fn a_pod_ip_pool_is_accepted_in_vpc_mode_alone() {
        for (vpc, pool, want) in [
            (true, "Public", Ok(Some(PodIpPool::Public))),
            (true, "Private", Ok(Some(PodIpPool::Private))),
            (true, "", Err("\"\" is neither")),
            (true, "public", Err("\"public\" is neither")),
            (true, "Other", Err("\"Other\" is neither")),
            (false, "", Ok(None)),
            (false, "Public", Err("\"Public\" needs --enable-vpc-mode=true")),
            (false, "x", Err("\"x\" needs --enable-vpc-mode=true")),
        ] {
            let flags = SupervisorFlags { vpc, pod_ip_pool: pool.to_owned(), ..flags() };
            match (flags.check(), want) {
                (Ok(settings), want) => assert_eq!(Ok(settings.pod_ip_pool), want, "{pool:?}"),
                (Err(err), Ok(_)) => panic!("{vpc} {pool:?}: {err}"),
                (Err(err), Err(want)) => {
                    let want = format!("--pod-ip-pool-type: {want}");
                    assert!(err.to_string().starts_with(&want), "{err}");
                }
            }
        }
    }

    #[test]
    fn ipv6_needs_the_newest_version_and_vpc_mode_for_routes() {
        for version in VmOperatorVersion::ALL {
            for family in
                [ClusterFamily::V4, ClusterFamily::V6, ClusterFamily::V4V6, ClusterFamily::V6V4]
            {
                for (routes, vpc) in [(false, false), (true, false), (true, true), (false, true)] {
                    let flags = SupervisorFlags {
                        version: version.to_string(),
                        family: family.to_string(),
                        vpc,
                        pod_ip_pool: if vpc { "Public" } else { "" }.to_owned(),
                        routes,
                    };
                    let is_v6 = family != ClusterFamily::V4;
                    let want = if is_v6 && version != VmOperatorVersion::V1Alpha6 {
                        Err(format!(
                            "{family} needs --vm-operator-api-version=v1alpha6; {version} has no IPv6 services"
                        ))
                    } else if is_v6 && routes && !vpc {
                        Err(format!("{family} with routes needs --enable-vpc-mode=true"))
                    } else {
                        Ok(family)
                    };
                    let want = want.map_err(|text| format!("--cluster-ip-family: {text}"));
                    let got = flags.check().map(|it| it.family).map_err(|err| err.to_string());
                    assert_eq!(got, want, "{flags:?}");
                }
            }
        }
    }

    #[test]
    fn instances_modes_are_parsed_from_their_names() {
        for (text, want) in [
            ("auto", Some(InstancesMode::Auto)),
            ("watch", Some(InstancesMode::Watch)),
            ("poll", Some(InstancesMode::Poll)),
            ("v1", Some(InstancesMode::V1)),
            ("v2", None),
            ("", None),
        ] {
            assert_eq!(text.parse().ok(), want, "{text:?}");
        }
    }
}
