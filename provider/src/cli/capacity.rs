//! Parses the command line of `provider capacity`.

use std::path::PathBuf;

use clap::{Arg, ArgMatches, Args as _, Command, FromArgMatches as _, parser::ValueSource};

use super::{ArgumentsError, boolean};
use crate::{CapacitySettings, GpuMapping, InputError, input::check_dns_label};

/// Word after the program's name that selects this command line.
pub const COMMAND: &str = "capacity";

/// Publishes the capacity of Cluster API machine templates, so that a Cluster Autoscaler can scale
/// their groups from zero.
///
/// For templates of a Supervisor it writes status.capacity and status.nodeInfo. The kind of the
/// templates for vCenter has no status, so it annotates their MachineDeployments and MachineSets.
/// With --template it prints what it would write, without a cluster.
#[derive(Clone, Debug, clap::Args)]
struct PlainFlags {
    /// Kubeconfig of the management cluster [default: the cluster around this process]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Namespace of the templates and groups [default: all namespaces]
    #[arg(long)]
    namespace: Option<String>,
    /// Value of the label cluster.x-k8s.io/watch-filter of the templates [default: all templates]
    #[arg(long, value_name = "VALUE")]
    watch_filter: Option<String>,
    /// Resource of each device of a kind, such as grid_t4-16q=nvidia.com/gpu for a vGPU profile or
    /// 10de:1eb8=nvidia.com/gpu for a PCI device; may be repeated [default: none]
    #[arg(long = "gpu", value_name = "DEVICE=RESOURCE")]
    gpus: Vec<GpuMapping>,
    /// File with a VSphereMachineTemplate; prints what would be written for it, and ends
    #[arg(long, value_name = "FILE")]
    template: Option<PathBuf>,
    /// File with the VirtualMachineClass of the template
    #[arg(long, value_name = "FILE", requires = "template")]
    class: Option<PathBuf>,
    /// File with the ClusterVirtualMachineImage or VirtualMachineImage of the template
    #[arg(long, value_name = "FILE", requires = "template")]
    image: Option<PathBuf>,
    /// Verbosity of the log: 0 to 3 logs info and above, 4 and 5 also debug, 6 and more also trace
    #[arg(short, long, default_value_t = 2)]
    v: u8,
}

/// Boolean flags: name, default, help.
const SWITCHES: [(&str, bool, &str); 6] = [
    ("watch-images", true, "Watches images, also those of the template's namespace"),
    ("capacity-without-image", true, "Publishes the capacity although the image cannot be read"),
    ("clear-unknown", false, "Clears published values that became unknown"),
    (
        "assume-node-info",
        false,
        "Publishes amd64 and linux with a capacity if the image tells nothing",
    ),
    (
        "filter-classes",
        false,
        "Ignores changes of VirtualMachineClasses that are paused or lack the label of --watch-filter",
    ),
    ("govmomi", true, "Annotates the groups of templates for vCenter"),
];

/// Flags that have no effect with `--template`.
const ONLY_IN_CLUSTERS: [&str; 9] = [
    "kubeconfig",
    "namespace",
    "watch_filter",
    "watch-images",
    "capacity-without-image",
    "clear-unknown",
    "filter-classes",
    "govmomi",
    "v",
];

/// A parsed command line of `provider capacity`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityArguments {
    /// Kubeconfig of the management cluster; `None` for the cluster around the process.
    pub kubeconfig: Option<PathBuf>,
    /// Settings of the controller.
    pub settings: CapacitySettings,
    /// Files whose capacity is printed; `None` to run the controller.
    pub preview: Option<PreviewPaths>,
    /// Verbosity of the log.
    pub v: u8,
}

/// Files of a preview.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewPaths {
    /// `--template`.
    pub template: PathBuf,
    /// `--class`.
    pub class: Option<PathBuf>,
    /// `--image`.
    pub image: Option<PathBuf>,
}

/// Returns the clap command.
pub fn capacity_command() -> Command {
    let command = Command::new("provider capacity").version(env!("CARGO_PKG_VERSION"));
    let switches = SWITCHES.map(|(name, default, help)| {
        let arg = Arg::new(name).long(name).help(help).value_name("BOOL").num_args(0..=1);
        let arg = arg.require_equals(true).default_missing_value("true");
        arg.default_value(if default { "true" } else { "false" })
    });
    PlainFlags::augment_args(command).args(switches)
}

/// Parses the words after `provider capacity`.
///
/// # Errors
///
/// For a word that clap refuses, for a boolean flag that is neither true nor false, and for a flag
/// that has no effect with `--template`.
pub fn parse_capacity(
    arguments: impl IntoIterator<Item = String>,
) -> Result<CapacityArguments, ArgumentsError> {
    let words = std::iter::once("provider capacity".to_owned()).chain(arguments);
    let matches = capacity_command().try_get_matches_from(words)?;
    let plain = PlainFlags::from_arg_matches(&matches)?;
    let PlainFlags { kubeconfig, namespace, watch_filter, gpus, template, class, image, v } = plain;
    if template.is_some() {
        check_preview(&matches)?;
    }
    if let Some(namespace) = namespace.as_deref().filter(|it| !it.is_empty()) {
        check_dns_label(namespace, 63).map_err(|err| err.in_source("--namespace"))?;
    }
    let is_on = |name: &'static str| {
        let text = matches.get_one::<String>(name).map(String::as_str);
        boolean(name, text.unwrap_or_default())
    };
    let settings = CapacitySettings {
        namespace: namespace.filter(|it| !it.is_empty()),
        watch_filter: watch_filter.filter(|it| !it.is_empty()),
        filter_classes: is_on("filter-classes")?,
        watch_images: is_on("watch-images")?,
        capacity_without_image: is_on("capacity-without-image")?,
        clear_unknown: is_on("clear-unknown")?,
        assume_node_info: is_on("assume-node-info")?,
        govmomi: is_on("govmomi")?,
        gpus,
    };
    let preview = template.map(|template| PreviewPaths { template, class, image });
    Ok(CapacityArguments { kubeconfig, settings, preview, v })
}

fn check_preview(matches: &ArgMatches) -> Result<(), ArgumentsError> {
    for name in ONLY_IN_CLUSTERS {
        if matches.value_source(name) == Some(ValueSource::CommandLine) {
            let err = InputError::new("has no effect with --template");
            let flag =
                if name == "v" { "-v".to_owned() } else { format!("--{}", name.replace('_', "-")) };
            return Err(err.remedy("leave it out").in_source(flag).into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<CapacityArguments, String> {
        parse_capacity(words.iter().map(|it| (*it).to_owned())).map_err(|err| err.to_string())
    }

    #[test]
    fn a_namespace_that_cannot_exist_is_refused_with_the_flag_and_the_value() {
        for namespace in ["a b", "a/b", "A", "a-"] {
            let error = parsed(&["--namespace", namespace]).unwrap_err();
            assert!(error.contains("--namespace") && error.contains(namespace), "{error}");
        }
    }

    #[test]
    fn without_flags_the_settings_are_the_defaults() {
        let arguments = parsed(&[]).unwrap();
        assert_eq!(arguments.settings, CapacitySettings::default());
        assert_eq!((arguments.kubeconfig, arguments.preview, arguments.v), (None, None, 2));
    }

    #[test]
    fn each_flag_changes_its_setting() {
        let defaults = CapacitySettings::default;
        let gpu: GpuMapping = "t4=nvidia.com/gpu".parse().unwrap();
        for (words, settings) in [
            (
                &["--namespace", "n"][..],
                CapacitySettings { namespace: Some("n".to_owned()), ..defaults() },
            ),
            (
                &["--watch-filter=a"],
                CapacitySettings { watch_filter: Some("a".to_owned()), ..defaults() },
            ),
            (&["--filter-classes"], CapacitySettings { filter_classes: true, ..defaults() }),
            (&["--watch-images=false"], CapacitySettings { watch_images: false, ..defaults() }),
            (
                &["--capacity-without-image=false"],
                CapacitySettings { capacity_without_image: false, ..defaults() },
            ),
            (&["--clear-unknown=true"], CapacitySettings { clear_unknown: true, ..defaults() }),
            (&["--assume-node-info"], CapacitySettings { assume_node_info: true, ..defaults() }),
            (&["--govmomi=false"], CapacitySettings { govmomi: false, ..defaults() }),
            (&["--gpu", "t4=nvidia.com/gpu"], CapacitySettings { gpus: vec![gpu], ..defaults() }),
        ] {
            assert_eq!(parsed(words).map(|it| it.settings), Ok(settings), "{words:?}");
        }
    }

    #[test]
    fn a_flag_without_effect_beside_a_template_is_refused() {
        let files = ["--template", "t.yaml", "--class", "c.yaml", "--image", "i.yaml"];
        assert!(parsed(&files).unwrap().preview.is_some());
        for (word, flag) in [
            ("--kubeconfig=k", "kubeconfig"),
            ("--watch-filter=a", "watch-filter"),
            ("--watch-images=true", "watch-images"),
            ("--clear-unknown", "clear-unknown"),
        ] {
            let refused = parsed(&[&files[..], &[word]].concat()).unwrap_err();
            assert_eq!(refused, format!("--{flag}: has no effect with --template; leave it out"));
        }
        for words in [&["--class", "c.yaml"][..], &["--govmomi=perhaps"], &["--gpu", "t4"]] {
            assert!(parsed(words).is_err(), "{words:?}");
        }
    }
}
