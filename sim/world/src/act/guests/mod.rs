//! Reports of guests: the steps of a boot, power requests through VMware Tools, and the commands
//! `guest.…`, which change reports.

pub(super) mod cloud_init;
#[cfg(test)]
mod tests;

use std::net::{IpAddr, Ipv6Addr};

use super::Execution;
use crate::reactions::{Reaction, Step};
use crate::vcenter::{
    Change, Guest, GuestNic, GuestRequest, Machine, MoRef, NetworkCard, Power, Tools, VCenter,
    VcFault,
};

impl Execution<'_> {
    /// Carries out a step of a boot, unless the power of the machine has changed since this boot
    /// began.
    pub(super) fn guest_step(&mut self, vcenter: &str, id: MoRef, boot: u32, step: Step) {
        let Ok(machine) = self.machine(vcenter, id) else { return };
        if machine.boot != boot || machine.power != Power::PoweredOn {
            return;
        }
        if step == Step::Kubelet {
            self.join_by_cloud_init(vcenter, id);
            self.run_kubelet(vcenter, id);
            return;
        }
        let Ok(vc) = self.vcenter(vcenter) else { return };
        let mut guest = machine.guest.clone();
        match step {
            Step::Tools => {
                guest.tools = Tools::Running;
                guest.host_name = Some("localhost".to_owned());
            }
            Step::Interface => guest.nics = nics(vc, machine, false),
            Step::Address => {
                guest.nics = nics(vc, machine, true);
                guest.address = primary(&guest.nics);
            }
            Step::HostName => guest.host_name = Some(machine.plan.host_name.clone()),
            _ => return,
        }
        self.set_guest(vcenter, id, guest);
    }

    pub(super) fn set_addresses(
        &mut self,
        vcenter: &str,
        id: MoRef,
        addresses: &[Vec<IpAddr>],
    ) -> Result<(), VcFault> {
        let machine = self.machine(vcenter, id)?;
        let mut planned = machine.clone();
        planned.plan.addresses = addresses.to_vec();
        let mut guest = machine.guest.clone();
        if machine.power == Power::PoweredOn && guest.tools == Tools::Running {
            guest.nics = nics(self.vcenter(vcenter)?, &planned, true);
            guest.address = primary(&guest.nics);
        }
        if planned.plan != machine.plan {
            self.change(vcenter, id, Change::Plan(Box::new(planned.plan)));
        }
        self.set_guest(vcenter, id, guest);
        Ok(())
    }

    pub(super) fn clear_addresses(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let guest = self.machine(vcenter, id)?.guest.clone();
        self.set_guest(vcenter, id, Guest { address: None, nics: Vec::new(), ..guest });
        Ok(())
    }

    pub(super) fn reorder_addresses(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let mut guest = self.machine(vcenter, id)?.guest.clone();
        guest.nics.reverse();
        for nic in &mut guest.nics {
            nic.addresses.reverse();
        }
        self.set_guest(vcenter, id, guest);
        Ok(())
    }

    pub(super) fn add_internal(
        &mut self,
        vcenter: &str,
        id: MoRef,
        addresses: &[IpAddr],
    ) -> Result<(), VcFault> {
        let mut guest = self.machine(vcenter, id)?.guest.clone();
        guest.nics.push(GuestNic {
            network: None,
            addresses: addresses.to_vec(),
            mac: format!("02:42:00:00:00:{:02x}", guest.nics.len() % 256),
            device: -1,
        });
        self.set_guest(vcenter, id, guest);
        Ok(())
    }

    pub(super) fn set_network_name(
        &mut self,
        vcenter: &str,
        id: MoRef,
        name: &Option<String>,
    ) -> Result<(), VcFault> {
        let mut guest = self.machine(vcenter, id)?.guest.clone();
        for nic in guest.nics.iter_mut().filter(|nic| nic.device >= 0) {
            nic.network.clone_from(name);
        }
        self.set_guest(vcenter, id, guest);
        Ok(())
    }

    pub(super) fn set_host_name(
        &mut self,
        vcenter: &str,
        id: MoRef,
        host_name: &Option<String>,
    ) -> Result<(), VcFault> {
        let guest = self.machine(vcenter, id)?.guest.clone();
        self.set_guest(vcenter, id, Guest { host_name: host_name.clone(), ..guest });
        Ok(())
    }

    pub(super) fn stop_tools(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let guest = self.machine(vcenter, id)?.guest.clone();
        self.set_guest(vcenter, id, Guest { tools: Tools::NotRunning, ..guest });
        Ok(())
    }

    pub(super) fn start_tools(&mut self, vcenter: &str, id: MoRef) -> Result<(), VcFault> {
        let machine = self.machine(vcenter, id)?;
        if machine.power != Power::PoweredOn {
            return Err(VcFault::InvalidState);
        }
        let guest = booted_guest(self.vcenter(vcenter)?, machine);
        self.set_guest(vcenter, id, guest);
        Ok(())
    }

    /// Accepts a power request to VMware Tools. The guest carries it out when the step `guestPower`
    /// ends. Refuses a machine that is not connected, is not powered on, or does not run VMware
    /// Tools.
    pub(super) fn ask_guest(
        &mut self,
        vcenter: &str,
        id: MoRef,
        request: GuestRequest,
    ) -> Result<(), VcFault> {
        let machine = self.manageable(vcenter, id)?;
        let existing = machine.power;
        if existing != Power::PoweredOn {
            return Err(VcFault::InvalidPowerState { requested: Some(Power::PoweredOn), existing });
        }
        if machine.guest.tools != Tools::Running {
            return Err(VcFault::ToolsUnavailable);
        }
        let boot = machine.boot;
        let name = self.name_of(vcenter, id);
        let reaction =
            Reaction::GuestPower { vcenter: vcenter.to_owned(), machine: id, boot, request };
        self.after(Step::GuestPower, self.now, Some(&name), reaction);
        Ok(())
    }

    /// Carries out a power request to VMware Tools, unless the machine was powered on or off,
    /// reset, suspended or restarted by HA since the request.
    pub(super) fn guest_powers(
        &mut self,
        vcenter: &str,
        id: MoRef,
        boot: u32,
        request: GuestRequest,
    ) {
        if !self.machine(vcenter, id).is_ok_and(|machine| machine.boot == boot) {
            return;
        }
        // If the host does not answer, the operation fails and vCenter keeps the last known state.
        let _ = match request {
            GuestRequest::Shutdown => self.power_off(vcenter, id),
            GuestRequest::Reboot => self.reset(vcenter, id),
            GuestRequest::Standby => self.suspend(vcenter, id),
        };
    }

    fn set_guest(&mut self, vcenter: &str, id: MoRef, guest: Guest) {
        if self.machine(vcenter, id).is_ok_and(|machine| machine.guest != guest) {
            self.change(vcenter, id, Change::Guest(Box::new(guest)));
        }
    }
}

/// The complete report of a booted guest, with the host name and addresses of the machine's
/// [`NextGuestReport`](crate::vcenter::NextGuestReport).
pub(crate) fn booted_guest(vc: &VCenter, machine: &Machine) -> Guest {
    let nics = nics(vc, machine, true);
    Guest {
        tools: Tools::Running,
        host_name: Some(machine.plan.host_name.clone()),
        address: primary(&nics),
        nics,
    }
}

/// The interfaces of a running guest, one per network card. Each has the card's planned addresses
/// if `configured` is true, and then the card's link-local address.
fn nics(vc: &VCenter, machine: &Machine, configured: bool) -> Vec<GuestNic> {
    machine
        .config
        .cards
        .iter()
        .enumerate()
        .map(|(n, card)| {
            let planned = machine.plan.addresses.get(n).filter(|_| configured);
            let mut addresses = planned.cloned().unwrap_or_default();
            addresses.push(link_local(card));
            GuestNic {
                network: vc.inventory.get(card.network).map(|network| network.name.clone()),
                addresses,
                mac: card.mac.clone(),
                device: card.key,
            }
        })
        .collect()
}

/// The first address that is not link-local; `None` if all are link-local.
fn primary(nics: &[GuestNic]) -> Option<IpAddr> {
    nics.iter().flat_map(|nic| &nic.addresses).copied().find(|address| match address {
        IpAddr::V4(v4) => !v4.is_link_local(),
        IpAddr::V6(v6) => !v6.is_unicast_link_local(),
    })
}

/// The link-local IPv6 address of a card, formed from its MAC (modified EUI-64):
/// `fe80::250:56ff:fe…`.
fn link_local(card: &NetworkCard) -> IpAddr {
    let mut mac = [0_u8; 6];
    for (byte, text) in mac.iter_mut().zip(card.mac.split(':')) {
        *byte = u8::from_str_radix(text, 16).unwrap_or(0);
    }
    let [a, b, c, d, e, f] = mac;
    IpAddr::V6(Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f]))
}
