//go:build tools

// Without the stores that need C libraries or are not used:
//
// tags: no_aufs,no_btrfs,no_devmapper,no_zfs

// Package tools names the commands of containerd that are built from this module; nothing here is compiled.
package tools

import (
	_ "github.com/containerd/containerd/v2/cmd/containerd"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2"
	_ "github.com/containerd/containerd/v2/cmd/ctr"
)
