//go:build tools

// The build leaves out the storage drivers that need C libraries or that no node uses. build.sh reads these tags:
//
// tags: no_aufs,no_btrfs,no_devmapper,no_zfs

// Package tools names the commands of containerd that are built from this module; nothing here is compiled.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
